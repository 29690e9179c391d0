"""How operators read and write rows: Parquet files, hot tables, staged outputs."""
