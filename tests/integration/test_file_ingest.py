"""A file of a folder becomes a partition of its own; what does not fit is kept beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from pydantic import ValidationError

from tests.support.frame_task import FrameTasks, output
from tests.support.operator_task import operator_task
from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import IncompatibleSchema, MissingFile
from trace_platform.drivers.lite.local_store import LocalStore
from trace_platform.operators.files import file_watch
from trace_platform.operators.files.address_labels import AddressLabels
from trace_platform.operators.files.address_labels import Config as LabelsConfig
from trace_platform.operators.files.dropped import Dropped, digest_of
from trace_platform.operators.files.file_ingest import FileConfig, FileIngest
from trace_platform.operators.files.file_watch import FileWatch
from trace_platform.operators.spark.session import SparkRuntime
from trace_platform.wire.task import DatasetEvent, TaskInput

pytestmark = pytest.mark.spark

FOLDER = "s3://inbox/prices/"
TYPES = {"token": "binary(20)", "day": "date", "price": "decimal(20,2)", "note": "string"}
WETH = "0x" + "c0" * 20


@pytest.fixture
def tasks(spark_runtime: SparkRuntime, tmp_path: Path) -> FrameTasks:
    return FrameTasks(spark_runtime, LocalStore(str(tmp_path)))


def put(tasks: FrameTasks, name: str, body: str | bytes) -> None:
    tasks.store.put(FOLDER + name, body.encode() if isinstance(body, str) else body)


def key_of(tasks: FrameTasks, name: str) -> str:
    digest = digest_of(tasks.store, FOLDER + name, lambda: None)
    assert digest is not None
    return Dropped(name, digest).key


def ingested(
    tasks: FrameTasks, key: str, config: Any, operator: Any = FileIngest
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The rows, and those that were rejected."""
    wakes = TaskInput(
        dataset_uuid=uuid4(), dataset_version=uuid4(), input_index=0, partition_key=key
    )
    outputs = [output(0, "rows"), output(1, "rejected")]
    with tasks.task([wakes], outputs, config) as task:
        rows, rejected = operator().run(task).outputs
    assert {rows.partition_key, rejected.partition_key} == {key}
    assert rows.start is None
    promised = [(c.name, c.type) for c in tasks.manifest(rows).columns]
    assert promised == [(c.name, c.type) for c in config.columns()[0]]
    return tasks.read(rows).to_pylist(), tasks.read(rejected).to_pylist()


def config(kind: str, **more: Any) -> FileConfig:
    return FileConfig(folder=FOLDER, format=kind, types=TYPES, **more)


CSV = f"""day,token,note,price
2026-01-01,{WETH},"a, ""quoted""
note",3000.10
2026-01-02,{WETH},,123456789012345678.99
yesterday,{WETH},bad day,1
2026-01-03,0x12,short address,1
2026-01-03,{WETH},a column too many,1,2
2026-01-04,{WETH},last,3
"""


def test_a_csv_file_is_read_by_its_head_and_what_does_not_fit_is_rejected(
    tasks: FrameTasks,
) -> None:
    put(tasks, "one.csv", CSV)
    rows, rejected = ingested(tasks, key_of(tasks, "one.csv"), config("csv"))
    assert [str(row["day"]) for row in rows] == ["2026-01-01", "2026-01-02", "2026-01-04"]
    assert rows[0]["token"] == bytes.fromhex("c0" * 20)
    assert rows[0]["note"] == 'a, "quoted"\nnote'
    assert [str(row["price"]) for row in rows] == ["3000.10", "123456789012345678.99", "3.00"]
    assert {row["source_file"] for row in rows + rejected} == {"one.csv"}
    for row, said in zip(rejected, ("bad day", "short address", "too many"), strict=True):
        assert said in row["row"]


def test_lines_of_json_and_parquet_give_the_same_rows(tasks: FrameTasks) -> None:
    put(
        tasks,
        "lines.jsonl",
        f'{{"day": "2026-01-01", "token": "{WETH}", "price": 1.50}}\n'
        "{broken\n"
        f'{{"token": "{WETH}", "day": "2026-01-02", "price": 2}}\n',
    )
    rows, rejected = ingested(tasks, key_of(tasks, "lines.jsonl"), config("jsonl"))
    assert [(str(row["day"]), str(row["price"])) for row in rows] == [
        ("2026-01-01", "1.50"),
        ("2026-01-02", "2.00"),
    ]
    assert [row["row"] for row in rejected] == ["{broken"]
    table = pa.table({name: [rows[0][name]] for name in ("day", "token")})
    path = tasks.path(tasks.file("p", table))
    put(tasks, "one.parquet", path.read_bytes())
    (row,), none = ingested(tasks, key_of(tasks, "one.parquet"), config("parquet"))
    assert row == rows[0] | {"price": None, "source_file": "one.parquet"}
    assert not none


def test_a_file_that_is_not_what_was_declared_is_refused(tasks: FrameTasks) -> None:
    put(tasks, "more.csv", f"day,token,note,price,extra\n2026-01-01,{WETH},,1,2\n")
    put(tasks, "less.csv", "day,token\n")
    put(tasks, "more.jsonl", '{"day": "2026-01-01", "extra": 1}\n')
    put(tasks, "bad.csv", f"day,token,note,price\nnever,{WETH},,1\n")
    for name, kind, more, said in [
        ("more.csv", "csv", {}, "extra"),
        ("less.csv", "csv", {}, "no column price, note"),
        ("more.jsonl", "jsonl", {}, "extra"),
        ("bad.csv", "csv", {"bad_rows": "refuse"}, "1 rows"),
    ]:
        with pytest.raises(IncompatibleSchema, match=said):
            ingested(tasks, key_of(tasks, name), config(kind, **more))
    rows, _ = ingested(tasks, key_of(tasks, "more.csv"), config("csv", other_columns="ignore"))
    assert rows[0].keys() == {*TYPES, "source_file"}


def test_a_file_that_was_replaced_is_not_ingested_as_what_it_was(tasks: FrameTasks) -> None:
    put(tasks, "one.csv", CSV)
    key = key_of(tasks, "one.csv")
    put(tasks, "one.csv", CSV.replace("last", "changed"))
    with pytest.raises(MissingFile, match="another file by now"):
        ingested(tasks, key, config("csv"))


def test_labels_are_a_csv_of_known_columns(tasks: FrameTasks) -> None:
    put(
        tasks,
        "labels.csv",
        "chain_id,address,label,category,source,comment\n"
        f"1,{WETH},WETH,token,me,x\n1,none,Nobody,person,me,x\n",
    )
    rows, rejected = ingested(
        tasks, key_of(tasks, "labels.csv"), LabelsConfig(folder=FOLDER), AddressLabels
    )
    assert rows == [
        {
            "chain_id": 1,
            "address": bytes.fromhex("c0" * 20),
            "label": "WETH",
            "category": "token",
            "source": "me",
            "source_file": "labels.csv",
        }
    ]
    assert "Nobody" in rejected[0]["row"]


def test_each_content_of_a_file_is_announced_once_by_an_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys: list[str | None] = []

    def emit(events: Sequence[DatasetEvent]) -> int:
        keys.extend(event.partition_key for event in events)
        return len(events)

    store = LocalStore(str(tmp_path))
    looks = iter([("b.csv", b"1"), ("b.csv", b"22"), ("_c.csv", b"3"), ("d.txt", b"4")])

    def next_look(*_: object) -> None:
        store.put(FOLDER + (found := next(looks))[0], found[1])

    monkeypatch.setattr(FileWatch, "_wait", next_look)
    store.put(FOLDER + "a.csv", b"0")
    Path(store.filesystem(FOLDER + "a.csv")[1]).with_name("a b.csv").touch()
    settings = file_watch.Config(folder=FOLDER[:-1], suffix=".csv", limit=4)
    task = operator_task(settings, BlockRange(0, 0), tmp_path, outputs=("files",))
    FileWatch().run(replace(task, inputs=(), emit=emit, store=store))
    assert [str(key).partition("@")[0] for key in keys] == ["a.csv", "b.csv", "b.csv"]
    assert len(set(keys)) == 3
    with pytest.raises(ValidationError):
        file_watch.Config(folder="/etc")
