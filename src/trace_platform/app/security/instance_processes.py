"""The processes of an instance that runs, whoever of them started them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import psutil

from trace_platform.app.instance.home import Home
from trace_platform.app.supervise.process_record import read_records


@dataclass(frozen=True, slots=True)
class Running:
    """`part` is the process of the instance that it belongs to, `program` what it is."""

    part: str
    program: str
    process: psutil.Process


def instance_processes(home: Home) -> list[Running]:
    return [
        Running(record.name, _program(record.name, each), each)
        for record in read_records(home)
        if record.alive()
        for each in _tree(record.pid)
    ]


def _tree(pid: int) -> Iterator[psutil.Process]:
    try:
        root = psutil.Process(pid)
        yield root
        yield from root.children(recursive=True)
    except psutil.NoSuchProcess:
        return


def _program(part: str, process: psutil.Process) -> str:
    try:
        name = process.name()
    except psutil.Error:
        return part
    # All of ours are Python's; what they start beside is not.
    return part if name.startswith(("python", "trace", "postgres")) else name
