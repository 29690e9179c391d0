"""The SQL of the state database: one `.py`/`.sql` pair per table group.

Only the dispatcher imports this. Functions take the transaction; verbs own it.
"""
