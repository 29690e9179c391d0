"""What the egress is told of its pools. Values with secrets are never shown."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from urllib.parse import quote

from trace_platform.domain.private_url import is_private
from trace_platform.drivers.node_url import parse_url, scrubbed, secrets_in, shown

DEFAULT_CONCURRENCY = 32
_PLACE = "{key}"


@dataclass(frozen=True)
class ProviderConfig:
    """`url` may have `{key}` where the key belongs; without it the key goes as a bearer token."""

    name: str
    url: str = field(repr=False)
    key: str | None = field(default=None, repr=False)
    # The name by which the key is claimed; None: there is nothing to claim.
    key_name: str | None = None
    # The settings name a key that has no value: it is not asked until it has one.
    lacks_key: bool = False
    requests_per_second: float | None = None
    max_concurrency: int = DEFAULT_CONCURRENCY
    max_batch: int | None = None
    # Lower ones are asked first.
    priority: int = 1

    @property
    def full_url(self) -> str:
        return self.url.replace(_PLACE, quote(self.key or "", safe=""))

    @property
    def bearer(self) -> str | None:
        return None if self.key is None or _PLACE in self.url else self.key

    @property
    def shows_key(self) -> bool:
        """Whether a key of it, or what may be one, goes to another machine without encryption."""
        may_hold_one = self.key_name is not None or parse_url(self.url).username is not None
        return may_hold_one and not is_private(self.url)

    @property
    def endpoint(self) -> str:
        """What may be shown of it."""
        return shown(parse_url(self.full_url))

    @cached_property
    def secrets(self) -> tuple[bytes, ...]:
        """What of it must never leave this process."""
        own = [self.key] if self.key else []
        return tuple(s.encode() for s in [*own, *secrets_in(parse_url(self.full_url))])

    def scrub(self, text: str) -> str:
        """What the provider says, without what only we and it may know."""
        return scrubbed(text, [secret.decode() for secret in self.secrets])


@dataclass(frozen=True, slots=True)
class PoolConfig:
    name: str
    providers: tuple[ProviderConfig, ...]
    # None: that of most providers.
    chain_id: int | None = None


@dataclass(frozen=True, slots=True)
class Timing:
    """For tests these are shorter."""

    # A provider is silent for so long: it failed.
    answer_s: float = 30.0
    # Of one question, with every retry.
    deadline_s: float = 55.0
    # A question that would wait longer for a provider's rate is refused at once.
    rate_wait_s: float = 45.0
    # Of an answer on its way to the client; a large one is read from the provider meanwhile.
    send_s: float = 300.0
    # Between two looks at each provider's head; a pool that nobody asks is looked at less often.
    poll_s: float = 3.0
    idle_poll_s: float = 30.0
    # Between rounds over all the providers.
    backoff_s: tuple[float, ...] = (0.2, 0.6, 1.8)
    # A provider that failed several times in a row is left alone; the pause doubles.
    first_rest_s: float = 1.0
    longest_rest_s: float = 30.0
    # One that limits the rate, and does not say for how long.
    limited_rest_s: float = 1.0
    # A head that stands still for so long, while others move, is no longer one.
    stall_s: float = 45.0
    # For so long a minority does not take the head back.
    hold_s: float = 60.0
    lease_s: float = 30.0
    # For so long it is believed that a provider lacks a method or old blocks.
    forget_s: float = 600.0
