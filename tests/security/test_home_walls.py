"""Another user of the machine gets nothing out of a home, and cannot hold it up.

As root, a second user is a real one. Otherwise the modes say what one could do.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import pwd
import re
import select
import shutil
import stat
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pytest
from structlog.testing import capture_logs
from typer.testing import CliRunner

from tests.support.own_port import own_port
from tests.support.stack import trace, wait_for
from trace_platform.app import doctor
from trace_platform.app.instance.close_home import close_home, private_files
from trace_platform.app.instance.home import Home
from trace_platform.app.instance.open_instance import open_instance
from trace_platform.app.instance.settings import Settings
from trace_platform.app.processes import NAMES
from trace_platform.app.supervise import supervisor
from trace_platform.app.supervise.control import stop_instance
from trace_platform.app.supervise.process_record import start_ticks
from trace_platform.app.supervise.rotate_logs import Rotation, rotate_all
from trace_platform.app.supervise.supervisor import HomeLock, supervisor_pid
from trace_platform.cli import app
from trace_platform.domain.accounts import HOME_GROUP, POSTGRES, QUERY
from trace_platform.domain.errors import SetupError
from trace_platform.drivers.lite.embedded_postgres import EmbeddedPostgres
from trace_platform.drivers.lite.file_lock import locked
from trace_platform.drivers.lite.private_file import append_private
from trace_platform.query.protocol.messages import Limits
from trace_platform.query.service import hot_rows
from trace_platform.query.service.children import ChildPool

BUCKET = "trace-data"
STRANGER = 12345
AS_ROOT = os.geteuid() == 0
needs_root = pytest.mark.skipif(not AS_ROOT, reason="only root can become somebody else")


@pytest.fixture
def home() -> Iterator[Home]:
    """Where every user gets to: pytest's own folders are closed to all but one."""
    parent = Path(tempfile.mkdtemp(prefix="trace-walls-"))
    parent.chmod(0o755)
    yield Home(parent / "home")
    stop_instance(Home(parent / "home"))
    shutil.rmtree(parent)


# --- Files


# A process of an instance: nothing of it but what it writes, and how.
_WRITES = """
import os, sys
from pathlib import Path
from trace_platform.app.instance.close_home import close_home, set_umask
from trace_platform.app.instance.home import Home
os.umask(0)
home = Home(Path(sys.argv[1]))
close_home(home, "trace-data")
set_umask(writes_datasets=True)
from trace_platform.drivers.lite.local_store import LocalStore
store = LocalStore(str(home.objects))
store.put("s3://trace-data/org/1/dataset/2/blocks_0_9.parquet", b"rows")
store.put("s3://trace-scratch/org/1/dataset/2/batch", b"rows")
(home.logs / "worker.jsonl").write_text("a line")
(home.spark / "local").mkdir()
(home.spark / "local" / "shuffle").write_text("rows")
(home.run / "worker.ready").write_text("1")
"""


def written(home: Home) -> Path:
    subprocess.run([sys.executable, "-c", _WRITES, str(home.root)], check=True)
    return home.root / "objects" / BUCKET / "org/1/dataset/2/blocks_0_9.parquet"


def open_to_others(home: Home) -> list[str]:
    """What the modes let others do. As root, groups that only parts of the instance have pass
    through some folders and read datasets; everything else is below a folder that is closed."""
    return [
        f"{stat.filemode(mode)} {path}"
        for path in (home.root, *home.root.rglob("*"))
        if not stat.S_ISLNK(mode := _mode(path)) and mode & (0o007 if AS_ROOT else 0o077)
    ]


def _mode(path: Path) -> int:
    """0 of what is gone by now: a server that runs makes and deletes files."""
    try:
        return path.lstat().st_mode
    except FileNotFoundError:
        return 0


# Tries all that is below a folder, whose paths it is told, and prints what it got at.
_STRANGER = """
import json, os, sys
uid, *groups = map(int, sys.argv[1:])
os.setgroups(groups)
os.setgid(groups[0])
os.setuid(uid)
for path in json.load(sys.stdin):
    for right in (os.R_OK, os.W_OK) + ((os.X_OK,) if os.path.isdir(path) else ()):
        if os.access(path, right):
            print(path)
"""


def reached_by(home: Home, uid: int, *groups: int) -> set[str]:
    paths = [str(home.root), *map(str, home.root.rglob("*"))]
    assert len(paths) > 5
    command = ["/usr/bin/env", "python3", "-I", "-S", "-c", _STRANGER, str(uid), *map(str, groups)]
    done = subprocess.run(command, input=json.dumps(paths), capture_output=True, text=True)
    assert not done.returncode, done.stderr
    return set(done.stdout.splitlines())


@pytest.mark.stack
def test_a_whole_instance_is_closed_to_others_whatever_the_umask(home: Home) -> None:
    before = os.umask(0)
    try:
        home.root.mkdir()
        home.config_file.write_text("[worker]\nprewarm = false\n")
        with trace(home.root, "up") as instance:
            ended = instance.process.poll
            wait_for("a start", lambda: "is ready in" in instance.text() or ended() is not None)
            assert ended() is None, instance.text()
            assert open_to_others(home) == []
            masks = {name: _umask(instance.pid(name)) for name in NAMES}
            if AS_ROOT:
                _nobody_else_gets_in(home)
    finally:
        os.umask(before)
    of_datasets = 0o027 if AS_ROOT else 0o077
    assert masks == dict.fromkeys(NAMES, 0o077) | dict.fromkeys(
        ("dispatcher", "worker"), of_datasets
    )


def _umask(pid: int) -> int:
    [found] = re.findall(r"^Umask:\s*(\d+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return int(found, 8)


def _nobody_else_gets_in(home: Home) -> None:
    """Not even a member of root's group."""
    assert reached_by(home, STRANGER, STRANGER) == set()
    assert reached_by(home, STRANGER, 0) == set()


def test_nothing_that_a_process_writes_is_open_to_others(home: Home) -> None:
    assert written(home).read_bytes() == b"rows"
    assert open_to_others(home) == []
    closed = (home.logs, home.run, home.spark)
    assert {stat.S_IMODE(path.stat().st_mode) for path in closed} == {0o700}
    if AS_ROOT:
        _nobody_else_gets_in(home)


@needs_root
def test_a_query_reads_datasets_and_nothing_else(home: Home) -> None:
    rows = written(home)
    folders = {str(path) for path in rows.parents if path.is_relative_to(home.root)}
    passed = folders | {str(home.query)}
    assert reached_by(home, QUERY, QUERY, HOME_GROUP) == {str(rows)} | passed
    with pytest.raises(subprocess.CalledProcessError):
        _as_user(QUERY, f"open({str(rows)!r}, 'ab')")


@needs_root
def test_rows_that_the_service_brings_are_the_query_processs_own(home: Home) -> None:
    close_home(home, BUCKET)
    scratch = Path(tempfile.mkdtemp(dir=home.query))
    os.chown(scratch, QUERY, QUERY)
    rows = scratch / "hot.arrow"
    with private_files(), hot_rows._new_file(rows) as file:
        file.write(b"rows")
    _as_user(QUERY, f"assert open({str(rows)!r}).read() == 'rows'")
    assert stat.S_IMODE(rows.stat().st_mode) == 0o600
    _nobody_else_gets_in(home)


def _as_user(uid: int, code: str) -> None:
    become = f"import os; os.setgroups([{HOME_GROUP}]); os.setgid({uid}); os.setuid({uid})\n"
    command = ["/usr/bin/env", "python3", "-I", "-S", "-c", become + code]
    subprocess.run(command, check=True, capture_output=True)


def test_a_home_of_an_older_version_is_closed_at_the_next_start(home: Home) -> None:
    before = os.umask(0)
    try:
        for folder in ("objects/trace-data/org", "logs", "run", "spark", "query", "secrets"):
            (home.root / folder).mkdir(parents=True)
        for file in ("objects/trace-data/org/rows", "logs/worker.jsonl", "config.toml"):
            (home.root / file).write_text("for everyone")
        (home.root / "spark" / "link").symlink_to("/etc/hostname")
    finally:
        os.umask(before)
    outside = Path("/etc/hostname").stat()

    close_home(home, BUCKET)

    assert open_to_others(home) == []
    assert Path("/etc/hostname").stat() == outside
    assert (home.root / "objects/trace-data/org/rows").read_text() == "for everyone"


def test_a_folder_that_has_other_things_in_it_stays_as_it_was(home: Home) -> None:
    home.root.mkdir(mode=0o755)
    for name in ("thesis", "src"):
        (home.root / name).mkdir(mode=0o755)
    written(home)
    for path in (home.root, home.root / "thesis", home.root / "src"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o755
    for name in ("logs", "run", "spark"):
        assert stat.S_IMODE((home.root / name).stat().st_mode) == 0o700


def test_objects_on_another_disk_are_closed_there(home: Home) -> None:
    disk = home.root.parent / "disk"
    (disk / BUCKET).mkdir(parents=True)
    disk.chmod(0o755)
    home.root.mkdir()
    (home.root / "objects").symlink_to(disk)
    close_home(home, BUCKET)
    assert not stat.S_IMODE(disk.stat().st_mode) & 0o007
    assert not stat.S_IMODE((disk / BUCKET).stat().st_mode) & 0o007


def test_the_doctor_names_what_is_open_and_a_start_mends_it(home: Home) -> None:
    close_home(home, BUCKET)
    assert doctor.check_home(home).level == "ok"
    home.logs.chmod(0o755)
    found = doctor.check_home(home)
    assert (found.level, "home/logs" in found.detail) == ("warn", True)
    assert "trace up" in found.mend
    close_home(home, BUCKET)
    assert doctor.check_home(home).level == "ok"


# --- What somebody else has put there


def planted(home: Home, part: str) -> Path:
    """A whole home, of which that part is a stranger's."""
    close_home(home, BUCKET)
    home.config_file.write_text("[worker]\nprewarm = false\n")
    (home.secrets / "user_token").write_text("one that others know")
    home.logs.mkdir(exist_ok=True)
    path = home.root / part
    os.chown(path, STRANGER, STRANGER)
    return path


@needs_root
@pytest.mark.parametrize("part", [".", "config.toml", "secrets", "objects", "logs"])
def test_a_home_that_has_a_part_of_another_user_is_refused(home: Home, part: str) -> None:
    path = planted(home, part)
    with pytest.raises(SetupError, match=rf"{path} belongs to another user \(uid {STRANGER}\)"):
        Home.at(home.root)


@needs_root
def test_what_others_could_put_into_an_open_folder_is_looked_at(home: Home) -> None:
    path = planted(home, "secrets/user_token")
    assert Home.at(home.root) == home, "they could not have put it there"
    home.secrets.chmod(0o777)
    with pytest.raises(SetupError, match=f"{path} belongs to another user"):
        Home.at(home.root)


@needs_root
@pytest.mark.parametrize(
    "command", [["up"], ["status"], ["query", "select 1"], ["doctor"], ["doctor", "--security"]]
)
def test_no_command_uses_a_home_of_another_user(home: Home, command: list[str]) -> None:
    planted(home, ".")
    done = CliRunner().invoke(app, [*command, "--home", str(home.root)])
    assert done.exit_code != 0
    assert "belongs to another user" in done.output + str(done.exception)


@needs_root
def test_a_home_that_a_stranger_makes_meanwhile_is_refused(home: Home) -> None:
    found = Home.at(home.root)
    home.root.mkdir()
    os.chown(home.root, STRANGER, STRANGER)
    with pytest.raises(SetupError, match="belongs to another user"):
        close_home(found, BUCKET)


@needs_root
def test_the_users_of_an_instance_are_no_strangers(home: Home) -> None:
    close_home(home, BUCKET)
    home.postgres.mkdir()
    for user in (POSTGRES, _nobody()):
        os.chown(home.postgres, user, user)
        assert Home.at(home.root) == home
    home.root.chmod(0o777)
    with pytest.raises(SetupError, match="postgres belongs to another user"):
        Home.at(home.root)


def test_no_log_is_written_through_a_link(home: Home) -> None:
    outside = home.root.parent / "outside"
    outside.write_text("as it was")
    (home.logs / "supervisor.jsonl").symlink_to(outside)
    with pytest.raises(SetupError, match="is a link"):
        append_private(home.logs / "supervisor.jsonl")
    assert outside.read_text() == "as it was"


# --- Users


@pytest.fixture
def database(home: Home) -> Iterator[EmbeddedPostgres]:
    close_home(home, BUCKET)
    server = EmbeddedPostgres(home.postgres, own_port(home.root.parent / "port"), "a-password")
    server.initialise()
    yield server
    server.stop()


@needs_root
def test_postgres_is_a_user_of_its_own_in_a_home_that_is_closed(
    home: Home, database: EmbeddedPostgres
) -> None:
    process = database.spawn(home.logs / "postgres.jsonl")
    database.wait_ready(process)
    assert psutil.Process(process.pid).uids().effective == POSTGRES
    owners = {path.lstat().st_uid for path in home.postgres.rglob("*")}
    assert owners == {POSTGRES}
    assert reached_by(home, STRANGER, STRANGER) == set()
    for user in (QUERY, _nobody()):
        reached = reached_by(home, user, user, HOME_GROUP)
        assert not any(path.startswith(str(home.postgres)) for path in reached)
    database.stop()
    process.wait()


def _nobody() -> int:
    return pwd.getpwnam("nobody").pw_uid


@needs_root
def test_a_database_that_was_nobodys_is_taken_over(home: Home, database: EmbeddedPostgres) -> None:
    for path in (home.postgres, *home.postgres.rglob("*")):
        os.chown(path, _nobody(), _nobody(), follow_symlinks=False)
    process = database.spawn(home.logs / "postgres.jsonl")
    database.wait_ready(process)
    assert psutil.Process(process.pid).uids().effective == POSTGRES
    database.stop()
    process.wait()


# Run in the place of a query process: confined as one is, it tries what it is told.
_CONFINED = """
import json, os, sys
from trace_platform.confinement import confine
confine.confine(json.loads(sys.argv[1]), sys.argv[2])
try:
    exec(sys.argv[3])
    print("done")
except OSError as error:
    print("refused:", error.strerror)
"""


def confined(home: Home, attempt: str, **given: object) -> str:
    scratch = Path(tempfile.mkdtemp(dir=home.query))
    readable = json.dumps([str(home.objects / BUCKET)])
    code = textwrap.dedent(attempt)
    command = [sys.executable, "-I", "-c", _CONFINED, readable, str(scratch), code]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env={}, **given)  # type: ignore[call-overload]
    shutil.rmtree(scratch)
    return str(done.stdout).strip()


def test_a_query_process_reads_nothing_of_postgres(home: Home, database: EmbeddedPostgres) -> None:
    rows = written(home)
    verifiers = home.postgres / "global" / "pg_filenode.map"
    assert verifiers.stat().st_size
    assert confined(home, f"open({str(rows)!r}).read()") == "done"
    assert confined(home, f"open({str(verifiers)!r}, 'rb')").startswith("refused:")
    assert confined(home, f"os.listdir({str(home.postgres)!r})").startswith("refused:")


@needs_root
def test_without_landlock_the_user_alone_keeps_a_query_from_postgres(
    home: Home, database: EmbeddedPostgres
) -> None:
    written(home)
    alone = """
        import ctypes
        from trace_platform.confinement import privileges
        privileges.drop(ctypes.CDLL(None), [], {scratch!r})
        open({path!r}, "rb")
    """
    scratch = tempfile.mkdtemp(dir=home.query)
    for path in (home.postgres / "PG_VERSION", home.postgres / "global" / "pg_control"):
        code = textwrap.dedent(alone.format(scratch=scratch, path=str(path)))
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert "PermissionError" in done.stderr
    shutil.rmtree(scratch)


# --- Logs


# Starts a query process as the service does, and then lets go of its own standard error.
_SERVES = """
import asyncio, os, sys
from pathlib import Path
from trace_platform.query.service.children import ChildPool
from trace_platform.query.protocol.messages import Limits

async def main():
    pool = ChildPool(1, Limits(), readable=[], scratch=Path(sys.argv[1]))
    await pool.start()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    print("started", flush=True)
    sys.stdin.read()
    await pool.close()

asyncio.run(main())
"""


def test_a_query_process_cannot_empty_the_log_of_the_service(home: Home) -> None:
    """Whoever has the log open can empty it: here it is a pipe, which ends when nobody has it."""
    close_home(home, BUCKET)
    command = [sys.executable, "-c", _SERVES, str(home.query)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as service:
        assert service.stdout is not None
        assert service.stderr is not None
        assert service.stdout.readline() == b"started\n"
        ended = bool(select.select([service.stderr], [], [], 5.0)[0])
        service.communicate()
    assert ended
    log = home.logs / "query.jsonl"
    log.write_text("a line")
    assert confined(home, f"os.truncate({str(log)!r}, 0)").startswith("refused:")
    assert log.read_text() == "a line"


def test_what_a_query_process_says_in_its_standard_error_is_logged(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The loader of programs complains of this, in the child's standard error.
    speaks = {"LD_PRELOAD": "/no/such/library"}
    monkeypatch.setattr("trace_platform.query.service.children._ENVIRONMENT", speaks)

    async def scenario() -> None:
        pool = ChildPool(1, Limits(), readable=[], scratch=home.query)
        await pool.start()
        await pool.close()

    with capture_logs() as logged:
        asyncio.run(scenario())
    [said] = [line["text"] for line in logged if line["event"] == "query_child_said"]
    assert "/no/such/library" in said


def test_a_log_that_grows_while_its_process_runs_is_moved_aside(home: Home) -> None:
    log = home.logs / "dispatcher.jsonl"
    with append_private(log) as written:
        for line in (b"first\n", b"second\n", b"third\n", b"fourth\n"):
            written.write(line * 100)
            written.flush()
            rotate_all(home.logs, Rotation(max_bytes=500, keep_bytes=1_400))
        written.write(b"last\n")
    assert log.read_text() == "last\n"
    kept = {path.name: path.read_text()[:6] for path in home.logs.iterdir() if path != log}
    assert kept == {"dispatcher.jsonl.1": "fourth", "dispatcher.jsonl.2": "third\n"}


def test_lines_of_a_log_go_by_age_however_small_it_is(home: Home) -> None:
    """Of a process that stays up and says little: nothing is older than it may be for long."""
    path, rotation = home.logs / "rpc.jsonl", Rotation.of(keep_days=30, max_mb=80)

    def line(days: float) -> str:
        moment = datetime.now(UTC) - timedelta(days=days)
        return json.dumps({"timestamp": moment.isoformat(), "event": f"{days} days old"}) + "\n"

    path.write_text("a crash's last words\n" + line(3))
    rotate_all(home.logs, rotation)
    assert not path.with_name("rpc.jsonl.1").exists()

    old = line(8) + line(1)
    path.write_text(old)
    rotate_all(home.logs, rotation)
    aside = path.with_name("rpc.jsonl.1")
    assert (path.read_text(), aside.read_text()) == ("", old)

    for days, stays in ((29, True), (31, False)):
        os.utime(aside, (0, (datetime.now(UTC) - timedelta(days=days)).timestamp()))
        rotate_all(home.logs, rotation)
        assert aside.exists() == stays, days


# --- Locks


@contextmanager
def held(path: Path) -> Iterator[int]:
    """By another process. Its pid."""
    path.parent.mkdir(parents=True, exist_ok=True)
    code = (
        "import fcntl, sys; f = open(sys.argv[1], 'a'); fcntl.flock(f, fcntl.LOCK_EX);"
        " print('held', flush=True); sys.stdin.read()"
    )
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=pipe, stdout=pipe, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process.pid
        process.communicate()


def test_a_lock_that_another_holds_is_named_with_its_holder(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with held(path) as pid:
        with pytest.raises(SetupError) as caught, locked(path, wait_s=0.2):
            pass
        assert str(path) in caught.value.message
        assert f"pid {pid} (" in caught.value.message
        assert caught.value.hint
    with locked(path, wait_s=0.2):
        pass


# The command, which waits less for a lock than it does for its users.
_HURRIED = """
from trace_platform.drivers.lite import file_lock
take = file_lock._take
file_lock._take = lambda descriptor, path, wait_s: take(descriptor, path, min(wait_s, 0.5))
from trace_platform.cli import main
main()
"""


def test_a_start_does_not_wait_for_ever_for_the_lock_of_the_database(home: Home) -> None:
    lock = home.root / "postgres.lock"
    with held(lock) as pid:
        command = [sys.executable, "-c", _HURRIED, "up", "--home", str(home.root)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert f"{lock} is locked by pid {pid}" in done.stderr


def test_a_start_does_not_wait_for_ever_for_the_lock_of_the_home(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "_LOCK_WAIT_S", 0.5)
    lock = home.run / "supervisor.lock"
    with held(lock) as pid, pytest.raises(SetupError, match=rf"supervisor\.lock.*pid {pid}"):
        HomeLock.take(home)


def test_down_leaves_alone_who_has_the_pid_of_a_supervisor_that_crashed(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "_LOCK_WAIT_S", 0.5)
    lock = home.run / "supervisor.lock"
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as bystander:
        ticks = start_ticks(bystander.pid)
        assert ticks is not None
        for left in (str(bystander.pid), f"{bystander.pid} {ticks - 1}"):
            lock.write_text(left)
            with held(lock):
                assert supervisor_pid(home) is None
                with pytest.raises(SetupError, match=r"supervisor\.lock"):
                    stop_instance(home)
            assert bystander.poll() is None
        bystander.kill()


def test_a_supervisor_of_the_version_before_is_known_by_its_lock(home: Home) -> None:
    """It wrote its pid alone: an upgrade finds it running."""
    lock = home.run / "supervisor.lock"
    with held(lock) as holder:
        lock.write_text(str(holder))
        assert supervisor_pid(home) == holder


# --- The registry of ports, which is in a folder of everybody's


@pytest.mark.parametrize("made", ["file", "link", "pipe"])
def test_what_a_stranger_put_in_place_of_the_registry_is_named(tmp_path: Path, made: str) -> None:
    registry = tmp_path / "trace-ports-1000"
    make: dict[str, Callable[[], object]] = {
        "file": registry.touch,
        "link": lambda: registry.symlink_to(tmp_path / "nowhere"),
        "pipe": lambda: os.mkfifo(registry),
    }
    make[made]()
    with pytest.raises(SetupError, match=r"trace-ports-1000.*someone else") as caught:
        open_instance(Home(tmp_path / "home"), Settings(), registry)
    assert "TMPDIR" in (caught.value.hint or "")


@needs_root
def test_a_registry_of_another_user_is_named(tmp_path: Path) -> None:
    registry = tmp_path / "trace-ports-0"
    registry.mkdir()
    os.chown(registry, STRANGER, STRANGER)
    with pytest.raises(SetupError, match=r"trace-ports-0.*someone else"):
        open_instance(Home(tmp_path / "home"), Settings(), registry)


def test_a_registry_that_was_open_is_closed(tmp_path: Path) -> None:
    registry = tmp_path / "registry"
    registry.mkdir()
    registry.chmod(0o777)
    open_instance(Home(tmp_path / "home"), Settings(), registry)
    assert stat.S_IMODE(registry.stat().st_mode) == 0o700
    with (registry / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
