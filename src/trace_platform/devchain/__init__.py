"""A deterministic EVM-shaped chain for demos, tests and benchmarks, served as JSON-RPC."""

from trace_platform.devchain.chain import DevChain
from trace_platform.devchain.server import run, serve

__all__ = ["DevChain", "run", "serve"]
