"""The process that runs statements, spoken to as its parent does."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trace_platform.query.protocol.messages import (
    CHUNK,
    HEADER_BYTES,
    Check,
    Checked,
    Done,
    Filter,
    Limits,
    Plan,
    Planned,
    Ready,
    Refused,
    Relation,
    Reply,
    Request,
    Run,
    Scan,
    Setup,
    decode_reply,
    frame,
)
from trace_platform.sql.relations import Column

COLUMNS = [Column("block_number", "UINTEGER"), Column("name", "VARCHAR")]
HOT_COLUMNS = [Column("block_number", "BIGINT"), Column("name", "VARCHAR")]
_DEADLINE_S = 30.0


class Child:
    def __init__(self, folder: Path, limits: Limits) -> None:
        self.data, self.scratch = folder / "data", folder / "scratch"
        for path in (self.data, self.scratch):
            path.mkdir()
        folder.chmod(0o755)
        setup = Setup(limits=limits, readable=[str(self.data)], scratch=str(self.scratch))
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-I",
                "-m",
                "trace_platform.query.child.main",
                msgspec.json.encode(setup).decode(),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"MALLOC_ARENA_MAX": "2"},
            cwd="/",
        )
        self.chunks: list[bytes] = []
        self.spilled = False

    def ask(self, request: Request) -> Reply:
        assert self.process.stdin is not None
        self.process.stdin.write(frame(request))
        self.process.stdin.flush()
        return self.reply()

    def reply(self) -> Reply:
        self.chunks = []
        while True:
            header = self._read(HEADER_BYTES)
            body = self._read(int.from_bytes(header[1:], "big"))
            if header[:1] != CHUNK:
                return decode_reply(body)
            self.chunks.append(body)
            self.spilled |= any(files for _, _, files in os.walk(self.scratch))

    def rows(self, sql: str, *relations: Relation, **options: Any) -> list[Any]:
        assert isinstance(self.ask(Check(sql)), Checked)
        assert isinstance(self.ask(Run(relations=list(relations), **options)), Done)
        return [row for page in self.chunks for row in json.loads(page)]

    def _read(self, size: int) -> bytes:
        assert self.process.stdout is not None
        found, give_up = b"", time.monotonic() + _DEADLINE_S
        while len(found) < size:
            ready, _, _ = select.select([self.process.stdout], [], [], give_up - time.monotonic())
            assert ready, "the child does not answer"
            part = os.read(self.process.stdout.fileno(), size - len(found))
            if not part:
                raise EOFError
            found += part
        return found

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


@pytest.fixture
def child(tmp_path: Path) -> Iterator[Child]:
    started = Child(tmp_path, Limits(timeout_s=20.0, memory_mb=256, hot_mb=64))
    try:
        assert isinstance(started.reply(), Ready)
        yield started
    finally:
        started.end()


def write_hot(path: Path, *blocks: int) -> str:
    table = pa.table({"block_number": blocks, "name": [f"hot{block}" for block in blocks]})
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    path.chmod(0o644)
    return str(path)


def test_a_statement_is_checked_planned_and_run(child: Child) -> None:
    cold = child.data / "cold.parquet"
    pq.write_table(
        pa.table({"block_number": pa.array([1, 2], pa.uint32()), "name": ["a", "b"]}), cold
    )
    checked = child.ask(Check("SELECT name FROM blocks WHERE block_number > 1 ORDER BY name;"))
    assert isinstance(checked, Checked)
    assert [each.name for each in checked.references] == ["blocks"]
    relation = Relation(
        view="blocks", files=[str(cold)], seam=3, columns=COLUMNS, hot_columns=HOT_COLUMNS
    )
    planned = child.ask(Plan([relation]))
    assert planned == Planned(
        {
            "blocks": Scan(
                columns=["block_number", "name"], filters=[Filter("block_number", ">", [1])]
            )
        }
    )
    hot = write_hot(child.scratch / "hot-0.arrow", 3, 4)
    done = child.ask(Run(relations=[msgspec.structs.replace(relation, hot=hot)], page_rows=2))
    assert isinstance(done, Done)
    assert (done.columns, done.row_count) == ([Column("name", "VARCHAR")], 3)
    assert (done.truncated, done.masked) == (False, {"blocks": []})
    assert [json.loads(page) for page in child.chunks] == [[["b"], ["hot3"]], [["hot4"]]]


def test_nothing_stays_in_the_scratch_folder(child: Child) -> None:
    hot = write_hot(child.scratch / "hot-0.arrow", 3)
    relation = Relation(
        view="blocks", seam=3, hot=hot, columns=COLUMNS, hot_columns=HOT_COLUMNS, masked=["name"]
    )
    assert child.rows("SELECT * FROM blocks", relation) == [[3, "***"]]
    # It has answered the next one, so it is done with the last.
    assert isinstance(child.ask(Check("SELECT 1")), Checked)
    assert not Path(hot).exists()


def test_a_refused_statement_is_not_run(child: Child) -> None:
    assert isinstance(child.ask(Check("SELECT 1")), Checked)
    refused = child.ask(Check("SELECT * FROM read_csv('/etc/hostname')"))
    assert isinstance(refused, Refused)
    assert refused.code == "invalid_query"
    for request in (Run(relations=[]), Plan([])):
        answer = child.ask(request)
        assert isinstance(answer, Refused)
        assert (answer.message, answer.retire) == ("no statement was checked", False)
    assert child.rows("SELECT 42") == [[42]]


def test_a_checked_statement_runs_once(child: Child) -> None:
    assert child.rows("SELECT 42") == [[42]]
    assert isinstance(child.ask(Run(relations=[])), Refused)


def test_every_format_comes_in_pieces(child: Child) -> None:
    sql = "SELECT x, hash(x) AS h FROM range(400000) t(x)"
    for form in ("json", "csv", "arrow", "parquet"):
        assert isinstance(child.ask(Check(sql)), Checked)
        done = child.ask(Run(relations=[], format=form))
        assert isinstance(done, Done)
        assert done.row_count == 400_000
        assert len(child.chunks) > 1
        data = b"".join(child.chunks)
        if form == "arrow":
            assert pa.ipc.open_stream(data).read_all().num_rows == 400_000
        elif form == "parquet":
            assert pq.read_table(pa.BufferReader(data)).num_rows == 400_000


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("SELECT nix FROM range(3)", "invalid_query"),
        (
            "SELECT count(*) FROM range(100000000) a(x), range(100000) b(y) WHERE x + y = -1",
            "query_too_large",
        ),
        ("SELECT repeat('x', 1000000000) || repeat('y', 1000000000)", "query_too_large"),
        ("SELECT list(x) FROM range(300000000) t(x)", "query_too_large"),
    ],
    ids=["wrong", "long", "large text", "large list"],
)
def test_a_statement_that_fails_leaves_a_child_that_answers(
    child: Child, sql: str, code: str
) -> None:
    assert isinstance(child.ask(Check(sql)), Checked)
    refused = child.ask(Run(relations=[], timeout_s=2.0))
    assert isinstance(refused, Refused)
    assert refused.code == code
    assert str(child.scratch) not in refused.message
    assert child.rows("SELECT 42") == [[42]]


def test_rows_that_do_not_fit_memory_go_to_the_scratch_folder(tmp_path: Path) -> None:
    child = Child(tmp_path, Limits(memory_mb=64, threads=1, hot_mb=64))
    sql = "SELECT p FROM (SELECT repeat(md5(x::VARCHAR), 4) p FROM range(500000) a(x)) ORDER BY p"
    try:
        assert isinstance(child.reply(), Ready)
        assert isinstance(child.ask(Check(sql)), Checked)
        done = child.ask(Run(relations=[], format="arrow"))
        assert isinstance(done, Done)
        assert done.row_count == 500_000
        assert child.spilled
        assert isinstance(child.ask(Check("SELECT 1")), Checked)
        assert list(child.scratch.iterdir()) == []
    finally:
        child.end()


def test_a_child_is_confined_before_its_libraries_start_threads() -> None:
    """Landlock and capabilities belong to a thread."""
    told = (
        "import os, sys, trace_platform.query.child.main;"
        "print(len(os.listdir('/proc/self/task')), {'duckdb', 'pyarrow', 'numpy'} & {*sys.modules})"
    )
    found = subprocess.run([sys.executable, "-c", told], capture_output=True, check=True, text=True)
    assert found.stdout.split() == ["1", "set()"]


def test_a_child_ends_when_nobody_asks_any_more(child: Child) -> None:
    assert child.process.stdin is not None
    child.process.stdin.close()
    assert child.process.wait(timeout=_DEADLINE_S) == 0
