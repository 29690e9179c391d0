"""`range_aggregator`: chunks that are whole and final, each when it becomes so."""

from __future__ import annotations

import random

import pytest

from tests.support.control_plane import ControlPlane
from tests.support.driven import Driven, Nobody
from trace_platform.dispatcher.redo.invalidate import invalidate
from trace_platform.dispatcher.redo.route_invalidations import route_invalidations
from trace_platform.domain.runtimes import Runtimes
from trace_platform.wire.invalidation import InvalidateRequest

pytestmark = pytest.mark.anyio


def chunks(config: str, inputs: str = "a") -> str:
    sources = "".join(
        f"  - {{ name: {name}, activation: source, source: {{ kind: manual }} }}\n"
        for name in inputs
    )
    edges = ", ".join(f"{{ from: {{ job: {name} }} }}" for name in inputs)
    return f"""\
name: fan
jobs:
{sources}\
  - name: chunks
    activation: reactive
    runtime: dispatcher
    operator: range_aggregator
    inputs: [{edges}]
    config: {config}
"""


@pytest.fixture
def driven(plane: ControlPlane) -> Driven:
    return Driven(plane, Runtimes.default(), Nobody())


async def test_a_chunk_is_emitted_once_its_last_block_is_there(driven: Driven) -> None:
    await driven.deploy(chunks("{ chunk_blocks: 10 }"))
    for block in range(25):
        await driven.emit("a", (block, block))
        await driven.settle()
    assert driven.events("chunks") == ["0-9", "10-19"]


async def test_a_chunk_waits_for_finality(driven: Driven) -> None:
    await driven.deploy(chunks("{ chunk_blocks: 10, finality_depth: 5 }"))
    await driven.emit("a", *[(block, block) for block in range(14)])
    await driven.settle()
    assert driven.events("chunks") == []
    await driven.emit("a", (14, 14))
    await driven.settle()
    assert driven.events("chunks") == ["0-9"]
    await driven.emit("a", (15, 40))
    await driven.settle()
    assert driven.events("chunks") == ["0-9", "10-19", "20-29"]


async def test_the_first_chunk_begins_with_the_first_block_there_is(driven: Driven) -> None:
    await driven.deploy(chunks("{ chunk_blocks: 10 }"))
    await driven.emit("a", (7, 12), (13, 19))
    await driven.settle()
    assert sorted(driven.events("chunks")) == ["10-19", "7-9"]


async def test_no_chunk_has_a_hole(driven: Driven) -> None:
    await driven.deploy(chunks("{ chunk_blocks: 10 }"))
    await driven.emit("a", (0, 3), (5, 9))
    await driven.settle()
    assert driven.events("chunks") == []
    await driven.emit("a", (4, 4))
    await driven.settle()
    assert driven.events("chunks") == ["0-9"]


@pytest.mark.parametrize("seed", range(4))
async def test_in_any_order_all_chunks_come_and_none_too_early(driven: Driven, seed: int) -> None:
    draw = random.Random(seed)
    ranges, start = [], 0
    while start < 100:
        end = min(99, start + draw.randint(0, 12))
        ranges.append((start, end))
        start = end + 1
    first, rest = ranges[0], ranges[1:]
    draw.shuffle(rest)
    await driven.deploy(chunks("{ chunk_blocks: 10 }"))
    seen: set[int] = set()
    for each in [first, *rest]:
        seen |= set(range(each[0], each[1] + 1))
        await driven.emit("a", each)
        await driven.settle()
        whole = {f"{n}-{n + 9}" for n in range(0, 100, 10) if set(range(n, n + 10)) <= seen}
        assert set(driven.events("chunks")) == whole


async def test_a_chunk_needs_all_inputs(driven: Driven) -> None:
    await driven.deploy(chunks("{ chunk_blocks: 10 }", "ab"))
    await driven.emit("a", (0, 19))
    await driven.settle()
    assert driven.events("chunks") == []
    await driven.emit("b", (0, 14))
    await driven.settle()
    assert driven.events("chunks") == ["0-9"]


async def test_what_is_invalid_makes_its_chunks_news_again(driven: Driven) -> None:
    await driven.deploy(chunks("{ chunk_blocks: 10, finality_depth: 5 }"))
    await driven.emit("a", (0, 36))
    await driven.settle()
    assert driven.events("chunks") == ["0-9", "10-19", "20-29"]
    dispatcher = driven.plane.dispatcher
    request = InvalidateRequest(
        dataset="fan.a", scope="row_range", start=18, end=36, reason="a reorg"
    )
    await invalidate(dispatcher.state, dispatcher.org_id, request)
    await route_invalidations(dispatcher.state)
    await driven.settle()
    assert driven.events("chunks") == ["0-9", "10-19", "20-29", "10-19", "20-29"]


async def test_an_update_without_a_range_fails_with_what_would_be_right(driven: Driven) -> None:
    await driven.deploy(chunks("{ chunk_blocks: 10 }"))
    await driven.emit("a", (0, 0), 7)
    await driven.settle()
    (failed,) = driven.plane.sql("SELECT error_message FROM tasks WHERE status = 'Failed'")
    assert "brought no block range" in failed["error_message"]


async def test_a_smaller_update_does_not_move_where_a_chunk_begins(driven: Driven) -> None:
    await driven.deploy(chunks("{ chunk_blocks: 50 }"))
    for blocks in ((0, 99), (5, 9)):
        await driven.emit("a", blocks)
        await driven.settle()
    assert driven.events("chunks") == ["0-49", "50-99", "0-49"]


async def test_a_chunk_begins_where_the_last_of_the_inputs_does(driven: Driven) -> None:
    await driven.deploy(chunks("{ chunk_blocks: 10 }", inputs="ab"))
    await driven.emit("a", (0, 2), (4, 9))
    await driven.emit("b", (6, 9))
    await driven.settle()
    assert driven.events("chunks") == ["6-9"]
    await driven.emit("b", (0, 5))
    await driven.settle()
    assert driven.events("chunks") == ["6-9"], "block 3 is missing"


async def test_an_update_longer_than_most_counts_in_every_chunk(driven: Driven) -> None:
    await driven.deploy(chunks("{ chunk_blocks: 20000 }"))
    await driven.emit("a", (0, 100_000))
    await driven.settle()
    await driven.emit("a", (70_001, 70_001))
    await driven.settle()
    whole = [f"{n}-{n + 19_999}" for n in range(0, 100_000, 20_000)]
    assert driven.events("chunks") == [*whole, "60000-79999"]
