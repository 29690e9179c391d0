"""Queries from Python: `Client.local().query("select ...").to_pandas()`. See docs/client.md.

Importing it starts nothing, and loads neither the services nor Spark.
"""

from trace_platform.client.client import Client
from trace_platform.client.result import Result

__all__ = ["Client", "Result"]
