"""Operators by name. A module is imported when its operator is first asked for: validating a
DAG must not load Spark or Arrow for operators that it does not name.

Trace's own names come first: no package takes one of them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, cast

from trace_platform.domain.alike import meant
from trace_platform.domain.errors import InvalidConfig
from trace_platform.operators.own.installed import installed, load_installed

if TYPE_CHECKING:
    from trace_platform.operators.contract import Operator

OPERATORS: dict[str, str] = {
    "address_labels": "trace_platform.operators.files.address_labels.AddressLabels",
    "block_follower": "trace_platform.operators.follow.block_follower.BlockFollower",
    "call_decode": "trace_platform.operators.decode.call_decode.CallDecode",
    "cryo_ingest": "trace_platform.operators.ingest.cryo_ingest.CryoIngest",
    "file_ingest": "trace_platform.operators.files.file_ingest.FileIngest",
    "file_watch": "trace_platform.operators.files.file_watch.FileWatch",
    "http_ingest": "trace_platform.operators.http.http_ingest.HttpIngest",
    "integrity_check": "trace_platform.operators.checks.integrity_check.IntegrityCheck",
    "liveliness_monitor": "trace_platform.operators.checks.liveliness_monitor.LivelinessMonitor",
    "log_decode": "trace_platform.operators.decode.log_decode.LogDecode",
    "no_op": "trace_platform.operators.no_op.NoOp",
    "parquet_compact": "trace_platform.operators.ingest.parquet_compact.ParquetCompact",
    "python_transform": "trace_platform.operators.transform.python_transform.PythonTransform",
    "query_export": "trace_platform.operators.query_export.QueryExport",
    "range_splitter": "trace_platform.operators.ingest.range_splitter.RangeSplitter",
    "rpc_integrity_check": "trace_platform.operators.checks.rpc_integrity_check.RpcIntegrityCheck",
    "sql_transform": "trace_platform.operators.transform.sql_transform.SqlTransform",
    "ticker": "trace_platform.operators.ticker.Ticker",
}


def is_known(name: str) -> bool:
    return name in OPERATORS or name in installed()


def load(name: str) -> type[Operator]:
    if name not in OPERATORS:
        if name in installed():
            return load_installed(name)
        raise unknown(name)
    module, _, attribute = OPERATORS[name].rpartition(".")
    return cast("type[Operator]", getattr(importlib.import_module(module), attribute))


def unknown(name: str) -> InvalidConfig:
    known = OPERATORS.keys() | installed().keys()
    hint = meant(name, known) or f"there are {', '.join(sorted(known))}"
    return InvalidConfig(f"there is no operator {name!r}", hint=hint)
