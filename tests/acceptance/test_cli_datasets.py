"""What a user sees of datasets through the command, on a whole instance."""

from __future__ import annotations

from typing import LiteralString
from unittest import mock

import psycopg
import pytest

from tests.acceptance.test_cli_engine import trace
from tests.support.stack import Stack, wait_for
from trace_platform.app.api_client import control_client, dataset_client
from trace_platform.app.instance import databases
from trace_platform.app.instance.open_instance import open_instance
from trace_platform.app.instance.settings import load_settings
from trace_platform.drivers.lite.local_store import LocalStore

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]

DAG = """
name: work
jobs:
  - { name: request, activation: source, source: { kind: manual } }
  - name: echo
    activation: reactive
    runtime: ecs_platform
    operator: no_op
    inputs: [{ from: { job: request } }]
    config: { emit: true }
publish:
  requests: { from: { job: request } }
  echoes:
    from: { job: echo }
    description: What was asked for.
    schema: { block: { type: int64, from: [requests.block] } }
"""


@pytest.fixture(scope="module")
def stack(instance: Stack) -> Stack:
    running = instance
    assert trace(running, "datasets", "list").out.startswith("nothing is published")
    # Two generations of echo.
    for yaml in (DAG.replace("emit: true", "emit: false"), DAG):
        control_client.deploy(running.home, yaml, "work.yaml")
    control_client.trigger(running.home, "work", "request", 0, 9)
    wait_for("the echo", lambda: dataset_client.dataset(running.home, "echoes").age_s)
    return running


def test_datasets_are_listed_shown_and_explained(stack: Stack) -> None:
    listed = trace(stack, "datasets", "list").out
    assert "echoes" in listed
    assert "work.echo" in listed
    assert "fresh" in listed
    assert "work.echo.0" not in trace(stack, "datasets", "list", "--all").out, "it has a name"
    shown = trace(stack, "datasets", "show", "echoes").out
    for words in ("What was asked for.", "work.echo, output 0", "requests.block", "int64"):
        assert words in shown
    # The folder, as a file manager or DuckDB opens it, and beside it the name in the store.
    facts = dict(line.split(maxsplit=1) for line in shown.splitlines() if " " in line)
    found = dataset_client.dataset(stack.home, "echoes")
    assert facts["uri"] == found.location
    assert found.path is not None
    assert facts["path"].removesuffix(" (nothing there yet)") == found.path
    assert found.path.startswith(str(stack.home.objects))
    assert trace(stack, "datasets", "show", "echoes", "--json").json["path"] == found.path
    assert trace(stack, "datasets", "show", "echoes", "--json").json["state"] == "fresh"
    assert trace(stack, "why", "echoes").out.startswith("echoes is fresh")
    assert trace(stack, "why", "echoes", "--json").json["reasons"][0]["code"] == "fresh"
    assert "no partitions" in trace(stack, "datasets", "partitions", "echoes").out


def test_a_paused_job_is_why(stack: Stack) -> None:
    trace(stack, "pause", "work.request", "--reason", "a test")
    try:
        said = trace(stack, "why", "echoes").out
    finally:
        trace(stack, "resume", "work.request")
    assert said.startswith("echoes is blocked: work.request is paused")
    assert f"→ trace resume --home {stack.home.root} work.request" in said


def test_lineage_is_drawn_as_a_tree_a_diagram_and_json(stack: Stack) -> None:
    tree = trace(stack, "datasets", "lineage", "echoes").out
    assert "└─ (work.echo)" in tree
    assert "   └─ requests" in tree
    diagram = trace(stack, "datasets", "lineage", "echoes", "--format", "mermaid").out
    assert diagram.startswith("flowchart LR")
    found = trace(stack, "datasets", "lineage", "echoes", "--format", "json").json
    assert found["subject"] == "echoes"
    column = trace(stack, "datasets", "lineage", "echoes", "--column", "block").out
    assert "└─ requests.block" in column
    assert trace(stack, "datasets", "lineage", "echoes.block").out == column


def test_an_old_generation_is_purged_once_it_was_agreed_to(stack: Stack) -> None:
    versions = trace(stack, "datasets", "versions", "echoes", "--json").json["versions"]
    current, old = (version["dataset_version"] for version in versions)
    assert "current" in trace(stack, "datasets", "versions", "echoes").out
    refused = trace(stack, "datasets", "purge", "echoes", "--generation", current, "--yes")
    assert (refused.code, "[dataset_in_use]" in refused.err) == (1, True), refused.err
    none = trace(stack, "datasets", "purge", "echoes").out
    assert ("nothing to purge" in none, "--keep 0" in none) == (True, True), none
    with mock.patch("typer.confirm", return_value=False):
        declined = trace(stack, "datasets", "purge", "echoes", "--keep", "1")
    assert (declined.code, "1 would go" in declined.out) == (1, True)
    done = trace(stack, "datasets", "purge", "echoes", "--keep", "1", "--yes")
    assert "1 purged" in done.out, done.err
    shown = trace(stack, "datasets", "versions", "echoes", "--json").json["versions"]
    assert {v["dataset_version"]: bool(v["purged_at"]) for v in shown} == {
        current: False,
        old: True,
    }


def owner(stack: Stack, statement: LiteralString, *values: str) -> None:
    settings = load_settings(stack.home, {})
    instance = open_instance(stack.home, settings)
    dsn = databases.dsn(stack.home, settings, instance, "trace_owner")
    with psycopg.connect(dsn) as connection:
        connection.execute(statement, values)


def test_what_nobody_committed_is_listed_and_then_deleted(stack: Stack) -> None:
    clean = trace(stack, "datasets", "gc")
    assert (clean.code, "0 objects" in clean.out) == (0, True), clean.err
    dataset = dataset_client.dataset(stack.home, "echoes")
    # Of a task that was forgotten long ago.
    task_id = "00000000-0000-7000-8000-000000000000"
    owner(stack, "UPDATE garbage_walk SET forgotten_to = %s", task_id)
    left = f"{dataset.location}{task_id}/1/"
    LocalStore(str(stack.home.objects)).put(f"{left}rows.parquet", b"x")
    shown = trace(stack, "datasets", "gc", "--dry-run").out
    assert f"not_committed: {left}: 1 object," in shown
    assert "would be deleted" in shown
    assert trace(stack, "datasets", "gc", "--json").json["items"][0]["place"] == left
    assert trace(stack, "datasets", "gc", "--json").json["items"] == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("show", "echo"), "did you mean echoes?"),
        (("lineage", "work.ecko"), "did you mean work.echo?"),
        (("lineage", "echoes", "--column", "blok"), "did you mean block?"),
        (("lineage", "echoes.blok"), "did you mean block?"),
        (("purge", "echoes", "--keep", "1", "--generation", "abcd"), "give one of"),
        (("verify", "echoes", "--at", "00000000"), "trace datasets versions --home {home} echoes"),
        (
            ("partitions", "echoes", "--at", "00000000"),
            "trace datasets versions --home {home} echoes",
        ),
    ],
)
def test_what_cannot_be_is_said_plainly(stack: Stack, arguments: tuple[str], words: str) -> None:
    said = trace(stack, "datasets", *arguments)
    assert said.code in (1, 2)
    assert words.format(home=stack.home.root) in said.err
