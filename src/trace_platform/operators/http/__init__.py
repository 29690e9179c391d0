"""JSON and CSV that HTTP endpoints of others answer."""
