"""Payloads that cross a process boundary."""
