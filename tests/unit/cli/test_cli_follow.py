"""What `--wait` watches, and until when."""

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from rich.console import Console

from trace_platform.app.api_client import control_client
from trace_platform.app.instance.home import Home
from trace_platform.cli import follow as followed
from trace_platform.domain.errors import TaskFailed
from trace_platform.wire.control import DagStatus, JobStatus, TaskList, TaskStatus

NOW = datetime.now(UTC)
LONG_AGO = NOW - timedelta(minutes=10)


class Scripted:
    """A Dispatcher that tells these counts of the job `work`, the last of them for ever."""

    def __init__(self, *counts: dict[str, int], failed: list[TaskStatus] | None = None) -> None:
        self.left: Iterator[dict[str, int]] = iter(counts)
        self.now: dict[str, int] = {}
        self.failed = failed or []
        self.since: list[datetime] = []

    def dag_status(self, home: Home, dag: str, since: datetime) -> DagStatus:
        self.now = next(self.left, self.now)
        self.since.append(since)
        is_open = {"Running", "Queued", "Retrying"} & self.now.keys()
        return DagStatus(
            dag_name=dag,
            as_of=NOW,
            routing=False,
            oldest_open=LONG_AGO if is_open else None,
            jobs=[JobStatus(name="work", operator="no_op", counts=self.now)],
            datasets=[],
        )

    def tasks(self, *_: Any) -> TaskList:
        return TaskList(tasks=self.failed)


def said(monkeypatch: pytest.MonkeyPatch, home: Path, script: Scripted) -> str:
    monkeypatch.setattr(control_client, "dag_status", script.dag_status)
    monkeypatch.setattr(control_client, "tasks", script.tasks)
    monkeypatch.setattr(followed, "_POLL_S", 0)
    out = io.StringIO()
    followed.follow(Console(file=out, width=120), Home(home), "flow", NOW)
    return out.getvalue()


def failed_at(moment: datetime) -> TaskStatus:
    return TaskStatus(
        task_id=uuid4(),
        dag_name="flow",
        job_name="work",
        status="Failed",
        attempt=3,
        progress=None,
        inputs=[],
        error_code="wrong_chain",
        error_message="chain 5",
        next_retry_at=None,
        created_at=LONG_AGO,
        started_at=LONG_AGO,
        completed_at=moment,
    )


def test_tasks_that_were_under_way_before_count_from_the_first_to_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Scripted({"Queued": 14}, {"Completed": 13, "Running": 1}, {"Completed": 14})
    assert "14/14 tasks" in said(monkeypatch, tmp_path, script)
    assert set(script.since[1:]) == {LONG_AGO}, "else those that end would not be counted any more"


def test_a_failure_ends_it_when_everything_else_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Scripted(
        {"Failed": 1, "Running": 1, "Retrying": 1},
        {"Failed": 1, "Running": 1, "Completed": 1},
        {"Failed": 1, "Completed": 2},
        failed=[failed_at(NOW), failed_at(LONG_AGO)],
    )
    with pytest.raises(TaskFailed) as caught:
        said(monkeypatch, tmp_path, script)
    assert script.now == {"Failed": 1, "Completed": 2}
    assert "1 task failed" in str(caught.value), "what had failed before is history"


def test_work_that_was_done_before_is_nothing_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = said(monkeypatch, tmp_path, Scripted({}))
    assert "nothing to do" in shown
    assert "0/" not in shown
