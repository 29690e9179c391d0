from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import psutil
import psycopg
import pytest

from trace_platform.app.instance import databases
from trace_platform.app.instance.home import Home
from trace_platform.app.instance.open_instance import open_instance
from trace_platform.app.instance.settings import Settings
from trace_platform.app.supervise.control import stop_instance
from trace_platform.app.supervise.lite_stack import lite_stages
from trace_platform.app.supervise.process import Backoff, ProcessSpec, Progress
from trace_platform.app.supervise.process_record import (
    ProcessRecord,
    read_records,
    start_ticks,
    write_record,
)
from trace_platform.app.supervise.ready import is_ready
from trace_platform.app.supervise.status import instance_status
from trace_platform.app.supervise.supervisor import Stage, Supervisor, supervisor_pid
from trace_platform.domain.errors import Conflict, PortInUse, SetupError

Eventually = Callable[..., None]

READY = """
import os, pathlib, signal, sys
def ready():
    run = pathlib.Path(os.environ["TRACE_HOME"], "run")
    partial = run / f".{sys.argv[1]}.partial"
    partial.write_text(str(os.getpid()))
    partial.rename(run / f"{sys.argv[1]}.ready")
"""
QUIET = READY + "ready()\nsignal.pause()\n"
STUBBORN = (
    READY + "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nready()\nwhile True: signal.pause()\n"
)
# Its child ignores SIGTERM and is in a process group of its own, like Spark's Python daemon.
PARENT = (
    READY
    + """
import subprocess
code = "import os, signal; os.setpgid(0, 0); signal.signal(15, signal.SIG_IGN); signal.pause()"
subprocess.Popen([sys.executable, "-S", "-c", code])
ready()
signal.pause()
"""
)
SUPERVISE = """
import sys, threading
from trace_platform.app.instance.home import Home
from trace_platform.app.supervise.log import configure_logging
from trace_platform.app.supervise.process import ProcessSpec
from trace_platform.app.supervise.supervisor import Stage, Supervisor
from pathlib import Path
configure_logging("supervisor", sys.stderr)
command = [sys.executable, "-S", "-c", sys.argv[2], "parent"]
with Supervisor(Home(Path(sys.argv[1])), [Stage((ProcessSpec("parent", lambda: command),))]):
    sys.stdout.write("ready\\n")
    sys.stdout.flush()
    threading.Event().wait()
"""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path)
    yield home
    if supervisor_pid(home) != os.getpid():
        stop_instance(home)  # whatever a failed test left


def fake(name: str, code: str = QUIET, **settings: object) -> ProcessSpec:
    command = [sys.executable, "-S", "-c", code, name]
    return ProcessSpec(name, lambda: command, **settings)  # type: ignore[arg-type]


def record_of(home: Home, name: str) -> ProcessRecord | None:
    return next((each for each in read_records(home) if each.name == name), None)


def pid_of(home: Home, name: str) -> int:
    found = record_of(home, name)
    return found.pid if found else 0


def gone(*pids: int) -> bool:
    return all(start_ticks(pid) is None for pid in pids)


def test_a_clean_stop_leaves_no_process_and_an_empty_run_folder(home: Home) -> None:
    with Supervisor(home, [Stage((fake("one"), fake("two", PARENT)))]):
        pids = [pid_of(home, "one"), pid_of(home, "two")]
        pids += [child.pid for child in psutil.Process(pids[1]).children()]
        assert len(pids) == 3
        assert not gone(*pids)
    assert gone(*pids)
    assert list(home.run.iterdir()) == []


def test_what_dies_is_started_again(home: Home, eventually: Eventually) -> None:
    with Supervisor(home, [Stage((fake("one"),))]):
        for restarts in (1, 2):
            first = pid_of(home, "one")
            os.kill(first, signal.SIGKILL)
            eventually(
                lambda old=first: (
                    is_ready(home, "one", pid_of(home, "one")) and pid_of(home, "one") != old
                )
            )
            found = record_of(home, "one")
            assert found is not None
            assert found.restarts == restarts


def test_children_of_a_killed_process_end_before_it_starts_again(
    home: Home, eventually: Eventually
) -> None:
    with Supervisor(home, [Stage((fake("parent", PARENT),))]):
        parent = pid_of(home, "parent")
        (child,) = psutil.Process(parent).children()
        os.kill(parent, signal.SIGKILL)
        eventually(lambda: pid_of(home, "parent") != parent)
        assert gone(child.pid)


def test_the_pause_before_a_restart_doubles_and_ends_with_good_health() -> None:
    backoff = Backoff()
    pauses = [backoff.after(up_s=1.0) for _ in range(9)]
    assert 0.15 <= pauses[0] <= 0.2
    assert all(later > earlier for earlier, later in pairwise(pauses[:6]))
    assert all(7.5 <= pause <= 10 for pause in pauses[6:])
    assert backoff.after(up_s=31.0) <= 0.2


def test_stages_start_in_order_and_stop_in_reverse(home: Home) -> None:
    seen: list[Progress] = []
    prepared: list[bool] = []

    def prepare() -> None:
        prepared.append(is_ready(home, "first", pid_of(home, "first")))

    stages = [Stage((fake("first"),), then=prepare, name="prepare"), Stage((fake("second"),))]
    with Supervisor(home, stages, seen.append):
        pass
    assert prepared == [True]
    states = [(each.name, each.state) for each in seen]
    assert states == [
        ("first", "starting"),
        ("first", "ready"),
        ("prepare", "starting"),
        ("prepare", "ready"),
        ("second", "starting"),
        ("second", "ready"),
        ("second", "stopping"),
        ("second", "stopped"),
        ("first", "stopping"),
        ("first", "stopped"),
    ]


def test_a_process_that_will_not_stop_is_killed(home: Home) -> None:
    with Supervisor(home, [Stage((fake("stubborn", STUBBORN, grace_s=0.2),))]):
        pid = pid_of(home, "stubborn")
    assert gone(pid)


def test_a_process_that_cannot_start_ends_the_whole_start(home: Home) -> None:
    line = '{"level": "error", "event": "process_failed", "message": "no Java here"}'
    broken = fake("broken", f"import sys; sys.stdout.write({line!r} + chr(10)); sys.exit(3)")
    supervisor = Supervisor(home, [Stage((fake("fine"),)), Stage((broken,))])
    with pytest.raises(SetupError, match=r"broken exited with code 3.*no Java here") as caught:
        supervisor.start()
    assert "trace logs broken" in (caught.value.hint or "")
    assert supervisor_pid(home) is None
    assert list(home.run.iterdir()) == []


def test_a_process_that_is_never_ready_is_named(home: Home) -> None:
    slow = fake("slow", "import signal; signal.pause()", ready_s=0.3)
    with pytest.raises(SetupError, match="slow was not ready within"):
        Supervisor(home, [Stage((slow,))]).start()


def test_a_port_in_use_is_named_with_its_owner(home: Home) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(PortInUse) as caught:
            Supervisor(home, [Stage((fake("one", port=port),))]).start()
    assert caught.value.facts == {"process": "one", "port": port, "pid": os.getpid()}
    assert str(port) in caught.value.message


def test_a_second_supervisor_is_refused(home: Home) -> None:
    with Supervisor(home, [Stage((fake("one"),))]):
        with pytest.raises(Conflict, match=f"pid {os.getpid()}"):
            Supervisor(home, []).start()
        assert instance_status(home).ready
    with Supervisor(home, []):
        pass


@pytest.mark.parametrize("kill_parent_too", [False, True])
def test_what_a_killed_supervisor_left_is_stopped_by_the_next(
    home: Home, eventually: Eventually, kill_parent_too: bool
) -> None:
    left = killed_supervisor(home, eventually, kill_parent_too)
    assert not gone(left[-1])
    assert instance_status(home).supervisor is None

    with Supervisor(home, [Stage((fake("parent", PARENT),))]):
        assert gone(*left)
        assert pid_of(home, "parent") not in left


def test_down_stops_what_a_killed_supervisor_left(home: Home, eventually: Eventually) -> None:
    left = killed_supervisor(home, eventually, kill_parent_too=False)
    assert stop_instance(home)
    assert gone(*left)
    assert list(home.run.iterdir()) == []
    assert not stop_instance(home)


def killed_supervisor(home: Home, eventually: Eventually, kill_parent_too: bool) -> list[int]:
    """Pids that a supervisor left when it was killed: a process and its child."""
    supervisor = subprocess.Popen(
        [sys.executable, "-c", SUPERVISE, str(home.root), PARENT],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert supervisor.stdout
    assert supervisor.stdout.readline() == b"ready\n"
    parent = pid_of(home, "parent")
    (child,) = psutil.Process(parent).children()
    supervisor.kill()
    supervisor.communicate()
    if kill_parent_too:
        os.kill(parent, signal.SIGKILL)
        eventually(lambda: gone(parent))
    return [parent, child.pid]


def test_a_stranger_with_a_recorded_pid_is_left_alone(home: Home) -> None:
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as stranger:
        ticks = start_ticks(stranger.pid)
        assert ticks is not None
        write_record(
            home, ProcessRecord("one", stranger.pid, ticks - 1, stranger.pid, [], 15, 0.0, 0)
        )
        with Supervisor(home, [Stage((fake("one"),))]):
            assert stranger.poll() is None
        stranger.kill()


def test_a_copy_of_a_home_has_nothing_of_the_one_that_runs(home: Home, tmp_path: Path) -> None:
    with Supervisor(home, [Stage((fake("one"),))]):
        copy = Home(shutil.copytree(home.root, tmp_path / "copy"))
        assert instance_status(copy).processes == []
        assert not stop_instance(copy)
        with Supervisor(copy, [Stage((fake("one"),))]):
            assert pid_of(copy, "one") != pid_of(home, "one")
        assert instance_status(home).ready


def test_a_stack_that_stops_says_so(home: Home, eventually: Eventually) -> None:
    """One process is gone already, the other takes its time."""
    slow = READY + (
        "import time\nleave = pathlib.Path(os.environ['TRACE_HOME'], 'leave')\n"
        "signal.signal(signal.SIGTERM, lambda *_: None)\nready()\nsignal.pause()\n"
        "while not leave.exists(): time.sleep(0.01)\n"
    )
    stages = [Stage((fake("first", slow),)), Stage((fake("last"),))]
    supervisor = Supervisor(home, stages)
    supervisor.start()
    assert not instance_status(home).stopping
    stopping = threading.Thread(target=supervisor.stop)
    stopping.start()
    try:
        eventually(lambda: gone(pid_of(home, "last")))
        found = instance_status(home)
        assert {each.name: each.state for each in found.processes} == {
            "first": "stopping",
            "last": "stopped",
        }
        assert (found.stopping, found.ready) == (True, False)
    finally:
        (home.root / "leave").touch()
        stopping.join()
    assert list(home.run.iterdir()) == []


def test_output_goes_to_the_log_of_the_process(home: Home) -> None:
    speaks = READY + "sys.stderr.write('to stderr\\n')\nsys.stdout.write('to stdout\\n')\n"
    speaks += "sys.stdout.flush()\nready()\nsignal.pause()\n"
    with Supervisor(home, [Stage((fake("one", speaks),))]):
        pass
    log = (home.logs / "one.jsonl").read_text()
    assert sorted(log.splitlines()) == ["to stderr", "to stdout"]


def test_the_embedded_postgres_comes_back_with_its_rows(home: Home, eventually: Eventually) -> None:
    settings = Settings()
    instance = open_instance(home, settings)
    with Supervisor(home, lite_stages(home, settings, instance, names=())):
        dsn = databases.dsn(home, settings, instance, "trace_owner")
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 1 AS n")
        server = pid_of(home, "postgres")
        os.kill(server, signal.SIGKILL)
        eventually(lambda: pid_of(home, "postgres") != server and instance_status(home).ready)
        with psycopg.connect(dsn) as connection:
            assert connection.execute("SELECT n FROM kept").fetchall() == [(1,)]
        again = pid_of(home, "postgres")
    assert gone(server, again)
