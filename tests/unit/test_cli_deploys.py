from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from trace_platform.app import control_client
from trace_platform.cli.deploys import deploys
from trace_platform.wire.plan import DeployList, DeployStatus

ID = UUID("01a1e1a6-89ab-7000-8000-000000000000")
NOW = datetime.now(UTC)


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
