"""The confined process that runs a statement: DuckDB, and nothing else of the machine."""
