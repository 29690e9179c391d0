"""Operators that bring rows in and lay them out: ranges, ingest, compaction."""
