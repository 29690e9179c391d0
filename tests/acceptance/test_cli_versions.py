"""DAGs as code through the command, on a whole instance: plan, deploy, look, roll back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.acceptance.test_cli_engine import trace
from tests.support.stack import Stack

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]

DAG = """name: flow
jobs:
  - name: request
    activation: source
    source: { kind: manual }
  - name: split
    activation: reactive
    runtime: ecs_platform
    operator: range_splitter
    inputs: [{ from: { job: request } }]
    config: { chunk_blocks: 10 }
  - name: echo
    activation: reactive
    runtime: ecs_platform
    operator: no_op
    inputs: [{ from: { job: split } }]
    config: { emit: true }
publish:
  chunks: { from: { job: split } }
"""


@pytest.fixture(scope="module")
def stack(instance: Stack) -> Stack:
    return instance


def test_a_dag_from_plan_to_rollback(stack: Stack, tmp_path: Path) -> None:
    file, plan = tmp_path / "flow.yaml", tmp_path / "plan.json"
    file.write_text(DAG)
    assert "not deployed yet" in trace(stack, "plan", str(file)).out
    first = trace(stack, "deploy", str(file), "--json").json
    assert (first["status"], first["new"]) == ("CutOver", True)
    assert "nothing changes" in trace(stack, "plan", str(file)).out
    triggered = trace(
        stack, "sources", "trigger", "flow", "request", "--from", "0", "--to", "49", "--wait"
    )
    assert triggered.code == 0, triggered.err

    file.write_text(DAG.replace("chunk_blocks: 10", "chunk_blocks: 25"))
    said = trace(stack, "plan", str(file), "--out", str(plan)).out
    assert "~ changed   split" in said
    assert "~ affected  echo   " in said
    assert "config changed" in said
    done = trace(stack, "deploy", "--plan", str(plan))
    assert done.code == 0, done.err
    assert "is being built (split, echo); the old one serves" in done.out
    assert done.out.rstrip().endswith("(3 jobs; new or changed: split)")
    diff = trace(stack, "dag", "diff", "flow", str(first["dag_version"])[:8]).out
    assert "-    chunk_blocks: 25" in diff
    assert "+    chunk_blocks: 10" in diff

    back = trace(stack, "rollback", "flow")
    assert f"version {first['dag_version'][:8]} is active again" in back.out
    versions = trace(stack, "dag", "versions", "flow", "--json").json["versions"]
    assert [each["dag_version"] for each in versions if each["active"]] == [first["dag_version"]]
    assert trace(stack, "dag", "show", "flow").out == DAG
    kinds = [(each["kind"], each["status"]) for each in _deploys(stack)]
    assert kinds == [("rollback", "CutOver"), ("deploy", "CutOver"), ("deploy", "CutOver")]


def test_a_plan_that_does_not_hold_any_more_is_refused(stack: Stack, tmp_path: Path) -> None:
    file, plan = tmp_path / "stale.yaml", tmp_path / "plan.json"
    file.write_text(DAG.replace("name: flow", "name: stale").replace("chunks:", "stale_chunks:"))
    trace(stack, "plan", str(file), "--out", str(plan))
    file.write_text(file.read_text().replace("chunk_blocks: 10", "chunk_blocks: 50"))
    assert trace(stack, "deploy", str(file)).code == 0
    refused = trace(stack, "deploy", "--plan", str(plan))
    assert (refused.code, refused.err.partition(":")[0]) == (1, "error [stale_plan]")
    plan.write_text(json.dumps({"yaml": "name: x"}))
    refused = trace(stack, "deploy", "--plan", str(plan))
    assert "is not a saved plan" in refused.err
    assert "give a DAG file, or --plan" in trace(stack, "deploy").err


def test_what_cannot_be_gone_back_to_is_said(stack: Stack) -> None:
    assert "there is no DAG 'nowhere'" in trace(stack, "rollback", "nowhere").err
    assert "there is no DAG 'nowhere'" in trace(stack, "dag", "versions", "nowhere").err


def _deploys(stack: Stack) -> list[dict[str, str]]:
    deploys: list[dict[str, str]] = trace(stack, "deploys", "flow", "--json").json["deploys"]
    return deploys
