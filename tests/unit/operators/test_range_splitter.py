from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import ValidationError

from tests.support.operator_task import operator_task
from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import InvalidConfig
from trace_platform.operators.contract import TaskContext
from trace_platform.operators.ingest.range_splitter import MAX_EVENTS, Config, RangeSplitter


def _run(blocks: BlockRange, chunk_blocks: int, tmp_path: Path) -> list[tuple[str, int, int]]:
    task = operator_task(Config(chunk_blocks=chunk_blocks), blocks, tmp_path, outputs=("ranges",))
    result = RangeSplitter().run(task)
    assert result.outputs == []
    assert {e.dataset_uuid for e in result.events} == {task.outputs[0].dataset_uuid}
    assert {e.dataset_version for e in result.events} == {task.outputs[0].dataset_version}
    return [(e.partition_key or "", e.start or 0, e.end or 0) for e in result.events]


def test_chunks_are_cut_at_multiples_so_that_repeated_requests_share_keys(tmp_path: Path) -> None:
    assert _run(BlockRange(95, 310), 100, tmp_path) == [
        ("95-99", 95, 99),
        ("100-199", 100, 199),
        ("200-299", 200, 299),
        ("300-310", 300, 310),
    ]


def test_a_range_smaller_than_a_chunk_is_one_event(tmp_path: Path) -> None:
    assert _run(BlockRange(0, 0), 1000, tmp_path) == [("0-0", 0, 0)]


def test_as_many_events_as_a_completion_takes_are_fine(tmp_path: Path) -> None:
    assert len(_run(BlockRange(0, MAX_EVENTS - 1), 1, tmp_path)) == MAX_EVENTS


def test_one_event_more_is_refused_with_a_size_that_works(tmp_path: Path) -> None:
    blocks = BlockRange(7, 50_000_000)
    task = operator_task(Config(chunk_blocks=1), blocks, tmp_path, outputs=("ranges",))
    with pytest.raises(InvalidConfig) as caught:
        RangeSplitter().run(task)
    enough = int((caught.value.hint or "").split()[3])
    assert len(_run(blocks, enough, tmp_path)) <= MAX_EVENTS


def _task_of(asked: list[BlockRange], chunk_blocks: int, tmp_path: Path) -> TaskContext:
    task = operator_task(Config(chunk_blocks=chunk_blocks), asked[0], tmp_path)
    inputs = [
        task.inputs[0].model_copy(update={"partition_key": b.key, "start": b.start, "end": b.end})
        for b in asked
    ]
    return replace(task, inputs=tuple(inputs))


def test_of_several_ranges_each_is_split_by_itself_in_their_order(tmp_path: Path) -> None:
    asked = [BlockRange(200, 249), BlockRange(0, 149), BlockRange(150, 199), BlockRange(200, 249)]
    result = RangeSplitter().run(_task_of(asked, 100, tmp_path))
    keys = [event.partition_key for event in result.events]
    assert keys == ["200-249", "0-99", "100-149", "150-199"]


def test_ranges_that_overlap_share_their_chunks(tmp_path: Path) -> None:
    result = RangeSplitter().run(
        _task_of([BlockRange(0, 199), BlockRange(100, 299)], 100, tmp_path)
    )
    assert [event.partition_key for event in result.events] == ["0-99", "100-199", "200-299"]


def test_the_limit_is_of_all_ranges_together(tmp_path: Path) -> None:
    asked = [BlockRange(n * 1_000_003 + 7, n * 1_000_003 + 999_999) for n in range(1_000)]
    with pytest.raises(InvalidConfig) as caught:
        RangeSplitter().run(_task_of(asked, 1_000, tmp_path))
    enough = int((caught.value.hint or "").split()[3])
    assert len(RangeSplitter().run(_task_of(asked, enough, tmp_path)).events) <= MAX_EVENTS


def test_one_update_without_a_range_among_several_is_refused(tmp_path: Path) -> None:
    task = _task_of([BlockRange(0, 9), BlockRange(10, 19)], 10, tmp_path)
    keyed = task.inputs[0].model_copy(update={"partition_key": "x", "start": None, "end": None})
    with pytest.raises(InvalidConfig, match="block range"):
        RangeSplitter().run(replace(task, inputs=(*task.inputs, keyed)))


def test_a_cursor_is_no_range(tmp_path: Path) -> None:
    task = operator_task(Config(chunk_blocks=1), BlockRange(0, 1), tmp_path)
    cursor = task.inputs[0].model_copy(
        update={"cursor": 5, "start": None, "end": None, "partition_key": None}
    )
    bent = replace(task, inputs=(cursor,))
    with pytest.raises(InvalidConfig, match="block range"):
        RangeSplitter().run(bent)


@pytest.mark.parametrize("config", [{"chunk_blocks": 0}, {}, {"chunk_blocks": 1, "size": 2}])
def test_a_bad_config_is_refused(config: dict[str, int]) -> None:
    with pytest.raises(ValidationError):
        Config.model_validate(config)
