"""Keys are used by one egress process at a time: it claims their names, and renews the claim."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import structlog

from trace_platform.domain.errors import TraceError
from trace_platform.drivers.dispatcher_calls import AsyncDispatcherCalls
from trace_platform.rpc.pool import Pool
from trace_platform.rpc.provider import Provider
from trace_platform.wire.refusal import DISPATCHER
from trace_platform.wire.rpc import KeyClaimRequest, KeyClaimResponse

log = structlog.get_logger()

_RENEWALS_PER_LEASE = 3
# Until the Dispatcher is up: both start together.
_FIRST_PAUSE_S = 0.2


class KeyRegistry(Protocol):
    """The truth about who may use which key. A call raises TraceError."""

    async def claim(self, holder: str, keys: Sequence[str], lease_s: float) -> set[str]: ...


class DispatcherClient:
    """The Dispatcher keeps the claims in Postgres state."""

    def __init__(self, url: str, service_token: str, ca: Path | None = None) -> None:
        self._calls = AsyncDispatcherCalls(url, service_token, ca, timeout_s=5)

    async def claim(self, holder: str, keys: Sequence[str], lease_s: float) -> set[str]:
        request = KeyClaimRequest(holder=holder, keys=list(keys), lease_s=lease_s)
        answer = await self._calls.send("POST", "/internal/rpc/key-claims", request)
        return set(DISPATCHER.read(KeyClaimResponse, answer).granted)

    async def close(self) -> None:
        await self._calls.close()


class KeyClaims:
    """Claims the keys of all pools. What was claimed is used on while the Dispatcher is away, past
    the lease too: nobody else can claim it then. What was never claimed is not used."""

    def __init__(
        self, registry: KeyRegistry, holder: str, pools: Iterable[Pool], lease_s: float
    ) -> None:
        self._registry = registry
        self._holder = holder
        self._lease_s = lease_s
        self._providers = [
            each for pool in pools for each in pool.providers if each.config.key_name is not None
        ]
        self._failing = False
        # Set when it is known, or cannot be known yet, which keys are ours.
        self.tried = asyncio.Event()

    @property
    def keys(self) -> list[str]:
        return sorted({each.config.key_name or "" for each in self._providers})

    async def run(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while self._providers:
            if await self.renew():
                pause_s = self._lease_s / _RENEWALS_PER_LEASE
            self.tried.set()
            await asyncio.sleep(pause_s)
        self.tried.set()

    async def renew(self) -> bool:
        """Whether the Dispatcher answered."""
        try:
            granted = await self._registry.claim(self._holder, self.keys, self._lease_s)
        except TraceError as error:
            if not self._failing:
                log.warning("key_claims_not_renewed", reason=error.message, keys=len(self.keys))
            self._failing = True
            return False
        if self._failing:
            log.info("key_claims_renewed", keys=len(granted))
        self._failing = False
        for provider in self._providers:
            self._mark(provider, provider.config.key_name in granted)
        return True

    async def release(self) -> None:
        """So that a successor need not wait for the lease to end."""
        if self._providers:
            with suppress(TraceError):
                await self._registry.claim(self._holder, self.keys, 0.0)

    def _mark(self, provider: Provider, granted: bool) -> None:
        if provider.claimed != granted:
            event = "key_claimed" if granted else "key_in_use_elsewhere"
            log.info(event, key=provider.config.key_name, provider=provider.name)
        provider.claimed = granted
