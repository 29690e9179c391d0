"""One relation per dataset over rows of Postgres and files, masked, and locked in."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trace_platform.domain.errors import InvalidConfig, InvalidQuery, QueryTooLarge, Unavailable
from trace_platform.query.child.engine import Engine
from trace_platform.query.protocol.messages import Done, Limits, Relation, Run
from trace_platform.sql import gate
from trace_platform.sql.gate import Statement
from trace_platform.sql.pins import Edited
from trace_platform.sql.relations import Column

COLUMNS = [
    Column("block_number", "UINTEGER"),
    Column("value", "DECIMAL(38,0)"),
    Column("name", "VARCHAR"),
    Column("hash", "BLOB"),
    Column("ok", "BOOLEAN"),
]
HOT_COLUMNS = [
    Column("block_number", "BIGINT"),
    Column("value", "VARCHAR"),
    Column("name", "VARCHAR"),
    Column("hash", "BLOB"),
    Column("ok", "BOOLEAN"),
]
BIG = 10**38 - 1


class Box:
    """An engine with a folder, and relations over it."""

    def __init__(self, folder: Path, limits: Limits | None = None) -> None:
        self.folder = folder
        self.scratch = folder / "scratch"
        self.scratch.mkdir()
        self.engine = Engine(limits or Limits(), str(self.scratch))
        self.parser = duckdb.connect()

    def cold(self, *blocks: int) -> list[str]:
        path = self.folder / f"cold-{len(list(self.folder.iterdir()))}.parquet"
        count = len(blocks)
        table = pa.table(
            {
                "block_number": pa.array(blocks, pa.uint32()),
                "value": pa.array([None] * count, pa.decimal128(38, 0)),
                "name": [f"cold{block}" for block in blocks],
                "hash": pa.array([b"\xc0"] * count, pa.binary()),
                "ok": [True] * count,
            }
        )
        pq.write_table(table, path)
        return [str(path)]

    def hot(self, *blocks: int, columns: list[str] | None = None) -> str:
        count = len(blocks)
        table = pa.table(
            {
                "block_number": pa.array(blocks, pa.int64()),
                "value": [str(BIG)] * count,
                "name": [f"hot{block}" for block in blocks],
                "hash": pa.array([b"\x40"] * count, pa.binary()),
                "ok": [False] * count,
            }
        )
        path = str(self.scratch / "hot.arrow")
        kept = table.select(columns or table.column_names)
        with pa.OSFile(path, "wb") as file, pa.ipc.new_file(file, kept.schema) as writer:
            for batch in kept.to_batches(max_chunksize=2):
                writer.write_batch(batch)
        return path

    def run(self, sql: str, *relations: Relation, unchecked: bool = False, **options: Any) -> Done:
        self.rows: list[Any] = []
        statement = unsafe(sql) if unchecked else gate.check(self.parser, sql)
        run = Run(relations=list(relations), **options)
        return self.engine.run(statement, run, lambda page: self.rows.extend(json.loads(page)))

    def answer(self, sql: str, *relations: Relation, **options: Any) -> list[Any]:
        self.run(sql, *relations, **options)
        return self.rows


def unsafe(sql: str) -> Statement:
    """Past the gate."""
    return Statement(sql, [], (Edited(sql),))


def table(files: list[str] | None = None, **facts: Any) -> Relation:
    given = {"columns": COLUMNS, "hot_columns": HOT_COLUMNS, **facts}
    return Relation(view="t", files=files or [], **given)


@pytest.fixture
def box(tmp_path: Path) -> Box:
    return Box(tmp_path)


def test_rows_from_the_seam_on_are_hot_and_those_below_cold(box: Box) -> None:
    relation = table(box.cold(1, 2, 3, 4), seam=3, hot=box.hot(3, 4, 5))
    sql = "SELECT block_number, name FROM t ORDER BY block_number"
    assert box.answer(sql, relation) == [
        [1, "cold1"],
        [2, "cold2"],
        [3, "hot3"],
        [4, "hot4"],
        [5, "hot5"],
    ]
    assert box.answer("SELECT count(*) FROM t a JOIN t b USING (block_number)", relation) == [[5]]


def test_files_count_below_the_seam_even_when_no_hot_row_is_needed(box: Box) -> None:
    sql = "SELECT count(*) FROM t"
    assert box.answer(sql, table(box.cold(1, 2, 3), seam=3)) == [[2]]
    assert box.answer(sql, table(box.cold(1, 2, 3), seam=None)) == [[3]]


def test_hot_rows_have_the_types_of_the_dataset(box: Box) -> None:
    for files in (box.cold(1), []):
        done = box.run("SELECT * FROM t WHERE ok = false", table(files, seam=3, hot=box.hot(3)))
        assert [(each.name, each.type) for each in done.columns] == [
            (each.name, each.type) for each in COLUMNS
        ]
        assert box.rows == [[3, str(BIG), "hot3", "0x40", False]]


def test_columns_that_were_not_brought_are_not_needed(box: Box) -> None:
    relation = table(box.cold(1), seam=2, hot=box.hot(2, 3, columns=["name"]))
    sql = "SELECT count(*), string_agg(name, ',' ORDER BY name) FROM t"
    assert box.answer(sql, relation) == [[3, "cold1,hot2,hot3"]]


def test_columns_that_none_of_the_files_has_are_null(box: Box) -> None:
    later = [*COLUMNS, Column("later", "BIGINT")]
    sql = "SELECT block_number, later FROM t"
    files = box.cold(1)
    assert box.answer(sql, Relation(view="t", files=files, columns=later, mixed=True)) == [
        [1, None]
    ]
    emptied = table(files, columns=later, hot_columns=[*HOT_COLUMNS, Column("later", "BIGINT")])
    assert box.answer(sql, emptied) == [[1, None]]


def test_a_table_without_rows_has_its_columns(box: Box) -> None:
    done = box.run("SELECT * FROM t", table())
    assert (done.row_count, [each.type for each in done.columns]) == (
        0,
        [each.type for each in COLUMNS],
    )
    assert box.answer("SELECT count(*) FROM t", table(masked=["name"], where={"ok": True})) == [[0]]


def test_a_masked_value_is_nowhere(box: Box) -> None:
    relation = table(box.cold(1), seam=2, hot=box.hot(2), masked=["Name", "hash"])
    sql = "SELECT block_number, name, hash FROM t ORDER BY 1"
    assert box.answer(sql, relation) == [[1, "***", None], [2, "***", None]]
    done = box.run("SELECT hash FROM t", relation)
    assert done.columns[0].type == "BLOB"
    for condition in ("name = 'hot2'", "name LIKE 'hot%'", "hash = '\\x40'::BLOB", "t.name > 'd'"):
        assert box.answer(f"SELECT * FROM t WHERE {condition}", relation) == []
    for sql in (
        "SELECT min(name), max(name), count(DISTINCT name), min(hash), length(max(name)) FROM t",
        "SELECT DISTINCT t.name, name, upper(name), 1, 3 FROM t AS t",
        "SELECT to_json(t)::VARCHAR FROM t",
        "SUMMARIZE t",
    ):
        box.run(sql, relation)
        assert "hot2" not in str(box.rows)
        assert "cold1" not in str(box.rows)
        assert "0x40" not in str(box.rows)


def test_a_filter_of_the_grant_sees_what_a_statement_does_not(box: Box) -> None:
    where = {"name": {"in": ["hot2", "cold1"]}, "block_number": {"lt": 2**200}}
    relation = table(box.cold(0, 1), seam=2, hot=box.hot(2, 3), masked=["name"], where=where)
    assert box.answer("SELECT block_number, name FROM t ORDER BY 1", relation) == [
        [1, "***"],
        [2, "***"],
    ]
    with pytest.raises(InvalidConfig, match=r"where\.nmae: the input has no such column"):
        box.run("SELECT 1 FROM t", table(where={"nmae": "x"}))


def test_files_alone_need_no_columns_to_be_known(box: Box) -> None:
    relation = Relation(view="t", files=box.cold(1, 2), masked=["name"], where={"block_number": 2})
    assert box.answer("SELECT block_number, name FROM t", relation) == [[2, "***"]]


def test_the_rows_below_a_view_have_no_name_that_a_statement_could_say(box: Box) -> None:
    relation = table(seam=1, hot=box.hot(1), masked=["name"])
    listed = "SELECT view_name FROM duckdb_views() WHERE NOT internal"
    names = []
    for _ in range(2):
        names.append({name for (name,) in box.answer(listed, relation, unchecked=True)} - {"t"})
    (one,), (other,) = names
    # Past the gate it can be listed; but it is another one for each query.
    assert one != other
    with pytest.raises(InvalidQuery, match="does not exist"):
        box.run(f"SELECT * FROM {one}", relation, unchecked=True)
    # Through the gate, a name is a dataset that has to be resolved.
    (reference,) = gate.check(box.parser, f"SELECT * FROM {one}").references
    assert reference.name == one
    with pytest.raises(InvalidQuery):
        gate.check(box.parser, listed)
    with pytest.raises(InvalidQuery):
        gate.check(box.parser, f"SELECT * FROM temp.main.{one}")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_csv('/etc/hostname')",
        "SELECT * FROM read_parquet('{other}')",
        "SELECT * FROM read_text('{hot}')",
        "SELECT * FROM glob('/*')",
        "SELECT * FROM query('SET lock_configuration = false')",
        "SELECT * FROM python_arrow_scan()",
    ],
)
def test_without_the_gate_a_statement_reads_no_file_but_its_own(box: Box, sql: str) -> None:
    other, relation = box.cold(9)[0], table(box.cold(1), seam=5, hot=box.hot(6))
    written = sql.format(other=other, hot=relation.hot)
    with pytest.raises(InvalidQuery) as caught:
        box.run(written, relation, unchecked=True)
    assert str(box.folder) not in f"{caught.value.message} {caught.value.hint}"


def test_each_query_has_a_database_of_its_own(box: Box) -> None:
    box.run("SELECT * FROM t", table(box.cold(1)))
    with pytest.raises(InvalidQuery, match="Table with name t does not exist"):
        box.run("SELECT * FROM t", unchecked=True)


def test_an_unknown_column_is_told_with_its_place_and_what_was_meant(box: Box) -> None:
    with pytest.raises(InvalidQuery) as caught:
        box.run("SELECT 'é',\n  blok_number FROM t", table(box.cold(1)))
    assert caught.value.message.startswith('Binder Error: Referenced column "blok_number" not')
    assert "Candidate" not in caught.value.message
    assert caught.value.hint == "did you mean block_number?"
    assert caught.value.facts == {"suggestions": ["block_number"], "line": 2, "column": 3}


@pytest.mark.parametrize("sql", ["SELECT miner FROM t", "SELECT x.miner FROM t x"])
def test_a_column_that_nothing_is_like_suggests_nothing(box: Box, sql: str) -> None:
    with pytest.raises(InvalidQuery, match='"miner"') as caught:
        box.run(sql, table(box.cold(1)))
    assert "Candidate" not in caught.value.message
    assert (caught.value.hint, caught.value.facts.get("suggestions")) == (None, None)


def test_the_place_of_an_error_is_one_of_the_callers_text(box: Box) -> None:
    pinned = Relation(view="t@4f2a61c0", columns=COLUMNS)
    with pytest.raises(InvalidQuery) as caught:
        box.run("SELECT * FROM t AT (VERSION => '4f2a61c0')\nWHERE nmae = 1", pinned)
    assert caught.value.facts == {"suggestions": ["name"], "line": 2, "column": 7}


def test_a_value_that_cannot_be_cast_is_told_with_its_place(box: Box) -> None:
    with pytest.raises(InvalidQuery, match="Could not convert string 'cold1' to INT32") as caught:
        box.run("SELECT 1,\n CAST(name AS INTEGER) FROM t", table(box.cold(1)))
    assert caught.value.facts == {"line": 2, "column": 2}


@pytest.mark.parametrize("form", ["json", "csv", "arrow", "parquet"])
def test_a_query_that_takes_too_long_is_stopped(box: Box, form: str) -> None:
    for sql in (
        "SELECT count(*) FROM range(100000000) a(x), range(100000) b(y) WHERE x + y = -1",
        "SELECT x FROM range(100000000000) a(x)",
    ):
        with pytest.raises(QueryTooLarge, match=r"ran longer than 0\.3 s") as caught:
            box.engine.run(
                gate.check(box.parser, sql),
                Run(relations=[], format=form, timeout_s=0.3, page_rows=1_000),
                lambda _: None,
            )
        assert "query_export" in str(caught.value.hint)


# About 60 MB that have to be there at once.
SORTED = "SELECT p FROM (SELECT repeat(md5(x::VARCHAR), 4) p FROM range(400000) a(x)) ORDER BY p"


def test_rows_that_do_not_fit_memory_are_spilled_and_then_gone(tmp_path: Path) -> None:
    box = Box(tmp_path, Limits(memory_mb=40, threads=1))
    spilled: list[str] = []

    def look(_: bytes) -> None:
        spilled.extend(name for _, _, names in os.walk(box.scratch) for name in names)

    run = Run(relations=[], format="csv")
    done = box.engine.run(gate.check(box.parser, SORTED), run, look)
    assert done.row_count == 400_000
    assert spilled
    box.engine.prepare()
    assert list(box.scratch.iterdir()) == []


def test_more_than_memory_and_disk_is_refused(tmp_path: Path) -> None:
    box = Box(tmp_path, Limits(memory_mb=40, spill_mb=1, threads=1))
    with pytest.raises(QueryTooLarge, match="more than 40 MiB of memory and 1 MiB") as caught:
        box.run(SORTED)
    assert "query_export" in str(caught.value.hint)
    assert str(tmp_path) not in caught.value.message
    assert box.answer("SELECT 1") == [[1]]


def test_a_file_that_is_gone_is_told_by_the_name_of_its_dataset(box: Box) -> None:
    relation = table(box.cold(1))
    os.unlink(relation.files[0])
    with pytest.raises(Unavailable, match="a file of t is gone") as caught:
        box.run("SELECT * FROM t", relation)
    assert "run the query again" in str(caught.value.hint)


def _no_parquet(file: Path) -> None:
    file.write_bytes(b"not Parquet at all")


def _folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def _senseless_footer(file: Path) -> None:
    written = file.read_bytes()
    size = int.from_bytes(written[-8:-4], "little")
    file.write_bytes(written[: -8 - size] + b"\xee" * size + written[-8:])


def _senseless_pages(file: Path) -> None:
    written = file.read_bytes()
    size = int.from_bytes(written[-8:-4], "little")
    file.write_bytes(b"PAR1" + b"\xee" * (len(written) - 12 - size) + written[-8 - size :])


@pytest.mark.parametrize("format", ["json", "arrow"])
@pytest.mark.parametrize("damage", [_no_parquet, _folder, _senseless_footer, _senseless_pages])
def test_a_file_that_is_damaged_is_no_fault_of_the_statement(
    box: Box, damage: Callable[[Path], None], format: str
) -> None:
    relation, whole = table(box.cold(1)), Relation(view="whole", files=box.cold(2))
    damage(Path(relation.files[0]))
    with pytest.raises(Unavailable, match=r"a file of t.* cannot be read") as caught:
        box.run("SELECT t.name FROM t, whole", relation, whole, format=format)
    assert str(box.folder) not in caught.value.message
    assert "trace datasets verify" in str(caught.value.hint)


def test_a_mistake_in_a_statement_is_not_blamed_on_a_file(box: Box) -> None:
    for sql in ("SELECT name::INT FROM t", "SELECT error(name) FROM t", "SELECT nme FROM t"):
        with pytest.raises(InvalidQuery):
            box.run(sql, table(box.cold(1)))


def test_hot_rows_that_are_gone_are_told_without_their_path(box: Box) -> None:
    relation = table(seam=1, hot=str(box.scratch / "gone.arrow"))
    with pytest.raises(Unavailable, match="rows of t that are in Postgres could not be read"):
        box.run("SELECT * FROM t", relation)


def test_masked_columns_are_named_as_they_are_spelt_in_the_dataset(box: Box) -> None:
    relation = table(box.cold(1), seam=2, masked=["NAME"])
    described = Relation(view="d", files=box.cold(1), masked=["oK"])
    done = box.run("SELECT t.name, d.ok FROM t, d", relation, described)
    assert (box.rows, done.masked) == ([["***", None]], {"t": ["name"], "d": ["ok"]})


def test_a_name_to_mask_that_is_no_column_masks_all_that_is_not_known_to_be_harmless(
    box: Box,
) -> None:
    every = [column.name for column in COLUMNS]
    for relation, masked in (
        (table(box.cold(1), seam=2, masked=["nam"]), every),
        (Relation(view="t", files=box.cold(1), masked=["OK", "nam"]), every),
        (
            table(box.cold(1), seam=2, masked=["ok", "nam"], not_personal=["VALUE", "ok", "hash"]),
            ["block_number", "name", "ok"],
        ),
    ):
        done = box.run("SELECT * FROM t", relation)
        assert done.masked == {"t": masked}
        shown = dict(zip(every, box.rows[0], strict=True))
        hidden = {name: "***" if name == "name" else None for name in masked}
        assert {name: shown[name] for name in masked} == hidden


def test_an_integer_that_is_too_wide_for_arrow_says_what_helps(box: Box) -> None:
    sql = f"SELECT sum(x) FROM range(2) a(n), (SELECT {2**126 - 1}::HUGEINT x)"
    assert box.answer(sql) == [[str(2**127 - 2)]]
    with pytest.raises(InvalidQuery) as caught:
        box.run(sql, format="arrow")
    assert "cast it to VARCHAR" in str(caught.value.hint)


def test_the_limit_reaches_the_scan(box: Box) -> None:
    """Far more rows than can be found in time."""
    done = box.run("SELECT x FROM range(100000000000) a(x)", limit=5, timeout_s=20.0)
    assert (done.row_count, done.truncated, box.rows) == (5, True, [[0], [1], [2], [3], [4]])
