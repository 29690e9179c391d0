"""Current partitions: what is there of a range or a key, what it was made of, what replaces it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from psycopg.types.json import Jsonb

from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.freshness import Key, Partition, Read, StoredRead
from trace_platform.drivers.postgres.queries import Tx, load_queries
from trace_platform.state.task_rows import HeldTask
from trace_platform.wire.manifest import Manifest
from trace_platform.wire.task import OutputCommit

_sql = load_queries(__file__)


@dataclass(frozen=True, slots=True)
class Committed:
    """A materialisation, and whether rows that were current gave way to it."""

    id: UUID
    replaces: bool


@dataclass(frozen=True, slots=True)
class _Stored:
    partition_key: str
    range_start: int | None
    range_end: int | None
    made_of: list[StoredRead]
    knows: list[StoredRead]


async def touched(tx: Tx, asked: Sequence[tuple[int, UUID, BlockRange]]) -> list[int]:
    """Of ranges of versions, each with a number: the numbers of those in which something is."""
    if not asked:
        return []
    rows = await _sql.touched(
        tx,
        ns=[n for n, _, _ in asked],
        versions=[version for _, version, _ in asked],
        starts=[span.start for _, _, span in asked],
        ends=[span.end for _, _, span in asked],
    )
    return [row["n"] for row in rows]


async def within(tx: Tx, version: UUID, span: BlockRange) -> list[Partition]:
    """Those of which some is in the range, in order."""
    rows = await _sql.rows(tx, "within", _Stored, version=version, start=span.start, end=span.end)
    return [_partition(row) for row in rows]


async def of_key(tx: Tx, version: UUID, key: str) -> list[Partition]:
    rows = await _sql.rows(tx, "of_key", _Stored, version=version, key=key)
    return [_partition(row) for row in rows]


async def of_keys(
    tx: Tx, version: UUID, keys: Iterable[Key], *, named: bool = False
) -> list[Partition]:
    """Those that were made of some of these partitions of inputs; or that are `named` so."""
    together = sorted(keys)
    rows = await _sql.rows(
        tx,
        "of_keys",
        _Stored,
        version=version,
        reads=[Jsonb([{"input": index, "key": key}]) for index, key in together],
        names=[key for _, key in together] if named else [],
    )
    return [_partition(row) for row in rows]


async def replace(
    tx: Tx,
    output: OutputCommit,
    manifest: Manifest,
    task: HeldTask,
    made_of: Sequence[Read],
    knows: Sequence[StoredRead],
    gone: Sequence[str],
    moment: datetime,
) -> Committed:
    """Point at the staged files, in the place of what lies within their range; of what has none,
    in the place of what is `gone` with it.

    What gives way does so at the moment at which its successor is there: whoever asks what was
    current at any moment finds one of them.
    """
    version, span = output.dataset_version, {"start": manifest.start, "end": manifest.end}
    replaced: int
    if manifest.start is None:
        replaced = await _sql.supersede_keys(tx, version=version, keys=list(gone), moment=moment)
    else:
        replaced = await _sql.supersede_within(tx, version=version, **span, moment=moment)
    made: UUID = await _sql.insert(
        tx,
        **span,
        version=version,
        key=manifest.partition_key,
        dataset_uuid=output.dataset_uuid,
        location=output.location,
        files=Jsonb([file.model_dump() for file in manifest.files]),
        row_count=manifest.rows,
        byte_count=manifest.bytes,
        schema_hash=manifest.schema_hash,
        task_id=task.id,
        attempt=task.attempt,
        made_of=Jsonb([read.stored() for read in made_of]),
        knows=Jsonb(list(knows)),
        moment=moment,
    )
    return Committed(made, replaces=bool(replaced))


async def still_current(tx: Tx, locations: Iterable[str]) -> set[str]:
    """Of these places those whose files are current in their generations."""
    rows = await _sql.still_current(tx, locations=list(locations))
    return {row["location"] for row in rows}


def _partition(row: _Stored) -> Partition:
    start, end = row.range_start, row.range_end
    return Partition(
        key=row.partition_key,
        span=None if start is None or end is None else BlockRange(start, end),
        made_of=tuple(Read.of(each) for each in row.made_of),
        knows=tuple(Read.of(each) for each in row.knows),
    )
