"""What a user sees of the engine through the command, on a whole instance."""

from __future__ import annotations

import getpass
import io
import json
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any
from unittest import mock

import psycopg
import pytest

from tests.support.stack import Stack, wait_for
from trace_platform.app.api_client import control_client
from trace_platform.app.instance import databases
from trace_platform.app.instance.open_instance import open_instance
from trace_platform.app.instance.settings import load_settings
from trace_platform.cli import EXIT_UNEXPECTED, main
from trace_platform.data.alerts import Alert, record
from trace_platform.domain.prefix import log_uri
from trace_platform.drivers.lite.local_store import LocalStore

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]

DAG = """
name: work
defaults: { max_attempts: 1 }
jobs:
  - name: request
    activation: source
    source: { kind: manual }
  - name: echo
    activation: reactive
    runtime: ecs_platform
    operator: no_op
    inputs: [{ from: { job: request } }]
    config: { emit: true }
    scaling: { max_concurrency: 1 }
  - name: broken
    activation: reactive
    runtime: ecs_platform
    operator: cryo_ingest
    inputs: [{ from: { job: echo } }]
    outputs: [blocks, transactions, logs]
    config: { chain_id: 1, rpc_pool: nowhere }
publish:
  requests: { from: { job: request } }
"""


@pytest.fixture(scope="module")
def stack(instance: Stack) -> Stack:
    return instance


@dataclass
class Said:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def trace(stack: Stack, *arguments: str) -> Said:
    said = command(*arguments, "--home", str(stack.home.root))
    assert said.code != EXIT_UNEXPECTED, said.err
    return said


def command(*arguments: str) -> Said:
    """In this process: a user's call differs by the start of Python alone."""
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["trace", *arguments]),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            main()
            code = 0
        except SystemExit as ended:
            code = int(ended.code or 0)
    return Said(code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="module")
def deployed(stack: Stack) -> Stack:
    control_client.deploy(stack.home, DAG, "work.yaml")
    return stack


@pytest.fixture(scope="module")
def failed(deployed: Stack) -> str:
    """A task that failed for good."""
    said = trace(
        deployed, "sources", "trigger", "work", "request", "--from", "0", "--to", "9", "--wait"
    )
    assert (said.code, "[invalid_config]" in said.err) == (1, True), said.err
    (task,) = control_client.tasks(deployed.home, "work", "Failed").tasks
    return str(task.task_id)


def test_an_instance_without_work_says_so_in_words(stack: Stack) -> None:
    for command, words in (
        (("tasks", "list"), "no tasks"),
        (("events", "list"), "no events yet"),
        (("queues",), "nothing waits and nothing runs"),
        (("health",), "nothing waits"),
    ):
        said = trace(stack, *command)
        assert (said.code, words in said.out) == (0, True), said.out
        assert isinstance(trace(stack, *command, "--json").json, dict)


def test_a_task_shows_its_attempts_and_its_log(failed: str, deployed: Stack) -> None:
    said = trace(deployed, "tasks", "show", failed)
    job, given = "work.broken (cryo_ingest on ecs_platform)", "0-9 of work.echo.0"
    for words in (job, "1 of 1", "Failed", given):
        assert words in said.out, said.out
    shown = trace(deployed, "tasks", "show", failed, "--json").json
    assert [a["outcome"] for a in shown["attempts"]] == ["Failed"]

    own = trace(deployed, "tasks", "logs", failed)
    assert (own.code, "attempt_failed code=invalid_config" in own.out) == (0, True), own.err
    keep_log(deployed, failed, b'{"level":"warning","event":"node_slow","ms":7}\n\x1b[31mraw\n')
    read = trace(deployed, "tasks", "logs", failed, "--attempt", "1")
    assert (read.code, "warning  node_slow ms=7" in read.out) == (0, True), read.out
    assert "\\x1b[31mraw" in read.out
    assert "attempt 1 ended as Failed: [invalid_config]" in read.out, "what its log lacks"
    assert trace(deployed, "tasks", "logs", failed, "--json").json["lines"][0]["ms"] == 7


def keep_log(stack: Stack, task_id: str, body: bytes) -> None:
    settings = load_settings(stack.home, {})
    instance = open_instance(stack.home, settings)
    dsn = databases.dsn(stack.home, settings, instance, "trace_dispatcher")
    with psycopg.connect(dsn) as connection:
        row = connection.execute("SELECT org_id, id FROM tasks WHERE id = %s", [task_id]).fetchone()
    assert row is not None
    LocalStore(str(stack.home.objects)).put(log_uri(settings.bucket, *row, 1), body)


def test_a_task_is_named_by_a_part_of_its_id(failed: str, deployed: Stack) -> None:
    for part in (failed[:30], failed[-8:]):
        assert trace(deployed, "tasks", "show", part, "--json").json["task_id"] == failed
    alike = trace(deployed, "tasks", "show", failed[:8])
    assert (alike.code, "several tasks' ids" in alike.err) == (1, True), alike.err
    for odd, words in (
        (failed[:7], "no task's id"),
        ("nonsense!", "no task's id"),
        ("ffffffff-ffff", "no task's id begins or ends"),
    ):
        said = trace(deployed, "tasks", "show", odd)
        assert (said.code, words in said.err) == (1, True), said.err


def test_why_answers_for_tasks_and_jobs(failed: str, deployed: Stack) -> None:
    said = trace(deployed, "why", failed)
    assert "failed for good" in said.out
    assert f"trace tasks retry --home {deployed.home.root} {failed}" in said.out
    said = trace(deployed, "why", "work.broken")
    assert "[invalid_config]" in said.out
    assert "reads work.echo.0: 0-9" in said.out
    assert trace(deployed, "why", "work.request", "--json").json["reasons"][0]["code"] == "source"
    said = trace(deployed, "why", "work.ecco")
    assert (said.code, "did you mean work.echo?" in said.err) == (1, True)
    assert "neither a task, nor a job, nor a dataset" in trace(deployed, "why", "wrok").err
    assert "it is its jobs that wait" in trace(deployed, "why", "work").err


def test_waiting_again_for_what_was_done_before_ends(failed: str, deployed: Stack) -> None:
    """History does not count: neither its failures nor that there is nothing to do."""
    wait_for("the failure to be history", lambda: _age_s(deployed, failed) > 6)
    said = trace(
        deployed, "sources", "trigger", "work", "request", "--from", "0", "--to", "9", "--wait"
    )
    assert (said.code, "nothing to do" in said.out) == (0, True), said.err


def _age_s(stack: Stack, task_id: str) -> float:
    (task,) = [t for t in control_client.tasks(stack.home).tasks if str(t.task_id) == task_id]
    return time.time() - task.created_at.timestamp()


def test_a_paused_job_waits_until_it_is_resumed(failed: str, deployed: Stack) -> None:
    said = trace(deployed, "pause", "work.echo", "--reason", "a test")
    assert (said.code, "is paused" in said.out, "a test" in said.out) == (0, True, True)
    assert "was paused already" in trace(deployed, "pause", "work.echo").out

    said = trace(deployed, "events", "emit", "requests", "--from", "50", "--to", "59")
    assert (said.code, "50-59 is recorded" in said.out) == (0, True), said.err
    again = trace(deployed, "events", "emit", "work.request.0", "--from", "50", "--to", "59")
    assert "was recorded before" in again.out

    (task,) = wait_for(
        "the task", lambda: control_client.tasks(deployed.home, status="Queued").tasks
    )
    reasons = trace(deployed, "why", str(task.task_id), "--json").json["reasons"]
    assert reasons[0]["code"] == "paused"
    assert "work.echo is paused: a test" in trace(deployed, "queues").out
    listed = trace(deployed, "tasks", "list", "work", "--job", "echo", "--status", "Queued")
    assert str(task.task_id) in listed.out

    assert "goes on" in trace(deployed, "resume", "work.echo").out
    assert "was not paused" in trace(deployed, "resume", "work.echo").out
    wait_for(
        "the task's end",
        lambda: control_client.task(deployed.home, task.task_id).status == "Completed",
    )
    newest = trace(deployed, "events", "list", "requests", "--json").json["events"][0]
    assert (newest["partition_key"], newest["dataset_name"]) == ("50-59", "requests")
    assert "50-59" in trace(deployed, "events", "list").out


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("pause", "work"), 1, "DAG.JOB"),
        (("pause", "work.nothing"), 1, "there is no job 'work.nothing'"),
        (("resume", "a/b.c"), 1, "not_found"),
        (("events", "emit", "requests"), 2, "--cursor N"),
        (("events", "emit", "requests", "--cursor", "1", "--key", "x"), 2, "give one of"),
        (("events", "emit", "requests", "--from", "1"), 2, "come together"),
        (("events", "emit", "requests", "--from", "9", "--to", "1"), 1, "bad_input"),
        (("events", "emit", "nothing", "--cursor", "1"), 1, "published: requests"),
        (("events", "list", "nothing"), 1, "unknown_dataset"),
        (("tasks", "logs", "00000000-0000-0000-0000-000000000000"), 1, "there is no task"),
        (("tasks", "cancel", "00000000-0000-0000-0000-000000000000"), 1, "there is no task"),
        (("tasks", "list", "--status", "Lost"), 1, "bad_input"),
        (("tasks", "list", "wrok"), 1, "did you mean work?"),
        (("tasks", "list", "--job", "ecco"), 1, "did you mean echo?"),
        (("backfills", "list", "wrok"), 1, "there is no DAG 'wrok'"),
        (("deploys", "wrok"), 1, "there is no DAG 'wrok'"),
    ],
)
def test_what_cannot_be_is_said_plainly(
    deployed: Stack, arguments: tuple[str, ...], code: int, words: str
) -> None:
    said = trace(deployed, *arguments)
    assert (said.code, words in said.out + said.err) == (code, True), said.out + said.err


def test_a_critical_alert_fires_until_it_is_acknowledged(deployed: Stack) -> None:
    settings = load_settings(deployed.home)
    instance = open_instance(deployed.home, settings)
    data = databases.data_database(deployed.home, settings, instance, "trace_data_writer")
    record(data, Alert("critical", "deep_reorg", "a reorg of depth 99", "deep_reorg:1"))
    said = trace(deployed, "health")
    assert (said.code, "FIRE  alerts" in said.out) == (1, True)
    assert f"trace alerts ack --home {deployed.home.root} " in said.out
    (shown,) = trace(deployed, "alerts", "--standing", "--json").json["alerts"]
    part = shown["alert_id"][:8]
    assert part in trace(deployed, "alerts").out
    done = trace(deployed, "alerts", "ack", part, "--note", "a fork that we knew of")
    assert (done.code, "1 alert acknowledged" in done.out) == (0, True)
    assert f"acknowledged by {getpass.getuser()}@" in trace(deployed, "alerts").out
    assert trace(deployed, "alerts", "ack", "--all").out == "no alert stands\n"
    assert trace(deployed, "health").code == 0


def test_dead_letters_are_listed_sent_again_and_dropped(deployed: Stack) -> None:
    settings = load_settings(deployed.home)
    instance = open_instance(deployed.home, settings)
    owner = databases.dsn(deployed.home, settings, instance, "trace_owner")
    with psycopg.connect(owner, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO queue.dead_letters (id, queue, body, receive_count, sent_at)"
            " SELECT n, 'other', jsonb_build_object('n', n), 10, now()"
            " FROM generate_series(900001, 900003) n"
        )
    home = deployed.home.root
    hint = f"nobody could handle 3 messages: trace queues dead list --home {home}"
    assert hint in trace(deployed, "queues").out
    assert "900002" in trace(deployed, "queues", "dead", "list").out
    assert '{"n": 900002}' in trace(deployed, "queues", "dead", "show", "900002").out
    assert "1 message sent again" in trace(deployed, "queues", "dead", "resend", "900001").out
    assert trace(deployed, "queues", "dead", "drop", "900001").code == 1, "it is none any more"
    dropped = trace(deployed, "queues", "dead", "drop", "--all", "--yes")
    assert dropped.out == "2 messages dropped\n"
    assert trace(deployed, "queues", "dead", "list").out == "no dead letters\n"


def test_personal_columns_of_a_dataset_that_there_is_not_are_not_granted(deployed: Stack) -> None:
    refused = trace(deployed, "users", "add", "eve", "--pii", "requets")
    assert (refused.code, "[unknown_dataset]" in refused.err) == (1, True)
    assert "did you mean requests?" in refused.err
    assert trace(deployed, "users", "add", "eve", "--pii", "requests").code == 0
    assert trace(deployed, "users", "grant", "eve", "--pii", "requets").code == 1
    assert trace(deployed, "users", "remove", "eve").code == 0


def test_health_exits_with_1_when_something_fires(deployed: Stack) -> None:
    assert trace(deployed, "health").code == 0
    for n in range(1000, 1020):
        control_client.trigger(deployed.home, "work", "request", n, n)
    wait_for("the failures", lambda: deployed.counts("work", "broken").get("Failed", 0) >= 20)
    said = trace(deployed, "health")
    assert said.code == 1
    assert "FIRE  failure_rate" in said.out, said.out
    firing = [r["code"] for r in trace(deployed, "health", "--json").json["rules"] if r["firing"]]
    assert "failure_rate" in firing
