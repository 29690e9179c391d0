"""Files of a parallel run: each worker takes those of its lane first, in their order."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.lanes import lane_of, next_of

INSTANCE, SPARK = "pytestmark = pytest.mark.stack", "def test_it(spark_runtime): ..."


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    made = []
    for n, text in enumerate([INSTANCE, SPARK, "", SPARK]):
        made.append(f"test_{n}.py")
        (tmp_path / made[-1]).write_text(text)
    return made


def test_a_file_has_one_lane(files: list[str], tmp_path: Path) -> None:
    assert [lane_of(tmp_path / each) for each in files] == ["stack", "spark", "plain", "spark"]


def test_a_worker_takes_the_first_file_of_its_lane_and_else_the_first_of_all(
    files: list[str], tmp_path: Path
) -> None:
    assert next_of(files, "spark", tmp_path) == files[1]
    assert next_of(files, "plain", tmp_path) == files[2]
    assert next_of(files[2:], "stack", tmp_path) == files[2]
