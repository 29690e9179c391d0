"""What becomes of a batch of logs or calls: rows of outputs, and how many of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trace_platform.operators.decode.abi import UNDECODED
from trace_platform.operators.decode.layout import Laid
from trace_platform.operators.decode.values import Reason

Indexes: TypeAlias = "npt.NDArray[np.int64]"
Codes: TypeAlias = "npt.NDArray[np.uint8]"

# Of an output: why rows were not decoded, and how many. The reason is empty for those that were.
Counts: TypeAlias = "Counter[tuple[str, str]]"

ABI = pa.field("abi", pa.string(), nullable=False)
_REASON = pa.field("reason", pa.string(), nullable=False)


@dataclass(frozen=True, slots=True)
class Case:
    """One event or function: the number of its output, the columns of its parameters, and its ABI's
    version."""

    output: int
    version: str
    laid: tuple[Laid, ...]

    @property
    def columns(self) -> list[pa.Field]:
        return [column for each in self.laid for column in each.columns]


def schema_of(kept: pa.Schema, columns: Iterable[pa.Field]) -> pa.Schema:
    """The columns that come with the row, the parameters, and which ABI decoded them."""
    return pa.schema([*kept, *columns, ABI])


@dataclass(slots=True)
class Decoded:
    """Batches by output. Rows are in the order in which they came."""

    batches: list[tuple[int, pa.RecordBatch]] = field(default_factory=list)
    counts: Counts = field(default_factory=Counter)


def origins_of(
    held: Iterable[tuple[Case, Sequence[str]]], outputs: int, kept: pa.Schema
) -> list[dict[str, list[str]]]:
    """By output and column: the column that came with the row, or those that hold the parameter in
    any version. `held` has them of each parameter of a case."""
    found: list[dict[str, list[str]]] = [{n: [n] for n in kept.names} for _ in range(outputs)]
    for case, columns in held:
        for laid, of in zip(case.laid, columns, strict=True):
            for column in laid.columns:
                there = found[case.output].setdefault(column.name, [])
                if of not in there:
                    there.append(of)
    return [{**each, ABI.name: []} for each in found]


class BatchDecoder(Protocol):
    """Sent to executors. The outputs are its cases' and, last, what was not decoded."""

    @property
    def schemas(self) -> Sequence[pa.Schema]: ...

    def decode(self, batch: pa.RecordBatch) -> Decoded: ...


class Undecoded:
    """Rows of a batch that became nothing else, with the output that they were tried for."""

    def __init__(self, rows: int) -> None:
        self._reason = np.full(rows, "", object)
        self._tried = np.full(rows, None, object)

    def add(self, rows: Indexes, tried: str | None, reasons: Codes) -> None:
        self._tried[rows] = tried
        for code in np.unique(reasons):
            self._reason[rows[reasons == code]] = Reason(int(code)).name

    def say(self, rows: Indexes, tried: str | None, reason: str) -> None:
        self._tried[rows], self._reason[rows] = tried, reason

    def batch(self, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch | None:
        rows = np.flatnonzero(self._reason != "")
        if not len(rows):
            return None
        there = batch.take(pa.array(rows))
        said = [pa.array(self._tried[rows], pa.string()), pa.array(self._reason[rows], pa.string())]
        columns = [there[name] for name in schema.names[:-2]]
        return pa.RecordBatch.from_arrays([*columns, *said], schema=schema)

    def counts(self) -> Iterator[tuple[tuple[str, str], int]]:
        rows = np.flatnonzero(self._reason != "")
        pairs = zip(self._tried[rows], self._reason[rows], strict=True)
        yield from Counter((tried or UNDECODED, reason) for tried, reason in pairs).items()


def undecoded_schema(kept: pa.Schema, raw: pa.Schema, tried: str) -> pa.Schema:
    return pa.schema([*kept, *raw, pa.field(tried, pa.string()), _REASON])


def assembled(
    case: Case,
    rows: pa.RecordBatch,
    columns: Mapping[str, pa.Array],
    schema: pa.Schema,
    kept: int,
) -> pa.RecordBatch:
    """Of `rows` the first `kept` columns of the schema; of the others those that the case has, and
    nulls where only other versions of its ABI have one."""
    taken = [rows[name] for name in schema.names[:kept]]
    own = [
        columns[field.name] if field.name in columns else pa.nulls(rows.num_rows, field.type)
        for field in list(schema)[kept:-1]
    ]
    version = pa.repeat(pa.scalar(case.version), rows.num_rows)
    return pa.RecordBatch.from_arrays([*taken, *own, version], schema=schema)


def by_name(laid: Sequence[Laid], columns: Sequence[pa.Array]) -> dict[str, pa.Array]:
    names = (column.name for each in laid for column in each.columns)
    return dict(zip(names, columns, strict=True))
