"""Attempts to get out of a query child, run by path as `python -I FILE CONFINED GROUND NAME...`.

Prints a line for each: "done" when it worked, "refused: ERROR" when it did not. GROUND is JSON: see
`Ground` of tests/security/test_query_confinement.py.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from trace_platform.confinement import confine

Attempt = Callable[[Any], object]
libc = ctypes.CDLL(None, use_errno=True)


def call(result: int) -> None:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def tcp(ground: Any) -> None:
    socket.create_connection(("127.0.0.1", ground.tcp_port), timeout=5).close()


def udp(ground: Any) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"x", ("127.0.0.1", ground.tcp_port))


def unix(ground: Any) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(ground.unix_socket)


def fork(_: Any) -> None:
    if os.fork() == 0:
        os._exit(0)
    os.wait()


def read_memory_of_another(ground: Any) -> None:
    buffer = ctypes.create_string_buffer(8)
    here = (ctypes.c_uint64 * 2)(ctypes.addressof(buffer), 8)
    there = (ctypes.c_uint64 * 2)(ground.address, 8)
    call(libc.process_vm_readv(ground.bystander, here, 1, there, 1, 0))


def trace_another(ground: Any) -> None:
    seize = 0x4206
    call(libc.ptrace(seize, ground.bystander, None, None))


def spawn_process_with_clone(_: Any) -> None:
    """Past the C library, as shellcode would: clone with nothing but SIGCHLD."""
    number = {"x86_64": 56, "aarch64": 220}[os.uname().machine]
    pid = libc.syscall(number, 17, None, None, None, None)
    if pid == 0:
        os._exit(0)
    call(pid)


def make_namespace(_: Any) -> None:
    call(libc.unshare(0x10000000))


def make_link(ground: Any) -> None:
    os.symlink(ground.secret, os.path.join(ground.scratch, "symbolic"))


def make_hard_link(ground: Any) -> None:
    os.link(ground.secret, os.path.join(ground.scratch, "hard"))


def make_pipe(ground: Any) -> None:
    os.mkfifo(os.path.join(ground.scratch, "pipe"))


def work_in_scratch(ground: Any) -> None:
    folder = Path(ground.scratch, "spill")
    folder.mkdir()
    (folder / "a").write_bytes(b"12345")
    os.rename(folder / "a", folder / "b")
    with open(folder / "b", "r+b") as file:
        file.truncate(2)
    assert (folder / "b").read_bytes() == b"12"
    (folder / "b").unlink()
    folder.rmdir()


def run_engines(ground: Any) -> None:
    """What a query does: threads, spilling, Parquet by DuckDB and Arrow, a mapped Arrow file."""
    import duckdb
    import pyarrow as pa
    import pyarrow.parquet as pq

    confine.limit_files(256)
    config = {"threads": 4, "memory_limit": "64MB", "temp_directory": ground.scratch}
    with duckdb.connect(config=config) as database:
        query = "SELECT i, hash(i) AS h FROM range(3_000_000) r(i) ORDER BY h"
        assert database.execute(f"SELECT count(*), max(h) > 0 FROM ({query})").fetchall()
        rows = database.execute(f"SELECT sum(n) FROM '{ground.file}'").fetchall()
        assert rows == [(6,)]
        database.execute("SELECT timezone('Europe/Lisbon', now())").fetchall()
    table = pq.read_table(ground.file, memory_map=True)
    mapped = os.path.join(ground.scratch, "hot.arrow")
    with pa.OSFile(mapped, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    assert pa.ipc.open_file(pa.memory_map(mapped)).read_all().num_rows == 3
    os.unlink(mapped)


ATTACKS: dict[str, Attempt] = {
    "read a secret": lambda g: Path(g.secret).read_text(),
    "read a secret through a link": lambda g: Path(g.link).read_text(),
    "read the accounts": lambda _: Path("/etc/passwd").read_text(),
    "list a folder": lambda g: os.listdir(g.outside),
    "list the processes": lambda _: os.listdir("/proc"),
    "overwrite a file": lambda g: open(g.victim, "r+b").close(),
    "cut a file": lambda g: os.truncate(g.victim, 0),
    "make a file": lambda g: Path(g.outside, "new").write_text("x"),
    "make a folder": lambda g: os.mkdir(os.path.join(g.outside, "folder")),
    "remove a file": lambda g: os.unlink(g.victim),
    "change who may read": lambda g: os.chmod(g.victim, 0o777),
    "change the time": lambda g: os.utime(g.victim, (1, 1)),
    "write over a dataset": lambda g: open(g.file, "r+b").close(),
    "make a link": make_link,
    "make a hard link": make_hard_link,
    "make a pipe": make_pipe,
    "connect by TCP": tcp,
    "send by UDP": udp,
    "connect to a socket file": unix,
    "make a pair of sockets": lambda _: socket.socketpair(),
    "run a program": lambda _: subprocess.run(["/bin/true"], check=True),
    "become a program": lambda _: os.execv("/bin/echo", ["echo", "done"]),
    "fork": fork,
    "clone": spawn_process_with_clone,
    "make a namespace": make_namespace,
    "trace another": trace_another,
    "read another's memory": read_memory_of_another,
    "read another's environment": lambda g: Path(f"/proc/{g.bystander}/environ").read_bytes(),
    "open another's memory": lambda g: open(f"/proc/{g.bystander}/mem", "rb").close(),
    "list another's files": lambda g: os.listdir(f"/proc/{g.bystander}/fd"),
    "signal another": lambda g: os.kill(g.bystander, 0),
    "read its own memory as a file": lambda _: open("/proc/self/mem", "rb").close(),
    "read its own command": lambda _: Path("/proc/self/cmdline").read_bytes(),
}

# What a query needs.
WORK: dict[str, Attempt] = {
    "read a dataset": lambda g: Path(g.file).read_bytes(),
    "list the datasets": lambda g: os.listdir(os.path.dirname(g.file)),
    "work in scratch": work_in_scratch,
    "run the engines": run_engines,
}


def main() -> None:
    confined, ground_json, *names = sys.argv[1:]
    ground = SimpleNamespace(**json.loads(ground_json))
    if confined == "confined":
        confine.confine(ground.readable, ground.scratch)
    for name in names:
        try:
            (ATTACKS | WORK)[name](ground)
        except OSError as error:
            print(f"refused: {error}", flush=True)
        else:
            print("done", flush=True)


if __name__ == "__main__":
    main()
