"""What a statement of SQL says, and what is wrong with it: for whoever checks, plans or runs one.

Pure: nothing here knows of datasets' files, of HTTP or of Postgres.
"""
