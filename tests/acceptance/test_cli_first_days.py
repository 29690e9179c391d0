"""What a new user and a new operator do in their first days, through the command."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.test_cli_engine import DAG, trace
from tests.support.stack import Stack, wait_for
from trace_platform.app.api_client import control_client

pytestmark = [pytest.mark.stack, pytest.mark.timeout(600)]

READER = """
name: reader
jobs:
  - name: again
    activation: reactive
    runtime: ecs_platform
    operator: no_op
    inputs: [{ from: { dataset: echoes } }]
    config: { emit: true }
"""
PUBLISHED = f"{DAG}  echoes: {{ from: {{ job: echo }} }}\n"
FOLLOWING = """
name: beat
jobs:
  - name: tick
    activation: source
    source: { kind: always_on }
    runtime: ecs_platform
    operator: ticker
    config: { every_seconds: 3600 }
"""


@pytest.fixture(scope="module")
def stack(instance: Stack) -> Stack:
    control_client.deploy(instance.home, PUBLISHED, "work.yaml")
    return instance


def ask(stack: Stack, answer: str, *arguments: str) -> tuple[int, str]:
    """At a terminal, with this typed."""
    parent, child = pty.openpty()
    command = [sys.executable, "-m", "trace_platform.cli", *arguments]
    os.write(parent, f"{answer}\n".encode())
    process = subprocess.run(
        [*command, "--home", str(stack.home.root)],
        stdin=child,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=120,
        check=False,
    )
    os.close(child)
    os.close(parent)
    return process.returncode, process.stdout.decode()


def complete(stack: Stack, line: str) -> list[str]:
    """What a shell would offer behind this."""
    words = line.split(" ")
    env = {
        **os.environ,
        "_TRACE_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
        "TRACE_HOME": str(stack.home.root),
    }
    script = Path(sys.executable).with_name("trace")
    done = subprocess.run([script], env=env, capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr == ""
    return done.stdout.split()


def test_waiting_ends_when_all_has_ended_and_says_why_what_failed_did(stack: Stack) -> None:
    for first in range(100, 200, 10):
        control_client.trigger(stack.home, "work", "request", first, first + 9)
    said = trace(
        stack, "sources", "trigger", "work", "request", "--from", "0", "--to", "9", "--wait"
    )
    assert (said.code, "[invalid_config]" in said.err) == (1, True), said.err
    counts = [job.counts.keys() for job in control_client.dag_status(stack.home, "work").jobs]
    assert all(found <= {"Completed", "Failed"} for found in counts), counts

    again = trace(
        stack, "sources", "trigger", "work", "request", "--from", "0", "--to", "9", "--wait"
    )
    assert (again.code, "nothing to do" in again.err, "0/" in again.err) == (0, True, False)

    listed = trace(stack, "tasks", "list", "--status", "FAILED")
    assert (listed.code, listed.out.count("[invalid_config]")) == (0, 11), listed.out
    assert "is no status of tasks" in trace(stack, "tasks", "list", "--status", "lost").err
    folded = trace(stack, "tasks", "list").out
    assert ("11 tasks" in folded, "--all" in folded) == (True, True), folded
    cut = trace(stack, "tasks", "list", "--all", "--limit", "5").out
    assert ("11 tasks" in cut, "newest 5" in cut, "--limit" in cut) == (False, True, True), cut

    (task, *_) = control_client.tasks(stack.home, "work", "Failed").tasks
    log = trace(stack, "tasks", "logs", str(task.task_id))
    assert (log.code, "attempt_failed code=invalid_config" in log.out) == (0, True), log.err
    assert "nowhere" in log.out, "what it was about"


def test_many_tasks_are_retried_and_canceled_once_somebody_agreed(stack: Stack) -> None:
    refused = trace(stack, "tasks", "retry", "--dag", "work", "--since", "1h")
    assert (refused.code, "work.broken: 11 failed" in refused.err) == (1, True), refused.err
    assert "error [not_confirmed]" in refused.err
    code, said = ask(stack, "n", "tasks", "retry", "--dag", "work")
    assert (code, "nothing was done" in said) == (1, True), said
    assert trace(stack, "pause", "work.broken").code == 0
    done = trace(stack, "tasks", "retry", "--dag", "work", "--job", "broken", "--yes")
    assert "11 tasks queued again" in done.out, done.err
    done = trace(stack, "tasks", "cancel", "--job", "broken", "--status", "queued", "--yes")
    assert "11 tasks canceled" in done.out, done.err
    none = trace(stack, "tasks", "cancel", "--job", "broken", "--yes", "--json").json
    assert none["tasks"] == 0
    assert trace(stack, "tasks", "retry").code == 2, "it names neither a task nor which ones"
    assert trace(stack, "resume", "work.broken").code == 0


def test_what_takes_a_name_away_is_asked_for(stack: Stack, tmp_path: Path) -> None:
    file = tmp_path / "work.yaml"
    file.write_text(DAG.replace("publish:\n  requests: { from: { job: request } }\n", ""))
    refused = trace(stack, "deploy", str(file))
    assert (refused.code, "error [not_confirmed]" in refused.err) == (1, True), refused.err
    assert "dataset echoes would not be published any more" in refused.err
    code, said = ask(stack, "n", "deploy", str(file))
    assert (code, "nothing was done" in said) == (1, True), said
    assert "echoes" in complete(stack, "trace why e")
    assert trace(stack, "deploy", str(file), "--yes").code == 0
    assert complete(stack, "trace why e") == []

    file.write_text(PUBLISHED)
    assert trace(stack, "deploy", str(file)).code == 0, "what adds names asks nothing"
    first, *_ = trace(stack, "dag", "versions", "work", "--json").json["versions"][::-1]
    versions = trace(stack, "dag", "versions", "work", "--json").json["versions"]
    (bare,) = [each for each in versions if each["dag_version"] != first["dag_version"]]
    refused = trace(stack, "rollback", "work", "--to", bare["dag_version"][:8])
    assert (refused.code, "error [not_confirmed]" in refused.err) == (1, True), refused.err
    assert "echoes" in refused.err
    code, said = ask(stack, "y", "rollback", "work", "--to", bare["dag_version"][:8])
    assert (code, "is active again" in said) == (0, True), said
    assert trace(stack, "deploy", str(file)).code == 0


def test_work_that_others_would_do_again_is_asked_for(stack: Stack, tmp_path: Path) -> None:
    reader, file = tmp_path / "reader.yaml", tmp_path / "work.yaml"
    reader.write_text(READER)
    said = trace(stack, "deploy", str(reader))
    assert (said.code, "it serves when all of it is there" in said.out) == (0, True), said.err
    file.write_text(PUBLISHED.replace("config: { emit: true }", "config: {}"))
    refused = trace(stack, "deploy", str(file))
    assert (refused.code, "error [not_confirmed]" in refused.err) == (1, True), refused.err
    assert "reader.again reads echoes and would do its work again" in refused.err


def test_dags_are_listed_and_removed(stack: Stack) -> None:
    listed = trace(stack, "dag", "list").out
    assert ("work" in listed, "reader" in listed, "active" in listed) == (True, True, True)
    refused = trace(stack, "dag", "remove", "work", "--yes")
    assert (refused.code, "error [dataset_in_use]" in refused.err) == (1, True), refused.err
    assert "reader.again" in refused.err
    assert "error [not_confirmed]" in trace(stack, "dag", "remove", "reader").err
    code, said = ask(stack, "y", "dag", "remove", "reader")
    assert (code, "reader is removed" in said) == (0, True), said
    shown = {each["dag_name"] for each in trace(stack, "dag", "list", "--json").json["dags"]}
    assert shown == {"work"}
    gone = trace(stack, "dag", "list", "--all", "--json").json["dags"]
    assert {each["dag_name"]: each["state"] for each in gone}["reader"] == "Removed"
    assert trace(stack, "deploys", "reader", "--json").json["deploys"][0]["kind"] == "removal"
    assert "was removed" in trace(stack, "rollback", "reader").err


def test_a_shell_completes_names_where_an_instance_runs(stack: Stack, tmp_path: Path) -> None:
    assert complete(stack, "trace roll") == ["rollback"]
    assert complete(stack, "trace rollback w") == ["work"]
    assert complete(stack, "trace pause work.e") == ["work.echo"]
    assert complete(stack, "trace sources trigger work r") == ["request"]
    assert "requests" in complete(stack, "trace datasets show r")
    elsewhere = Stack(stack.home.__class__(tmp_path), stack.process, stack.output)
    assert complete(elsewhere, "trace rollback w") == []


def test_a_source_without_end_has_no_limit_of_attempts(stack: Stack) -> None:
    control_client.deploy(stack.home, FOLLOWING, "beat.yaml")
    (task,) = wait_for("the run", lambda: control_client.tasks(stack.home, "beat", "Running").tasks)
    shown = trace(stack, "tasks", "show", str(task.task_id))
    assert ("without a limit" in shown.out, "2147483647" in shown.out) == (True, False), shown.out
    assert "2147483647" not in trace(stack, "why", str(task.task_id)).out
    assert (
        trace(stack, "tasks", "show", str(task.task_id), "--json").json["limits"]["max_attempts"]
        is None
    )
    assert trace(stack, "dag", "remove", "beat", "--yes").code == 0
    wait_for(
        "the source to end",
        lambda: control_client.task(stack.home, task.task_id).status != "Running" or None,
    )
