"""`http_ingest`: what an HTTP endpoint answers, JSON or CSV, as a dataset. Runs without Spark.

Woken by ticks. All pages are read before anything is written: an answer takes the place of the one
before as a whole, or not at all. An endpoint that says the same as before costs no commit.
"""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import astuple
from typing import ClassVar

import pyarrow as pa

from trace_platform.domain.errors import InvalidConfig
from trace_platform.drivers.http_endpoint import Credential, HttpEndpoint, Manners
from trace_platform.operators import scope
from trace_platform.operators.accepts import PARTITION, RANGE, TICK, Accepts, Updates
from trace_platform.operators.contract import OperatorConfig, Result, TaskContext, Writes
from trace_platform.operators.http.config import REJECTED, Auth, Config
from trace_platform.operators.http.contract import Contract, Reject, Rows
from trace_platform.operators.http.fetch import Fetched, fetch
from trace_platform.operators.http.known_answer import KnownAnswer
from trace_platform.operators.http.values import schema_of
from trace_platform.operators.io.parquet_file import ParquetFile
from trace_platform.operators.query_export import WHOLE
from trace_platform.operators.staging import seal_output
from trace_platform.wire.task import OutputCommit

_NAP_S = 0.2
_REJECTED = schema_of(dict(REJECTED))


class HttpIngest:
    name: ClassVar[str] = "http_ingest"
    Config: ClassVar[type[OperatorConfig]] = Config
    output_names: ClassVar[tuple[str, ...] | None] = ("rows", "rejected")
    accepts: ClassVar[Accepts] = Accepts(TICK, several=True)
    emits: ClassVar[Updates | None] = PARTITION - RANGE
    writes: ClassVar[Writes | None] = "files"

    def run(self, task: TaskContext) -> Result:
        config: Config = task.config
        _refuse_all_but_ticks(task)
        kept = KnownAnswer.in_state(task.state())
        # What is to be made anew is, whatever the endpoint says.
        again = any(given.invalidation is not None for given in task.inputs)
        known = KnownAnswer(None, (), kept.columns) if again else kept
        with _opened(task, config) as endpoint:
            fetched = fetch(config, endpoint, known)
        if fetched is None:
            task.log.info("endpoint_unchanged", pages=len(known.pages))
            return Result()
        now = KnownAnswer(fetched.digest, fetched.pages, known.columns)
        if now.digest == known.digest:
            task.log.info("endpoint_unchanged", pages=len(fetched.bodies))
            return Result(state=now.as_state())
        return _written(task, config, fetched, now)


def _refuse_all_but_ticks(task: TaskContext) -> None:
    waking = [given for given in task.inputs if given.trigger]
    if not waking or any(given.cursor is None for given in waking):
        raise InvalidConfig(
            "an update that is no tick woke this task: an answer is of a moment, and of no part "
            "of something",
            hint="feed the job from a cron source or a ticker",
        )


def _written(task: TaskContext, config: Config, fetched: Fetched, now: KnownAnswer) -> Result:
    contract = Contract(config, now.columns)
    if config.schema_contract.columns == "evolve":
        contract.learn(page.records for page in fetched.documents(config))
    outputs = _write(task, config, fetched, contract)
    rows, rejected = outputs
    say = {"rows": rows.row_count, "rejected": rejected.row_count}
    task.log.info("http_ingested", pages=len(fetched.bodies), **say)
    state = KnownAnswer(now.digest, now.pages, contract.evolved).as_state()
    return Result(outputs=outputs, state=state)


def _write(
    task: TaskContext, config: Config, fetched: Fetched, contract: Contract
) -> list[OutputCommit]:
    targets = [scope.output(task, number) for number in (0, 1)]
    schemas = (schema_of(contract.types), _REJECTED)
    files = [
        ParquetFile(task.store, target.prefix, f"{target.name}.parquet", schema, frozenset())
        for target, schema in zip(targets, schemas, strict=True)
    ]
    with files[0] as rows, files[1] as rejected:
        for number, page in enumerate(fetched.documents(config), start=1):
            task.check()
            found = contract.rows(page.records, number)
            rows.write(_batch(found, schemas[0]))
            rejected.write(_rejects(found.rejected))
        contract.judge()
        written = [file.close() for file in files]
    return [
        seal_output(task.store, target, WHOLE, [file], schema)
        for target, file, schema in zip(targets, written, schemas, strict=True)
    ]


def _batch(found: Rows, schema: pa.Schema) -> pa.RecordBatch:
    columns = [pa.array(found.columns[field.name], field.type) for field in schema]
    return pa.record_batch(columns, schema=schema)


def _rejects(found: Sequence[Reject]) -> pa.RecordBatch:
    columns = list(zip(*map(astuple, found), strict=True)) or [()] * len(_REJECTED)
    arrays = [pa.array(values, each.type) for values, each in zip(columns, _REJECTED, strict=True)]
    return pa.record_batch(arrays, schema=_REJECTED)


def _opened(task: TaskContext, config: Config) -> HttpEndpoint:
    def pause(seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            task.check()
            time.sleep(min(left, _NAP_S))

    return HttpEndpoint(
        config.url,
        config.headers,
        None if config.auth is None else _credential(config.auth, task.secret(config.auth.secret)),
        Manners(config.timeout_s, config.requests_per_second),
        pause,
        task.check,
    )


def _credential(auth: Auth, secret: str) -> Credential:
    if auth.type == "basic":
        pair = b64encode(f"{auth.username}:{secret}".encode()).decode()
        return Credential("Authorization", f"Basic {pair}")
    if auth.type == "bearer":
        return Credential("Authorization", f"Bearer {secret}")
    assert auth.name is not None, "an api_key has a name"
    return Credential(auth.name, secret, in_query=auth.location == "query")
