"""What is held against a provider, and for how long: by a clock of the test's own."""

from __future__ import annotations

import json

from trace_platform.rpc.calls import Question, read_question
from trace_platform.rpc.config import PoolConfig, ProviderConfig, Timing
from trace_platform.rpc.pool import Pool


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def made(clock: Clock) -> Pool:
    """Of a, which is preferred, and b; both have every block up to 1,000."""
    given = tuple(ProviderConfig(n, "http://node.example", priority=i) for i, n in enumerate("ab"))
    pool = Pool.of(PoolConfig("p", given), Timing(forget_s=600), clock)
    for provider in pool.providers:
        pool.learned_head(provider, 1_000)
    pool.settle_head()
    return pool


def asked(*calls: tuple[str, str]) -> Question:
    sent = [{"id": i, "method": method, "params": [at]} for i, (method, at) in enumerate(calls)]
    return read_question(json.dumps(sent).encode())


def names(pool: Pool, *calls: tuple[str, str]) -> str:
    question = asked(*calls)
    return "".join(each.name for each in pool.candidates(question.needs, question))


OLD, NEWER, NEW = ("trace_block", "0x5"), ("trace_block", "0x7"), ("trace_block", "0x3e7")
RECEIPTS = ("eth_getBlockReceipts", "0x5")


def test_who_pruned_a_block_is_asked_after_the_others_for_it_and_older_ones() -> None:
    pool = made(Clock())
    learned = pool.providers[0].learned
    learned.lacks_block("trace_block", 6)
    learned.lacks_block("trace_block", 3)  # less is not unlearned by that
    for calls, order in (
        ([OLD], "ba"),
        ([NEWER], "ab"),
        ([NEWER, OLD], "ba"),
        ([RECEIPTS], "ab"),
        ([RECEIPTS, OLD], "ba"),
    ):
        assert names(pool, *calls) == order, calls
    assert pool.providers[0].reason == "it does not answer trace_block up to block 6"
    assert pool.providers[0].state == "ok"


def test_who_lacks_a_method_is_asked_last_also_about_the_tip_that_it_leads() -> None:
    pool = made(Clock())
    assert names(pool, ("trace_block", "latest")) == "ab"
    pool.providers[0].learned.lacks_method("trace_block")
    for call in (OLD, NEW, ("trace_block", "latest")):
        assert names(pool, call) == "ba"
    assert names(pool, RECEIPTS) == "ab"


def test_what_all_lack_is_asked_of_all_in_their_order() -> None:
    pool = made(Clock())
    for provider in pool.providers:
        provider.learned.lacks_method("trace_block")
    assert names(pool, OLD) == "ab"


def test_what_was_learned_is_forgotten_in_time() -> None:
    clock = Clock()
    pool = made(clock)
    learned = pool.providers[0].learned
    learned.lacks_method("trace_block")
    learned.differs("eth_getBlockReceipts")
    assert names(pool, OLD) == names(pool, RECEIPTS) == "ba"
    assert pool.providers[0].reason == (
        "it does not answer trace_block; it says something else than most to eth_getBlockReceipts"
    )
    clock.now += 601
    assert names(pool, OLD) == names(pool, RECEIPTS) == "ab"
    assert pool.providers[0].reason is None
    learned.lacks_block("trace_block", 4)  # not every block any more
    assert names(pool, OLD) == "ab"
