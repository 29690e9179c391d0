"""Stored rows of a chain against the chain itself: what is read, what looks wrong, what differs."""
