"""What a log holds was written by anybody: escapes are shown, never sent."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import uuid4

import pytest
from typer.testing import CliRunner

from trace_platform.app.api_client import control_client
from trace_platform.cli import app
from trace_platform.wire.control import TaskLog

EVIL = "\x1b]0;evil\x07"
SHOWN = "\\x1b]0;evil\\x07"
LINES = (
    {"timestamp": "2026-01-31T12:00:00.000Z", "level": "info", "event": f"an event {EVIL}"},
    {"timestamp": "2026-01-31T12:00:01.000Z", "level": EVIL, "event": "a level"},
    {"timestamp": EVIL * 3, "level": "info", "event": "a time"},
    {"event": "a fact", "k": EVIL},
    {"event": "a name", EVIL: 1},
    {"event": "a nested fact", "k": {"of": [EVIL]}},
    {"event": "an exception", "exception": f"Traceback\n{EVIL}"},
)


def told(*arguments: str) -> str:
    result = CliRunner().invoke(app, [*arguments], color=True)
    assert result.exit_code == 0, result.output
    return result.output


def check(output: str) -> None:
    assert EVIL not in output
    assert "\x07" not in output
    assert output.count(SHOWN) >= len(LINES) - 2  # a time is cut, nested facts are reprs already


def test_the_logs_of_processes_send_no_escapes(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    raw = [*map(json.dumps, LINES), f"no JSON {EVIL}"]
    (tmp_path / "logs" / "worker.jsonl").write_text("\n".join(raw) + "\n")
    output = told("logs", "--home", str(tmp_path))
    check(output)
    assert f"no JSON {SHOWN}" in output


def test_the_log_of_a_task_sends_no_escapes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = uuid4()
    lines = [*LINES, {"event": f"no JSON {EVIL}"}, {"event": "", "traceback": EVIL}]
    log = TaskLog(task_id=task, attempt=1, lines=lines)
    monkeypatch.setattr(control_client, "task_log", lambda *_: log)
    output = told("tasks", "logs", str(task), "--home", str(tmp_path))
    check(output)
    assert f"no JSON {SHOWN}" in output


def test_a_line_reads_as_it_did(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    line = {"timestamp": "2026-01-31T12:00:00.000Z", "level": "warning", "event": "late", "task": 7}
    (tmp_path / "logs" / "worker.jsonl").write_text(f"{json.dumps(line)}\nno JSON\n")
    output = CliRunner().invoke(app, ["logs", "--home", str(tmp_path)]).output
    assert output.splitlines() == [
        "12:00:00.000 warning  worker      late task=7",
        f"{'':12} {'':8} worker      no JSON",
    ]
