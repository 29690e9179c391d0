"""The rows of a query, in memory as Arrow, for whichever library works on them."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote
from uuid import UUID

from trace_platform.client.answer import Answer
from trace_platform.domain.errors import SetupError, Unavailable
from trace_platform.wire.query import (
    DATASETS_HEADER,
    ELAPSED_HEADER,
    MASKED_HEADER,
    MOMENTS_HEADER,
    QUERY_ID_HEADER,
    ROWS_HEADER,
    TRUNCATED_HEADER,
    QueryFacts,
)

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

_BUFFER_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Facts:
    """What the headers of an answer say beside its rows."""

    query_id: UUID
    row_count: int
    truncated: bool
    elapsed_ms: float
    # What was read, as NAME@VERSION.
    datasets: tuple[str, ...]
    # What of it was not shown, as NAME.COLUMN.
    masked: tuple[str, ...]
    # What of it was read as it was then, as NAME@MOMENT.
    moments: tuple[str, ...]

    @classmethod
    def told(cls, facts: QueryFacts) -> Facts:
        """The same, of an answer that is JSON."""
        read = facts.datasets
        return cls(
            facts.query_id,
            facts.row_count,
            facts.truncated,
            facts.elapsed_ms,
            tuple(f"{each.name}@{each.dataset_version}" for each in read),
            tuple(f"{each.name}.{column}" for each in read for column in each.masked),
            tuple(f"{each.name}@{each.at.isoformat()}" for each in read if each.at),
        )

    @classmethod
    def of(cls, answer: Answer) -> Facts:
        try:
            return cls(
                UUID(answer.header(QUERY_ID_HEADER)),
                int(answer.header(ROWS_HEADER)),
                answer.header(TRUNCATED_HEADER).lower() == "true",
                float(answer.header(ELAPSED_HEADER)),
                _listed(answer.header(DATASETS_HEADER)),
                tuple(map(unquote, _listed(answer.header(MASKED_HEADER, "")))),
                _listed(answer.header(MOMENTS_HEADER, "")),
            )
        except ValueError:
            raise Unavailable("the headers of the answer cannot be read") from None


def _listed(header: str) -> tuple[str, ...]:
    return tuple(each.strip() for each in header.split(",") if each)


class Result:
    """Immutable. Of columns with the same name the second `x` is called `x_1`."""

    def __init__(self, table: pyarrow.Table, facts: Facts) -> None:
        self._table, self._facts = table, facts

    @classmethod
    def read(cls, answer: Answer) -> Result:
        """Decode the rows as they arrive."""
        import pyarrow as pa

        facts = Facts.of(answer)
        chunks = answer.chunks()
        incoming = io.BufferedReader(_Incoming(chunks), _BUFFER_BYTES)
        try:
            with pa.ipc.open_stream(pa.PythonFile(incoming, "r")) as stream:
                table = stream.read_all()
        except (pa.ArrowInvalid, OSError) as error:
            raise Unavailable(f"the answer is not Arrow: {error}") from None
        for _ in chunks:
            pass  # Arrow stops at its own end mark; the connection is free at the answer's end
        # A stream that ends early looks to Arrow like one that is shorter.
        if table.num_rows != facts.row_count:
            raise Unavailable(
                f"{table.num_rows:,} of {facts.row_count:,} rows arrived", hint="ask again"
            )
        return cls(table.rename_columns(distinct(table.column_names)), facts)

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __repr__(self) -> str:
        shape = f"{len(self):,} rows of {self._table.num_columns} columns"
        more = ", there are more" if self.truncated else ""
        return f"<Result: {shape} from {', '.join(self.datasets) or 'no dataset'}{more}>"

    def to_arrow(self) -> pyarrow.Table:
        return self._table

    def to_pandas(self) -> pandas.DataFrame:
        """With Arrow's own types: NumPy has no integers, dates and decimals that may be missing,
        and would round them. `to_arrow().to_pandas()` has NumPy's."""
        import pandas

        return self._table.to_pandas(types_mapper=pandas.ArrowDtype)

    def to_polars(self) -> polars.DataFrame:
        try:
            import polars
        except ImportError:
            raise SetupError("polars is not installed", hint="pip install polars") from None
        frame = polars.from_arrow(self._table)
        assert isinstance(frame, polars.DataFrame), "a table is no series"
        return frame

    def rows(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._table.to_pylist()
        return found

    @property
    def datasets(self) -> list[str]:
        """What was read, as NAME@VERSION: naming it so reads that generation again, with the rows
        that it has by then."""
        return list(self._facts.datasets)

    @property
    def moments(self) -> list[str]:
        """What of it was read as it was then, as NAME@MOMENT: its rows of that moment."""
        return list(self._facts.moments)

    @property
    def masked(self) -> list[str]:
        """What of it was not shown, as NAME.COLUMN: personal columns without a grant."""
        return list(self._facts.masked)

    @property
    def truncated(self) -> bool:
        """True only when the query has more rows than these."""
        return self._facts.truncated

    @property
    def query_id(self) -> str:
        return str(self._facts.query_id)

    @property
    def elapsed_ms(self) -> float:
        """In the service, without the way."""
        return self._facts.elapsed_ms


def distinct(names: list[str]) -> list[str]:
    """Names as keys: the second `x` becomes `x_1`, so that no column hides another."""
    keys: dict[str, None] = {}
    for name in names:
        key, n = name, 0
        while key in keys:
            n += 1
            key = f"{name}_{n}"
        keys[key] = None
    return list(keys)


class _Incoming(io.RawIOBase):
    """Chunks as a file that is read once."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        super().__init__()
        self._chunks, self._rest = chunks, memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        if not self._rest:
            self._rest = memoryview(next((chunk for chunk in self._chunks if chunk), b""))
        size = min(len(target), len(self._rest))
        target[:size], self._rest = self._rest[:size], self._rest[size:]
        return size
