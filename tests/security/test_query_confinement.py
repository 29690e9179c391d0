"""The third layer holds alone: no gate, no locked database, nothing but what the kernel took.

Every attempt is also made in a process that is free, where it works: so it is one.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.security.attack_corpus import FILES, REFUSED
from tests.support import confined_attempts
from trace_platform.confinement import privileges, system_calls
from trace_platform.domain.accounts import QUERY
from trace_platform.query.protocol.messages import HEADER_BYTES, Limits, Ready, decode_reply
from trace_platform.query.service.children import ChildPool

SECRET = "canary-5c1e"
SUPPORT = Path(confined_attempts.__file__).parent

# Lets anyone trace it, and says where a string of its own lies.
_BYSTANDER = """
import ctypes, sys
ctypes.CDLL(None).prctl(0x59616D61, -1, 0, 0, 0)
kept = ctypes.create_string_buffer(b"bystander")
print(ctypes.addressof(kept), flush=True)
sys.stdin.read()
"""


@dataclass(frozen=True)
class Ground:
    """What is around a child. `outside` is not for it: a secret and a victim."""

    outside: str
    secret: str
    victim: str
    readable: list[str]
    file: str
    # Lies below `readable`, and leads to the secret.
    link: str
    scratch: str
    tcp_port: int
    unix_socket: str
    bystander: int
    address: int

    def state(self) -> dict[str, str]:
        """Everything that a child must not change."""
        return {
            str(path): f"{path.lstat().st_mode:o} {path.lstat().st_mtime_ns} {_digest(path)}"
            for folder in (self.outside, *self.readable)
            for path in (Path(folder), *sorted(Path(folder).rglob("*")))
        }


def _digest(path: Path) -> str:
    if path.is_symlink() or not path.is_file():
        return "-"
    return hashlib.sha256(path.read_bytes()).hexdigest()


@dataclass(frozen=True)
class Canaries:
    """Listeners that nobody has any business with, and a process."""

    listeners: list[socket.socket]
    port: int
    path: str
    bystander: int
    address: int

    def touched(self) -> bool:
        return any(map(_heard, self.listeners))


def _heard(listener: socket.socket) -> bool:
    listener.setblocking(False)
    try:
        if listener.type == socket.SOCK_DGRAM:
            listener.recv(1)
        else:
            listener.accept()[0].close()
    except BlockingIOError:
        return False
    return True


@pytest.fixture
def canaries() -> Iterator[Canaries]:
    # A path of its own: the name of a socket may not be long.
    folder = tempfile.mkdtemp(prefix="canary-")
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
        socket.socket(socket.AF_UNIX) as unix,
        subprocess.Popen(
            [sys.executable, "-I", "-c", _BYSTANDER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as bystander,
    ):
        port = tcp.getsockname()[1]
        udp.bind(("127.0.0.1", port))
        unix.bind(f"{folder}/socket")
        unix.listen()
        assert bystander.stdout is not None
        address = int(bystander.stdout.readline())
        try:
            yield Canaries([tcp, udp, unix], port, f"{folder}/socket", bystander.pid, address)
        finally:
            bystander.communicate()
            shutil.rmtree(folder)


@pytest.fixture
def lay_out(tmp_path: Path, canaries: Canaries) -> Callable[[str], Ground]:
    def make(name: str) -> Ground:
        folders = {each: tmp_path / name / each for each in ("outside", "objects", "scratch")}
        for folder in folders.values():
            folder.mkdir(parents=True)
        outside, objects = folders["outside"], folders["objects"]
        (outside / "canary.csv").write_text(f"secret\n{SECRET}\n")
        pq.write_table(pa.table({"secret": [SECRET]}), outside / "other.parquet")
        (outside / "victim").write_text("keep me")
        pq.write_table(pa.table({"n": pa.array([1, 2, 3], pa.uint64())}), objects / "n.parquet")
        (objects / "link").symlink_to(outside / "canary.csv")
        return Ground(
            outside=str(outside),
            secret=str(outside / "canary.csv"),
            victim=str(outside / "victim"),
            readable=[str(objects)],
            file=str(objects / "n.parquet"),
            link=str(objects / "link"),
            scratch=str(folders["scratch"]),
            tcp_port=canaries.port,
            unix_socket=canaries.path,
            bystander=canaries.bystander,
            address=canaries.address,
        )

    return make


def run(how: str, names: Iterable[str], ground: Ground) -> dict[str, str]:
    """What came of each, in one process."""
    script = str(SUPPORT / "confined_attempts.py")
    command = [sys.executable, "-I", script, how, json.dumps(asdict(ground)), *names]
    done = subprocess.run(command, capture_output=True, env={}, text=True, check=False)
    assert not done.returncode, done.stderr + done.stdout
    return dict(zip(names, done.stdout.splitlines(), strict=True))


@pytest.fixture(scope="module", autouse=True)
def _kernel(tmp_path_factory: pytest.TempPathFactory) -> None:
    held = _held(sys.executable, str(tmp_path_factory.mktemp("scratch")))
    if lacking := {"landlock", "seccomp"} - set(held):
        pytest.skip(f"this kernel has no {' and no '.join(sorted(lacking))}")


def _held(python: str, scratch: str, readable: str = "/usr") -> list[str]:
    """What `confine` says it achieved, and what the process is then."""
    source = str(Path(privileges.__file__).parents[2])
    code = (
        f"import os, sys; sys.path.insert(0, {source!r})\n"
        "from trace_platform.confinement import confine\n"
        f"print(*confine.confine([{readable!r}], {scratch!r}), f'uid={{os.getuid()}}')\n"
        f"open({scratch!r} + '/file', 'w').close()"
    )
    command = [python, "-I", "-c", code]
    done = subprocess.run(command, capture_output=True, env={}, text=True, check=False)
    assert not done.returncode, done.stderr
    return done.stdout.split()


def test_a_confined_process_cannot(lay_out: Callable[[str], Ground], canaries: Canaries) -> None:
    # What is forbidden to everybody here, as containers often forbid namespaces and tracing, shows
    # nothing; what works in a process that is free does so in one of its own.
    forbidden = f"[Errno {errno.EPERM}]"
    free = {
        attempt: run("free", [attempt], lay_out(f"free-{number}"))[attempt]
        for number, attempt in enumerate(confined_attempts.ATTACKS)
    }
    failed = {attempt: said for attempt, said in free.items() if said != "done"}
    assert {attempt for attempt, said in failed.items() if forbidden not in said} == set(), failed
    while canaries.touched():
        pass
    ground = lay_out("confined")
    before = ground.state()
    confined = run("confined", confined_attempts.ATTACKS, ground)
    assert {a: said for a, said in confined.items() if not said.startswith("refused: ")} == {}
    assert ground.state() == before
    assert os.listdir(ground.scratch) == []
    assert not canaries.touched()


def test_a_confined_process_can(lay_out: Callable[[str], Ground]) -> None:
    for attempt in confined_attempts.WORK:
        assert run("confined", [attempt], lay_out(attempt)) == {attempt: "done"}


# {outside} is a folder with the secret in canary.csv; {file} may be read.
READING = [
    "FROM read_text('{outside}/canary.csv')",
    "FROM read_blob('{outside}/canary.csv')",
    "FROM read_csv('{outside}/canary.csv')",
    "FROM '{outside}/canary.csv'",
    "FROM '{outside}/*.parquet'",
    "FROM read_text('{link}')",
    "CREATE TABLE t (s VARCHAR); COPY t FROM '{outside}/canary.csv'; FROM t",
]
CHANGING = [
    "COPY (SELECT 1) TO '{outside}/new.csv'",
    "COPY (SELECT 1) TO '{outside}/victim' (FORMAT csv, USE_TMP_FILE false)",
    "COPY (SELECT 1 AS n) TO '{file}' (FORMAT parquet, USE_TMP_FILE false)",
    "COPY (SELECT 1 AS n) TO '{file}' (FORMAT parquet, USE_TMP_FILE true)",
    "ATTACH '{outside}/new.db' AS new; CREATE TABLE new.t AS SELECT 1; DETACH new",
    "EXPORT DATABASE '{outside}/dump'",
    "SET temp_directory = '{outside}/spill'; SET memory_limit = '20MB'; SET threads = 1;"
    " SELECT count(DISTINCT hash(i)::VARCHAR) FROM range(1_000_000) r(i)",
    "CALL enable_logging(storage := 'file', storage_path := '{outside}/log'); SELECT 1",
]


# Nothing stops DuckDB's sleep but a signal, and among so many attacks it is not waited for.
_DEAF_S = 3.0


class Engine:
    """A process of tests/support/confined_duckdb.py, replaced when a statement ends it."""

    def __init__(self, how: str, ground: Ground, deaf_s: float = 60.0) -> None:
        self._deaf_s = deaf_s
        script = str(SUPPORT / "confined_duckdb.py")
        self._command = [sys.executable, "-I", script, how, json.dumps(asdict(ground))]
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def outcome(self, sql: str) -> str:
        """All that the statement gave: rows, errors, words on standard error."""
        if self._process is None:
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(
                self._command, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, env={}, text=True
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(sql) + "\n")
        self._process.stdin.flush()
        deaf = threading.Timer(self._deaf_s, self._process.kill)
        deaf.start()
        try:
            lines = []
            while line := self._process.stdout.readline():
                lines.append(line)
                if line.startswith("["):
                    return "".join(lines)
        finally:
            deaf.cancel()
        self._end()
        return "".join(lines)

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def _filled(sql: str, ground: Ground) -> str:
    return sql.format(**asdict(ground))


def test_an_unlocked_database_reads_no_file_of_others(lay_out: Callable[[str], Ground]) -> None:
    free, ground = lay_out("free"), lay_out("confined")
    with Engine("free", free) as engine:
        told = [engine.outcome(_filled(attack, free)) for attack in READING]
        assert [said for said in told if SECRET not in said] == []
    with Engine("confined", ground) as engine:
        for attack in READING:
            assert SECRET not in engine.outcome(_filled(attack, ground)), attack
            assert "(6)" in engine.outcome("SELECT sum(n)::INT FROM blocks").replace(",", "")


def test_an_unlocked_database_changes_nothing_outside(lay_out: Callable[[str], Ground]) -> None:
    ground = lay_out("confined")
    before = ground.state()
    with Engine("confined", ground) as confined:
        for number, attack in enumerate(CHANGING):
            free = lay_out(f"free-{number}")
            unchanged = free.state()
            # Of its own, since it changes the file that it reads.
            with Engine("free", free) as engine:
                engine.outcome(_filled(attack, free))
            assert free.state() != unchanged, attack
            confined.outcome(_filled(attack, ground))
            assert ground.state() == before, attack


@contextmanager
def _listening() -> Iterator[tuple[int, list[bytes]]]:
    """Hangs up on everyone, and keeps what they asked."""
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    caller, _ = listener.accept()
                    with caller:
                        heard.append(caller.recv(1_000))

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()[1], heard
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def test_an_unlocked_database_connects_to_nothing(lay_out: Callable[[str], Ground]) -> None:
    attack = "INSTALL httpfs FROM 'http://127.0.0.1:{port}'"
    free, ground = lay_out("free"), lay_out("confined")
    with _listening() as (port, heard), Engine("free", free) as engine:
        engine.outcome(attack.format(port=port))
        assert heard
    with _listening() as (port, heard), Engine("confined", ground) as engine:
        engine.outcome(attack.format(port=port))
        assert not heard


def test_an_unlocked_database_loads_no_library(
    lay_out: Callable[[str], Ground],
) -> None:
    ground = lay_out("confined")
    with Engine("confined", ground) as engine:
        outcome = engine.outcome(f"LOAD '{ground.outside}/victim'")
    assert "Error" in outcome or "Exception" in outcome
    assert "keep me" not in outcome


def test_no_file_grows_past_its_limit(lay_out: Callable[[str], Ground]) -> None:
    ground = lay_out("confined")
    large = "COPY (SELECT repeat('x', 1000) FROM range({rows})) TO '{scratch}/large.csv'"
    with Engine("confined", ground) as engine:
        assert "Error" not in engine.outcome(large.format(rows=5_000, scratch=ground.scratch))
        assert "too large" in engine.outcome(large.format(rows=20_000, scratch=ground.scratch))


def test_the_whole_corpus_of_attacks_finds_nothing_without_gate_and_lock(
    lay_out: Callable[[str], Ground],
) -> None:
    ground = lay_out("confined")
    before = ground.state()
    attacks = [each for kind in REFUSED.values() for each in kind]
    answered = 0
    with _listening() as (port, heard), Engine("confined", ground, _DEAF_S) as engine:
        for attack in attacks:
            outcome = engine.outcome(_attack(attack, ground, port))
            answered += outcome.endswith("]\n")
            assert SECRET not in outcome, attack
            assert "root:x:0" not in outcome, attack
            assert ground.state() == before, attack
            assert not heard, attack
    assert answered > 0.9 * len(attacks)


def test_the_corpus_does_read_the_secret_in_a_process_that_is_free(
    lay_out: Callable[[str], Ground],
) -> None:
    ground = lay_out("free")
    with Engine("free", ground) as engine:
        attacks = [_attack(each, ground, 9) for each in FILES]
        assert sum(SECRET in engine.outcome(attack) for attack in attacks) > len(attacks) / 3


def _attack(sql: str, ground: Ground, port: int) -> str:
    return sql.format(canary=ground.secret, folder=ground.outside, file=ground.file, port=port)


# --- What confine() says, and the filter itself


def test_what_holds_is_said_and_root_is_given_up(tmp_path: Path) -> None:
    held = _held(sys.executable, str(tmp_path))
    assert {"capabilities", "landlock", "seccomp"} <= set(held)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_root_becomes_a_user_of_its_own_where_that_one_can_read_what_it_needs(
    public_python: str,
) -> None:
    folder = Path(tempfile.mkdtemp(prefix="public-"))
    try:
        folder.chmod(0o755)
        (folder / "scratch").mkdir(mode=0o700)
        assert f"uid={QUERY}" in _held(public_python, str(folder / "scratch"))
        assert (folder / "scratch" / "file").stat().st_uid == QUERY
        for name in ("private", "other"):
            (folder / name).mkdir(mode=0o700)
        held = _held(public_python, str(folder / "other"), str(folder / "private"))
        assert "uid=0" in held
        assert "user" not in held
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def public_python() -> str:
    """An interpreter that every user of the machine can run."""
    for path in ("/usr/bin/python3", "/usr/local/bin/python3"):
        if os.path.exists(path) and _version(path) >= (3, 11):
            return path
    pytest.skip("no Python 3.11 that every user can read")


def _version(python: str) -> tuple[int, ...]:
    code = "import sys; print(*sys.version_info[:2])"
    return tuple(map(int, subprocess.check_output([python, "-I", "-c", code]).split()))


# Prints as JSON what a confined process is, thread by thread.
_INSPECT = """
import json, os, sys, threading
from trace_platform.confinement import confine
before = threading.Event()
if sys.argv[2] == "late":
    threading.Thread(target=before.wait).start()
held = confine.confine([], sys.argv[1])
after = threading.Event()
threading.Thread(target=after.wait).start()
print(json.dumps(held), os.getpid(), flush=True)
sys.stdin.read()
before.set()
after.set()
"""


@contextmanager
def _inspected(scratch: Path, when: str) -> Iterator[tuple[list[str], psutil.Process]]:
    command = [sys.executable, "-I", "-c", _INSPECT, str(scratch), when]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, env={}, text=True) as process:
        try:
            assert process.stdout is not None
            held, _ = json.JSONDecoder().raw_decode(process.stdout.readline())
            yield held, psutil.Process(process.pid)
        finally:
            process.communicate()


def _threads(process: psutil.Process) -> list[dict[str, str]]:
    statuses = Path(f"/proc/{process.pid}/task").glob("*/status")
    return [
        dict(line.split(":\t", 1) for line in status.read_text().splitlines())
        for status in statuses
    ]


def test_every_thread_is_confined(tmp_path: Path) -> None:
    with _inspected(tmp_path, "early") as (held, process):
        threads = _threads(process)
        assert process.rlimit(psutil.RLIMIT_CORE) == (0, 0)
        assert process.rlimit(psutil.RLIMIT_NOFILE)[1] <= 4096
    assert held[-2:] == ["landlock", "seccomp"]
    assert len(threads) == 2
    for thread in threads:
        assert thread["Seccomp"] == "2"
        assert thread["NoNewPrivs"] == "1"
        for kind in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
            assert int(thread[kind], 16) == 0


def test_a_thread_from_before_is_not_called_confined(tmp_path: Path) -> None:
    with _inspected(tmp_path, "late") as (held, process):
        seccomp = {thread["Seccomp"] for thread in _threads(process)}
    assert "seccomp" in held
    assert seccomp == {"2"}
    assert "landlock" not in held


def test_a_child_of_the_service_is_confined_in_every_thread(tmp_path: Path) -> None:
    async def scenario() -> None:
        pool = ChildPool(1, Limits(), readable=[], scratch=tmp_path)
        await pool.start()
        try:
            [child] = [psutil.Process(pid) for pid in pool.pids]
            for thread in _threads(child):
                assert thread["Seccomp"] == "2", thread["Name"]
                assert int(thread["CapEff"], 16) == 0, thread["Name"]
            assert {"landlock", "seccomp"} <= set(await asyncio.to_thread(_ready, child))
        finally:
            await pool.close()

    asyncio.run(scenario())


def _ready(child: psutil.Process) -> list[str]:
    """What another one like it says when it has started."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        child.cmdline(), stdin=pipe, stdout=pipe, env=child.environ(), cwd=child.cwd()
    ) as same:
        assert same.stdout is not None
        size = int.from_bytes(same.stdout.read(HEADER_BYTES)[1:], "big")
        reply = decode_reply(same.stdout.read(size))
        same.kill()
    assert isinstance(reply, Ready)
    return reply.confined_by


def test_a_confined_process_dies_with_its_parent(
    tmp_path: Path, eventually: Callable[..., None]
) -> None:
    """The child reads the test's own pipe, which stays open: only the signal can end it."""
    parent = (
        "import signal, subprocess, sys\n"
        "command = [sys.executable, '-I', '-c', *sys.argv[1:]]\n"
        "child = subprocess.Popen(command, stdout=subprocess.PIPE)\n"
        "print(child.stdout.readline().split()[-1].decode(), flush=True)\n"
        "signal.pause()\n"
    )
    command = [sys.executable, "-I", "-c", parent, _INSPECT, str(tmp_path), "early"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, env={}, text=True) as process:
        assert process.stdout is not None
        child = psutil.Process(int(process.stdout.readline()))
        assert not _gone(child)
        process.kill()
        process.wait()
        eventually(lambda: _gone(child), "the child ends")


def _gone(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


_CALL_EVERYTHING = """
import ctypes, json, os, sys
from trace_platform.confinement import confine, system_calls
confine.confine([], sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)
def outcome(number, *arguments):
    ctypes.set_errno(0)
    return libc.syscall(number, *arguments) and ctypes.get_errno()
machine = system_calls.MACHINES[os.uname().machine]
refused = system_calls.refused(machine)
outcomes = {name: outcome(number, -1, -1, -1, -1, -1) for name, number in refused.items()}
outcomes["younger"] = outcome(999)
outcomes["clone3"] = outcome(machine.clone3, 0, 0)
outcomes["tgkill"] = outcome(machine.tgkill, os.getppid(), os.getppid(), 0)
outcomes["tgkill itself"] = outcome(machine.tgkill, os.getpid(), os.getpid(), 0)
outcomes["prlimit"] = outcome(machine.prlimit, os.getppid(), 0, 0, 0)
print(json.dumps(outcomes))
"""


def test_every_call_of_the_list_is_refused(tmp_path: Path) -> None:
    command = [sys.executable, "-I", "-c", _CALL_EVERYTHING, str(tmp_path)]
    outcomes = json.loads(subprocess.check_output(command, env={}))
    assert outcomes.pop("younger") == errno.ENOSYS
    assert outcomes.pop("clone3") == errno.ENOSYS
    assert outcomes.pop("tgkill itself") == 0
    assert {name for name, error in outcomes.items() if error != errno.EPERM} == set()


@pytest.mark.parametrize("name", system_calls.MACHINES)
def test_the_filter_of_each_architecture(name: str) -> None:
    """Run step by step here, so that the one that this machine does not have is seen too."""
    machine = system_calls.MACHINES[name]
    own = 4711

    def decide(number: int, argument: int = 0, audit_name: int = machine.audit_name) -> int:
        data = struct.pack("<IIQ6Q", number, audit_name, 0, argument, *[0] * 5)
        return _interpret(system_calls.program(machine, own), data)

    allow, kill, denied, unknown = 0x7FFF0000, 0x80000000, 0x50001, 0x50026
    assert {decide(number) for number in system_calls.refused(machine).values()} == {denied}
    assert decide(machine.clone3) == unknown
    assert decide(452) == unknown
    # On x86_64 the x32 way to call the same kernel: read and execve.
    assert [decide(0x40000000), decide(0x40000208)] == [unknown, unknown]
    others = {each.audit_name for each in system_calls.MACHINES.values()} | {0x40000003}
    assert {decide(0, 0, other) for other in others - {machine.audit_name}} == {kill}
    assert decide(machine.clone, 0x003D0F00) == allow
    assert decide(machine.clone, 0x11) == denied
    assert [decide(machine.tgkill, pid) for pid in (own, own + 1)] == [allow, denied]
    assert [decide(machine.prlimit, pid) for pid in (0, own + 1)] == [allow, denied]
    reads, opens = {"x86_64": (0, 257), "aarch64": (63, 56)}[name]
    assert [decide(reads), decide(opens)] == [allow, allow]


def _interpret(program: bytes, data: bytes) -> int:
    """The kernel's byte code, as far as the filter uses it."""
    steps = list(struct.iter_unpack("HBBI", program))
    accumulator = position = 0
    while True:
        code, if_true, if_false, operand = steps[position]
        position += 1
        match code:
            case 0x20:
                accumulator = int.from_bytes(data[operand : operand + 4], "little")
                continue
            case 0x06:
                return operand
            case 0x15:
                held = accumulator == operand
            case 0x25:
                held = accumulator > operand
            case 0x45:
                held = bool(accumulator & operand)
            case _:
                raise AssertionError(f"unknown code {code:#x}")
        position += if_true if held else if_false
