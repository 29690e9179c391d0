"""Trace: event-driven ETL orchestration for on-chain and off-chain data."""

__version__ = "0.1.0"
