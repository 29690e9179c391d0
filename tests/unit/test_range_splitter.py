from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import ValidationError

from tests.support.operator_task import operator_task
from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import InvalidConfig
from trace_platform.operators.range_splitter import MAX_EVENTS, Config, RangeSplitter


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
