"""What went wrong, in DuckDB's words: where in the statement and what was meant, but never where
rows lie or what the views are made of."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from typing import Any

import duckdb
import pyarrow as pa

from trace_platform.domain.errors import (
    DiskFull,
    InvalidQuery,
    QueryTooLarge,
    TraceError,
    Unavailable,
)
from trace_platform.query.protocol.messages import Limits, Relation
from trace_platform.query.protocol.timed_out import timed_out
from trace_platform.sql import mistakes
from trace_platform.sql.gate import Statement

_EXPORT_HINT = "or let a job with the query_export operator write the result"


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
        kind, facts = mistakes.read(said)
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
        return mistakes.refusal(kind, facts, statement, self.without_names)

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

    def without_names(self, text: str) -> str:
        for each in self._relations:
            for path in (*each.files, *([each.hot] if each.hot else [])):
                text = text.replace(path, each.view)
        text = text.replace(self._scratch, "scratch")
        return re.sub(r"\bhot_[0-9a-f]{32}\b", "rows", text)
