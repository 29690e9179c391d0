"""Ports of servers that bind them themselves."""

from __future__ import annotations

from pathlib import Path

from trace_platform.app.instance.home import Home
from trace_platform.app.instance.open_instance import open_instance
from trace_platform.app.instance.settings import Settings


def own_port(folder: Path) -> int:
    """Given to no other test while the folder is there, and never by the kernel to a client."""
    return open_instance(Home(folder), Settings()).port("dispatcher")
