"""The gateway process, from its arguments to a clean stop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from trace_platform.drivers.https import BodyLimit, Listen, serve_app
from trace_platform.gateway.console_files import ConsoleFiles
from trace_platform.gateway.front import Front, Limits
from trace_platform.gateway.limits import AtOnce, OldestGivesWay, Rate
from trace_platform.gateway.live import Live
from trace_platform.gateway.own_routes import Inside, create_app
from trace_platform.gateway.pass_on import PassOn
from trace_platform.gateway.read_changes import read_changes
from trace_platform.gateway.routes import route_table
from trace_platform.gateway.sessions import Sessions
from trace_platform.gateway.upstream import Upstream
from trace_platform.gateway.who_asks import Callers, Door

CONSOLE = Path(__file__).parent.parent / "console_dist"
# A login is a line; nothing else of ours has a body.
_OWN_BODY_BYTES = 4096
# The dispatcher plans and collects garbage while it is asked.
_ANSWER_S = 120.0


@dataclass(frozen=True, slots=True)
class Allowance:
    """Of one caller, and of all. A query may say nothing for as long as it may run and wait."""

    requests_per_second: float = 100.0
    burst: float = 400.0
    at_once: int = 64
    all_at_once: int = 256
    # Deliveries whose signature only the dispatcher can check.
    unproven_at_once: int = 64
    query_s: float = 90.0


@dataclass(frozen=True, slots=True)
class Behind:
    """The services, and what opens them."""

    urls: Mapping[str, str]
    ca: Path
    owner_token: str = field(repr=False)
    service_token: str = field(repr=False)


class Gateway:
    """The app, and what it has open. `names`: what requests may call this host."""

    def __init__(
        self,
        listen: Listen,
        names: list[str],
        behind: Behind,
        sessions: Sessions,
        find_user: Callable[[str], Any],
        console: Path = CONSOLE,
        allowance: Allowance | None = None,
    ) -> None:
        allowed = allowance or Allowance()
        door = Door("https" if listen.certificate else "http", listen.port, names)
        self._services = {
            name: Upstream(name, url, behind.ca, allowed.query_s if name == "query" else _ANSWER_S)
            for name, url in behind.urls.items()
        }
        self.live = Live(partial(read_changes, self._services["dispatcher"], behind.service_token))
        callers = Callers(door, sessions, find_user, behind.owner_token)
        self.app = Front(
            door,
            callers,
            route_table(),
            BodyLimit(create_app(Inside(door, sessions, callers, self.live)), _OWN_BODY_BYTES),
            ConsoleFiles(console),
            PassOn(self._services),
            Limits(
                Rate(allowed.requests_per_second, allowed.burst),
                AtOnce(allowed.at_once, allowed.all_at_once),
                OldestGivesWay(allowed.unproven_at_once),
            ),
        )

    async def close(self) -> None:
        await self.live.stop()
        for service in self._services.values():
            await service.close()


async def serve(gateway: Gateway, listen: Listen, on_ready: Callable[[], None]) -> None:
    """Serve until SIGTERM or SIGINT; plain HTTP where `listen` has no certificate."""
    try:
        await serve_app(gateway.app, listen, on_ready, gateway.live.close)
    finally:
        await gateway.close()
