"""The catalog that a query sees: the caller's datasets, and nothing of where they lie.

The hostile forms are in attack_corpus.py, `AROUND_THE_CATALOG`; here is what is answered.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.security.attack_corpus import LOOKING_AROUND
from tests.support.corpus import corpus
from trace_platform.domain.errors import InvalidQuery
from trace_platform.drivers.task_token import GrantedDataset
from trace_platform.query.child.engine import Engine
from trace_platform.query.child.statement_server import open_parser
from trace_platform.query.protocol.messages import Limits, Relation, Run, Setup
from trace_platform.query.service.callers import ALL, Allowance, Caller, User
from trace_platform.query.service.described import described
from trace_platform.sql import gate
from trace_platform.sql.relations import Column, Described
from trace_platform.wire.query import (
    DatasetList,
    DatasetRef,
    DatasetSummary,
    QueryColumn,
    ResolvedDataset,
)

SECRET = "person-7f3a"
CATALOG = [
    Described(
        name="blocks",
        columns=[Column("n", "BIGINT"), Column("who", "VARCHAR")],
        masked=["who"],
        comment="all blocks",
        rows=3,
    ),
    Described(name="empty", columns=[]),
]


class Ground:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "who-knows-this-path.parquet"
        rows = pa.table({"n": pa.array([1, 2, 3], pa.int64()), "who": [SECRET, "x", SECRET]})
        pq.write_table(rows, self.file)
        scratch = folder / "scratch"
        scratch.mkdir()
        setup = Setup(limits=Limits(threads=1), readable=[], scratch=str(scratch))
        self.parser = open_parser(setup)
        self.engine = Engine(setup.limits, str(scratch), self.parser)

    def ask(
        self, sql: str, catalog: Sequence[Described] = CATALOG, where: Any = None
    ) -> list[list[Any]]:
        statement = gate.check(self.parser, sql)
        relations = [
            Relation(view=each.view, files=[str(self.file)], masked=["who"], where=where)
            for each in statement.references
        ]
        found: list[list[Any]] = []
        self.engine.run(
            statement,
            Run(relations=relations, catalog=list(catalog)),
            lambda page: found.extend(json.loads(page)),
        )
        return found


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Ground:
    return Ground(tmp_path_factory.mktemp("objects"))


@corpus("sql", LOOKING_AROUND)
def test_looking_around_is_answered_without_paths_and_personal_values(
    ground: Ground, sql: str
) -> None:
    shown = str(ground.ask(sql))
    for hidden in (str(ground.folder), ground.file.name, "read_parquet(", SECRET, "hot_"):
        assert hidden not in shown
    assert shown != "[]"


def test_what_is_listed_is_what_the_caller_may_see_and_nothing_else(ground: Ground) -> None:
    assert ground.ask("show tables") == [["blocks"], ["empty"]]
    names = "select table_name from information_schema.tables"
    assert ground.ask(names) == [["blocks"], ["empty"]]
    assert ground.ask(names, []) == []
    # DuckDB's own catalog has dozens of views.
    assert ground.ask("select count(*) from duckdb_tables()") == [[2]]
    assert ground.ask(
        "select table_comment, table_type from information_schema.tables limit 1"
    ) == [["all blocks", "BASE TABLE"]]


def test_the_name_of_a_with_does_not_stand_for_the_catalog(ground: Ground) -> None:
    sql = "with tables as (select 'mine' as table_name) select table_name from"
    assert ground.ask(f"{sql} information_schema.tables") == [["blocks"], ["empty"]]
    assert ground.ask(f"{sql} tables") == [["mine"]]


def test_masked_columns_are_marked(ground: Ground) -> None:
    for sql in ("describe blocks", "show blocks", "DESC blocks;", "describe blocks -- all"):
        assert [(row[0], row[5]) for row in ground.ask(sql)] == [("n", None), ("who", "masked")]
    marks = "select column_name, is_masked from information_schema.columns"
    assert ground.ask(marks) == [["n", False], ["who", True]]
    assert ground.ask("select column_name from duckdb_columns() where is_masked") == [["who"]]


def test_columns_of_a_dataset_that_is_not_there_are_an_error_of_its_name(ground: Ground) -> None:
    for sql in ("show block", "pragma table_info('block')", "from pragma_table_info('block')"):
        (reference,) = gate.check(ground.parser, sql).references
        assert reference.name == "block"


def test_a_plan_shows_filters_and_what_is_read(ground: Ground) -> None:
    lines = [line for (line,) in ground.ask("explain select n from blocks where n > 1")]
    assert lines[0] == "blocks: 1 file"
    assert any("Filters: (n > 1)" in line for line in lines)
    measured = str(ground.ask("explain analyze select n from blocks where n > 1"))
    assert "took" in measured
    assert "1 of 1 row groups" in measured


def test_a_plan_does_not_count_rows_that_a_token_does_not_grant(ground: Ground) -> None:
    for sql in ("explain from blocks", "explain analyze from blocks"):
        with pytest.raises(InvalidQuery, match="does not grant"):
            ground.ask(sql, where={"n": {"gte": 1}})


def test_an_error_in_what_is_explained_has_its_place(ground: Ground) -> None:
    with pytest.raises(InvalidQuery) as refused:
        ground.ask("explain\nselect nn from blocks")
    assert refused.value.facts["line"] == 2
    assert refused.value.facts["column"] == 8


# --- who sees what


class Known:
    """Of the Dispatcher what the catalog asks it."""

    def __init__(self) -> None:
        self.granted, self.other = uuid4(), uuid4()

    async def datasets(self) -> DatasetList:
        kinds = [QueryColumn(name=name, type="VARCHAR") for name in ("id", "name")]
        return DatasetList(
            datasets=[
                DatasetSummary(
                    name=name,
                    dataset_uuid=uuid4(),
                    dataset_version=uuid4(),
                    columns=kinds,
                    row_count=5,
                    pii=pii,
                    state="fresh",
                    newest_at=None,
                )
                for name, pii in (("labels", ["NAME"]), ("people", ["nam"]), ("blocks", []))
            ]
        )

    async def resolve(
        self, datasets: Sequence[DatasetRef], *, files: bool = True
    ) -> list[ResolvedDataset]:
        assert not files
        return [self._resolved(each.dataset_version) for each in datasets if each.dataset_version]

    def _resolved(self, version: UUID) -> ResolvedDataset:
        return ResolvedDataset(
            name="labels",
            published_as="labels",
            label="labels",
            dataset_uuid=uuid4(),
            dataset_version=version,
            columns=[QueryColumn(name="name", type="VARCHAR")],
            row_count=5,
            pii=["name"],
        )


def catalog_of(caller: Caller) -> dict[str, Described]:
    found = asyncio.run(described(caller, Known()))  # type: ignore[arg-type]
    return {each.name: each for each in found}


def user(*pii: str) -> Caller:
    return Allowance().user(User("ana", frozenset(pii)))


def test_a_user_sees_what_is_published_and_which_columns_are_masked() -> None:
    seen = catalog_of(user())
    assert {name: each.masked for name, each in seen.items()} == {
        "labels": ["name"],
        # A name that is no column may be meant for any of them.
        "people": ["id", "name"],
        "blocks": [],
    }
    assert catalog_of(user("labels"))["labels"].masked == []
    assert catalog_of(user("blocks"))["labels"].masked == ["name"]
    assert catalog_of(user(ALL))["people"].masked == []


def test_a_task_sees_the_aliases_of_its_token_and_no_number_of_rows() -> None:
    grant = GrantedDataset(dataset_uuid=uuid4(), dataset_version=uuid4(), alias="mine", whole=True)
    task = Caller("task:1", "task", 1.0, 1, frozenset(), (grant,))
    (only,) = catalog_of(task).values()
    assert (only.name, only.rows, only.masked) == ("mine", None, ["name"])
    assert catalog_of(Caller("task:1", "task", 1.0, 1, frozenset({ALL}), ())) == {}
