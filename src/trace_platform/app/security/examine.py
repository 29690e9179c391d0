"""Look at an instance that runs as somebody would who means it harm."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from trace_platform.app.instance.databases import DATA, STATE, dsn
from trace_platform.app.instance.home import Home
from trace_platform.app.instance.open_instance import Instance, read_ports
from trace_platform.app.instance.settings import load_settings
from trace_platform.app.security import surface
from trace_platform.app.security.as_roles import as_roles
from trace_platform.app.security.as_stranger import as_stranger
from trace_platform.app.security.attempt import Attempt
from trace_platform.app.supervise.supervisor import supervisor_pid
from trace_platform.domain.errors import SetupError


@dataclass(frozen=True, slots=True)
class Examined:
    ports: list[surface.Port]
    modes: list[surface.Mode]
    rights: list[surface.Right]
    attempts: list[Attempt]
    # What could not be tried, and why.
    not_tried: list[str] = field(default_factory=list)

    @property
    def succeeded(self) -> list[Attempt]:
        return [each for each in self.attempts if each.succeeded]


def examine(home: Home) -> Examined:
    """Everything is tried for real, as another user of the host and as each role of the databases.
    What a role succeeds with is rolled back."""
    if supervisor_pid(home) is None:
        raise SetupError(
            f"no instance runs in {home.root}", hint="start it: trace up, in another terminal"
        )
    settings = load_settings(home)
    instance = Instance(read_ports(home))

    def of(role: str) -> str:
        return dsn(home, settings, instance, role)

    attempts = [*_files(home), *as_roles(of)]
    not_tried = []
    if os.geteuid() == 0:
        attempts += as_stranger(home)
    else:
        not_tried.append(
            "as another user of this host: only root can become one (the modes were looked at)"
        )
    return Examined(
        surface.ports(home),
        surface.modes(home),
        [right for each in (STATE, DATA) for right in surface.rights(of(each.owner))],
        attempts,
        not_tried,
    )


def _files(home: Home) -> list[Attempt]:
    found = [
        Attempt("others", f"the mode of {path}", "open to others")
        for path in surface.open_paths(home)
    ]
    return found or [Attempt("others", f"the mode of everything below {home.root}")]
