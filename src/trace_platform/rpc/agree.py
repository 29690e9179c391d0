"""An answer that most providers give: for questions on which a rewrite of history hangs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import structlog

from trace_platform.rpc.answers import Item, joined, raw_items
from trace_platform.rpc.calls import Call, Question, needs_of
from trace_platform.rpc.faults import ProviderFailed, RpcRefusal
from trace_platform.rpc.provider import Provider
from trace_platform.rpc.relay import Relay
from trace_platform.rpc.reply import Reply
from trace_platform.rpc.same import comparable
from trace_platform.wire.rpc_codes import DISAGREE, LIMITED

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, eq=False)
class Vote:
    """What a provider said to one call, as it came."""

    provider: Provider
    item: Item
    raw: bytes


@dataclass(slots=True)
class Ballot:
    """A provider's votes, by the call's place in the question. A call that is not here was not
    answered; `is_limited`: since the provider wants to be left alone."""

    provider: Provider
    votes: dict[int, Vote] = field(default_factory=dict)
    is_limited: bool = False


async def agreed_answer(relay: Relay, question: Question) -> Reply:
    """Ask every provider whose word counts at once. Raise RpcRefusal unless more than half of them
    say the same. Who fails, limits the rate or leaves a call out says nothing, and counts; who
    cannot know, because it has no such method or pruned the block, does not."""
    await relay.first_look()
    voters, limited = relay.pool.voters(), relay.pool.limited_voters()
    if len(voters) + len(limited) < 2:
        return await relay.answer(question, whole=True)
    relay.pool.last_asked = relay.pool.clock()
    told = await asyncio.gather(*(_ballot(relay, each, question) for each in voters))
    ballots = [*told, *(Ballot(each, is_limited=True) for each in limited)]
    # Not on the event loop: large answers of different makers take a while to compare.
    elections = await asyncio.to_thread(
        lambda: [_elect(relay, call, i, ballots) for i, call in enumerate(question.calls)]
    )
    for each in elections:
        if each.is_decided:
            each.tell_who_differs(relay)
    chosen = [each.chosen(relay) for each in elections]
    return Reply(joined(chosen) if question.batch else chosen[0])


@dataclass(slots=True)
class Election:
    """Of the answer to one call."""

    call: Call
    electors: int
    limited: int
    # Those who say what most say; without a majority the largest party.
    party: list[Vote]
    others: list[Vote]

    @property
    def is_decided(self) -> bool:
        return 2 * len(self.party) > self.electors

    def chosen(self, relay: Relay) -> bytes:
        if self.is_decided:
            return self.party[0].raw
        pool, needed = relay.pool, self.electors // 2 + 1
        if len(self.party) + self.limited >= needed:
            relay.metrics.refused(pool.name, "limited")
            raise RpcRefusal(
                LIMITED,
                f"providers of pool '{pool.name}' limit the rate: {len(self.party)} of "
                f"{self.electors} are no majority",
                max(each.limited_s for each in pool.providers),
            )
        relay.metrics.refused(pool.name, "disagree")
        raise RpcRefusal(
            DISAGREE,
            f"providers disagree about {self.call.method}: fewer than {needed} of the "
            f"{self.electors} of pool '{pool.name}' give the same answer",
        )

    def tell_who_differs(self, relay: Relay) -> None:
        """Not near the tip, where honest providers differ for moments, nor of what one of them
        does not have."""
        needs = needs_of([self.call])
        if relay.pool.is_near_tip(needs) or _says_nothing(self.party[0].item):
            return
        for vote in self.others:
            if not _says_nothing(vote.item):
                vote.provider.learned.differs(self.call.method)
                pool, provider = relay.pool.name, vote.provider.name
                relay.metrics.failed(pool, provider, "differs")
                said = {"pool": pool, "provider": provider, "method": self.call.method}
                log.warning("provider_differs", **said)


def _elect(relay: Relay, call: Call, i: int, ballots: Sequence[Ballot]) -> Election:
    cast = [ballot.votes[i] for ballot in ballots if i in ballot.votes]
    votes = [vote for vote in cast if not _abstains(relay, call, vote.item)]
    limited = sum(ballot.is_limited and i not in ballot.votes for ballot in ballots)
    electors = len(ballots) - len(cast) + len(votes)
    if not electors:  # nobody knows, and the first one says why
        return Election(call, 1, 0, cast[:1], [])
    party = max(_parties(call.method, votes), key=len, default=[])
    others = [vote for vote in votes if vote not in party]
    return Election(call, electors, limited, party, others)


def _parties(method: str, votes: Sequence[Vote]) -> list[list[Vote]]:
    """Those who say the same, together."""
    results = [memoryview(vote.item.result) for vote in votes]
    if all(vote.item.error is None for vote in votes) and all(r == results[0] for r in results):
        return [list(votes)]  # to the last byte: nothing has to be read
    parties: list[tuple[object, list[Vote]]] = []
    for vote in votes:
        said = comparable(method, vote.item)
        same = next((party for other, party in parties if other == said), None)
        if same is None:
            parties.append((said, [vote]))
        else:
            same.append(vote)
    return [party for _, party in parties]


def _abstains(relay: Relay, call: Call, item: Item) -> bool:
    """It cannot know. An old block is there: who has nothing there has pruned it."""
    if item.error is not None:
        return item.error.is_missing_method or item.error.is_pruned
    needs, head = needs_of([call]), relay.pool.head
    is_old = 0 <= needs.block <= (head or -1) and not relay.pool.is_near_tip(needs)
    return item.is_null and is_old


def _says_nothing(item: Item) -> bool:
    return item.error is not None or item.is_null


async def _ballot(relay: Relay, provider: Provider, question: Question) -> Ballot:
    """What it leaves out it is asked for once more."""
    ballot = Ballot(provider)
    try:
        async with asyncio.timeout(relay.pool.timing.deadline_s):
            await _ask(relay, ballot, question, list(range(len(question))))
            left = [i for i in range(len(question)) if i not in ballot.votes]
            if left:
                await _ask(relay, ballot, question, left)
    except ProviderFailed as failure:
        ballot.is_limited = not failure.at_fault
    except TimeoutError:
        pass
    return ballot


async def _ask(relay: Relay, ballot: Ballot, question: Question, calls: list[int]) -> None:
    most = ballot.provider.config.max_batch or len(calls)
    for start in range(0, len(calls), most):
        asked = calls[start : start + most]
        part = question if len(asked) == len(question) else question.only(asked)
        reply = await relay.ask(ballot.provider, part, whole=True)
        raws = raw_items(reply.body)
        for i, item, place in zip(asked, reply.items, reply.places, strict=True):
            if item is not None and place is not None:
                ballot.votes[i] = Vote(ballot.provider, item, raws[place])
