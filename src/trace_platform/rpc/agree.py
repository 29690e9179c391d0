"""An answer that most providers give: for questions on which a rewrite of history hangs."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from trace_platform.rpc.answers import Item, NotJsonRpc, merged, parsed, raw_items
from trace_platform.rpc.calls import Question
from trace_platform.rpc.faults import ProviderFailed, RpcRefusal
from trace_platform.rpc.provider import Provider
from trace_platform.rpc.relay import Relay
from trace_platform.rpc.reply import Reply
from trace_platform.wire.rpc_codes import DISAGREE


async def agreed_answer(relay: Relay, question: Question) -> Reply:
    """Ask every healthy provider at once. Raise RpcRefusal unless more than half say the same.

    Blocks are the same when their hash is, other results when their JSON is. A provider that fails
    says nothing, and counts; one that limits the rate does not count.
    """
    await relay.first_look()
    voters = relay.pool.voters()
    if len(voters) < 2:
        return await relay.answer(question)
    relay.pool.last_asked = relay.pool.clock()
    told = await asyncio.gather(*(_body(relay, each, question) for each in voters))
    bodies = [body for body in told if body is not None]
    if not bodies:
        return await relay.answer(question)
    ballots = [ballot for body in bodies if (ballot := _ballot(body, question)) is not None]
    chosen = [_majority([each[i] for each in ballots], len(bodies)) for i in range(len(question))]
    if any(each is None for each in chosen):
        relay.metrics.refused(relay.pool.name, "disagree")
        raise RpcRefusal(
            DISAGREE,
            f"providers disagree: fewer than {len(bodies) // 2 + 1} of the {len(bodies)} of pool "
            f"'{relay.pool.name}' give the same answer",
        )
    parts = [each for each in chosen if each is not None]
    return Reply(b"[" + b",".join(parts) + b"]" if question.batch else parts[0])


Vote = tuple[Any, bytes]


async def _body(relay: Relay, provider: Provider, question: Question) -> bytes | None:
    """b"" when it fails, None when it limits the rate."""
    most = provider.config.max_batch or len(question)
    try:
        async with asyncio.timeout(relay.pool.timing.deadline_s):
            parts = [
                (await relay.ask(provider, part, whole=True)).body for part in question.split(most)
            ]
    except ProviderFailed as failure:
        return b"" if failure.at_fault else None
    except TimeoutError:
        return b""
    return merged(parts)


def _ballot(body: bytes, question: Question) -> list[Vote] | None:
    """For each call what was said, in a form that compares, and as it came."""
    try:
        items = parsed(body)
    except NotJsonRpc:
        return None
    if len(items) != len(question):
        return None
    by_id = {bytes(item.id): i for i, item in enumerate(items)}
    raws = raw_items(body)
    places = [by_id.get(bytes(call.id)) for call in question.calls]
    if None in places:
        return None
    return [(_comparable(items[i]), raws[i]) for i in places if i is not None]


def _comparable(item: Item) -> Any:
    if item.error is not None:
        return "error", item.error.code
    result = msgspec.json.decode(item.result)
    if isinstance(result, dict) and isinstance(result.get("hash"), str):
        return "hash", result["hash"]
    return "result", result


def _majority(votes: list[Vote], voters: int) -> bytes | None:
    for said, raw in votes:
        if 2 * sum(other == said for other, _ in votes) > voters:
            return raw
    return None
