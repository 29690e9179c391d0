"""One provider of a pool: how it does, what it may be asked, and asking it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from trace_platform.drivers.node_url import parse_url, retry_after_s
from trace_platform.rpc.config import ProviderConfig, Timing
from trace_platform.rpc.faults import ProviderFailed
from trace_platform.rpc.learned import Learned
from trace_platform.rpc.limits import Rate, Slots
from trace_platform.rpc.upstream import Answer, Upstream

# So many failures more than successes, and it is left alone for a while.
_MOST_FAILURES = 3
_KEY_REST_S = 60.0
_MAX_REST_S = 3_600.0


@dataclass(slots=True)
class Head:
    """The newest block that it told of, and when that last changed."""

    number: int | None = None
    moved_at: float = 0.0
    moves: int = 0

    def learn(self, number: int, now: float) -> None:
        if number != self.number:
            self.number, self.moved_at = number, now
            self.moves += 1


@dataclass(slots=True)
class Counts:
    requests: int = 0
    failures: int = 0
    limits_hit: int = 0


@dataclass(slots=True, eq=False)
class Provider:
    config: ProviderConfig
    timing: Timing
    clock: Callable[[], float]
    upstream: Upstream = field(init=False)
    slots: Slots = field(init=False)
    rate: Rate = field(init=False)
    head: Head = field(default_factory=Head)
    counts: Counts = field(default_factory=Counts)
    chain_id: int | None = None
    # Whether its key is ours to use.
    claimed: bool = True
    # Why it is not asked whatever happens, such as the wrong chain.
    excluded: str | None = None
    # Its blocks are not those of the others.
    contradicts: bool = False
    stalled: bool = False
    # It claims blocks far beyond what most have.
    runs_ahead: bool = False
    learned: Learned = field(init=False)
    last_failure: str | None = None
    _failures: int = 0
    _rests: int = 0
    _rest_until: float = 0.0
    _limited_until: float = 0.0

    def __post_init__(self) -> None:
        config = self.config
        url = parse_url(config.full_url)
        self.upstream = Upstream(url, bearer=config.bearer, timeout_s=self.timing.answer_s)
        self.slots = Slots(config.max_concurrency)
        self.rate = Rate(config.requests_per_second, self.clock)
        self.learned = Learned(self.clock, self.timing.forget_s)
        self.claimed = config.key_name is None

    @property
    def name(self) -> str:
        return self.config.name

    @property
    def has_key(self) -> bool:
        """Or needs none."""
        return self.claimed and not self.config.lacks_key

    @property
    def on_chain(self) -> bool:
        """Own key, right chain: its blocks can be compared with those of the others."""
        return self.has_key and self.excluded is None

    @property
    def may_be_asked(self) -> bool:
        """In principle. Not when it contradicts, even if nobody else is left: an error is asked
        again, wrong rows would be kept."""
        return self.on_chain and not self.contradicts

    @property
    def can_be_looked_at(self) -> bool:
        """Also when it is excluded: it may have been put right."""
        return self.has_key and self.resting_s == 0.0

    @property
    def resting_s(self) -> float:
        """How long it wants to be, or should be, left alone."""
        return max(0.0, max(self._rest_until, self._limited_until) - self.clock())

    @property
    def limited_s(self) -> float:
        """For how long it asked to be left alone."""
        return max(0.0, self._limited_until - self.clock())

    @property
    def healthy(self) -> bool:
        return self.may_be_asked and self._failures < _MOST_FAILURES

    @property
    def ready(self) -> bool:
        return self.healthy and self.resting_s == 0.0

    @property
    def state(self) -> str:
        """One word for people."""
        if not self.has_key:
            return "no_key"
        if self.excluded is not None:
            return "excluded"
        never_answered = self.head.number is None and self.chain_id is None
        if self._failures >= _MOST_FAILURES or (self._failures and never_answered):
            return "down"
        if self.contradicts:
            return "contradicts"
        if self.stalled:
            return "stalled"
        if self.runs_ahead:
            return "runs_ahead"
        return "limited" if self.resting_s else "ok"

    @property
    def reason(self) -> str | None:
        if self.config.lacks_key:
            return f"the key {self.config.key_name} is not set"
        if not self.claimed:
            return f"the key {self.config.key_name} is not ours: another process has it"
        if self.excluded is not None:
            return self.excluded
        words = {
            "contradicts": "its blocks are not those of most providers",
            "stalled": "its head stands still while others move",
            "runs_ahead": "it claims blocks that no other provider backs",
        }
        if self.state == "ok":
            return str(self.learned) or None
        return words.get(self.state) or self.last_failure

    async def ask(
        self, body: bytes, calls: int, *, packed: bool = False, at_once: bool = False
    ) -> Answer:
        """Wait for a turn, then ask. Raise ProviderFailed. The answer's `close` ends the turn.

        `at_once`: past those that wait for the rate. A look that waited with them would take a
        busy provider for one that is down.
        """
        if at_once:
            await self.slots.take()
            self.rate.sent_out_of_turn(calls)
        else:
            if self.rate.wait_s(calls):
                self.counts.limits_hit += 1
            async with self.rate.turn(calls):
                await self.slots.take()
        try:
            self.counts.requests += 1
            answer = await self.upstream.post(body, packed=packed)
        except BaseException:
            self.slots.free()
            raise
        answer.at_end(self.slots.free)
        try:
            _check_status(answer)
        except BaseException:
            answer.close()
            raise
        return answer

    def succeeded(self) -> None:
        """Makes up for one failure: who fails every other time does not recover by that."""
        self._failures = max(0, self._failures - 1)
        self._rest_until = 0.0
        if self._failures == 0:
            self._rests = 0

    def failed(self, failure: ProviderFailed) -> None:
        """Remember it. After several it rests; each rest is longer than the one before."""
        now = self.clock()
        self.last_failure = failure.why
        asked_s = min(failure.rest_s, _MAX_REST_S)
        if not failure.at_fault:
            self.counts.limits_hit += 1
            rest_s = asked_s or self.timing.limited_rest_s
            self._limited_until = max(self._limited_until, now + rest_s)
            return
        self.counts.failures += 1
        worse = _MOST_FAILURES if failure.hopeless else self._failures + 1
        self._failures = min(worse, _MOST_FAILURES)
        if self._failures >= _MOST_FAILURES:
            longest = _KEY_REST_S if failure.hopeless else self.timing.longest_rest_s
            rest_s = min(self.timing.first_rest_s * 2.0**self._rests, longest)
            # Spread: several egress processes must not come back together.
            rest_s *= random.uniform(0.75, 1.0)  # noqa: S311
            self._rest_until = now + max(rest_s, asked_s)
            self._rests = min(self._rests + 1, 16)

    def close(self) -> None:
        self.upstream.close()


def _check_status(answer: Answer) -> None:
    status = answer.status
    # Some say with 400 or 404 what their JSON-RPC error says once more: then that is the answer.
    if status in (200, 400, 404, 405, 413, 422):
        return
    rest_s = retry_after_s(answer.header(b"retry-after"))
    if status == 429 or (status == 503 and rest_s):
        raise ProviderFailed(
            f"limits the rate of calls (HTTP {status})",
            code="limited",
            at_fault=False,
            rest_s=rest_s,
        )
    if status in (401, 403):
        raise ProviderFailed(f"refuses the key (HTTP {status})", code="key_refused", hopeless=True)
    raise ProviderFailed(f"answered HTTP {status}", code=f"http_{status}", rest_s=rest_s)
