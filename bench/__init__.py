"""Measurements of Trace next to its peers: `python -m bench`. See docs/benchmarks.md."""
