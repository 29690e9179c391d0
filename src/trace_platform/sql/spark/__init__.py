"""The Spark SQL of a DAG: read and bound with sqlglot, never run. A worker's Spark runs it."""
