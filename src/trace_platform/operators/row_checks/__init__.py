"""Checks of what an attempt has staged, before any of it is committed."""
