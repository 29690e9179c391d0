"""SQL over published datasets, safe for strangers' statements.

Three layers, each of which holds alone: the gate reads DuckDB's own parse tree, the engine is a
fresh DuckDB with only the views it needs and its configuration locked, and the child process it
runs in has limits, no environment and a deadline.
"""
