"""The process that reads a deployer's SQL: it has nothing in reach, little memory and little time,
and whoever asked it is none the worse."""

from __future__ import annotations

import os
import resource
import signal
from pathlib import Path

import psutil
import pytest

from tests.support.corpus import corpus
from tests.support.kept_checker import KEPT
from trace_platform.domain.errors import Unavailable
from trace_platform.sql import checker as checkers
from trace_platform.sql.checker import TOO_MUCH, Checker
from trace_platform.sql.checks import MEMORY_MB, Question, Readable
from trace_platform.sql.relations import Column

BLOCKS = Readable(columns=[Column("block_number", "BIGINT"), Column("block_hash", "BLOB")])


def ask(sql: str) -> Question:
    return Question(sql=sql, relations={"blocks": BLOCKS})


def children() -> list[psutil.Process]:
    return [each for each in psutil.Process().children(recursive=True) if _checks(each)]


def _checks(process: psutil.Process) -> bool:
    """What other tests have left behind may have ended, or be ending."""
    try:
        return "trace_platform.sql.checking" in process.cmdline()
    except psutil.NoSuchProcess:
        return False


@pytest.fixture(autouse=True)
def _nothing_remembered() -> None:
    checkers._remembered.clear()
    KEPT.end()


def test_its_process_is_confined_and_gone_afterwards() -> None:
    with Checker() as checker:
        assert checker.answer(ask("select block_number from blocks")).problems == []
        (child,) = children()
        status = Path(f"/proc/{child.pid}/status").read_text()
        # Seccomp filters, and nothing can be gained.
        assert "Seccomp:\t2" in status
        assert "NoNewPrivs:\t1" in status
        assert "CapEff:\t0000000000000000" in status
        assert child.environ().keys() <= {"MALLOC_ARENA_MAX", "LC_CTYPE"} if _may_look() else True
        _, most = resource.prlimit(child.pid, resource.RLIMIT_AS)
        assert most < child.memory_info().vms + (4 * MEMORY_MB << 20)
        scratch = child.cmdline()[-1]
    assert children() == []
    assert not os.path.exists(scratch)


def _may_look() -> bool:
    # What is not dumpable shows its environment to nobody but root.
    return os.geteuid() == 0


@pytest.mark.parametrize(
    "sql",
    [
        # Computed while the statement is bound.
        "select * from range(length(repeat('a', 3000000000))::bigint)",
        "select * from range(length(repeat('a', 300000000) || repeat('b', 300000000))::bigint)",
    ],
)
def test_a_statement_that_wants_much_memory_is_refused(sql: str) -> None:
    with Checker() as checker:
        (problem,) = checker.answer(ask(sql)).problems
        assert "too large to be checked" in problem.said or problem == TOO_MUCH
        assert checker.answer(ask("select 1")).problems == []


def test_a_statement_that_wants_much_time_ends_with_its_process() -> None:
    far = "levenshtein(repeat('a', 200000), repeat('b', 200000))"
    with Checker() as checker:
        assert checker.answer(ask(f"select * from range({far})")).problems == [TOO_MUCH]
        assert checker.answer(ask("select 1")).problems == []


def test_a_process_that_is_killed_fails_its_statement_alone() -> None:
    with Checker() as checker:
        checker.answer(ask("select 1"))
        (child,) = children()
        child.send_signal(signal.SIGKILL)
        child.wait()
        assert checker.answer(ask("select 2")).problems == [TOO_MUCH]
        assert checker.answer(ask("select 3")).problems == []


def test_a_process_that_does_not_answer_is_killed_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    with Checker() as checker:
        checker.answer(ask("select 1"))
        (child,) = children()
        child.suspend()
        monkeypatch.setattr(checkers, "_ANSWER_S", 0.2)
        with pytest.raises(Unavailable):
            checker.answer(ask("select 2"))
        assert children() == []


def test_what_was_answered_needs_no_process_a_second_time() -> None:
    with Checker() as checker:
        first = checker.answer(ask("select nothing from blocks"))
    with Checker() as checker:
        assert checker.answer(ask("select nothing from blocks")) == first
        assert children() == []


@corpus(
    "sql",
    [
        "select * from read_csv('/etc/passwd')",
        "select * from '/etc/passwd'",
        "copy blocks to '/tmp/out.csv'",
        "attach '/tmp/x.db'",
        "install httpfs",
        "select getenv('HOME')",
        "set memory_limit = '100GB'; select 1",
        "create function f(x) as x; select 1",
    ],
)
def test_nothing_but_a_select_is_bound(sql: str) -> None:
    (problem,) = KEPT.answer(ask(sql)).problems
    assert problem.said
