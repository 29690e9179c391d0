"""Getting a client's question answered: by the right provider, another one if that fails, and only
with an answer that is one."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from trace_platform.rpc.answers import (
    SMALL_BYTES,
    Fault,
    Item,
    NotJsonRpc,
    NotTheAnswers,
    looks_whole,
    merged,
    parsed,
)
from trace_platform.rpc.calls import Call, Question, needs_of, oldest_block, read_question
from trace_platform.rpc.faults import ProviderFailed, RpcRefusal
from trace_platform.rpc.gather import Gathered, weight
from trace_platform.rpc.metrics import Metrics
from trace_platform.rpc.pool import Pool
from trace_platform.rpc.provider import Provider
from trace_platform.rpc.reply import (
    HELD_BYTES,
    MAX_ANSWER_BYTES,
    MAX_MERGED_BYTES,
    Reply,
    assign_answers,
    encoding_of,
    held,
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

    async def answer(
        self, question: Question, *, packed: bool = False, whole: bool = False
    ) -> Reply:
        """Raise RpcRefusal. The caller closes the reply. `whole`: as for `ask`."""
        self.pool.last_asked = self.pool.clock()
        await self.first_look()
        try:
            async with asyncio.timeout(self.pool.timing.deadline_s):
                return await self._one(question, packed=packed, whole=whole)
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
        pieces = question.split(most)
        parts = [await self.ask(provider, each, whole=len(pieces) > 1) for each in pieces]
        if not all(each.is_complete for each in parts):
            raise ProviderFailed(provider.last_failure or "left calls out", code="malformed")
        return parts[0] if len(parts) == 1 else Reply(merged([each.body for each in parts]))

    async def first_look(self) -> None:
        if not self.looked.is_set():
            try:
                await asyncio.wait_for(self.looked.wait(), _FIRST_LOOK_S)
            except TimeoutError:
                self.looked.set()  # a provider that hangs must not keep the others waiting

    async def _one(self, question: Question, *, packed: bool = False, whole: bool = False) -> Reply:
        """Providers in turn; after each round over them a pause."""
        failures: dict[str, ProviderFailed] = {}
        gathered = Gathered(question)
        for pause_s in (*self.pool.timing.backoff_s, None):
            reply = await self._round(gathered, packed, whole, failures)
            if reply is not None:
                return reply
            if pause_s is None or all(each.excluded for each in self.pool.providers):
                break
            await self._pause(pause_s, failures)
        raise self._given_up(failures)

    async def _round(
        self,
        gathered: Gathered,
        packed: bool,
        whole: bool,
        failures: dict[str, ProviderFailed],
    ) -> Reply | None:
        """What one does not answer, or does not have, is asked of the next one. None: calls are
        left that nobody answered."""
        asked: set[str] = set()
        while (following := self._next(gathered, asked)) is not None:
            provider, indexes = following
            if asked or failures:
                self.metrics.retried(self.pool.name)
            most = provider.config.max_batch
            if most is not None and len(indexes) > most:
                return await self._in_parts(gathered, indexes, most)
            asked.add(provider.name)
            part = gathered.part(indexes)
            try:
                await self._know_chain(provider)
                # What is put together with other answers cannot stream.
                whole = whole or not gathered.is_untouched
                reply = await self.ask(provider, part, packed=packed, whole=whole)
            except ProviderFailed as failure:
                failures[provider.name] = failure
                continue
            if gathered.is_untouched and self._is_final(part, reply):
                return reply
            gathered.take(indexes, reply)
            self._learn_what_is_elsewhere(gathered)
        return None if gathered.unanswered else gathered.reply()

    def _next(self, gathered: Gathered, asked: set[str]) -> tuple[Provider, list[int]] | None:
        """Who is asked now, and for which calls. Where every call has an answer, those that may
        have what was said not to be there."""
        indexes = gathered.open
        if gathered.unanswered:
            left = [each for each in self._turn(gathered.part(indexes)) if each.name not in asked]
            return (left[0], indexes) if left else None
        having: dict[Provider, list[int]] = {}
        for i in indexes:
            for each in self.pool.others_that_have(needs_of([gathered.call(i)]), asked):
                having.setdefault(each, []).append(i)
        return next(iter(having.items()), None)

    def _is_final(self, question: Question, reply: Reply) -> bool:
        """Whether it goes to the client as it came: no other provider could say more."""
        if reply.rest is not None or not reply.items or (reply.is_complete and self.pool.alone):
            return True
        answers = zip(question.calls, reply.items, strict=True)
        return all(item is not None and not weight(call.method, item) for call, item in answers)

    async def _in_parts(self, gathered: Gathered, indexes: list[int], most: int) -> Reply:
        """Each part is asked, and asked again, on its own."""
        parts = [indexes[i : i + most] for i in range(0, len(indexes), most)]
        tasks = [asyncio.create_task(self._one(gathered.part(part), whole=True)) for part in parts]
        try:
            bodies = [reply.body for reply in await asyncio.gather(*tasks)]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if sum(map(len, bodies)) > MAX_MERGED_BYTES:
            raise too_large()
        if gathered.is_untouched:
            return Reply(merged(bodies))
        for part, body in zip(parts, bodies, strict=True):
            gathered.settle(part, body)
        return gathered.reply()

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
        fit = self.pool.candidates(question.needs, question) or [
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
        """Ask this one. Raise ProviderFailed when its answer is none. Calls of a batch that it left
        out are None among the reply's items, and count against it.

        `whole`: all of it is read; RpcRefusal when it is too large for that. Else what streams is
        not, nor a large answer of the only provider: no other one could do better, and who asked
        sees what it lacks, and asks for it whole.
        """
        # A batch may lack answers, an error may repeat the key.
        checked = question.batch and not self.pool.alone
        whole = whole or checked or bool(provider.config.secrets)
        started = self.pool.clock()
        try:
            answer = await provider.ask(
                question.body, len(question), packed=packed, at_once=at_once
            )
            reply = await self._read(provider, question, answer, whole)
        except ProviderFailed as failure:
            self._failed(provider, failure)
            raise
        if reply.is_complete:
            provider.succeeded()
        else:
            self._failed(provider, _left_out(reply))
        self.metrics.answered(self.pool.name, provider.name, self.pool.clock() - started)
        return reply

    def _failed(self, provider: Provider, failure: ProviderFailed) -> None:
        provider.failed(failure)
        self.metrics.failed(self.pool.name, provider.name, failure.code)

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
                if whole or not self.pool.alone or len(reply.body) <= SMALL_BYTES:
                    self._examine(provider, question, answer.status, reply)
                elif not looks_whole(reply.body):
                    raise ProviderFailed(
                        "answered with something that is not JSON", code="not_json"
                    )
        except BaseException:
            answer.close()
            raise
        if ended:
            answer.close()
        return reply

    def _examine(self, provider: Provider, question: Question, status: int, reply: Reply) -> None:
        try:
            items = parsed(reply.body)
        except NotJsonRpc as error:
            said = f"answered HTTP {status}" if status != 200 else f"answered with {error}"
            raise ProviderFailed(said, code="not_json") from None
        errors = {i: item.error for i, item in enumerate(items) if item.error is not None}
        self._raise_if_limited(provider, errors.values())
        if question.batch and len(items) == 1 and errors and errors[0].is_too_large:
            raise too_large()
        try:
            assign_answers(question, reply, items)
        except NotTheAnswers as error:
            raise ProviderFailed(provider.config.scrub(str(error)), code="malformed") from None
        if status != 200 and not errors:
            raise ProviderFailed(f"answered HTTP {status}", code=f"http_{status}")
        self._learn_head(provider, question, reply)
        if errors:
            self._learn_limits(provider, question, reply)
            scrub_errors(reply, provider, items, errors)

    def _raise_if_limited(self, provider: Provider, errors: Iterable[Fault]) -> None:
        for error in errors:
            if error.is_limit:
                said = provider.config.scrub(error.message)
                raise ProviderFailed(
                    f"limits the rate of calls: {said}", code="limited", at_fault=False
                )

    def _learn_head(self, provider: Provider, question: Question, reply: Reply) -> None:
        """It is told by the way."""
        if len(question) != 1 or question.calls[0].method != "eth_blockNumber":
            return
        item = reply.items[0]
        if item is None or item.error is not None:
            return
        number = quantity(item)
        if number is None:
            raise ProviderFailed("answers eth_blockNumber with no number", code="not_json")
        self.pool.learned_head(provider, number)

    def _learn_limits(self, provider: Provider, question: Question, reply: Reply) -> None:
        """Which methods it does not have, and up to which block its history is pruned."""
        for call, item in zip(question.calls, reply.items, strict=True):
            if item is None or item.error is None:
                continue
            if item.error.is_missing_method:
                provider.learned.lacks_method(call.method)
            elif item.error.is_pruned:
                self._learn_pruned(provider, call)

    def _learn_what_is_elsewhere(self, gathered: Gathered) -> None:
        """Some nodes say of what they pruned that there is nothing."""
        for call, provider in gathered.found_elsewhere():
            self._learn_pruned(provider, call)

    def _learn_pruned(self, provider: Provider, call: Call) -> None:
        block = oldest_block(call)
        # Near the tip a node lacks a block because it is new.
        if block >= 0 and not self.pool.is_near_tip(needs_of([call])):
            provider.learned.lacks_block(call.method, block)

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


def _left_out(reply: Reply) -> ProviderFailed:
    answered = len(reply.places) - reply.places.count(None)
    return ProviderFailed(
        f"answered {answered} of the {len(reply.places)} calls of a batch", code="malformed"
    )
