"""A deterministic EVM-shaped chain for demos, tests and benchmarks, served as JSON-RPC."""

from trace_devchain.chain import DevChain
from trace_devchain.server import run, serve

__all__ = ["DevChain", "run", "serve"]
