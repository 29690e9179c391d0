"""The example `erc20_analytics`: what an instance holds of it, and what the chain says itself."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trace_platform.examples
from tests.support.followed_instance import Held, caught_up
from tests.support.scripted_rpc import ScriptedRpc
from tests.support.stack import Stack
from trace_devchain.activity import TRANSFER

NAME = "erc20_analytics"
TEXT = (Path(trace_platform.examples.__path__[0]) / f"{NAME}.yaml").read_text()
JOBS = ("transfers", "hourly", "balances")
Rows = list[list[Any]]

_SELECTS = {
    "transfers": """select block_number, log_index, block_hash, timestamp, address, "from", "to",
                           value_string
                      from {prefix}_transfers order by 1, 2""",
    "hourly": """select epoch(hour)::bigint, token, transfers, senders, volume
                   from {prefix}_hourly order by 1, 2""",
    "balances": """select token, holder, balance, transfers, last_block
                     from {prefix}_balances order by 1, 2""",
}
_CURRENT = """
SELECT d.job_name AS job, d.output_index AS output, p.range_start AS start, p.range_end AS end,
       p.id::text AS id
  FROM datasets d JOIN partition_versions p
    ON p.dataset_version = d.current_version AND p.superseded_at IS NULL
 WHERE d.dag_name = %s AND d.job_name = ANY(%s)
"""
_ATTEMPTS = """
SELECT j.name, a.task_id::text || '/' || a.attempt, a.outcome,
       (SELECT max((given->>'end')::bigint) FROM jsonb_array_elements(t.inputs) given)
  FROM task_attempts a JOIN tasks t ON t.id = a.task_id JOIN jobs j ON j.id = t.job_id
 WHERE j.dag_name = %s AND j.name = ANY(%s)
"""
# The newest results of what is current.
_CHECKS = """
SELECT d.job_name, r.name, r.partition_key, r.outcome, r.row_count, r.failing
  FROM check_results r JOIN datasets d ON d.uuid = r.dataset_uuid
  JOIN partition_versions p ON p.id = r.materialisation AND p.superseded_at IS NULL
 WHERE d.dag_name = %s AND p.dataset_version = d.current_version
"""


@dataclass(frozen=True)
class Part:
    """A partition that is current."""

    job: str
    output: int
    start: int
    end: int
    id: str


@dataclass(frozen=True)
class Attempt:
    job: str
    id: str
    outcome: str | None
    # The last block that it was about.
    end: int


@dataclass(frozen=True)
class Checked:
    """What a check found in all that is current: partitions may be cut in other ways."""

    rows: int
    failing: int


class Analytics:
    def __init__(self, stack: Stack, dag: str = NAME, prefix: str = "erc20") -> None:
        self._stack, self._dag, self._prefix = stack, dag, prefix
        self.held = Held(stack, f"{prefix}_")

    def caught_up(self, head: int, timeout_s: float = 240) -> None:
        caught_up(self.held, head, timeout_s)
        assert self.held.state("SELECT 1 FROM tasks WHERE status = 'Failed'") == []

    def rows(self, job: str) -> Rows:
        return self._stack.query(_SELECTS[job].format(prefix=self._prefix))

    def parts(self) -> set[Part]:
        return {Part(*row) for row in self.held.state(_CURRENT, self._dag, list(JOBS))}

    def attempts(self) -> set[Attempt]:
        return {Attempt(*row) for row in self.held.state(_ATTEMPTS, self._dag, list(JOBS))}

    def checks(self) -> dict[tuple[str, str], Checked]:
        """By job and check. Of a fold's partitions the rows depend on how they were cut."""
        rows: Counter[tuple[str, str]] = Counter()
        failing: Counter[tuple[str, str]] = Counter()
        for job, name, _, outcome, looked_at, wrong in self.held.state(_CHECKS, self._dag):
            assert outcome != "error", (job, name)
            rows[job, name] += 0 if job == "balances" else looked_at
            failing[job, name] += wrong
        return {key: Checked(rows[key], failing[key]) for key in rows}


def expected(node: ScriptedRpc, head: int) -> dict[str, Rows]:
    """By job: computed from the node's own logs, in plain Python."""
    transfers = [row for number in range(head + 1) for row in _transfers(node, number)]
    return {
        "transfers": transfers,
        "hourly": _hourly(transfers),
        "balances": _balances(transfers),
    }


def _transfers(node: ScriptedRpc, number: int) -> Rows:
    block = node.answer("eth_getBlockByNumber", [hex(number), False])
    logs = [
        log
        for receipt in node.answer("eth_getBlockReceipts", [hex(number)])
        for log in receipt["logs"]
    ]
    return [
        [
            *(number, int(log["logIndex"], 16), block["hash"], int(block["timestamp"], 16)),
            log["address"],
            *(f"0x{topic[-40:]}" for topic in log["topics"][1:]),
            str(int(log["data"], 16)),
        ]
        for log in logs
        if log["topics"][:1] == [TRANSFER] and len(log["topics"]) == 3
    ]


def _hourly(transfers: Rows) -> Rows:
    hours: dict[tuple[int, str], Rows] = defaultdict(list)
    for row in transfers:
        hours[row[3] // 3600 * 3600, row[4]].append(row)
    return [
        [*key, len(rows), len({row[5] for row in rows}), str(sum(int(row[7]) for row in rows))]
        for key, rows in sorted(hours.items())
    ]


def _balances(transfers: Rows) -> Rows:
    moves: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for number, _, _, _, token, sender, receiver, value in transfers:
        moves[token, receiver].append((int(value), number))
        moves[token, sender].append((-int(value), number))
    return [
        [*key, str(sum(delta for delta, _ in own)), len(own), max(number for _, number in own)]
        for key, own in sorted(moves.items())
    ]


def assert_equal(analytics: Analytics, node: ScriptedRpc, head: int) -> None:
    for job, rows in expected(node, head).items():
        assert analytics.rows(job) == rows, job
