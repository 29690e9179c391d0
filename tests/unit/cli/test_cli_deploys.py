from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from trace_platform.app.api_client import control_client
from trace_platform.cli.deploy import deploy
from trace_platform.cli.deploys import deploys
from trace_platform.cli.plan import plan
from trace_platform.wire.control import DeployResponse
from trace_platform.wire.plan import DeployList, DeployStatus, Plan

ID = UUID("01a1e1a6-89ab-7000-8000-000000000000")
NOW = datetime.now(UTC)


def test_warnings_are_said_on_standard_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    warnings = ["dag.yaml:8:5: warning: jobs[1].idle_timeout: no worker is stopped"]
    made = Plan(
        dag_name="chain", file="dag.yaml", base_version=None, content_hash="h", jobs=[],
        publishes=[], readers=[], slots=1, warnings=warnings,
    )  # fmt: skip
    done = DeployResponse(
        dag_name="chain", dag_version=ID, deploy_id=None, status="Unchanged", new=False, jobs=[],
        added=[], builds=[], warnings=warnings,
    )  # fmt: skip
    monkeypatch.setattr(control_client, "plan", lambda *_: made)
    monkeypatch.setattr(control_client, "deploy", lambda *_: done)
    (tmp_path / "dag.yaml").write_text("name: chain")
    for command in (plan, deploy):
        command(file=tmp_path / "dag.yaml", home=tmp_path)
        said = capsys.readouterr()
        assert said.err.splitlines() == warnings
        assert "warning" not in said.out


def test_a_deploy_is_shown_with_what_names_it_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--at` of queries takes the beginning of its id, and of its version's."""
    one = DeployStatus(
        deploy_id=ID,
        dag_name="chain",
        kind="deploy",
        from_version=None,
        to_version=UUID("4f2a61c0-0000-4000-8000-000000000000"),
        status="CutOver",
        error=None,
        started_at=NOW,
        ended_at=NOW,
    )

    def answer(*_: Any) -> DeployList:
        return DeployList(deploys=[one])

    monkeypatch.setattr(control_client, "deploys", answer)
    deploys(home=tmp_path)
    row = capsys.readouterr().out.splitlines()[1].split()
    assert row[:6] == ["01a1e1a6-89ab", "chain", "deploy", "-", "4f2a61c0", "CutOver"]
