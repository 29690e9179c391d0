from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import trace_platform.cli as cli
from trace_platform.domain.errors import PortInUse


def trace(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "trace_platform.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **env})


def run_main(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> int:
    def fail() -> None:
        raise error

    monkeypatch.setattr(cli, "app", fail)
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert isinstance(caught.value.code, int)
    return caught.value.code


def test_a_named_error_is_two_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    error = PortInUse("port 7700 of query is in use", hint="stop it")
    assert run_main(monkeypatch, error) == 1
    expected = "error [port_in_use]: port 7700 of query is in use\nhint: stop it\n"
    assert capsys.readouterr().err == expected


def test_an_unexpected_error_is_one_line_and_its_traceback_a_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_main(monkeypatch, ValueError("password=hunter2")) == 70
    said = capsys.readouterr().err
    assert "Traceback" not in said
    found = re.search(r"see (\S+)", said)
    assert found
    kept = Path(found[1])
    assert "ValueError" in kept.read_text()
    assert "hunter2" not in kept.read_text()
    kept.unlink()


def test_help_is_quick_and_imports_no_command() -> None:
    began = time.monotonic()
    result = trace("--help")
    took = time.monotonic() - began
    assert result.returncode == 0
    assert "doctor" in result.stdout
    assert took < 2.0  # 0.1 s on an idle machine
    heavy = "import sys, trace_platform.cli; sys.exit('psycopg' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", heavy]).returncode == 0


def test_a_wrong_option_is_a_usage_error() -> None:
    result = trace("up", "--no-such-option")
    assert result.returncode == 2
    assert "Traceback" not in result.stderr


def test_a_wrong_setting_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("[worker]\nslots = 0\n")
    for command in (["up"], ["up", "--detach"], ["migrate"]):
        result = trace(*command, "--home", str(tmp_path))
        assert result.returncode == 1
        assert result.stderr.startswith("error [invalid_config]: ")
        assert "worker.slots" in result.stderr


def test_an_unknown_process_is_named_in_the_log(tmp_path: Path) -> None:
    result = trace("serve", "nonsense", "--home", str(tmp_path))
    assert result.returncode == 1
    line = json.loads(result.stdout.splitlines()[-1])
    assert (line["event"], line["code"]) == ("process_failed", "invalid_config")


def test_logs_of_nothing_say_what_there_is(tmp_path: Path) -> None:
    result = trace("logs", "worker", "--home", str(tmp_path))
    assert result.returncode == 1
    assert result.stderr.startswith("error [not_found]: no log of 'worker'")


def test_status_of_nothing(tmp_path: Path) -> None:
    result = trace("status", "--json", TRACE_HOME=str(tmp_path / "none"))
    assert result.returncode == 3
    assert json.loads(result.stdout)["supervisor"] is None
    assert not (tmp_path / "none").exists()


def test_down_of_nothing_is_no_error(tmp_path: Path) -> None:
    result = trace("down", "--home", str(tmp_path / "none"))
    assert result.returncode == 0
    assert not (tmp_path / "none").exists()


def test_doctor_reports_every_check_as_json(tmp_path: Path) -> None:
    result = trace("doctor", "--json", "--home", str(tmp_path))
    found = {each["check"]: each for each in json.loads(result.stdout)}
    assert set(found) == {"python", "home", "disk", "ports", "postgres", "java", "sandbox"}
    assert {each["level"] for each in found.values()} <= {"ok", "warn", "fail"}
    failed = any(each["level"] == "fail" for each in found.values())
    assert result.returncode == (1 if failed else 0)


def test_doctor_names_a_dsn_that_is_wrong_without_its_password(tmp_path: Path) -> None:
    bad = "postgresql://me:hunter2@127.0.0.1:1/none"
    result = trace("doctor", "--home", str(tmp_path), TRACE_STATE_DSN=bad, TRACE_DATA_DSN=bad)
    assert result.returncode == 1
    assert "postgres.state_dsn cannot be reached" in result.stdout
    assert "hunter2" not in result.stdout + result.stderr


def test_ctrl_c_exits_130_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "query.jsonl").write_text('{"event": "first"}\n')
    command = [sys.executable, "-m", "trace_platform.cli", "logs", "-f", "--home", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stderr
        assert b"first" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130
        assert process.stderr.read() == b""
