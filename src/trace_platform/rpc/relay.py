"""Getting a client's question answered: by the right provider, another one if that fails, and only
with an answer that is one."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from typing import Any

import msgspec

from trace_platform.rpc.answers import (
    SMALL_BYTES,
    Item,
    NotJsonRpc,
    may_hold,
    merged,
    parsed,
    replaced,
)
from trace_platform.rpc.calls import Question, may_be_missing, read_question
from trace_platform.rpc.faults import ProviderFailed, RpcRefusal
from trace_platform.rpc.metrics import Metrics
from trace_platform.rpc.pool import Pool
from trace_platform.rpc.provider import Provider
from trace_platform.rpc.reply import (
    HELD_BYTES,
    MAX_ANSWER_BYTES,
    MAX_MERGED_BYTES,
    Reply,
    by_call,
    encoding_of,
    held,
    items_of,
    quantity,
    scrub_errors,
    too_large,
    unpack,
)
from trace_platform.rpc.upstream import Answer
from trace_platform.wire.rpc_codes import LIMITED, TOO_LARGE, UNAVAILABLE

# A pool that was just started is looked at before it is asked.
_SLACK_S = 0.01
_FIRST_LOOK_S = 6.0


@dataclass(slots=True)
class Relay:
    """Asks the providers of one pool."""

    pool: Pool
    metrics: Metrics
    # Set once every provider was looked at.
    looked: asyncio.Event = field(default_factory=asyncio.Event)

    async def answer(self, question: Question, *, packed: bool = False) -> Reply:
        """Raise RpcRefusal. The caller closes the reply."""
        self.pool.last_asked = self.pool.clock()
        await self.first_look()
        try:
            async with asyncio.timeout(self.pool.timing.deadline_s):
                return await self._one(question, packed=packed)
        except TimeoutError:
            raise self._given_up({}) from None

    async def answer_of(self, provider: Provider, question: Question) -> Reply:
        """This provider's own word, whatever the others say. Raise RpcRefusal."""
        if not provider.has_key:
            raise self._given_up({})
        self.pool.last_asked = self.pool.clock()
        failures: dict[str, ProviderFailed] = {}
        try:
            async with asyncio.timeout(self.pool.timing.deadline_s):
                for pause_s in (*self.pool.timing.backoff_s, 0.0):
                    try:
                        return await self._word_of(provider, question)
                    except ProviderFailed as failure:
                        failures[provider.name] = failure
                    await asyncio.sleep(max(pause_s, provider.limited_s))
        except TimeoutError:
            pass
        raise RpcRefusal(UNAVAILABLE, self._why(provider, failures))

    async def _word_of(self, provider: Provider, question: Question) -> Reply:
        most = provider.config.max_batch or len(question)
        if len(question) <= most:
            return await self.ask(provider, question)
        parts = [await self.ask(provider, each, whole=True) for each in question.split(most)]
        return Reply(merged([each.body for each in parts]))

    async def first_look(self) -> None:
        if not self.looked.is_set():
            try:
                await asyncio.wait_for(self.looked.wait(), _FIRST_LOOK_S)
            except TimeoutError:
                self.looked.set()  # a provider that hangs must not keep the others waiting

    async def _in_parts(self, question: Question, most: int) -> Reply:
        """Each part is asked, and asked again, on its own."""
        tasks = [asyncio.create_task(self._whole(part)) for part in question.split(most)]
        try:
            bodies = await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if sum(map(len, bodies)) > MAX_MERGED_BYTES:
            raise too_large()
        return Reply(merged(bodies))

    async def _whole(self, question: Question) -> bytes:
        return (await self._one(question, whole=True)).body

    async def _one(self, question: Question, *, packed: bool = False, whole: bool = False) -> Reply:
        """Providers in turn; after each round over them a pause."""
        failures: dict[str, ProviderFailed] = {}
        for pause_s in (*self.pool.timing.backoff_s, None):
            reply = await self._round(question, packed, whole, failures)
            if reply is not None:
                return reply
            if pause_s is None or all(each.excluded for each in self.pool.providers):
                break
            await self._pause(pause_s, failures)
        raise self._given_up(failures)

    async def _round(
        self,
        question: Question,
        packed: bool,
        whole: bool,
        failures: dict[str, ProviderFailed],
    ) -> Reply | None:
        asked: set[str] = set()
        while True:
            left = [each for each in self._turn(question) if each.name not in asked]
            if not left:
                return None
            provider = left[0]
            most = provider.config.max_batch
            if most is not None and len(question) > most:
                return await self._in_parts(question, most)
            if asked or failures:
                self.metrics.retried(self.pool.name)
            asked.add(provider.name)
            try:
                await self._know_chain(provider)
                reply = await self.ask(provider, question, packed=packed, whole=whole)
            except ProviderFailed as failure:
                failures[provider.name] = failure
                continue
            return await self._completed(question, reply, asked)

    async def _know_chain(self, provider: Provider) -> None:
        """One that was never reached before is asked for its chain first. Raise ProviderFailed."""
        if provider.chain_id is None and self.pool.cares_for_chain:
            await self.learn_chain(provider)
            self.pool.settle_chain()
        if provider.excluded is not None:
            raise ProviderFailed(f"is not asked: {provider.excluded}", code="wrong_chain")

    async def learn_chain(self, provider: Provider) -> None:
        chain_id = await self.number(provider, "eth_chainId")
        provider.chain_id = provider.chain_id if chain_id is None else chain_id

    async def number(self, provider: Provider, method: str) -> int | None:
        item = await self.ask_one(provider, method)
        return None if item is None or item.error is not None else quantity(item)

    async def ask_one(self, provider: Provider, method: str, *params: Any) -> Item | None:
        """A question of our own."""
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        question = read_question(msgspec.json.encode(body))
        reply = await self.ask(provider, question, whole=True, at_once=True)
        items = parsed(reply.body)
        return items[0] if len(items) == 1 else None

    def _turn(self, question: Question) -> list[Provider]:
        fit = self.pool.candidates(question.needs, question.methods) or [
            # A limit that a provider named is kept; a doubt about its health is not the last word.
            each
            for each in self.pool.last_resort(question.needs)
            if not each.limited_s
        ]
        return self._in_time(fit, len(question))

    def _in_time(self, fit: list[Provider], calls: int) -> list[Provider]:
        """Whose rate lets so many calls go soon enough. Raise RpcRefusal when it is nobody's: that
        is told now, not when the time is up."""
        longest_s = self.pool.timing.rate_wait_s
        waits_s = [each.rate.wait_s(calls) for each in fit]
        if not fit or min(waits_s) <= longest_s:
            return [each for each, wait_s in zip(fit, waits_s, strict=True) if wait_s <= longest_s]
        if all(each.rate.takes_s(calls) > longest_s for each in fit):
            raise RpcRefusal(
                TOO_LARGE,
                f"{calls} calls take more than {longest_s:g} s at the rate of pool "
                f"'{self.pool.name}': ask for less at once",
            )
        self.metrics.refused(self.pool.name, "limited")
        # Before the line is empty: else nothing is sent until those that were told come back.
        raise RpcRefusal(
            LIMITED,
            f"pool '{self.pool.name}' is asked for more than the rate of its providers allows",
            min(waits_s) - longest_s / 2,
        )

    async def _pause(self, pause_s: float, failures: dict[str, ProviderFailed]) -> None:
        waits = [each.limited_s for each in self.pool.providers if each.may_be_asked]
        least_s = min(waits, default=0.0)
        if least_s > self.pool.timing.deadline_s / 2:
            raise self._given_up(failures)
        # Jitter: the partitions of a range would otherwise all come back together. And a sleep may
        # end a moment early, when the limit that was waited for is still there.
        least_s = least_s + _SLACK_S if least_s else 0.0
        await asyncio.sleep(max(pause_s * random.uniform(0.5, 1.5), least_s))  # noqa: S311

    async def ask(
        self,
        provider: Provider,
        question: Question,
        *,
        packed: bool = False,
        whole: bool = False,
        at_once: bool = False,
    ) -> Reply:
        """Ask this one. Raise ProviderFailed when its answer is none.

        `whole`: nothing of it is left to stream; RpcRefusal when it is too large for that.
        """
        # What streams is not looked at, and an error in it may repeat the key.
        whole = whole or bool(provider.config.secrets)
        started = self.pool.clock()
        try:
            answer = await provider.ask(
                question.body, len(question), packed=packed, at_once=at_once
            )
            reply = await self._read(provider, question, answer, whole)
        except ProviderFailed as failure:
            provider.failed(failure)
            self.metrics.failed(self.pool.name, provider.name, failure.code)
            raise
        provider.succeeded()
        self.metrics.answered(self.pool.name, provider.name, self.pool.clock() - started)
        return reply

    async def _read(
        self, provider: Provider, question: Question, answer: Answer, whole: bool
    ) -> Reply:
        try:
            if answer.status == 413 or (answer.length or 0) > MAX_ANSWER_BYTES:
                raise too_large()
            body, ended = await held(answer, MAX_MERGED_BYTES if whole else HELD_BYTES)
            if whole and not ended:
                raise too_large()
            reply = Reply(body, encoding_of(answer), None if ended else answer, provider)
            if ended:
                unpack(reply)
                self._examine(provider, question, answer.status, reply)
        except BaseException:
            answer.close()
            raise
        if ended:
            answer.close()
        return reply

    def _examine(self, provider: Provider, question: Question, status: int, reply: Reply) -> None:
        try:
            items = items_of(reply, provider)
        except NotJsonRpc as error:
            said = f"answered HTTP {status}" if status != 200 else f"answered with {error}"
            raise ProviderFailed(said, code="not_json") from None
        self._raise_if_limited(provider, items)
        self._learn(provider, question, items)
        errors = {i: item.error for i, item in enumerate(items) if item.error is not None}
        if status != 200 and not errors:
            raise ProviderFailed(f"answered HTTP {status}", code=f"http_{status}")
        if errors:
            scrub_errors(reply, provider, items, errors)

    def _raise_if_limited(self, provider: Provider, items: list[Item]) -> None:
        for item in items:
            if item.error is not None and item.error.is_limit:
                said = provider.config.scrub(item.error.message)
                raise ProviderFailed(
                    f"limits the rate of calls: {said}", code="limited", at_fault=False
                )

    def _learn(self, provider: Provider, question: Question, items: list[Item]) -> None:
        """What an answer tells by the way: the head, or a method that it does not have."""
        if len(question) != 1 or len(items) != 1:
            return
        (call,), (item,) = question.calls, items
        if item.error is not None:
            if item.error.is_missing_method:
                provider.lacks.add(call.method)
        elif call.method == "eth_blockNumber":
            number = quantity(item)
            if number is None:
                raise ProviderFailed("answers eth_blockNumber with no number", code="not_json")
            self.pool.learned_head(provider, number)

    async def _completed(self, question: Question, reply: Reply, asked: set[str]) -> Reply:
        """What this provider does not have, another one may: it is asked before the client hears
        that there is nothing."""
        missing = self._missing(question, reply)
        if not missing:
            return reply
        part = question.only(list(missing.values()))
        for other in self.pool.others_that_have(part.needs, asked):
            asked.add(other.name)
            self.metrics.retried(self.pool.name)
            try:
                found = await self.ask(other, part, whole=True)
            except ProviderFailed:
                continue
            if self._missing(part, found):
                continue
            if not question.batch:
                return found
            answers = dict(zip(missing, by_call(part, found.body), strict=True))
            return Reply(replaced(reply.body, answers), provider=other)
        return reply

    def _missing(self, question: Question, reply: Reply) -> dict[int, int]:
        """Answers in whose place another provider may have one: their place, and their call's."""
        if self.pool.alone or reply.rest is not None:
            return {}
        body = reply.body
        large = len(body) > SMALL_BYTES
        if large and not (question.may_be_missing and may_hold(body, b'"result":null')):
            return {}
        items = parsed(reply.body)
        calls = {bytes(call.id): i for i, call in enumerate(question.calls)}
        if len(items) != len(question) or calls.keys() != {bytes(item.id) for item in items}:
            return {}
        return {
            place: calls[bytes(item.id)]
            for place, item in enumerate(items)
            if item.is_missing
            and (item.error or may_be_missing(question.calls[calls[bytes(item.id)]].method))
        }

    def _given_up(self, failures: dict[str, ProviderFailed]) -> RpcRefusal:
        limited = [each.limited_s for each in self.pool.providers if each.may_be_asked]
        if limited and all(limited):
            wait_s = min(limited)
            self.metrics.refused(self.pool.name, "limited")
            return RpcRefusal(
                LIMITED, f"every provider of pool '{self.pool.name}' limits the rate", wait_s
            )
        self.metrics.refused(self.pool.name, "unavailable")
        said = "; ".join(self._why(each, failures) for each in self.pool.providers)
        return RpcRefusal(UNAVAILABLE, f"no provider of pool '{self.pool.name}' answers: {said}")

    def _why(self, provider: Provider, failures: dict[str, ProviderFailed]) -> str:
        where = f"{provider.name} ({provider.config.endpoint})"
        if not provider.may_be_asked:
            return f"{where} is not asked: {provider.reason}"
        if provider.name in failures:
            return f"{where} {failures[provider.name].why}"
        lag = self.pool.lag(provider)
        if lag:
            return f"{where} is {lag} blocks behind"
        return f"{where} {provider.last_failure or 'did not answer in time'}"
