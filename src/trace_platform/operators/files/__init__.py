"""Files that others put into a folder of the object store."""
