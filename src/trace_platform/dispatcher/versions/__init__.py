"""DAG versions: planned, deployed, cut over, rolled back, removed."""
