"""Rows as an operator would stage them: a real Parquet file, sealed."""

from __future__ import annotations

import hashlib
import io

import pyarrow as pa
import pyarrow.parquet as pq

from trace_platform.domain.block_range import BlockRange
from trace_platform.drivers.object_store import ObjectStore
from trace_platform.operators.io.parquet_file import WrittenFile
from trace_platform.operators.staging import seal_output
from trace_platform.wire.task import Claimed, OutputCommit


def stage_rows(
    store: ObjectStore, claimed: Claimed, rows: pa.Table, key: str | None = None
) -> OutputCommit:
    """The first output of the attempt, for the whole of what woke it, or under another key."""
    output, given = claimed.task.outputs[0], claimed.task.inputs[0]
    assert given.partition_key is not None
    buffer = io.BytesIO()
    pq.write_table(rows, buffer)
    body, name = buffer.getvalue(), f"rows_{given.partition_key}.parquet"
    store.put(output.prefix + name, body)
    file = WrittenFile(name, rows.num_rows, len(body), hashlib.sha256(body).hexdigest())
    where: BlockRange | str = key or given.partition_key
    if key is None and given.start is not None and given.end is not None:
        where = BlockRange(given.start, given.end)
    return seal_output(store, output, where, [file], rows.schema)
