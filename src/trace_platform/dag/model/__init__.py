"""What a DAG file says, as types."""
