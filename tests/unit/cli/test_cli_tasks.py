"""How DAGs, jobs and what a task is given are named at the command line."""

from __future__ import annotations

from typing import Any

import pytest
from typer.testing import CliRunner

import trace_platform.cli as cli
from trace_platform.app.api_client import control_client
from trace_platform.cli.change_tasks import Filters, dag_and_job
from trace_platform.cli.words import scope_of
from trace_platform.wire.control import TaskGroups, TaskList
from trace_platform.wire.plan import DeployList


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the dispatcher is asked for, without its home."""
    seen: list[Any] = []

    def answer(found: Any) -> Any:
        return lambda home, *given: seen.append(given) or found

    monkeypatch.setattr(control_client, "task_groups", answer(TaskGroups(groups=[], more=False)))
    monkeypatch.setattr(control_client, "tasks", answer(TaskList(tasks=[], more=False)))
    monkeypatch.setattr(control_client, "deploys", answer(DeployList(deploys=[])))
    return seen


def run(*arguments: str) -> str:
    done = CliRunner().invoke(cli.app, list(arguments))
    return f"{done.exit_code} {done.output}"


@pytest.mark.parametrize("given", [["own"], ["--dag", "own"], ["--dag=own"]])
def test_a_dag_is_an_argument_or_an_option(asked: list[Any], given: list[str]) -> None:
    run("tasks", "list", *given)
    run("tasks", "list", "--limit", "7", *given)
    run("deploys", *given)
    assert asked == [("own", 20), ("own", 7), ("own", 20)]


def test_help_shows_one_way() -> None:
    assert "--dag" not in run("tasks", "list", "--help")
    assert "--dag" in run("tasks", "retry", "--help")


def test_a_dag_that_is_given_twice_is_wrong_usage(asked: list[Any]) -> None:
    assert run("deploys", "own", "--dag", "other").startswith("2 ")
    assert run("deploys", "--dag").startswith("2 ")
    assert not asked


@pytest.mark.parametrize("given", [["own.top"], ["own", "--job", "top"], ["--job", "own.top"]])
def test_a_job_may_have_its_whole_name(asked: list[Any], given: list[str]) -> None:
    run("tasks", "list", *given)
    assert asked == [("own", None, 20, "top")]


def test_whole_names_of_jobs_select_tasks() -> None:
    chosen = Filters(None, "own.top", None, None, None).selection()
    assert (chosen.dag_name, chosen.job_name) == ("own", "top")
    # Of what contradicts itself the dispatcher says that it is not there.
    assert dag_and_job("other", "own.top") == ("other", "own.top")
    assert dag_and_job("own", None) == ("own", None)


def test_what_a_task_is_given_is_told_with_its_moment_where_it_is_one() -> None:
    assert scope_of({"cursor": 1795123080}) == "1795123080, 2026-11-19 21:18:00"
    assert scope_of({"cursor": 19_000_000}) == "19000000"
    assert scope_of({"cursor": 5, "partition_key": "0-249"}) == "0-249"
    assert scope_of({"partition_key": "1795123080"}) == "1795123080"
    assert scope_of({}) == ""
