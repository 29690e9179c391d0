"""Each kind of check finds what is wrong in what was staged, and nothing else; in one pass."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pydantic import TypeAdapter

from tests.support.cold_chain import served
from tests.support.frame_task import FrameTasks, given, output
from trace_devchain.chain import DevChain
from trace_platform.domain.errors import TraceError
from trace_platform.drivers.lite.local_store import LocalStore
from trace_platform.drivers.rpc_endpoint import RpcEndpoint
from trace_platform.operators import frames
from trace_platform.operators.row_checks import evaluate as looking
from trace_platform.operators.row_checks.evaluate import evaluate
from trace_platform.operators.spark.session import SparkRuntime
from trace_platform.wire.check import CheckReport
from trace_platform.wire.check_spec import Check, CheckModel

pytestmark = pytest.mark.spark

NOW = 1_700_000_000
ALICE, BOB = b"\xa1" * 20, b"\xb0" * 20
# Blocks 0 to 5; 3 has no row, 4 has two.
ROWS = pa.table(
    {
        "block_number": [0, 1, 2, 4, 4, 5],
        "author": [ALICE, ALICE, None, BOB, BOB, ALICE],
        "gas": [10, 20, 30, None, 50, 60],
        "kind": ["a", "a", "b", "b", "c", None],
        "day": [date(2023, 11, 14)] * 6,
        "timestamp": pa.array([NOW - 60 + n for n in range(6)], pa.int64()),
    }
)
KNOWN = pa.table({"block_number": [0, 1, 2, 3, 4], "who": [ALICE] * 5})
OK = 0
# What is checked, and how many rows are wrong; a text: what is said of a check that cannot run.
CASES: list[tuple[dict[str, Any], int | str]] = [
    ({"kind": "not_null", "columns": ["block_number", "day"]}, OK),
    ({"kind": "not_null", "columns": ["author", "gas"]}, 2),
    ({"kind": "not_null", "columns": ["autor"]}, "there is no column 'autor'"),
    ({"kind": "unique", "columns": ["block_number", "gas"]}, OK),
    ({"kind": "unique", "columns": ["block_number"]}, 1),
    ({"kind": "unique", "columns": ["kind"]}, 2),
    ({"kind": "range", "column": "gas", "min": 10, "max": 60}, OK),
    ({"kind": "range", "column": "gas", "min": 20.5, "max": 50}, 3),
    ({"kind": "range", "column": "day", "min": "2023-11-15"}, 6),
    ({"kind": "range", "column": "gas", "min": "many"}, "many"),
    ({"kind": "accepted_values", "column": "kind", "values": ["a", "b", "c"]}, OK),
    ({"kind": "accepted_values", "column": "kind", "values": ["a"]}, 3),
    ({"kind": "accepted_values", "column": "author", "values": ["0x" + ALICE.hex()]}, 2),
    ({"kind": "accepted_values", "column": "author", "values": ["Alice"]}, "hexadecimal"),
    ({"kind": "row_count", "min": 6, "max": 6}, OK),
    ({"kind": "row_count", "min": 10}, 4),
    ({"kind": "row_count", "max": 1}, 5),
    ({"kind": "freshness", "column": "timestamp", "max_age": 60}, OK),
    ({"kind": "freshness", "column": "timestamp", "max_age": 50}, 1),
    ({"kind": "freshness", "column": "kind", "max_age": 50}, "neither a time"),
    ({"kind": "gaps"}, 1),
    ({"kind": "gaps", "column": "gas"}, 6),
    (
        {
            "kind": "foreign_key",
            "columns": ["block_number"],
            "references": {"input": 1, "columns": ["block_number"]},
        },
        1,
    ),
    (
        {
            "kind": "foreign_key",
            "columns": ["block_number"],
            "references": {"input": 0, "columns": ["block_number"]},
        },
        OK,
    ),
    (
        {
            "kind": "foreign_key",
            "columns": ["author"],
            "references": {"input": 1, "columns": ["who"]},
        },
        2,
    ),
    ({"kind": "sql", "name": "none", "sql": "select * from out where gas > 60"}, OK),
    ({"kind": "sql", "name": "some", "sql": "select gas from out where gas >= 50"}, 2),
    (
        {
            "kind": "sql",
            "name": "joined",
            "sql": "with k as (select * from input_1) select o.block_number from out o"
            " left join k on k.block_number = o.block_number where k.block_number is null",
        },
        1,
    ),
    ({"kind": "sql", "name": "wrong", "sql": "select nope from out"}, "nope"),
    ({"kind": "range", "column": "kind", "min": "a", "max": "b"}, 1),
    ({"kind": "range", "column": "kind", "max": 5}, "kind is text, and 5 is a number"),
]


@pytest.fixture
def tasks(spark_runtime: SparkRuntime, tmp_path: Path) -> FrameTasks:
    return FrameTasks(spark_runtime, LocalStore(str(tmp_path)))


def looked(
    tasks: FrameTasks, said: list[dict[str, Any]], rows: pa.Table = ROWS
) -> list[CheckReport]:
    """What the checks say of these rows, written as blocks 0 to 5."""
    found: list[CheckModel] = TypeAdapter(list[Check]).validate_python(said)
    inputs = [
        given(0, 0, 5, [tasks.file("rows", rows)]),
        given(1, 0, 5, [tasks.file("known", KNOWN)], trigger=False),
    ]
    with tasks.task(inputs, [output(0, "out")]) as task:
        with frames.opened(task) as data:
            staged = data.write(0, data.read(0))
        return evaluate(task, found, [staged]).reports


def test_each_kind_finds_what_is_wrong_and_nothing_else(
    tasks: FrameTasks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looking, "database_now", lambda _: float(NOW + 5))
    reports = looked(tasks, [check for check, _ in CASES])
    for (check, expected), report in zip(CASES, reports, strict=True):
        if isinstance(expected, str):
            assert report.outcome == "error", check
            assert expected in report.message, (check, report.message)
        else:
            assert (report.failing, report.outcome) == (
                expected,
                "failed" if expected else "passed",
            ), (check, report.message)
        assert report.rows == 6
        assert (report.partition_key, report.start, report.end) == ("0-5", 0, 5)


def test_a_failed_check_shows_at_most_ten_of_the_rows_that_are_wrong(tasks: FrameTasks) -> None:
    many = pa.table({"block_number": [n % 6 for n in range(50)], "author": [None] * 49 + [ALICE]})
    wanted, gaps, unique = looked(
        tasks,
        [
            {"kind": "not_null", "columns": ["author"]},
            {"kind": "gaps"},
            {"kind": "unique", "columns": ["block_number"]},
        ],
        many.cast(pa.schema({"block_number": pa.int64(), "author": pa.binary()})),
    )
    assert wanted.failing == 49
    assert len(wanted.sample) == 10
    assert wanted.sample[0].keys() == {"block_number", "author"}
    assert wanted.sample[0]["author"] is None
    assert gaps.outcome == "passed"
    assert not gaps.sample
    assert unique.failing == 44
    assert {row["block_number"] for row in unique.sample} == {"0", "1", "2", "3", "4", "5"}
    (missing,) = looked(tasks, [{"kind": "gaps"}])
    assert missing.sample == [{"block_number": "3"}]


def test_a_check_that_fails_at_a_row_says_so_without_the_row(tasks: FrameTasks) -> None:
    reports = looked(
        tasks,
        [
            {"kind": "sql", "name": "cast", "sql": "select 1 from out where cast(kind as int) > 0"},
            {"kind": "sql", "name": "own", "sql": "select raise_error(hex(author)) from out"},
        ],
    )
    assert [(each.outcome, each.message) for each in reports] == [
        ("error", "it fails at a row: CAST_INVALID_INPUT"),
        ("error", "it fails at a row: USER_RAISED_EXCEPTION"),
    ]


def test_all_figures_of_an_output_come_from_one_job(
    tasks: FrameTasks, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    figures = looking._Look._figures

    def counted(self: Any, measures: Any, staged: Any) -> Any:
        asked.append(len(measures))
        return figures(self, measures, staged)

    monkeypatch.setattr(looking._Look, "_figures", counted)
    reports = looked(
        tasks,
        [
            {"kind": "not_null", "columns": ["block_number"]},
            {"kind": "unique", "columns": ["block_number", "gas"]},
            {"kind": "range", "column": "gas", "min": 0},
            {"kind": "gaps", "column": "block_number"},
        ],
    )
    assert asked == [4]
    assert [report.outcome for report in reports] == ["passed", "passed", "passed", "failed"]


def test_an_output_without_rows_passes_but_for_what_wants_rows(tasks: FrameTasks) -> None:
    reports = looked(
        tasks,
        [
            {"kind": "not_null", "columns": ["author"]},
            {"kind": "unique", "columns": ["block_number"]},
            {"kind": "freshness", "column": "timestamp", "max_age": 1},
            {"kind": "sql", "sql": "select * from out"},
            {"kind": "row_count", "min": 1},
            {"kind": "gaps"},
        ],
        ROWS.slice(0, 0),
    )
    assert [report.failing for report in reports] == [0, 0, 0, 0, 1, 6]


def test_what_is_away_fails_the_attempt_and_not_the_check(tasks: FrameTasks) -> None:
    """The database that tells the time is not there: another attempt may find it."""
    with pytest.raises(TraceError) as raised:
        looked(tasks, [{"kind": "freshness", "column": "timestamp", "max_age": 60}])
    assert raised.value.retryable


def drifted(
    tasks: FrameTasks, said: dict[str, Any], partitions: list[pa.Array]
) -> list[CheckReport]:
    """What a check says of partitions that follow each other, each a column `v`."""
    (check,) = TypeAdapter(list[Check]).validate_python([{"kind": "drift", "column": "v"} | said])
    state: dict[str, Any] = {}
    reports = []
    for n, values in enumerate(partitions):
        rows = [tasks.file(f"part{n}", pa.table({"v": values}))]
        with tasks.task([given(0, n, n, rows)], [output(0, "out")]) as task:
            with frames.opened(task) as data:
                staged = data.write(0, data.read(0), sort_by=())
            found = evaluate(replace(task, state=partial(dict, state)), [check], [staged])
        state |= found.state
        reports += found.reports
    assert ALICE.hex() not in str(state)
    return reports


def test_values_that_are_distributed_otherwise_than_before_are_found(tasks: FrameTasks) -> None:
    usual = [pa.array([10.0, 11.0, 12.0 + n / 10, None, float("nan")]) for n in range(3)]
    said = {"z_score": 5, "at_least": 3}
    reports = drifted(tasks, said, [*usual, usual[1], pa.array([100.0, 110.0])])
    assert [report.failing for report in reports] == [0, 0, 0, 0, 1]
    assert reports[0].message == "0 partitions before, 3 are compared with"
    assert reports[-1].message.startswith("z-score of the mean ")
    assert reports[-1].message.endswith(", at most 5 (4 partitions before)")
    same = [pa.array([ALICE, ALICE, BOB] * 20)] * 3
    said = {"kl": 0.2, "at_least": 2}
    reports = drifted(tasks, said, [*same, pa.array([ALICE] * 60), pa.array([], pa.binary())])
    assert [report.failing for report in reports] == [0, 0, 0, 1, 0]
    assert reports[3].message.startswith("divergence 0.")
    (wrong,) = drifted(tasks, {"z_score": 1}, [pa.array(["a"])])
    assert (wrong.outcome, wrong.failing) == ("error", 0)
    assert "v is string" in wrong.message
    (wrong,) = drifted(tasks, {"kl": 1}, [pa.array([date(2023, 1, 1)])])
    assert "another in each partition" in wrong.message


def asked(
    tasks: FrameTasks, said: dict[str, Any], rows: pa.Table, *, key: bool = False
) -> CheckReport:
    """What an `eth_call` says of these rows, written as blocks 0 to 9 of the development chain, or
    as a partition that is no range."""
    chain = DevChain(blocks=20, txs=0)
    call = {"kind": "eth_call", "rpc_pool": "dev", "chain_id": 31337, "to": chain.tokens[0]}
    (check,) = TypeAdapter(list[Check]).validate_python([call | said])
    with (
        served(chain) as node,
        tasks.task([given(0, 0, 9, [tasks.file("minted", rows)])], [output(0, "out")]) as task,
    ):
        with frames.opened(task) as data:
            staged = data.write(0, data.read(0), "all" if key else None)
        own = replace(task, rpc=lambda _: RpcEndpoint(node.url))
        (report,) = evaluate(own, [check], [staged]).reports
    return report


def test_what_a_contract_answers_at_the_last_block_is_what_the_rows_say(tasks: FrameTasks) -> None:
    minted = pa.table({"block_number": range(10), "amount": [str(10**18)] * 10})
    supply = {"function": "totalSupply()", "equals": "sum_exact(amount)"}
    report = asked(tasks, supply, minted)
    assert (report.outcome, report.failing) == ("passed", 0)
    assert report.message == "totalSupply() at block 9 is what the rows say"
    report = asked(tasks, supply, minted.slice(1))
    assert (report.outcome, report.failing) == ("failed", 1)
    assert report.message == "totalSupply() at block 9 is not what the rows say"
    # Of what is no range of blocks the rows say of which block they are.
    report = asked(tasks, supply | {"block": "max(block_number)"}, minted, key=True)
    assert report.outcome == "passed"
    for wrong, said in [
        ({"function": "balanceOf(address)"}, "takes 1 arguments, not 0"),
        ({"function": "name()"}, "execution reverted"),
        ({"to": "0x" + "12" * 20}, "there is no contract 0x1212"),
        ({"returns": "uint8"}, "no uint8"),
        ({"equals": "sum_exact(nope)"}, "nope"),
    ]:
        report = asked(tasks, supply | wrong, minted)
        assert report.outcome == "error"
        assert said in report.message
    assert "say at which block" in asked(tasks, supply, minted, key=True).message
    assert "serves chain 31337" in asked(tasks, supply | {"chain_id": 1}, minted).message
