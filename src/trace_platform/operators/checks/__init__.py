"""Operators that compare what is stored with the chain, and tell when it stands still."""
