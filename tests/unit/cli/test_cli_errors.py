from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner

import trace_platform.cli as cli
from trace_platform.app import doctor
from trace_platform.app.api_client.control_client import read_dag_file
from trace_platform.app.instance.home import Home
from trace_platform.app.instance.settings import Settings, load_settings
from trace_platform.app.supervise import control
from trace_platform.app.supervise.process import Progress
from trace_platform.app.supervise.process_record import ProcessRecord, start_ticks, write_record
from trace_platform.app.supervise.ready import mark_ready
from trace_platform.app.supervise.supervisor import HomeLock
from trace_platform.cli.deploy import progress_words
from trace_platform.cli.follow import goes_on
from trace_platform.cli.signals import stop_on_signals
from trace_platform.domain.errors import BadInput, PortInUse
from trace_platform.drivers.lite.certificates import ensure_certificates
from trace_platform.operators.spark.session_record import SessionRecord, write_session_record
from trace_platform.wire.plan import DeployProgress


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


def test_help_is_quick_because_it_imports_no_command() -> None:
    result = trace("--help")
    assert result.returncode == 0
    assert "doctor" in result.stdout
    loaded = "import sys, trace_platform.cli; print(*sys.modules)"
    modules = subprocess.check_output([sys.executable, "-c", loaded], text=True).split()
    assert not {"pydantic", "httpx", "duckdb", "psycopg", "pyarrow"} & set(modules)


def test_a_wrong_option_is_a_usage_error() -> None:
    result = trace("up", "--no-such-option")
    assert result.returncode == 2
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("querry", "query"), ("dataset", "datasets"), ("task", "tasks"), ("statsu", "status")],
)
def test_a_mistyped_command_is_answered_with_the_one_that_is_meant(typed: str, meant: str) -> None:
    result = CliRunner().invoke(cli.app, [typed])
    assert result.exit_code == 2
    assert f"'{typed}'. Did you mean '{meant}'" in result.stderr


def test_version_and_short_help() -> None:
    said = CliRunner().invoke(cli.app, ["--version"])
    assert (said.exit_code, said.stdout) == (0, f"trace {version('trace-platform')}\n")
    assert "trace deploy chain.yaml" in CliRunner().invoke(cli.app, ["-h"]).stdout
    whole = CliRunner().invoke(cli.app, ["datasets", "-h"]).stdout
    assert "..." not in whole.replace("[ARGS]...", "")


def test_a_deploy_of_nothing_is_a_usage_error() -> None:
    said = CliRunner().invoke(cli.app, ["deploy"])
    assert (said.exit_code, "give a DAG file, or --plan" in said.stderr) == (2, True)


def test_a_file_that_is_not_there_is_answered_with_those_that_are(tmp_path: Path) -> None:
    for name in ("chain.yaml", "follow.yaml", "notes.txt"):
        (tmp_path / name).touch()
    with pytest.raises(BadInput) as caught:
        read_dag_file(tmp_path / "chian.yaml")
    said = f"did you mean chain.yaml? in {tmp_path} there are: chain.yaml, follow.yaml"
    assert caught.value.hint == said
    with pytest.raises(BadInput) as caught:
        read_dag_file(tmp_path / "plan.json")
    assert caught.value.hint == f"there is no *.json in {tmp_path}"


def test_who_stops_watching_is_told_that_it_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt), goes_on("the build goes on: trace deploys chain"):
        raise KeyboardInterrupt
    assert capsys.readouterr().err == "the build goes on: trace deploys chain\n"


@pytest.mark.parametrize(
    ("partitions", "before", "tasks", "built", "said"),
    [
        (6, 12, 3, False, "6 partitions so far (12 before), 3 tasks left"),
        (1, 0, 1, False, "1 partition so far, 1 task left"),
        (0, 0, 0, False, "no task left"),
        (6, 12, 0, True, "6 partitions"),
        (0, 0, 0, True, "done"),
    ],
)
def test_how_far_a_build_is(
    partitions: int, before: int, tasks: int, built: bool, said: str
) -> None:
    job = DeployProgress(job="ingest", partitions=partitions, before=before, tasks=tasks)
    assert progress_words(job, built=built) == said


def test_a_wrong_master_is_the_options_fault(tmp_path: Path) -> None:
    result = trace("up", "--spark-master", "foo", "--home", str(tmp_path))
    assert (result.returncode, "config.toml" in result.stderr) == (1, False)
    assert result.stderr.startswith("error [invalid_config]: 'foo' is no Spark master\n")


def test_the_doctor_looks_at_the_spark_that_runs(tmp_path: Path) -> None:
    home = Home(tmp_path)
    write_session_record(home.spark, SessionRecord("spark://host:7077", os.getpid(), "app-1"))
    assert doctor.check_spark(home, Settings()).detail == "local[*], in the worker's JVM"
    lock = HomeLock.take(home)
    found = doctor.check_spark(home, Settings())
    lock.release()
    assert found.detail == "spark://host:7077 runs app-1 of this instance"


def test_the_doctor_names_settings_that_nothing_acts_on(tmp_path: Path) -> None:
    home = Home(tmp_path)
    found = doctor.check_settings(home, Settings())
    assert (found.level, found.detail) == ("ok", "the defaults")
    home.config_file.write_text('[runtimes.ecs_r]\ncapabilities = ["r"]\n')
    found = doctor.check_settings(home, load_settings(home, {}))
    assert (found.level, found.detail) == (
        "warn", "nothing acts on runtimes.ecs_r.capabilities yet",
    )  # fmt: skip


def test_a_wrong_setting_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("[worker]\nslots = 0\n")
    for command in (["up"], ["up", "--detach"], ["migrate"]):
        result = trace(*command, "--home", str(tmp_path))
        assert result.returncode == 1
        assert result.stderr.startswith("error [invalid_config]: ")
        assert "worker.slots" in result.stderr


def test_an_unknown_process_is_a_usage_error(tmp_path: Path) -> None:
    result = trace("serve", "nonsense", "--home", str(tmp_path))
    assert result.returncode == 2
    for words in ("no process 'nonsense'", "dispatcher", "worker", "query"):
        assert words in result.stderr


def test_logs_of_nothing_say_what_there_is(tmp_path: Path) -> None:
    result = trace("logs", "worker", "--home", str(tmp_path))
    assert result.returncode == 1
    assert result.stderr.startswith("error [not_found]: no log of 'worker'")


def test_a_home_without_logs_is_no_error(tmp_path: Path) -> None:
    result = trace("logs", "--home", str(tmp_path / "none"))
    assert result.returncode == 0
    assert result.stderr == f"no logs in {tmp_path / 'none'}\n"
    assert result.stdout == ""
    assert not (tmp_path / "none").exists()


def test_logs_as_json_are_json_alone(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    lines = ['{"event": "first", "note": "a\u2028b"}', "Exception in thread", "7"]
    (tmp_path / "logs" / "worker.jsonl").write_text("\n".join(lines) + "\n")
    result = trace("logs", "--json", "--home", str(tmp_path))
    found = [json.loads(line) for line in result.stdout.removesuffix("\n").split("\n")]
    assert found == [
        {"event": "first", "note": "a\u2028b"},
        {"event": "Exception in thread", "level": "info", "process": "worker"},
        {"event": "7", "level": "info", "process": "worker"},
    ]


def test_readable_logs_leave_out_what_is_not_set(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    line = {"event": "task_ended", "error": None, "task_id": 7, "path": "x" * 200}
    (tmp_path / "logs" / "worker.jsonl").write_text(json.dumps(line) + "\n")
    result = trace("logs", "--home", str(tmp_path), COLUMNS="80")
    assert result.stdout.count("\n") == 1
    assert "task_ended task_id=7" in result.stdout
    assert "None" not in result.stdout


def test_status_says_what_a_killed_supervisor_left(tmp_path: Path) -> None:
    home = tmp_path / ("deep" * 30) / "[x]"
    with subprocess.Popen(["sleep", "60"]) as process:
        ticks = start_ticks(process.pid)
        assert ticks
        record = ProcessRecord("query", process.pid, ticks, process.pid, [], 15, time.time(), 0)
        write_record(Home(home), record)
        result = trace("status", "--home", str(home), COLUMNS="10")
        narrow = trace("status", "--home", str(home), COLUMNS="20", FORCE_COLOR="1", TERM="xterm")
        process.kill()
    assert result.returncode == 3
    first, *table = result.stdout.splitlines()
    assert first.startswith(f"no supervisor in {home}; these were left over (trace up --home ")
    # A pipe has no width, and a terminal is never too narrow.
    assert any("query" in line and "left over" in line for line in table)
    assert f"  pid: {process.pid}\n" in re.sub(r"\x1b\[[0-9;]*m", "", narrow.stdout)


def test_what_is_left_over_is_not_said_to_be_ready(tmp_path: Path) -> None:
    home, told = Home(tmp_path), list[Progress]()
    ticks = start_ticks(os.getpid())
    assert ticks
    write_record(home, ProcessRecord("query", os.getpid(), ticks, 1, [], 15, 0.0, 0))
    mark_ready(home, "query")
    lock = HomeLock.take(home)
    control._report_news(home, {}, {os.getpid()}, told.append)
    control._report_news(home, {}, set(), told.append)
    lock.release()
    assert [each.state for each in told] == ["left over", "ready"]


def test_status_of_nothing(tmp_path: Path) -> None:
    result = trace("status", "--json", TRACE_HOME=str(tmp_path / "none"))
    assert result.returncode == 3
    assert json.loads(result.stdout)["supervisor"] is None
    assert not (tmp_path / "none").exists()


def test_down_of_nothing_is_no_error(tmp_path: Path) -> None:
    result = trace("down", "--home", str(tmp_path / "none"))
    assert result.returncode == 0
    assert not (tmp_path / "none").exists()
    as_json = trace("down", "--json", "--home", str(tmp_path / "none"))
    assert json.loads(as_json.stdout) == {
        "home": str(tmp_path / "none"),
        "stopped": False,
        "left": [],
    }


def test_doctor_names_a_damaged_port(tmp_path: Path) -> None:
    (tmp_path / "instance.json").write_text('{"ports": {"query": 99999}}')
    result = trace("doctor", "--home", str(tmp_path))
    assert result.returncode == 1
    assert "instance.json cannot be read" in result.stdout
    assert "OverflowError" not in result.stdout


def test_doctor_reports_every_check_as_json(tmp_path: Path) -> None:
    result = trace("doctor", "--json", "--home", str(tmp_path))
    found = {each["check"]: each for each in json.loads(result.stdout)}
    checks = {"python", "home", "disk", "settings", "ports", "postgres", "rpc", "java", "spark"}
    checks |= {"sandbox"}
    assert set(found) == checks
    assert {each["level"] for each in found.values()} <= {"ok", "warn", "fail"}
    failed = any(each["level"] == "fail" for each in found.values())
    assert result.returncode == (1 if failed else 0)


def test_doctor_names_a_dsn_that_is_wrong_without_its_password(tmp_path: Path) -> None:
    bad = "postgresql://me:hunter2@127.0.0.1:1/none"
    result = trace("doctor", "--home", str(tmp_path), TRACE_STATE_DSN=bad, TRACE_DATA_DSN=bad)
    assert result.returncode == 1
    assert "postgres.state_dsn cannot be reached" in result.stdout
    assert "hunter2" not in result.stdout + result.stderr


@pytest.mark.usefixtures("ctrl_c")
def test_nohup_outlives_the_terminal() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with stop_on_signals():
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
        assert callable(signal.getsignal(signal.SIGTERM))


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_exits_130_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "query.jsonl").write_text('{"event": "first"}\n')
    command = [sys.executable, "-m", "trace_platform.cli", "logs", "-f", "--home", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stderr
        assert b"first" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert process.stderr.read() == b""


def test_an_instance_that_starts_a_process_again_is_not_said_to_be_down(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    home = Home(tmp_path)
    ports = dict.fromkeys(("dispatcher", "query"), port)
    home.instance_file.write_text(json.dumps({"ports": ports}))
    home.secret("user_token")
    ensure_certificates(home.tls)
    lock = HomeLock.take(home)
    asked = (["tasks", "list"], ["query", "select 1"])
    told = [trace(*each, TRACE_HOME=str(tmp_path)).stderr for each in asked]
    lock.release()
    for said in told:
        assert "starts it again" in said
        assert "is not running" not in said
        assert "hint: try again in some seconds; `trace status`" in said
