"""Operators that run in the Dispatcher itself (`runtime: dispatcher`): on events, never on data."""
