"""A file of a folder becomes a partition of its own; what does not fit is kept beside it."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from io import StringIO
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from pydantic import ValidationError

from tests.support.frame_task import FrameTasks, output
from tests.support.operator_task import operator_task
from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import CorruptFile, IncompatibleSchema, MissingFile
from trace_platform.drivers.lite.local_store import LocalStore
from trace_platform.operators.contract import NOTHING
from trace_platform.operators.files import file_ingest, file_watch
from trace_platform.operators.files.address_labels import AddressLabels
from trace_platform.operators.files.address_labels import Config as LabelsConfig
from trace_platform.operators.files.file_ingest import FileConfig, FileIngest
from trace_platform.operators.files.file_watch import FileWatch
from trace_platform.operators.spark.session import SparkRuntime
from trace_platform.wire.task import DatasetEvent, Invalidation, OutputCommit, TaskInput

pytestmark = pytest.mark.spark

FOLDER = "s3://inbox/prices/"
TYPES = {"token": "binary(20)", "day": "date", "price": "decimal(20,2)", "note": "string"}
WETH = "0x" + "c0" * 20


@pytest.fixture
def tasks(spark_runtime: SparkRuntime, tmp_path: Path) -> FrameTasks:
    return FrameTasks(spark_runtime, LocalStore(str(tmp_path)))


def put(tasks: FrameTasks, name: str, body: str | bytes) -> None:
    tasks.store.put(FOLDER + name, body.encode() if isinstance(body, str) else body)


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
    rows, rejected = ingested(tasks, "one.csv", config("csv"))
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
    rows, rejected = ingested(tasks, "lines.jsonl", config("jsonl", optional=["note"]))
    assert [(str(row["day"]), str(row["price"])) for row in rows] == [
        ("2026-01-01", "1.50"),
        ("2026-01-02", "2.00"),
    ]
    assert [row["row"] for row in rejected] == ["{broken"]
    table = pa.table({name: [rows[0][name]] for name in ("day", "token")})
    path = tasks.path(tasks.file("p", table))
    put(tasks, "one.parquet", path.read_bytes())
    (row,), none = ingested(tasks, "one.parquet", config("parquet", optional=["note", "price"]))
    assert row == rows[0] | {"price": None, "source_file": "one.parquet"}
    assert not none


def test_a_file_that_is_not_what_was_declared_is_refused(tasks: FrameTasks) -> None:
    put(tasks, "more.csv", f"day,token,note,price,extra\n2026-01-01,{WETH},,1,2\n")
    put(tasks, "less.csv", "day,token\n")
    put(tasks, "more.jsonl", '{"day": "2026-01-01", "extra": 1}\n')
    put(tasks, "less.jsonl", '{"day": "2026-01-01", "cost": 1}\n')
    put(tasks, "twice.csv", "day,token,note,price,Day\n")
    put(tasks, "bad.csv", f"day,token,note,price\nnever,{WETH},,1\n")
    for name, kind, more, said in [
        ("more.csv", "csv", {}, "extra"),
        ("less.csv", "csv", {}, "no column price, note"),
        ("more.jsonl", "jsonl", {}, "extra"),
        ("less.jsonl", "jsonl", {"other_columns": "ignore"}, "no column token, price, note"),
        ("twice.csv", "csv", {"other_columns": "ignore"}, "a name twice"),
        ("bad.csv", "csv", {"bad_rows": "refuse"}, "1 rows"),
    ]:
        with pytest.raises(IncompatibleSchema, match=said):
            ingested(tasks, name, config(kind, **more))
    put(tasks, "text.parquet", "day,token")
    with pytest.raises(CorruptFile, match=r"text.parquet is no Parquet file"):
        ingested(tasks, "text.parquet", config("parquet"))
    put(
        tasks,
        "latin1.csv",
        f"day,token,note,price\n2026-01-01,{WETH},caf\u00e9,1\n".encode("latin1"),
    )
    with pytest.raises(CorruptFile, match=r"latin1.csv is not UTF-8"):
        ingested(tasks, "latin1.csv", config("csv"))
    rows, _ = ingested(tasks, "more.csv", config("csv", other_columns="ignore"))
    assert rows[0].keys() == {*TYPES, "source_file"}


EXACT = {
    "n": "int64",
    "d": "decimal(20,2)",
    "f": "float64",
    "ok": "bool",
    "day": "date",
    "at": "timestamp",
    "b": "binary",
}
# By column: texts that are values of it, and texts that Spark by itself would make another of.
FITS = {
    "n": ["9223372036854775807", "-1", " 5 "],
    "d": ["1.10", "-0.500", "1.5e2", "1200e-3", "123456789012345678.99", "+7", ".5", "0.000"],
    "f": ["0.1", "1e-7", "NaN", "-Infinity"],
    "ok": ["true", "FALSE"],
    "day": ["2026-01-31"],
    "at": ["2026-01-31T12:00:00.123456000Z", "2026-01-31 12:00:00+02:00", "2026-01-31"],
    "b": ["0x", "0xC0ff"],
}
MISFITS = {
    "n": ["9223372036854775808", "1.5", "1e3"],
    "d": ["1.005", "1005e-3", "1e20", "1,000", "$5", "NaN"],
    "f": ["1e400", "0x1p3", "1d"],
    "ok": ["1", "yes"],
    "day": ["2026-01-31 and more", "2026-1-5", "2026", "2026-02-30"],
    "at": ["2026-01-31T12:00:00.1234567Z", "1700000000", "12:00"],
    "b": ["0xabc", "c0", "0xab\n"],
}


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_a_value_is_taken_as_it_stands_or_its_row_is_rejected(tasks: FrameTasks, kind: str) -> None:
    good = [{column: text} for column, texts in FITS.items() for text in texts]
    bad = [{column: text} for column, texts in MISFITS.items() for text in texts]
    lines = [{name: row.get(name) for name in EXACT} for row in good + bad]
    if kind == "parquet":
        path = tasks.path(tasks.file("texts", pa.Table.from_pylist(lines, _texts())))
        put(tasks, "texts.parquet", path.read_bytes())
    elif kind == "jsonl":
        put(tasks, "texts.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    else:
        told = StringIO()
        writer = csv.DictWriter(told, list(EXACT), quoting=csv.QUOTE_ALL)
        writer.writeheader()
        writer.writerows(lines)
        put(tasks, "texts.csv", told.getvalue())
    wanted = FileConfig(folder=FOLDER, format=kind, types=EXACT)
    rows, rejected = ingested(tasks, f"texts.{kind}", wanted)
    assert [json.loads(row["row"]) for row in rejected] == bad
    found = [next(row[column] for column in line) for line, row in zip(good, rows, strict=True)]
    assert [str(each) for each in found] == [
        *("9223372036854775807", "-1", "5"),
        *("1.10", "-0.50", "150.00", "1.20", "123456789012345678.99", "7.00", "0.50", "0.00"),
        *("0.1", "1e-07", "nan", "-inf", "True", "False", "2026-01-31"),
        *("2026-01-31 12:00:00.123456+00:00", "2026-01-31 10:00:00+00:00"),
        *("2026-01-31 00:00:00+00:00", "b''", "b'\\xc0\\xff'"),
    ]


def _texts() -> pa.Schema:
    return pa.schema([(name, pa.string()) for name in EXACT])


def test_typed_columns_of_parquet_are_narrowed_only_where_nothing_is_lost(
    tasks: FrameTasks,
) -> None:
    types = {"n": "int32", "d": "decimal(9,2)", "day": "date", "b": "binary(2)", "f": "float32"}
    first = [1.0, Decimal("1.5000"), datetime(2026, 1, 31), b"ab", 0.1]
    other = [1.5, Decimal("1.0050"), datetime(2026, 1, 31, 13), b"abc", 0.1]
    rows = [first] + [[*first[:n], other[n], *first[n + 1 :]] for n in range(4)]
    kinds = [pa.float64(), pa.decimal128(20, 4), pa.timestamp("us"), pa.binary(), pa.float64()]
    schema = pa.schema(list(zip(types, kinds, strict=True)))
    table = pa.Table.from_pylist([dict(zip(types, row, strict=True)) for row in rows], schema)
    put(tasks, "narrow.parquet", tasks.path(tasks.file("narrow", table)).read_bytes())
    wanted = FileConfig(folder=FOLDER, format="parquet", types=types)
    (row,), rejected = ingested(tasks, "narrow.parquet", wanted)
    assert (row["n"], row["d"], row["day"]) == (1, Decimal("1.50"), date(2026, 1, 31))
    assert len(rejected) == 4
    for column, declared, said in [
        (pa.array([1], pa.timestamp("ns")), "timestamp", "column at has times to the nanosecond"),
        (pa.array([True]), "int32", "column at is boolean, not int32"),
    ]:
        path = tasks.path(tasks.file("odd", pa.table({"at": column})))
        put(tasks, "odd.parquet", path.read_bytes())
        asked = FileConfig(folder=FOLDER, format="parquet", types={"at": declared})
        with pytest.raises(IncompatibleSchema, match=said):
            ingested(tasks, "odd.parquet", asked)


def test_what_is_there_now_is_read_and_of_what_is_gone_nothing(
    tasks: FrameTasks, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, rejected = ingested(tasks, "gone.csv", config("csv"))
    assert (rows, rejected) == ([], [])
    put(tasks, "one.csv", CSV)
    judge = file_ingest._refuse_changed

    def changed_meanwhile(*given: Any) -> None:
        put(tasks, "one.csv", CSV.replace("last", "changed"))
        judge(*given)

    monkeypatch.setattr(file_ingest, "_refuse_changed", changed_meanwhile)
    with pytest.raises(MissingFile, match="changed while it was read"):
        ingested(tasks, "one.csv", config("csv"))
    rows, _ = ingested(tasks, "one.csv", config("csv"))
    assert rows[-1]["note"] == "changed"


def test_labels_are_a_csv_of_known_columns(tasks: FrameTasks) -> None:
    put(
        tasks,
        "labels.csv",
        "chain_id,address,label,category,source,comment\n"
        f"1,{WETH},WETH,token,me,x\n1,none,Nobody,person,me,x\n",
    )
    rows, rejected = ingested(tasks, "labels.csv", LabelsConfig(folder=FOLDER), AddressLabels)
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


def test_each_change_of_a_file_is_told_once_whoever_watches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[str, str]] = []
    kept: dict[str, Any] = {}
    store = LocalStore(str(tmp_path))

    def emit(
        events: Sequence[DatasetEvent] = (),
        invalidations: Sequence[Invalidation] = (),
        tables: Sequence[OutputCommit] = (),
        state: Mapping[str, Any] = NOTHING,
    ) -> int:
        told.extend(("new", str(each.partition_key)) for each in events)
        told.extend((each.reason, str(each.request_id)) for each in invalidations)
        kept.update(state)
        return len(events)

    def path(name: str) -> Path:
        return Path(store.filesystem(FOLDER + name)[1])

    settings = file_watch.Config(folder=FOLDER[:-1], suffix=".csv", limit=2)
    made = operator_task(settings, BlockRange(0, 0), tmp_path, outputs=("files",))
    task = replace(made, inputs=(), emit=emit, store=store, state=lambda: dict(kept))

    def look_twice() -> list[tuple[str, str]]:
        """As an attempt that takes over."""
        told.clear()
        FileWatch().run(task)
        return told.copy()

    monkeypatch.setattr(FileWatch, "_wait", lambda *_: None)
    for name in ("a.csv", "b.csv", "_hidden.csv", "other.txt"):
        store.put(FOLDER + name, b"1")
    path("a.csv").with_name("a b.csv").touch()
    assert look_twice() == [("new", "a.csv"), ("new", "b.csv")]
    # Written again, with the same in it.
    store.put(FOLDER + "a.csv", b"1")
    os.utime(path("a.csv"), (1, 1))
    assert look_twice() == []
    seen = set()
    for content in (b"2", b"1", b"2"):
        store.put(FOLDER + "a.csv", content)
        os.utime(path("a.csv"), (content[0], content[0]))
        ((reason, identity),) = look_twice()
        assert reason == "a.csv has other content"
        seen.add(identity)
    path("a.csv").unlink()
    ((reason, identity),) = look_twice()
    assert reason == "a.csv is gone"
    assert look_twice() == []
    store.put(FOLDER + "a.csv", b"2")
    ((reason, again),) = look_twice()
    assert reason == "a.csv has other content"
    assert len(seen | {identity, again}) == 5
    with pytest.raises(ValidationError):
        file_watch.Config(folder="/etc")
