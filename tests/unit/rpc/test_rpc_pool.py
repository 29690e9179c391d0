"""Whom a pool believes, and whom it asks: by a clock of the test's own."""

from __future__ import annotations

from dataclasses import dataclass

from trace_platform.rpc.calls import Needs
from trace_platform.rpc.config import PoolConfig, ProviderConfig, Timing
from trace_platform.rpc.faults import ProviderFailed
from trace_platform.rpc.pool import Pool

TIP = Needs(tip=True)
FAILED = ProviderFailed("broke", code="cut")


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


def made(clock: Clock, *heads: int | None) -> Pool:
    names = "abcdefg"[: len(heads)]
    config = PoolConfig("p", tuple(ProviderConfig(name, "http://node.example") for name in names))
    pool = Pool.of(config, Timing(stall_s=45, hold_s=60), clock)
    looked(pool, *heads)
    return pool


def looked(pool: Pool, *heads: int | None) -> None:
    for provider, head in zip(pool.providers, heads, strict=True):
        if head is not None:
            pool.learned_head(provider, head)
    pool.settle_head()


def names(pool: Pool, needs: Needs) -> str:
    return "".join(each.name for each in pool.candidates(needs))


def test_the_head_is_what_more_than_half_have() -> None:
    for heads, head in (
        ((7,), 7),
        ((7, 9), 7),
        ((7, 9, 10), 9),
        ((7, 9, 10, 99), 9),
        ((1, 9, 9, 9, 10), 9),
    ):
        assert made(Clock(), *heads).head == head, heads


def test_one_alone_is_asked_whatever_it_says() -> None:
    pool = made(Clock(), 7)
    assert names(pool, TIP) == "a"
    assert names(pool, Needs(block=100)) == "a"


def test_the_tip_is_asked_of_those_at_the_head_alone() -> None:
    pool = made(Clock(), 90, 100, 100, 5000)
    assert set(names(pool, TIP)) == {"b", "c"}
    assert set(names(pool, Needs(block=95))) == {"b", "c"}
    assert set(names(pool, Needs(hashes=True))) == {"b", "c"}
    assert set(names(pool, Needs(block=5))) == {"a", "b", "c", "d"}


def test_a_head_that_stands_still_while_others_move_no_longer_counts() -> None:
    clock = Clock()
    pool = made(clock, 100, 100, 100, 100)
    for head in (101, 102, 103):
        clock.now += 20
        looked(pool, 100, 100, head, head)
    assert [each.stalled for each in pool.providers] == [True, True, False, False]
    assert pool.head == 103
    looked(pool, 103, 100, 103, 103)
    assert [each.stalled for each in pool.providers] == [False, True, False, False]


def test_a_chain_that_stands_still_stalls_nobody() -> None:
    clock = Clock()
    pool = made(clock, 100, 100, 100)
    clock.now += 3600
    looked(pool, 100, 100, 100)
    assert not any(each.stalled for each in pool.providers)


def test_a_minority_that_is_left_does_not_take_the_head_back_at_once() -> None:
    clock = Clock()
    pool = made(clock, 100, 100, 80)
    for provider in pool.providers[:2]:
        for _ in range(3):
            provider.failed(FAILED)
    looked(pool, None, None, 81)
    assert pool.head == 100
    assert names(pool, TIP) == ""
    clock.now += 61
    looked(pool, None, None, 82)
    assert pool.head == 82
    assert names(pool, TIP) == "c"


def test_a_chain_that_is_set_back_is_followed_when_most_say_so() -> None:
    pool = made(Clock(), 100, 100, 100)
    looked(pool, 60, 60, 100)
    assert pool.head == 60


OLD = Needs(block=5)
EVERYTHING = (TIP, Needs(block=95), OLD, Needs(hashes=True), Needs())


def test_who_contradicts_most_is_asked_for_nothing() -> None:
    pool = made(Clock(), 100, 100, 100)
    pool.settle_hashes({"a": "0x2", "b": "0x1", "c": "0x1"})
    for needs in EVERYTHING:
        assert names(pool, needs) == "bc", needs
        assert [each.name for each in pool.others_that_have(needs, {"b"})] == ["c"]
    assert [each.name for each in pool.voters()] == ["b", "c"]


def test_who_contradicts_is_not_asked_either_when_nobody_else_is_left() -> None:
    pool = made(Clock(), 100, 100, 100)
    pool.settle_hashes({"a": "0x2", "b": "0x1", "c": "0x1"})
    for provider in pool.providers[1:]:
        for _ in range(3):
            provider.failed(FAILED)
    pool.settle_hashes({"a": "0x2"})  # one alone is not most
    for needs in EVERYTHING:
        assert names(pool, needs) == ""
        assert "a" not in [each.name for each in pool.last_resort(needs)]
    pool.providers[1].succeeded()
    pool.settle_hashes({"a": "0x2", "b": "0x2"})
    assert names(pool, OLD) == "ab"


def test_without_a_majority_of_hashes_the_leader_stands() -> None:
    pool = made(Clock(), 100, 100)
    pool.providers[0].slots.busy = 1
    assert names(pool, TIP) == "ba"
    pool.providers[0].slots.busy = 0
    pool.settle_hashes({"a": "0x1", "b": "0x2"})
    for needs in EVERYTHING:
        assert names(pool, needs) == "b"
    pool.settle_hashes({"a": "0x2", "b": "0x2"})
    assert set(names(pool, OLD)) == {"a", "b"}


def test_of_two_that_differ_one_is_asked_before_there_is_a_leader() -> None:
    pool = made(Clock(), 100, 100)
    pool.settle_hashes({"a": "0x1", "b": "0x2"})
    assert pool.leader is None
    assert names(pool, OLD) == names(pool, TIP) == "a"


def test_who_contradicted_before_does_not_lead_when_others_are_gone() -> None:
    pool = made(Clock(), 100, 100, 100)
    assert names(pool, TIP)[0] == "a"
    pool.settle_hashes({"a": "0x2", "b": "0x1", "c": "0x1"})
    pool.settle_hashes({"a": "0x2", "b": "0x1"})
    assert names(pool, OLD) == "bc"


def test_a_leader_that_stands_still_does_not_hold_the_other_one_of_two_back() -> None:
    clock = Clock()
    pool = made(clock, 100, 100)
    assert names(pool, TIP) == "ab"
    pool.settle_hashes({"a": "0x1", "b": "0x2"})
    for head in (101, 102, 103):
        clock.now += 20
        looked(pool, 100, head)
    pool.settle_hashes({"a": "0x1", "b": "0x2"})
    looked(pool, 100, 104)
    assert (pool.head, names(pool, TIP)) == (104, "b")


def test_the_head_is_not_held_back_by_one_that_contradicts() -> None:
    pool = made(Clock(), 100, 100)
    pool.settle_hashes({"a": "0x1", "b": "0x2"})
    looked(pool, 110, 100)
    assert (pool.head, names(pool, TIP)) == (110, "a")


def test_without_a_chain_that_most_serve_nobody_is_asked() -> None:
    pool = made(Clock(), 100, 100)
    for provider, chain_id in zip(pool.providers, (1, 5), strict=True):
        provider.chain_id = chain_id
        pool.settle_chain()
    assert (pool.chain_id, names(pool, OLD)) == (None, "")
    assert [each.state for each in pool.providers] == ["excluded", "excluded"]
    pool.providers[1].chain_id = 1
    pool.settle_chain()
    assert (pool.chain_id, names(pool, OLD)) == (1, "ab")


def test_who_wants_to_be_left_alone_does_not_vote_but_keeps_its_head() -> None:
    pool = made(Clock(), 100, 100, 5000)
    for provider in pool.providers[:2]:
        provider.failed(ProviderFailed("slow", code="limited", at_fault=False, rest_s=3600))
    assert [each.name for each in pool.voters()] == ["c"]
    looked(pool, None, None, 5001)
    assert pool.head == 100


def test_the_least_loaded_is_asked_first_and_rests_are_kept() -> None:
    clock = Clock()
    pool = made(clock, 100, 100)
    pool.providers[0].slots.busy = 5
    assert names(pool, Needs(block=1)) == "ba"
    limit = ProviderFailed("slow down", code="limited", at_fault=False, rest_s=30)
    pool.providers[1].failed(limit)
    assert names(pool, Needs(block=1)) == "a"
    clock.now += 31
    assert names(pool, Needs(block=1)) == "ba"


def test_who_failed_and_never_answered_is_not_called_ok() -> None:
    clock = Clock()
    known, silent = made(clock, 100, None).providers
    for provider in (known, silent):
        assert provider.state == "ok"
        provider.failed(FAILED)
    assert (known.state, silent.state) == ("ok", "down")
    assert silent.reason == FAILED.why
    assert silent.ready, "it is asked all the same"
    silent.head.learn(100, clock.now)
    assert silent.state == "ok"


def test_each_rest_is_longer_than_the_one_before() -> None:
    clock = Clock()
    provider = made(clock, 100, 100).providers[0]
    rests = []
    for _ in range(3):
        for _ in range(3):
            provider.failed(FAILED)
        rests.append(provider.resting_s)
        clock.now += 60
    assert rests == sorted(rests)
    assert provider.state == "down"
    for _ in range(3):
        provider.succeeded()
    assert provider.state == "ok"
