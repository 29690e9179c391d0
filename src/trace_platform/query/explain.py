"""What went wrong, in DuckDB's words: where in the statement and what was meant, but never where
rows lie or what the views are made of."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from typing import Any

import duckdb
import pyarrow as pa

from trace_platform.domain.alike import alike, did_you_mean
from trace_platform.domain.errors import (
    DiskFull,
    InvalidQuery,
    QueryTooLarge,
    TraceError,
    Unavailable,
)
from trace_platform.query.gate import Statement
from trace_platform.query.messages import Limits, Relation
from trace_platform.query.timed_out import timed_out

# The statement stands in a subquery, on lines of its own; both beginnings have one length.
DESCRIBE_FROM = "DESCRIBE FROM (\n"
FROM = "         FROM (\n"

_EXPORT_HINT = "or let a job with the query_export operator write the result"
_KIND = re.compile(r"(?s)([A-Za-z ]+?) Error: (.*)")
_CANDIDATES = re.compile(r"\s*Candidate (?:bindings|tables): (.+)")
_NAME = re.compile(r'"((?:[^"]|"")+)"')
# As Arrow and Parquet carry the integers of 128 bits (result_columns.py).
_TOO_WIDE = "to DECIMAL(38,0)"
_WIDE_HINT = "Arrow and Parquet have 38 digits: cast it to VARCHAR, or ask for JSON or CSV"
_SHOWN_CHARS = 2_000


class Explained:
    """The errors of one query as ours."""

    def __init__(
        self, relations: Sequence[Relation], limits: Limits, timeout_s: float, scratch: str
    ) -> None:
        self._relations, self._limits = relations, limits
        self._timeout_s, self._scratch = timeout_s, scratch

    @contextlib.contextmanager
    def errors_of(self, statement: Statement) -> Iterator[None]:
        try:
            yield
        except MemoryError:
            raise self._out_of_memory() from None
        # Arrow has the same texts, but kinds of its own.
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            raise self.explain(str(error), statement) from None

    def explain(self, said: str, statement: Statement) -> TraceError:
        kind, facts = _read(said)
        match kind.lower():
            case "interrupt":
                return timed_out(self._timeout_s)
            case "out of memory":
                return self._out_of_memory()
            case "io" | "permission" if self._scratch in said:
                full = "No space left" in said or "Disk quota" in said
                return DiskFull("no space left for a query") if full else self._out_of_memory()
        if unreadable := self._unreadable(kind.lower(), str(facts["exception_message"])):
            return unreadable
        match kind.lower():
            case "io" | "permission":
                return InvalidQuery("a query cannot reach files, settings or the network")
            case "internal" | "fatal" | "invalid":
                # Its text is for those who write DuckDB.
                return InvalidQuery("DuckDB fails on this statement", hint="write it another way")
        return self.refusal(kind, facts, statement)

    def refusal(self, kind: str, facts: dict[str, Any], statement: Statement) -> InvalidQuery:
        """`facts` are those that DuckDB gives with `errors_as_json`."""
        said = str(facts["exception_message"]).strip()
        message, suggestions = self._without_names(_CANDIDATES.sub("", said)), _suggestions(said)
        return InvalidQuery(
            f"{kind} Error: {message}"[:_SHOWN_CHARS],
            hint=did_you_mean(suggestions[:3]) or (_WIDE_HINT if _TOO_WIDE in said else None),
            **_some(suggestions=suggestions, **_place(facts, statement)),
        )

    def _out_of_memory(self) -> QueryTooLarge:
        memory_mb, spill_mb = self._limits.memory_mb, self._limits.spill_mb
        return QueryTooLarge(
            f"the query needs more than {memory_mb} MiB of memory and {spill_mb} MiB on disk",
            hint=f"read fewer rows or columns, aggregate before joining, {_EXPORT_HINT}",
            memory_mb=memory_mb,
            spill_mb=spill_mb,
            retire=True,
        )

    def _unreadable(self, kind: str, message: str) -> Unavailable | None:
        """Of an error that is no fault of the statement's: which files are."""
        # DuckDB calls a missing file forbidden: it cannot find it among the allowed ones.
        lost = [each.view for each in self._relations if not all(map(os.path.exists, each.files))]
        if lost and kind in ("io", "permission"):
            return Unavailable(
                f"a file of {', '.join(lost)} is gone",
                hint="run the query again: the dataset may just have been rebuilt",
            )
        bad = [each.view for each in self._relations if any(f in message for f in each.files)]
        if not bad and kind == "invalid":
            # The reader of Parquet names no file when what is in it makes no sense.
            bad = [each.view for each in self._relations if each.files]
        if not bad:
            return None
        return Unavailable(
            f"a file of {', '.join(bad)} cannot be read: it may be damaged",
            hint="`trace datasets verify NAME` finds it, and --invalidate has it made anew",
        )

    def _without_names(self, text: str) -> str:
        for each in self._relations:
            for path in (*each.files, *([each.hot] if each.hot else [])):
                text = text.replace(path, each.view)
        text = text.replace(self._scratch, "scratch")
        return re.sub(r"\bhot_[0-9a-f]{32}\b", "rows", text)


def _read(said: str) -> tuple[str, dict[str, Any]]:
    """The kind of error and what DuckDB tells about it."""
    match = _KIND.fullmatch(said)
    kind, told = (match[1], match[2]) if match else (None, said)
    with contextlib.suppress(ValueError):
        facts = json.loads(told)
        if isinstance(facts, dict) and "exception_message" in facts:
            return kind or str(facts.get("exception_type")), facts
    return kind or "Internal", {"exception_message": told}


def _some(**facts: Any) -> dict[str, Any]:
    return {name: value for name, value in facts.items() if value}


def _suggestions(said: str) -> list[str]:
    """Of DuckDB's candidates those that are like the name before them, the last one."""
    found = _CANDIDATES.search(said)
    named = _NAME.findall(said[: found.start()]) if found else []
    if not found or not named:
        return []
    wanted = named[-1].lower()
    return [
        each for each in _NAME.findall(found[1]) if alike(wanted, [each.lower().rpartition(".")[2]])
    ]


def _place(facts: dict[str, Any], statement: Statement) -> dict[str, int]:
    """Line and column, where the error is one of the statement's own text."""
    position = str(facts.get("position", ""))
    at = int(position) - len(FROM) if position.isdigit() else -1
    if not 0 <= at < len(statement.sql.encode()):
        return {}
    line, column = statement.place(at)
    return {"line": line, "column": column}
