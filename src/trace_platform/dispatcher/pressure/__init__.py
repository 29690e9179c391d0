"""Queues that are too long; jobs that are paused."""
