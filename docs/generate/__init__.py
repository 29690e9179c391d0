"""Writes docs/reference/ from what the code says of itself: one module for each page."""
