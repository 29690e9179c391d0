"""`query_export`, as a worker runs it: over the real query service, and over a bad one."""

from __future__ import annotations

import csv
import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support import query_service as support
from tests.support.operator_task import operator_task
from tests.support.query_service import QueryService, query_service
from trace_platform.dispatcher.commits.verify_output import verify_output
from trace_platform.dispatcher.tasks.task_tokens import TaskTokens
from trace_platform.domain.block_range import BlockRange
from trace_platform.domain.errors import (
    InvalidConfig,
    InvalidQuery,
    QueryTooLarge,
    TaskCanceled,
    Unavailable,
    UnsupportedType,
)
from trace_platform.domain.prefix import attempt_prefix
from trace_platform.drivers.headers import TASK_CAPABILITY
from trace_platform.drivers.lite.local_store import LocalStore
from trace_platform.drivers.lite.pem_signer import PemSigner
from trace_platform.drivers.query_endpoint import QueryEndpoint
from trace_platform.operators import query_export
from trace_platform.operators.contract import TaskContext
from trace_platform.operators.query_export import Config, QueryExport
from trace_platform.operators.spark.session import SparkRuntime
from trace_platform.state.task_rows import HeldTask
from trace_platform.wire.manifest import Manifest
from trace_platform.wire.query import ROWS_HEADER, TRUNCATED_HEADER, DatasetRef, ResolvedDataset
from trace_platform.wire.task import (
    Claimed,
    CompleteRequest,
    JobRef,
    TaskInput,
    TaskOutput,
    TaskPayload,
)
from trace_platform.worker.attempt import Attempt
from trace_platform.worker.resources import Resources

MOST = 2**256 - 1
BLOCKS = BlockRange(10, 19)
ROWS = pa.table(
    {
        "block_number": pa.array(range(10, 20), pa.int64()),
        "hash": pa.array([bytes([n]) * 32 for n in range(10)], pa.binary()),
        "value_string": pa.array([str(MOST - n) for n in range(10)]),
        "fee": pa.array([1.5, None, float("nan")] * 3 + [0.0], pa.float64()),
        "success": pa.array([True, False, None] * 3 + [True], pa.bool_()),
    }
)
SECRET = "eyJhbGciOi.secret.token"


# --- over the real service ---------------------------------------------------------------------


@dataclass
class Exporter:
    """A worker's attempts against a query service that verifies their tokens."""

    service: QueryService
    tokens: TaskTokens
    spark: SparkRuntime
    org_id: UUID = field(default_factory=uuid4)

    @property
    def store(self) -> LocalStore:
        return LocalStore(str(self.service.home.objects))

    def payload(self, config: dict[str, Any], *inputs: TaskInput) -> TaskPayload:
        task_id, dataset, version = uuid4(), uuid4(), uuid4()
        prefix = attempt_prefix("trace-data", self.org_id, dataset, version, task_id, 1)
        return TaskPayload(
            task_id=task_id,
            attempt=1,
            org_id=self.org_id,
            job=JobRef(dag_name="d", name="export"),
            operator="query_export",
            config=config,
            inputs=list(inputs),
            outputs=[
                TaskOutput(
                    output_index=0,
                    name="answer",
                    dataset_uuid=dataset,
                    dataset_version=version,
                    prefix=prefix,
                )
            ],
            timeout_seconds=120,
            heartbeat_timeout_seconds=30,
            log_uri=f"s3://trace-data/logs/{task_id}.jsonl",
        )

    def run(
        self, config: dict[str, Any], *inputs: TaskInput, where: dict[str, Any] | None = None
    ) -> tuple[TaskPayload, CompleteRequest]:
        payload = self.payload(config, *inputs)
        claimed = Claimed(
            attempt=1,
            lease_token=uuid4(),
            lease_expires_at="2100-01-01T00:00:00Z",
            capability_token=self.tokens.issue(self.org_id, payload, trusted=True),
            task=payload,
        )
        ca = (self.service.home.tls / "ca.pem").read_text()
        resources = Resources(
            self.store,
            _no_rpc,
            self.spark,
            query=lambda token: QueryEndpoint(self.service.url, token, ca),
        )
        return payload, Attempt(claimed, resources).run()

    def ask(
        self, sql: str, given: TaskInput, header: str, *, trusted: bool = False
    ) -> httpx.Response:
        """As the code of an attempt does by itself."""
        payload = self.payload({}, given)
        token = self.tokens.issue(self.org_id, payload, trusted=trusted)
        sent = {header: token if header == TASK_CAPABILITY else f"Bearer {token}"}
        with self.service.client() as client:
            del client.headers["Authorization"]
            return client.post("/v1/task/query", json={"sql": sql}, headers=sent)

    def committed(self, payload: TaskPayload, report: CompleteRequest) -> Manifest:
        """As the Dispatcher finds it."""
        assert report.status == "Completed", report.error_message
        (output,) = report.outputs
        task = HeldTask(
            id=payload.task_id,
            org_id=payload.org_id,
            job_id=uuid4(),
            generation_id=uuid4(),
            runtime="ecs_platform",
            attempt=1,
            inputs=[i.model_dump(mode="json", exclude_none=True) for i in payload.inputs],
            outputs=[o.model_dump(mode="json") for o in payload.outputs],
            operator=payload.operator,
            dag_name=payload.job.dag_name,
            job_name=payload.job.name,
            lease_token=uuid4(),
            priority=1,
            knows=[],
            superseded=False,
            cancel_requested_at=None,
            drain_requested_at=None,
            backfill_id=None,
            job_priority=1,
            max_concurrency=None,
            update_strategy=None,
            takes_several=False,
        )
        manifest = verify_output(self.store, "trace-data", task, output)
        for file in manifest.files:
            body = self.store.get(output.location + file.name)
            assert hashlib.sha256(body).hexdigest() == file.sha256
        return manifest

    def rows(self, payload: TaskPayload, manifest: Manifest) -> pa.Table:
        prefix = payload.outputs[0].prefix
        paths = [self.store.filesystem(prefix + file.name)[1] for file in manifest.files]
        return pa.concat_tables(pq.read_table(path) for path in paths)


def _no_rpc(pool: str) -> Any:
    raise AssertionError(f"nobody asks pool {pool}")


class _WithKeys(support._Handler):
    def do_GET(self) -> None:
        if self.path == "/internal/jwks/task":
            self._answer(200, json.dumps(self.server.jwks()).encode())  # type: ignore[attr-defined]
        else:
            super().do_GET()


@pytest.fixture(scope="module")
def exporter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exporter]:
    folder = tmp_path_factory.mktemp("exports")
    signer = PemSigner(folder / "keys")
    with query_service(folder / "home", "[query]\nconcurrency = 1\nmemory_mb = 512\n") as service:
        dispatcher: Any = service.dispatcher
        dispatcher.RequestHandlerClass, dispatcher.jwks = _WithKeys, signer.jwks
        known = dispatcher.datasets

        def resolve(ref: DatasetRef, *, files: bool) -> ResolvedDataset:
            found: ResolvedDataset = next(
                each for each in known.values() if each.dataset_version == ref.dataset_version
            )
            return found if files else found.model_copy(update={"files": []})

        dispatcher.resolve = resolve
        pq.write_table(ROWS, folder / "blocks_10_19.parquet")
        pq.write_table(pa.table({"n": [1]}), folder / "other.parquet")
        service.publish("blocks", [folder / "blocks_10_19.parquet"], row_count=10)
        people = [folder / "people.parquet"]
        pq.write_table(pa.table({"n": [1, 2], "email": ["a@x", "b@x"]}), people[0])
        service.publish("people", people, row_count=2, pii=["email"])
        service.publish("secrets", [folder / "other.parquet"], row_count=1)
        yield Exporter(service, TaskTokens(signer), SparkRuntime(folder / "spark"))


@pytest.fixture
def blocks(exporter: Exporter) -> TaskInput:
    dataset = exporter.service.dispatcher.datasets["blocks"]
    return TaskInput(
        input_index=0,
        dataset_uuid=dataset.dataset_uuid,
        dataset_version=dataset.dataset_version,
        partition_key=BLOCKS.key,
        start=BLOCKS.start,
        end=BLOCKS.end,
        files=dataset.files,
    )


@pytest.fixture
def people(exporter: Exporter) -> TaskInput:
    dataset = exporter.service.dispatcher.datasets["people"]
    return TaskInput(
        input_index=0,
        dataset_uuid=dataset.dataset_uuid,
        dataset_version=dataset.dataset_version,
        partition_key="all",
        files=dataset.files,
        where={"email": "a@x"},
    )


@pytest.mark.parametrize("header", ["Authorization", TASK_CAPABILITY])
def test_personal_columns_are_masked_for_code_that_nobody_vouches_for(
    header: str, exporter: Exporter, people: TaskInput
) -> None:
    sql = "select n, email from input_0"
    shown = exporter.ask(sql, people, header, trusted=True).json()
    assert (shown["rows"], shown["datasets"][0]["masked"]) == ([[1, "a@x"]], [])
    hidden = exporter.ask(sql, people, header).json()
    assert (hidden["rows"], hidden["datasets"][0]["masked"]) == ([[1, "***"]], ["email"])
    probing = exporter.ask("select n from people where email = 'a@x'", people, header).json()
    assert probing["rows"] == []


def test_a_token_in_either_header_is_checked_alike(exporter: Exporter, people: TaskInput) -> None:
    """A wrong one is refused beside a right one: which of them counts is no guess."""
    token = exporter.tokens.issue(exporter.org_id, exporter.payload({}, people))
    with exporter.service.client(token=token) as client:
        for wrong in ("x.y.z", token[:-4] + "AAAA", exporter.service.home.secret("user_token")):
            sent = {TASK_CAPABILITY: wrong}
            answer = client.post("/v1/task/query", json={"sql": "select 1"}, headers=sent)
            assert answer.status_code == 401, wrong
            assert "different tokens" in answer.json()["detail"]
        both = {TASK_CAPABILITY: token}
        asked = client.post("/v1/task/query", json={"sql": "select 1"}, headers=both)
        assert asked.status_code == 200
        # A capability opens nothing of a user's.
        answer = client.post(
            "/v1/query", json={"sql": "select 1"}, headers={TASK_CAPABILITY: token}
        )
        assert answer.status_code == 401


def test_an_answer_becomes_a_sealed_partition(exporter: Exporter, blocks: TaskInput) -> None:
    payload, report = exporter.run({"sql": "select * from input_0 order by block_number"}, blocks)
    manifest = exporter.committed(payload, report)
    assert (manifest.partition_key, manifest.rows) == ("10-19", 10)
    assert [file.name for file in manifest.files] == ["answer_10_19.parquet"]
    assert [column.name for column in manifest.columns] == ROWS.column_names
    found = exporter.rows(payload, manifest)
    # As text: NaN is not equal to itself.
    assert str(found.to_pylist()) == str(ROWS.to_pylist())


def test_a_dataset_is_known_by_its_published_name_too(
    exporter: Exporter, blocks: TaskInput
) -> None:
    sql = "select max(value_string) as most, count(*) as n from blocks"
    payload, report = exporter.run({"sql": sql}, blocks)
    found = exporter.rows(payload, exporter.committed(payload, report))
    assert found.to_pylist() == [{"most": str(MOST), "n": 10}]


def test_the_blocks_of_the_task_stand_for_start_and_end(
    exporter: Exporter, blocks: TaskInput
) -> None:
    sql = "select $start as first, $end as last, '$started $ends' as words from input_0 limit 1"
    payload, report = exporter.run({"sql": sql}, blocks)
    found = exporter.rows(payload, exporter.committed(payload, report))
    assert found.to_pylist() == [{"first": 10, "last": 19, "words": "$started $ends"}]


def test_no_rows_are_a_partition_with_columns(exporter: Exporter, blocks: TaskInput) -> None:
    payload, report = exporter.run({"sql": "select hash from input_0 where false"}, blocks)
    manifest = exporter.committed(payload, report)
    assert (manifest.rows, [column.name for column in manifest.columns]) == (0, ["hash"])
    assert exporter.rows(payload, manifest).num_rows == 0


def test_csv_is_one_sealed_file(exporter: Exporter, blocks: TaskInput) -> None:
    sql = "select block_number, value_string from input_0 order by 1"
    payload, report = exporter.run({"sql": sql, "format": "csv"}, blocks)
    manifest = exporter.committed(payload, report)
    assert [(file.name, file.rows) for file in manifest.files] == [("answer_10_19.csv", 10)]
    body = exporter.store.get(payload.outputs[0].prefix + "answer_10_19.csv").decode()
    head, *rows = list(csv.reader(body.splitlines()))
    assert head == ["block_number", "value_string"]
    assert rows[0] == ["10", str(MOST)]
    assert len(rows) == 10


def test_only_rows_that_the_edge_lets_through_are_exported(
    exporter: Exporter, blocks: TaskInput
) -> None:
    given = blocks.model_copy(update={"where": {"success": True}})
    payload, report = exporter.run({"sql": "select count(*) as n from input_0"}, given)
    found = exporter.rows(payload, exporter.committed(payload, report))
    assert found.to_pylist() == [{"n": 4}]


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("select * from secrets", "secrets"),
        ("select * from input_1", "input_1"),
        ("select * from read_parquet('/etc/passwd')", ""),
        ("delete from input_0", ""),
    ],
)
def test_what_cannot_be_exported_is_named_and_not_tried_again(
    sql: str, said: str, exporter: Exporter, blocks: TaskInput
) -> None:
    payload, report = exporter.run({"sql": sql}, blocks)
    assert (report.status, report.retryable) == ("Failed", False)
    assert report.error_code == "invalid_query", report.error_message
    assert said in (report.error_message or "")
    assert list(exporter.store.list(payload.outputs[0].prefix)) == []


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("select cast(value_string as int) as n from input_0", "Conversion"),
        ("select error(value_string) as n from input_0", "Invalid Input"),
        (
            "select cast(block_number as utinyint) * cast(200 as utinyint) as n from input_0",
            "Out of Range",
        ),
    ],
)
def test_a_query_that_fails_on_a_row_does_not_tell_the_row(
    sql: str, kind: str, exporter: Exporter, blocks: TaskInput
) -> None:
    """A task reads what is masked for others, and others read what became of it."""
    payload, report = exporter.run({"sql": sql}, blocks)
    assert (report.status, report.error_code) == ("Failed", "invalid_query")
    told = str(report.error_message) + exporter.store.get(payload.log_uri).decode()
    assert f"{kind} Error on a row" in told
    for value in (str(MOST)[:20], "10 * 200"):
        assert value not in told


# --- over one that misbehaves ------------------------------------------------------------------

Reply = Callable[[BaseHTTPRequestHandler], None]


class Scripted(ThreadingHTTPServer):
    """Gives one reply after the other, the last one again and again."""

    daemon_threads = True

    def __init__(self, *replies: Reply) -> None:
        super().__init__(("127.0.0.1", 0), _Scripted)
        self.replies = list(replies)
        self.asked: list[tuple[str, str | None, dict[str, Any]]] = []
        self.hung_up = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Scripted(BaseHTTPRequestHandler):
    server: Scripted

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((self.path, self.headers["Authorization"], body))
        replies = self.server.replies
        (replies.pop(0) if len(replies) > 1 else replies[0])(self)

    def log_message(self, format: str, *args: object) -> None:
        pass


def send(
    handler: BaseHTTPRequestHandler, status: int, headers: dict[str, str], body: bytes
) -> None:
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name, value)
    if "Content-Length" not in headers:
        handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def stream_of(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        for batch in rows.to_batches(max_chunksize=4):
            writer.write_batch(batch)
    return bytes(sink.getvalue())


def answer(body: bytes, rows: int = 10, truncated: str = "false", **headers: str) -> Reply:
    named = {ROWS_HEADER: str(rows), TRUNCATED_HEADER: truncated} | {
        name.replace("_", "-"): value for name, value in headers.items()
    }
    return lambda handler: send(handler, 200, named, body)


def problem(status: int, code: str, **facts: object) -> Reply:
    body = json.dumps({"code": code, "detail": "said", "facts": facts}).encode()
    kind = {"Content-Type": "application/problem+json"}
    return lambda handler: send(handler, status, kind, body)


def hang(handler: BaseHTTPRequestHandler) -> None:
    """Until the client goes away."""
    server: Scripted = handler.server  # type: ignore[assignment]
    assert handler.rfile.read(1) == b""
    server.hung_up.set()


@pytest.fixture
def served() -> Iterator[Callable[..., Scripted]]:
    servers: list[Scripted] = []

    def serve(*replies: Reply) -> Scripted:
        server = Scripted(*replies)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        return server

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


class Lines:
    """An attempt's log."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, Any]]] = []

    def info(self, event: str, **facts: Any) -> None:
        self.lines.append((event, facts))

    warning = error = info


def task_of(
    url: str, store: Path, check: Callable[[], None] = lambda: None, **config: Any
) -> TaskContext:
    settings = Config.model_validate({"sql": "select * from input_0"} | config)
    task = operator_task(settings, BLOCKS, store, outputs=("answer",), check=check)
    return replace(task, query=lambda: QueryEndpoint(url, SECRET), log=Lines())


def left(store: Path) -> list[Path]:
    return [path for path in store.rglob("*") if path.is_file()]


def test_a_busy_service_is_asked_again_when_it_says(
    served: Callable[..., Scripted], tmp_path: Path
) -> None:
    server = served(
        problem(429, "too_many_queries", retry_after_s=0.01),
        problem(503, "unavailable", retry_after_s=0.01),
        answer(stream_of(ROWS)),
    )
    task = task_of(server.url, tmp_path)
    result = QueryExport().run(task)
    assert result.outputs[0].row_count == 10
    assert [asked[0] for asked in server.asked] == ["/v1/task/query"] * 3
    assert server.asked[0][1] == f"Bearer {SECRET}"
    assert server.asked[0][2] == {"sql": "select * from input_0", "format": "arrow"} | {
        "page_rows": 10_000
    }
    log: Any = task.log
    assert [facts["code"] for _, facts in log.lines] == ["too_many_queries", "unavailable"]


def test_a_token_whose_key_is_not_known_yet_is_shown_again(
    served: Callable[..., Scripted], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query_export, "_PAUSE_S", 0.01)
    refused = problem(401, "unauthenticated")
    server = served(refused, refused, answer(stream_of(ROWS)))
    assert QueryExport().run(task_of(server.url, tmp_path)).outputs[0].row_count == 10
    assert len(server.asked) == 3


def test_a_token_that_stays_unknown_leaves_it_to_the_next_attempt(
    served: Callable[..., Scripted], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query_export, "_PAUSE_S", 0.01)
    monkeypatch.setattr(query_export, "_UNKNOWN_S", 0.0)
    server = served(problem(401, "unauthenticated"))
    with pytest.raises(Unavailable, match="does not accept the task's token") as caught:
        QueryExport().run(task_of(server.url, tmp_path))
    assert caught.value.retryable


def test_waiting_ends_with_the_task(served: Callable[..., Scripted], tmp_path: Path) -> None:
    server = served(problem(429, "too_many_queries", retry_after_s=3600))
    calls = iter(range(1_000))

    def check() -> None:
        if next(calls) > 3:
            raise TaskCanceled("canceled on request")

    with pytest.raises(TaskCanceled):
        QueryExport().run(task_of(server.url, tmp_path, check))


def test_a_query_that_runs_ends_with_the_task(
    served: Callable[..., Scripted], tmp_path: Path
) -> None:
    server = served(hang)

    def check() -> None:
        if server.asked:
            raise TaskCanceled("canceled on request")

    with pytest.raises(TaskCanceled):
        QueryExport().run(task_of(server.url, tmp_path, check))
    assert server.hung_up.wait(60), "the service was not told"


WHOLE = stream_of(ROWS)
TWICE = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
PAUSE = pa.table({"pause": pa.array([(0, 1, 0)], pa.month_day_nano_interval())})


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        # The bytes end early: at a batch's end even Arrow would not notice.
        (answer(WHOLE[:-100], Content_Length=str(len(WHOLE))), Unavailable),
        (answer(WHOLE[:-8], Content_Length=str(len(WHOLE))), Unavailable),
        # Other rows than were said.
        (answer(stream_of(ROWS.slice(0, 4))), Unavailable),
        (answer(stream_of(TWICE), rows=1), InvalidQuery),
        (answer(stream_of(PAUSE), rows=1), UnsupportedType),
        (answer(WHOLE, truncated="true"), QueryTooLarge),
        (problem(422, "query_too_large"), QueryTooLarge),
        (problem(422, "invalid_query"), InvalidQuery),
    ],
    ids=[
        "short",
        "without its end",
        "fewer rows",
        "one name twice",
        "no type of Parquet",
        "truncated",
        "too large",
        "refused",
    ],
)
def test_part_of_an_answer_is_never_an_output(
    reply: Reply, error: type[Exception], served: Callable[..., Scripted], tmp_path: Path
) -> None:
    with pytest.raises(error) as caught:
        QueryExport().run(task_of(served(reply).url, tmp_path))
    assert type(caught.value) is error
    assert left(tmp_path) == []


def test_the_manifest_says_the_columns_as_the_file_does(
    served: Callable[..., Scripted], tmp_path: Path
) -> None:
    """Otherwise `trace datasets verify` would call a whole file damaged."""
    kinds = [
        pa.timestamp("s"),
        pa.list_(pa.field("l", pa.int64())),
        pa.map_(pa.string(), pa.bool_()),
    ]
    rows = pa.table({f"c{n}": pa.array([None], kind) for n, kind in enumerate(kinds)})
    task = task_of(served(answer(stream_of(rows), rows=1)).url, tmp_path)
    (commit,) = QueryExport().run(task).outputs
    manifest = Manifest.model_validate_json(task.store.get(commit.location + "_manifest.json"))
    (file,) = manifest.files
    read = pq.read_schema(task.store.filesystem(commit.location + file.name)[1])
    assert [each.type for each in manifest.columns] == [str(kind) for kind in read.types]


def test_part_of_a_csv_is_never_an_output(served: Callable[..., Scripted], tmp_path: Path) -> None:
    server = served(answer(b"a\n1\n", rows=3, Content_Length="100"))
    with pytest.raises(Unavailable):
        QueryExport().run(task_of(server.url, tmp_path, format="csv"))
    assert left(tmp_path) == []


def test_a_service_that_speaks_another_language_is_unavailable(
    served: Callable[..., Scripted], tmp_path: Path
) -> None:
    server = served(lambda handler: send(handler, 502, {}, b"<html>"), answer(WHOLE))
    task = replace(task_of(server.url, tmp_path), check=lambda: None)
    assert QueryExport().run(task).outputs[0].row_count == 10
    assert len(server.asked) == 2


def test_a_certificate_of_nobody_we_know_gets_no_token(exporter: Exporter, tmp_path: Path) -> None:
    endpoint = QueryEndpoint(exporter.service.url, SECRET)
    with pytest.raises(Unavailable) as caught, endpoint.stream("select 1", "arrow", 10):
        pass
    assert SECRET not in str(caught.value)


def test_the_token_is_shown_nowhere(served: Callable[..., Scripted], tmp_path: Path) -> None:
    task = task_of(served(problem(422, "invalid_query")).url, tmp_path)
    assert SECRET not in repr(task.query())
    with pytest.raises(InvalidQuery) as caught:
        QueryExport().run(task)
    log: Any = task.log
    assert SECRET not in f"{caught.value!r} {caught.value.facts} {log.lines}"


def test_a_partition_that_has_no_blocks_has_its_own_key(
    served: Callable[..., Scripted], tmp_path: Path
) -> None:
    task = task_of(served(answer(WHOLE)).url, tmp_path)
    day = task.inputs[0].model_copy(
        update={"start": None, "end": None, "partition_key": "2024-05-01"}
    )
    (commit,) = QueryExport().run(replace(task, inputs=(day,))).outputs
    assert (commit.partition_key, commit.start) == ("2024-05-01", None)
    asking = replace(task, inputs=(day,), config=Config(sql="select $end from input_0"))
    with pytest.raises(InvalidConfig, match="2024-05-01"):
        QueryExport().run(asking)


def test_a_worker_without_a_query_service_says_so(tmp_path: Path) -> None:
    task = operator_task(Config(sql="select 1"), BLOCKS, tmp_path, outputs=("answer",))
    with pytest.raises(InvalidConfig, match="no query service"):
        QueryExport().run(task)
