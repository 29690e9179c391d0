"""`cryo_ingest` of chosen tables, as a job that declares an output for each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tests.support.operator_task import operator_task
from trace_platform.domain.block_range import BlockRange
from trace_platform.operators.contract import TaskContext
from trace_platform.operators.ingest.cryo_ingest import Config

if TYPE_CHECKING:
    from tests.integration.conftest import Ingest


def tables_task(
    ingest: Ingest, url: str, blocks: BlockRange, tables: tuple[str, ...], **config: Any
) -> TaskContext:
    settings = {"chain_id": 31337, "rpc_pool": "test", "tables": tables, **config}
    valid = Config.model_validate(settings)
    return operator_task(valid, blocks, ingest.store, outputs=tables, url=url)


def ingest_tables(
    ingest: Ingest, url: str, blocks: BlockRange, tables: tuple[str, ...], **config: Any
) -> dict[str, pa.Table]:
    task = tables_task(ingest, url, blocks, tables, **config)
    result = ingest.run_task(task)
    return {table: ingest.read(task, i, result) for i, table in enumerate(tables)}
