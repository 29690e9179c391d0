from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from trace_platform.cli import query as command
from trace_platform.domain.errors import BadInput
from trace_platform.wire.query import QueryColumn, QueryResponse

HASH = "0x" + "ab" * 32


def response(columns: dict[str, str], *rows: list[Any]) -> QueryResponse:
    return QueryResponse(
        columns=[QueryColumn(name=name, type=type_) for name, type_ in columns.items()],
        rows=list(rows),
        row_count=len(rows),
        truncated=False,
        elapsed_ms=1.0,
        datasets=["blocks"],
    )


def wide(count: int = 2) -> QueryResponse:
    columns = {f"column_{i}": "BIGINT" for i in range(15)} | {"hash": "BLOB", "none": "BIGINT"}
    return response(columns, *([*range(15), HASH, None] for _ in range(count)))


def shown(answer: QueryResponse, width: int, terminal: bool = True) -> list[str]:
    target = io.StringIO()
    console = Console(file=target, width=width, force_terminal=terminal, color_system=None)
    command.render_rows(console, answer)
    return target.getvalue().splitlines()


def test_a_table_that_fits_is_a_table() -> None:
    lines = shown(response({"n": "BIGINT", "hash": "BLOB"}, [7, HASH]), 80)
    assert any(line.startswith("│ 7 │ 0xabab") for line in lines)


def test_long_hex_is_shortened_before_the_table_is_given_up() -> None:
    lines = shown(response({"a": "BLOB", "b": "BLOB"}, [HASH, HASH]), 80)
    assert any("│ 0xababab…ababab │" in line for line in lines)


def test_a_table_that_does_not_fit_becomes_records() -> None:
    lines = shown(wide(), 80)
    assert len(lines) == 2 * (1 + 17)
    assert all(len(line) <= 80 for line in lines)
    assert lines[0].startswith("── row 1 ──")
    assert lines[18].startswith("── row 2 ──")
    assert lines[1] == "column_0:  0"
    assert lines[11] == "column_10: 10"
    assert lines[16] == f"hash:      {HASH}"
    assert lines[17] == "none:      NULL"


def test_hex_in_a_record_loses_its_middle_only_where_it_does_not_fit() -> None:
    assert "hash:      0xababab…ababab" in shown(wide(), 60)


def test_a_pipe_gets_the_whole_table() -> None:
    lines = shown(wide(), 80, terminal=False)
    assert len(lines) == 6
    assert HASH in lines[3]


def test_no_rows_are_no_records() -> None:
    assert shown(wide(0), 80) == []


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The statements that reached the service."""
    found: list[str] = []

    def run_query(home: object, sql: str, limit: int) -> QueryResponse:
        found.append(sql)
        return response({"n": "BIGINT"}, [1])

    monkeypatch.setattr(command, "run_query", run_query)
    return found


def invoke(*arguments: str) -> Any:
    app = typer.Typer()
    app.command()(command.query)
    return CliRunner().invoke(app, ["select 1", *arguments])


@pytest.mark.parametrize("name", ["rows.parquet", "rows", "rows.table"])
def test_a_name_that_tells_no_format_is_refused(
    tmp_path: Path, asked: list[str], name: str
) -> None:
    error = invoke("--output", str(tmp_path / name)).exception
    assert isinstance(error, BadInput)
    assert error.hint == "give --format, or a name that ends in .json or .csv"
    assert asked == []
    assert list(tmp_path.iterdir()) == []


def test_a_format_that_is_given_counts(tmp_path: Path, asked: list[str]) -> None:
    assert invoke("--output", str(tmp_path / "rows.txt"), "--format", "csv").exit_code == 0
    assert (tmp_path / "rows.txt").read_text() == "n\n1\n"


@pytest.mark.parametrize("name", ["none/rows.csv", "folder.csv", "/proc/rows.csv"])
def test_a_place_that_cannot_be_written_is_refused_before_the_query(
    tmp_path: Path, asked: list[str], name: str
) -> None:
    (tmp_path / "folder.csv").mkdir()
    assert isinstance(invoke("--output", str(tmp_path / name)).exception, BadInput)
    if name != "/proc/rows.csv":  # root is told only when it tries
        assert asked == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_the_right_is_refused(tmp_path: Path, asked: list[str]) -> None:
    tmp_path.chmod(0o500)
    assert isinstance(invoke("--output", str(tmp_path / "rows.csv")).exception, BadInput)
    assert asked == []


def test_a_dash_is_the_standard_output(asked: list[str]) -> None:
    assert json.loads(invoke("--output", "-", "--json").stdout) == [{"n": 1}]
    assert "│ 1 │" in invoke("--output", "-").stdout


def test_json_and_another_format_contradict(asked: list[str]) -> None:
    assert invoke("--json", "--format", "csv").exit_code == 2
    assert invoke("--json", "--format", "json").exit_code == 0
    assert len(asked) == 1
