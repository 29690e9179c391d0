"""`rpc_integrity_check`: do the nodes behind a chain agree with each other, and with themselves?

Each round asks every provider about a few heights: near the head, the last final block, old ones,
one that it was asked about before, and those that were not right. A contradiction is an alert,
once until that block is right; nothing that is stored is touched. As an `always_on` source it goes
round and round; as a reactive job each event is a round.
"""

from __future__ import annotations

import math
import random
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

from pydantic import Field

from trace_platform.data.alerts import Severity
from trace_platform.data.database import DataDatabase
from trace_platform.data.incidents import database_now
from trace_platform.domain.errors import (
    MalformedBlock,
    NodeContradictsItself,
    RpcUnreachable,
    TraceError,
    WrongChain,
)
from trace_platform.operators import scope
from trace_platform.operators.accepts import ANYTHING_OR_A_SOURCE, Accepts, Updates
from trace_platform.operators.checks.integrity.chain import TABLES, Rows
from trace_platform.operators.checks.integrity.compare import differences
from trace_platform.operators.checks.integrity.scan import KEYS
from trace_platform.operators.checks.rounds import rounds
from trace_platform.operators.checks.rpc_member import Member, logs_of
from trace_platform.operators.checks.rpc_providers import providers
from trace_platform.operators.contract import OperatorConfig, Result, TaskContext
from trace_platform.operators.evm_header.proofs import Proofs
from trace_platform.wire.task import DatasetEvent, TaskOutput


class Config(OperatorConfig):
    chain_id: int = Field(
        ge=1,
        le=2**63 - 1,
        description="Id of the chain. A provider that serves another one is not asked.",
    )
    rpc_pools: tuple[str, ...] = Field(
        min_length=1,
        description="Names of the RPC pools. The providers of all of them are compared with "
        "each other.",
    )
    every_seconds: float = Field(
        default=60.0, ge=0.01, description="For a source, seconds from one round to the next."
    )
    max_lag_blocks: int = Field(
        default=5,
        ge=0,
        description="Blocks that a provider may be behind the others before it is reported.",
    )
    confirmations: int = Field(
        default=3,
        ge=0,
        description="Blocks below the lowest head at which the newest comparison is made. "
        "Above, forks are normal.",
    )
    old_blocks: int = Field(
        default=2,
        ge=0,
        le=100,
        description="Old blocks, drawn at random, that each round compares.",
    )
    finality_blocks: int = Field(
        default=64,
        ge=0,
        description="Blocks below the head that count as final where a node does not know "
        "what is final.",
    )
    header_hash: bool = Field(
        default=True,
        description="Whether each header must hash to its block's hash. Off for chains whose "
        "headers have other fields than Ethereum's.",
    )
    roots: bool | None = Field(
        default=None,
        description="Whether receipts and transactions must make the header's roots. Null: "
        "on Ethereum and its test networks.",
    )


# What a provider can be found to do without others beside it.
_ALONE = ("rpc_contradicts_itself", "rpc_history_changed")


@dataclass(frozen=True, slots=True)
class Problem:
    """What a provider says about a block that cannot be, or that others do not say."""

    provider: str
    code: str
    block: int
    message: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    severity: Severity = "warning"


class RpcIntegrityCheck:
    name: ClassVar[str] = "rpc_integrity_check"
    Config: ClassVar[type[OperatorConfig]] = Config
    output_names: ClassVar[tuple[str, ...] | None] = ("checks",)
    accepts: ClassVar[Accepts] = ANYTHING_OR_A_SOURCE
    emits: ClassVar[Updates | None] = None
    has_rows: ClassVar[bool] = False

    def run(self, task: TaskContext) -> Result:
        config: Config = task.config
        output, database = scope.output(task, 0), task.data()
        with _members(task, config) as members:
            check = _Rounds(task, config, members)
            if task.inputs:
                check.run(math.floor(self.now(database) / config.every_seconds))
                return Result(events=[_passed_on(task, output)])
            every = rounds(task, config.every_seconds, lambda: self.now(database), self.nap)
            for number, _ in every:
                check.run(number)
                task.emit([_event(output, cursor=number)])
        return Result()

    def now(self, database: DataDatabase) -> float:
        return database_now(database)

    def nap(self, seconds: float) -> None:
        time.sleep(seconds)


def _event(output: TaskOutput, **what: Any) -> DatasetEvent:
    return DatasetEvent(
        dataset_uuid=output.dataset_uuid, dataset_version=output.dataset_version, **what
    )


def _passed_on(task: TaskContext, output: TaskOutput) -> DatasetEvent:
    """What woke the task names the round: another attempt makes the same event."""
    given = task.inputs[0]
    if given.cursor is not None:
        return _event(output, cursor=given.cursor)
    return _event(output, partition_key=given.partition_key, start=given.start, end=given.end)


@contextmanager
def _members(task: TaskContext, config: Config) -> Iterator[list[Member]]:
    proofs = Proofs.of(config.chain_id, config.header_hash, config.roots)
    found = [each for pool in config.rpc_pools for each in providers(pool, task.rpc(pool))]
    members = [Member(each, config.chain_id, proofs, task.data()) for each in found]
    try:
        yield members
    finally:
        for member in members:
            member.close()


class _Rounds:
    def __init__(self, task: TaskContext, config: Config, members: Sequence[Member]) -> None:
        self._task = task
        self._config = config
        self._members = members

    def run(self, number: int) -> None:
        heads = dict(self._heads())
        problems: list[Problem] = []
        answered: dict[int, set[Member]] = {}
        heights = self._heights(heads, random.Random(number)) if heads else {}  # noqa: S311
        for block, is_final in heights.items():
            self._task.check()
            asked = [member for member, head in heads.items() if head >= block]
            found, answered[block] = self._compared(block, is_final, asked)
            problems += found
        for member in heads:
            self._tell(member, [each for each in problems if each.provider == member.name])
            self._end(member, {p.code for p in problems if p.provider == member.name}, answered)
        self._task.log.info(
            "rpc_round", providers=len(heads), blocks=sorted(heights), problems=len(problems)
        )

    def _heads(self) -> Iterator[tuple[Member, int]]:
        """Of those that answer for this chain; who does not, or lags, is told once."""
        found = {
            member: head for member in self._members if (head := self._head(member)) is not None
        }
        best = max(found.values(), default=0)
        for member, head in found.items():
            lag, facts = best - head, {"provider": member.name, "head": head, "best": best}
            if lag > self._config.max_lag_blocks:
                said = f"{member.name} is {lag} blocks behind the others, at block {head}"
                if member.lag.begin(str(head), "warning", "rpc_lags", said, facts):
                    self._task.log.warning("rpc_lags", **facts)
            else:
                member.lag.end("rpc_lags_ended", f"{member.name} has caught up", facts)
            yield member, head

    def _head(self, member: Member) -> int | None:
        facts = {"provider": member.name}
        try:
            member.check_chain()
            head = member.head()
        except WrongChain as error:
            said = f"{member.name}: {error.message}"
            told = facts | error.facts
            if member.wrong_chain.begin("chain", "warning", "rpc_wrong_chain", said, told):
                self._task.log.warning("rpc_wrong_chain", **told)
            return None
        except TraceError:
            head = None
        if head is None:
            said = f"{member.name} does not answer"
            if member.silence.begin("silent", "warning", "rpc_silent", said, facts):
                self._task.log.warning("rpc_silent", **facts)
            return None
        member.silence.end("rpc_silent_ended", f"{member.name} answers again", facts)
        member.wrong_chain.end("rpc_wrong_chain_ended", f"{member.name} is of this chain", facts)
        return head

    def _heights(self, heads: Mapping[Member, int], draw: random.Random) -> dict[int, bool]:
        """What is asked about, and whether it is final."""
        config = self._config
        recent = max(min(heads.values()) - config.confirmations, 0)
        final = min(self._finalized(member, head) for member, head in heads.items())
        suspect = {block: block <= final for member in heads for block in member.suspect()}
        if final < 0:
            return {recent: False} | suspect
        old = [draw.randint(0, final) for _ in range(config.old_blocks)]
        again = [block for member in heads for block in member.remembered(draw)]
        return {recent: recent <= final} | suspect | dict.fromkeys([final, *old, *again], True)

    def _finalized(self, member: Member, head: int) -> int:
        try:
            return member.finalized(self._config.finality_blocks)
        except TraceError:
            return head - self._config.finality_blocks

    def _compared(
        self, block: int, is_final: bool, asked: Sequence[Member]
    ) -> tuple[list[Problem], set[Member]]:
        """What is wrong, and whose answers were compared."""
        answers: dict[Member, Rows] = {}
        problems: list[Problem] = []
        for member in asked:
            try:
                answers[member] = self._answer(member, block)
            except (NodeContradictsItself, MalformedBlock) as error:
                code = "rpc_contradicts_itself"
                problems.append(Problem(member.name, code, block, f"{member.name}: {error}"))
            except RpcUnreachable as error:
                # It may not keep old blocks.
                self._task.log.info("rpc_no_answer", provider=member.name, why=error.message)
        problems += self._forks(block, is_final, answers)
        problems += _other_rows(block, answers)
        if is_final:
            problems += _changed(block, answers)
        return problems, set(answers)

    def _answer(self, member: Member, block: int) -> Rows:
        """With the logs that a filter finds, which are those of the receipts."""
        rows = member.rows(block)
        by_filter = member.logs_by_filter(_hash(rows))
        if by_filter != logs_of(rows["logs"]):
            raise NodeContradictsItself(
                f"eth_getLogs has {len(by_filter)} logs for block {block}, its receipts have "
                f"{rows['logs'].num_rows}, and they are not the same"
            )
        return rows

    def _forks(
        self, block: int, is_final: bool, answers: Mapping[Member, Rows]
    ) -> Iterator[Problem]:
        """Who has another block there than most; all of them where none has a majority."""
        said = Counter(_hash(rows) for rows in answers.values())
        if len(said) < 2:
            return
        (most, n), (_, second) = said.most_common(2)
        for member, rows in answers.items():
            mine = _hash(rows)
            # Asked again: while the head moves two answers are easily of two moments.
            is_other = mine != most or n == second
            if is_other and self._still(member, block, mine):
                facts = {"hash": f"0x{mine.hex()}"}
                if n == second:
                    others = f"the {len(answers)} that answered have {len(said)}, none of them most"
                else:
                    others = f"{n} of {len(answers)} have 0x{most.hex()}"
                    facts["most"] = f"0x{most.hex()}"
                yield Problem(
                    member.name,
                    "rpc_disagrees",
                    block,
                    f"{member.name} has 0x{mine.hex()} as block {block}, {others}",
                    facts,
                    "critical" if is_final else "warning",
                )

    def _still(self, member: Member, block: int, block_hash: bytes) -> bool:
        try:
            return _hash(member.rows(block)) == block_hash
        except TraceError:
            return False

    def _tell(self, member: Member, problems: Sequence[Problem]) -> None:
        """The first of each kind, unless it was told before and is not over."""
        for each in problems:
            facts = {"provider": member.name, "block": each.block, **each.facts}
            incident = member.problems[each.code, each.severity]
            if incident.begin(str(each.block), each.severity, each.code, each.message, facts):
                self._task.log.warning(
                    "rpc_problem", code=each.code, provider=member.name, what=each.message
                )

    def _end(self, member: Member, codes: set[str], answered: Mapping[int, set[Member]]) -> None:
        """What is over: nothing of its kind was seen, also not where it was seen first."""
        for (code, _), incident in member.problems.items():
            if incident.where is None or code in codes:
                continue
            block = int(incident.where)
            compared = answered.get(block, set())
            # Alone it agrees with everybody.
            if member in compared and (len(compared) > 1 or code in _ALONE):
                said = f"block {block} of {member.name} is as it should be"
                incident.end(f"{code}_ended", said, {"provider": member.name, "block": block})


def _hash(rows: Rows) -> bytes:
    found: bytes = rows["blocks"]["block_hash"][0].as_py()
    return found


def _other_rows(block: int, answers: Mapping[Member, Rows]) -> Iterator[Problem]:
    """The same block by its hash, and yet other rows."""
    references: dict[bytes, tuple[Member, Rows]] = {}
    for member, rows in answers.items():
        other, expected = references.setdefault(_hash(rows), (member, rows))
        for table in TABLES:
            for found in differences(rows[table], expected[table], KEYS[table]):
                yield Problem(
                    member.name,
                    "rpc_rows_differ",
                    block,
                    f"{table} of block {block}: {found.what} is {found.stored} at {member.name}, "
                    f"{found.chain} at {other.name}",
                    {"table": table, "what": found.what, "other": other.name},
                )


def _changed(block: int, answers: Mapping[Member, Rows]) -> Iterator[Problem]:
    for member, rows in answers.items():
        first, now = member.first_said(block, _hash(rows)), _hash(rows)
        if first != now:
            yield Problem(
                member.name,
                "rpc_history_changed",
                block,
                f"final block {block} of {member.name} was 0x{first.hex()}, is 0x{now.hex()}",
                {"first": "0x" + first.hex(), "now": "0x" + now.hex()},
                "critical",
            )
