"""The logs of an instance as one stream of lines."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trace_platform.app.instance.home import Home
from trace_platform.domain.errors import NotFound

_POLL_S = 0.3
_LINE_BYTES = 2_000


@dataclass(frozen=True, slots=True)
class LogLine:
    """`raw` is the line as written; `fields` is empty when it is not JSON."""

    process: str
    raw: str
    fields: dict[str, Any] = field(default_factory=dict)

    @property
    def as_json(self) -> str:
        """The line itself, or what a process printed that is no JSON, made such."""
        if self.fields:
            return self.raw
        return json.dumps({"event": self.raw, "level": "info", "process": self.process})

    @property
    def timestamp(self) -> str:
        # Postgres writes "2026-01-31 12:00:00.000 UTC".
        text = str(self.fields.get("timestamp", ""))
        return text.replace(" UTC", "Z").replace(" ", "T")

    @property
    def level(self) -> str:
        level = self.fields.get("level") or self.fields.get("error_severity") or "info"
        return {"LOG": "info", "FATAL": "critical"}.get(str(level), str(level).lower())

    @property
    def event(self) -> str:
        return str(self.fields.get("event") or self.fields.get("message") or self.raw)


def log_files(home: Home, name: str | None = None) -> dict[Path, str]:
    """Which files there are, and of which process."""
    found = {path: path.stem for path in sorted((home.root / "logs").glob("*.jsonl"))}
    own = (home.postgres / "log").glob("postgres-*.json")
    newest = max(own, key=lambda path: path.stat().st_mtime, default=None)
    if newest:
        found[newest] = "postgres"
    if name is None:
        return found
    chosen = {path: process for path, process in found.items() if process == name}
    if not chosen:
        known = ", ".join(sorted(set(found.values()))) or "none yet"
        raise NotFound(f"no log of '{name}' in {home.root}", hint=f"there are: {known}")
    return chosen


def last_lines(files: dict[Path, str], count: int) -> list[LogLine]:
    """The newest `count` lines of all files, in order of time."""
    lines: list[tuple[str, LogLine]] = []
    for path, process in files.items():
        at = ""
        for line in (parse(process, raw) for raw in _tail(path, count)):
            at = line.timestamp or at  # a plain line belongs to the one before it
            lines.append((at, line))
    lines.sort(key=lambda pair: pair[0])
    return [line for _, line in lines[-count:]] if count else []


def follow(home: Home, name: str | None) -> Iterator[LogLine]:
    """Lines as they are written, for ever. New, rotated and emptied files are noticed."""
    read = {path: _position(path) for path in log_files(home, name)}
    while True:
        for path, process in log_files(home, name).items():
            inode, size = _position(path)
            known, offset = read.get(path, (inode, 0))
            if known != inode or size < offset:
                offset = 0
            complete, offset = _read_from(path, offset)
            read[path] = (inode, offset)
            yield from (parse(process, raw) for raw in complete)
        time.sleep(_POLL_S)


def _position(path: Path) -> tuple[int, int]:
    state = path.stat()
    return state.st_ino, state.st_size


def parse(process: str, raw: str) -> LogLine:
    try:
        fields = json.loads(raw)
    except ValueError:
        fields = {}
    return LogLine(process, raw, fields if isinstance(fields, dict) else {})


def _tail(path: Path, count: int) -> list[str]:
    with path.open("rb") as file:
        start = max(0, path.stat().st_size - count * _LINE_BYTES - 65_536)
        file.seek(start)
        lines = _lines(file.read())
    return lines[1 if start else 0 :][-count:] if count else []


def _read_from(path: Path, offset: int) -> tuple[list[str], int]:
    """Complete lines only: the writer may be in the middle of one."""
    with path.open("rb") as file:
        file.seek(offset)
        content = file.read()
    end = content.rfind(b"\n") + 1
    return _lines(content[:end]), offset + end


def _lines(content: bytes) -> list[str]:
    # Split as bytes: text would also be split at U+2028 and its like, in the middle of a string.
    return [line.decode(errors="replace") for line in content.splitlines()]
