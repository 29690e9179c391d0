"""Runtimes: where tasks run. Any name may be registered; a few come with Trace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from trace_platform.domain.alike import alike
from trace_platform.domain.errors import InvalidConfig
from trace_platform.domain.private_url import is_private

# queue: workers poll for tasks. lambda: the Dispatcher calls a URL. dispatcher: in its own process.
Kind = Literal["queue", "lambda", "dispatcher"]


@dataclass(frozen=True, slots=True)
class Runtime:
    """How tasks of one runtime reach whoever runs them, and within which limits."""

    name: str
    kind: Kind = "queue"
    # The queue that its workers poll; None unless the kind is queue.
    queue: str | None = None
    enabled: bool = True
    capabilities: frozenset[str] = frozenset()
    # Operators of its own that are trusted like Trace's: nobody else vouches for their code.
    trusted_operators: frozenset[str] = frozenset()
    # How many tasks of one job may run at once; None: as many as there are workers.
    max_concurrency: int | None = None
    # For jobs that do not say otherwise, and the most that a job may ask for.
    timeout_seconds: float = 1800
    max_timeout_seconds: float = 86_400
    heartbeat_timeout_seconds: float = 60
    # May hold a key.
    url: str | None = field(default=None, repr=False)

    def problems(self) -> Iterator[tuple[str, str]]:
        """What does not fit together, as (field, what would be right)."""
        if self.timeout_seconds > self.max_timeout_seconds:
            most = f"max_timeout_seconds, which is {self.max_timeout_seconds:g}"
            yield "timeout_seconds", f"{self.timeout_seconds:g} is more than {most}"
        if self.kind != "queue" and self.queue is not None:
            yield "queue", f"a runtime of kind {self.kind} has no queue"
        if self.kind != "lambda" and self.url is not None:
            yield "url", f'a runtime of kind {self.kind} has no url; kind = "lambda" has'
        elif self.url is not None and not is_private(self.url):
            yield "url", "http:// to another machine shows every task's token: use https://"


DEFAULT_RUNTIMES: tuple[Runtime, ...] = (
    Runtime("dispatcher", "dispatcher", timeout_seconds=60, max_timeout_seconds=900),
    # A function need not send heartbeats: its lease lasts as long as it may take.
    Runtime(
        "lambda",
        "lambda",
        timeout_seconds=300,
        max_timeout_seconds=900,
        heartbeat_timeout_seconds=300,
    ),
    Runtime(
        "ecs_platform",
        queue="ecs_platform",
        capabilities=frozenset({"long_running", "sources", "spark"}),
    ),
    # Code of strangers needs a sandbox that nobody has built for it yet.
    Runtime("ecs_udf", queue="ecs_udf", enabled=False),
)


def starting_point(name: str, kind: Kind | None = None) -> Runtime:
    """The runtime of this name before its settings are applied: ours, or a plain one of the kind.

    Raise InvalidConfig for a kind that the name cannot have.
    """
    ours = {runtime.name: runtime for runtime in DEFAULT_RUNTIMES}
    if name in ours:
        if kind not in (None, ours[name].kind):
            raise InvalidConfig(
                f"{name} is of kind {ours[name].kind}", hint="register another name for that kind"
            )
        return ours[name]
    if kind == "dispatcher":
        raise InvalidConfig("only 'dispatcher' is of kind dispatcher", hint="use queue or lambda")
    return replace(ours["lambda"], name=name) if kind == "lambda" else Runtime(name, queue=name)


class Runtimes:
    """Runtimes by name; read-only. No two that are enabled share a queue."""

    def __init__(self, runtimes: Iterable[Runtime]) -> None:
        self._by_name = {runtime.name: runtime for runtime in runtimes}
        enabled = [runtime for runtime in self if runtime.enabled and runtime.queue]
        for queue, count in Counter(runtime.queue for runtime in enabled).items():
            if count > 1:
                shared = " and ".join(r.name for r in enabled if r.queue == queue)
                raise InvalidConfig(f"{shared} cannot share the queue '{queue}'")

    @classmethod
    def default(cls) -> Runtimes:
        return cls(DEFAULT_RUNTIMES)

    def __iter__(self) -> Iterator[Runtime]:
        return iter(self._by_name.values())

    def get(self, name: str) -> Runtime:
        """Raise InvalidConfig when there is no such runtime, or when it is switched off."""
        runtime = self._by_name.get(name)
        if runtime is None:
            raise InvalidConfig(f"there is no runtime '{name}'", hint=self._instead_of(name))
        if not runtime.enabled:
            raise InvalidConfig(
                f"{name} is switched off",
                hint=f"enable it by name: [runtimes.{name}] enabled = true",
            )
        return runtime

    def _instead_of(self, name: str) -> str:
        near = alike(name, self._by_name)
        if near:
            return f"did you mean '{near[0]}'?"
        known = ", ".join(runtime.name for runtime in self if runtime.enabled)
        return f"registered here: {known}; add it as [runtimes.{name}]"
