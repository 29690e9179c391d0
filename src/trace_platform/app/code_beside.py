"""The Python files beside a DAG file that its jobs name, and what these import of those there."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from trace_platform.dag.read.dag_yaml import read_draft
from trace_platform.dag.read.errors import DagErrors
from trace_platform.domain.errors import BadInput, InvalidConfig
from trace_platform.domain.own_code import MAX_BYTES, Code, code_of, imported_files, parse


def code_beside(folder: Path | None, yaml: str) -> Code:
    """Only files of this very folder. What cannot be read is named, with the reason; a DAG that
    came without a folder has nothing beside it."""
    return _read_all(folder, _named(yaml))


def code_named(folder: Path, operator: str) -> Code:
    """What one operator needs of that folder. Raise BadInput when some of it cannot be read."""
    ref = parse(operator)
    return refuse_unreadable(_read_all(folder, [ref.file] if ref else []))


def _read_all(folder: Path | None, waiting: list[str]) -> Code:
    files: dict[str, str] = {}
    unreadable: dict[str, str] = {}
    while waiting:
        name = waiting.pop()
        if name in files or name in unreadable:
            continue
        try:
            files[name] = _read(folder, name)
            waiting += imported_files(name, files[name])
        except InvalidConfig:
            # Whoever checks the DAG says so, with the line.
            continue
        except BadInput as error:
            unreadable[name] = error.message
    return Code(files, unreadable)


def refuse_unreadable(code: Code) -> Code:
    """Raise BadInput for the first file that cannot be had."""
    for name, said in code.unreadable.items():
        raise BadInput(f"{name} {said}", hint="trace dag lint shows the line that names it")
    return code


def _named(yaml: str) -> list[str]:
    try:
        jobs = read_draft(yaml).dag.jobs
    except DagErrors:
        # Whoever checks the DAG says so.
        return []
    refs = [
        code_of(getattr(job, "operator", None), config if isinstance(config, dict) else {})
        for job in jobs
        for config in [getattr(job, "config", None)]
    ]
    return list(dict.fromkeys(ref.file for ref in refs if ref))


def _read(folder: Path | None, name: str) -> str:
    if folder is None:
        raise BadInput("cannot be found: give the DAG file's path, not its text")
    try:
        # A link might lead to what its author may not read.
        opened = os.open(folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        raise BadInput(f"is not in {folder.absolute()}, beside the DAG file") from None
    except OSError as error:
        if (folder / name).is_symlink():
            raise BadInput("is a link: put the file itself beside the DAG file") from None
        raise BadInput(f"cannot be read: {error.strerror}") from None
    with os.fdopen(opened, "rb") as file:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            raise BadInput("is no file")
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise BadInput(f"has more than {MAX_BYTES:,} bytes")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise BadInput("is no UTF-8: save it as that") from None
