"""Looks at every provider of a pool, again and again: its chain, its head, its recent blocks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

import msgspec
import structlog

from trace_platform.rpc.faults import ProviderFailed, RpcRefusal
from trace_platform.rpc.provider import Provider
from trace_platform.rpc.relay import Relay

log = structlog.get_logger()

_LOOK_S = 5.0
# Blocks this far below the head are compared: above it providers differ for moments.
_COMPARED_DEPTH = 4
# A pool that was asked within this time is watched closely.
_BUSY_S = 60.0


class Health:
    """Keeps one pool's picture of its providers true."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self._pool = relay.pool
        self._states: dict[str, str] = {}
        # Heights, and who was asked there.
        self._compared: set[tuple[int, tuple[Provider, ...]]] = set()

    async def run(self, begin: asyncio.Event) -> None:
        await begin.wait()
        while True:
            try:
                await self.look()
            except Exception:
                # Whatever a provider did: the others are still to be looked at.
                log.exception("look_failed", pool=self._pool.name)
            self._relay.looked.set()
            await asyncio.sleep(self._pause_s())

    async def look(self) -> None:
        """Once at each of them."""
        due = [each for each in self._pool.providers if each.can_be_looked_at]
        await asyncio.gather(*(self._look_at(each) for each in due))
        self._pool.settle_chain()
        claims = self._pool.claims_to_check()
        self._pool.settle_head([ahead for ahead, of in claims if await self._goes_on(ahead, of)])
        await self._compare()
        self._tell()

    async def _look_at(self, provider: Provider) -> None:
        with suppress(ProviderFailed, RpcRefusal, TimeoutError):
            async with self._in_time(provider):
                head = await self._relay.number(provider, "eth_blockNumber")
            # Again after a failure: another node may stand behind the same name.
            doubted = provider.last_failure is not None or provider.excluded is not None
            if provider.chain_id is None or doubted:
                async with self._in_time(provider):
                    await self._relay.learn_chain(provider)
            if head is not None:
                self._pool.learned_head(provider, head)
                provider.last_failure = None

    async def _compare(self) -> None:
        """Do they have the same blocks? Who is behind is compared where it is, with those that are
        not."""
        pool = self._pool
        if pool.head is None or pool.alone:
            return
        near = max(0, pool.head - _COMPARED_DEPTH)
        able = [each for each in pool.providers if each.on_chain and each.can_be_looked_at]
        heads = {each: each.head.number for each in able if each.head.number is not None}
        heights = {
            each: near if head >= near else max(0, head - _COMPARED_DEPTH)
            for each, head in heads.items()
        }
        compared = set()
        for height in sorted(set(heights.values()), reverse=True):
            asked = tuple(each for each, own in heights.items() if own in (height, near))
            judged = [each for each in asked if heights[each] == height]
            compared.add((height, asked))
            # Anew when there is another block or another provider to ask, or while one differs.
            if (height, asked) not in self._compared or any(each.contradicts for each in judged):
                pool.settle_hashes(await self._hashes(asked, height), judged)
        self._compared = compared

    async def _hashes(self, providers: Sequence[Provider], height: int) -> dict[str, str]:
        """Of those that tell."""
        found = await asyncio.gather(*(self._hash(each, height) for each in providers))
        told = zip(providers, found, strict=True)
        return {each.name: hash_ for each, hash_ in told if hash_ is not None}

    async def _goes_on(self, ahead: Provider, of: Provider) -> bool:
        """Whether `ahead` has its head in truth, and `of`'s head below it."""
        low, high = of.head.number or 0, ahead.head.number or 0
        mine, other, top = await asyncio.gather(
            self._hash(ahead, low), self._hash(of, low), self._hash(ahead, high)
        )
        return top is not None and mine is not None and mine == other

    async def _hash(self, provider: Provider, height: int) -> str | None:
        with suppress(ProviderFailed, RpcRefusal, TimeoutError):
            async with self._in_time(provider):
                ask = self._relay.ask_one(provider, "eth_getBlockByNumber", hex(height), False)
                item = await ask
            block = msgspec.json.decode(item.result) if item and item.error is None else None
            if isinstance(block, dict) and isinstance(block.get("hash"), str):
                return str(block["hash"]).lower()
        return None

    @asynccontextmanager
    async def _in_time(self, provider: Provider) -> AsyncIterator[None]:
        """A look takes no longer than a moment: its provider counts as one that failed then."""
        try:
            async with asyncio.timeout(min(_LOOK_S, self._pool.timing.answer_s)):
                yield
        except TimeoutError:
            provider.failed(ProviderFailed("did not answer in time", code="timeout"))
            raise

    def _tell(self) -> None:
        """Changes are logged, once."""
        for each in self._pool.providers:
            state = each.state
            if self._states.get(each.name, "ok") != state:
                tell = log.info if state == "ok" else log.warning
                tell(
                    "provider_changed",
                    pool=self._pool.name,
                    provider=each.name,
                    state=state,
                    reason=each.reason,
                )
            self._states[each.name] = state

    def _pause_s(self) -> float:
        timing = self._pool.timing
        busy = self._pool.clock() - self._pool.last_asked < _BUSY_S
        return timing.poll_s if busy else timing.idle_poll_s
