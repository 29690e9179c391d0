"""What readers see of a DAG of `lineage` jobs under deploys, and what is in its tables."""

from __future__ import annotations

import contextlib
import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import httpx

from tests.support.engine_stack import Engine
from tests.support.lineage_operator import revisions
from trace_platform.drivers.lite.local_store import LocalStore

T = TypeVar("T")
Range = tuple[int, int]


@dataclass(frozen=True)
class File:
    uri: str
    body: bytes
    range: Range
    revisions: frozenset[tuple[str, int]]


@dataclass(frozen=True)
class Poll:
    """One answer of the dispatcher to whoever resolves the published datasets, with the files."""

    began_at: float
    ended_at: float
    # By published name.
    generations: Mapping[str, str]
    files: Mapping[str, tuple[File, ...]]

    def check(self) -> None:
        """Every range once in a dataset, and every job in one revision over all of them."""
        found: dict[str, set[int]] = {}
        for name, files in self.files.items():
            ranges = [file.range for file in files]
            assert len(ranges) == len(set(ranges)), f"{name} has a range twice"
            for job, revision in set().union(*(file.revisions for file in files)):
                found.setdefault(job, set()).add(revision)
        several = {job: each for job, each in found.items() if len(each) > 1}
        assert not several, f"versions were mixed: {several}"

    def of(self, dag: str) -> Poll:
        """What it shows of one DAG, whose datasets have names that begin with its own."""
        mine = [name for name in self.generations if name.startswith(f"{dag}_")]
        return replace(
            self,
            generations={name: self.generations[name] for name in mine},
            files={name: self.files[name] for name in mine},
        )

    def revisions(self) -> dict[str, int]:
        self.check()
        files = itertools.chain.from_iterable(self.files.values())
        return dict(set().union(*(file.revisions for file in files)))

    def contents(self) -> dict[str, dict[Range, bytes]]:
        return {
            name: {file.range: file.body for file in files} for name, files in self.files.items()
        }


@dataclass
class Reader:
    """Resolves and reads as the query service would. A file is read once: none ever changes, which
    `reread` checks."""

    stack: Engine
    port: int
    _known: dict[str, File] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._store = LocalStore(str(self.stack.objects))
        token = (self.stack.secrets / "service_token").read_text().strip()
        self._http = self.stack.client(self.port)
        self._http.headers["X-Trace-Service-Token"] = token

    def close(self) -> None:
        self._http.close()

    def poll(self) -> Poll:
        began_at = time.monotonic()
        found = self._resolved()
        ended_at = time.monotonic()
        return Poll(
            began_at,
            ended_at,
            {each["name"]: each["dataset_version"] for each in found},
            {each["name"]: tuple(map(self._file, each["files"])) for each in found},
        )

    def _resolved(self) -> list[dict[str, Any]]:
        """Everything that is published, as it is at one moment."""
        while True:
            listed = self._http.get("/internal/datasets").raise_for_status().json()["datasets"]
            body = {"datasets": [{"name": each["name"]} for each in listed]}
            answer = self._http.post("/internal/datasets/resolve", json=body)
            if answer.status_code != httpx.codes.NOT_FOUND:  # a name that is gone by now
                found: list[dict[str, Any]] = answer.raise_for_status().json()["datasets"]
                return found

    def reread(self) -> None:
        for uri, file in self._known.items():
            assert self._store.get(uri) == file.body, f"{uri} is not what it was"

    def _file(self, uri: str) -> File:
        known = self._known.get(uri)
        if known is None:
            body = self._store.get(uri)
            content = json.loads(body)
            start, end = content["range"]
            known = File(uri, body, (start, end), frozenset(revisions(content)))
            self._known[uri] = known
        return known


class PollingReader:
    """Polls until it is stopped, and checks each answer by itself at once. A dispatcher that is
    away for a moment is a delay to it."""

    PAUSE_S = 0.05

    def __init__(self, stack: Engine, port: int) -> None:
        self.polls: list[Poll] = []
        self._reader = Reader(stack, port)
        self._broken: BaseException | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reader", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(60)
        self._reader.close()

    def check(self) -> None:
        if self._broken is not None:
            raise self._broken

    def first_of(self, generations: Mapping[str, str], since: float) -> Poll | None:
        """The first answer that shows these generations, of what was asked after that moment."""
        self.check()
        for poll in self.polls:
            if poll.began_at >= since and poll.generations == generations:
                return poll
        return None

    def last_of(self, generations: Mapping[str, str], until: float) -> Poll:
        return [
            poll
            for poll in self.polls
            if poll.ended_at <= until and poll.generations == generations
        ][-1]

    def reread(self) -> None:
        self._reader.reread()

    def _run(self) -> None:
        try:
            while not self._stopping.wait(self.PAUSE_S):
                with contextlib.suppress(httpx.TransportError):
                    poll = self._reader.poll()
                    self.polls.append(poll)
                    poll.check()
        except BaseException as error:
            self._broken = error


class Producer:
    """Emits ranges of one block on a source, so many a second, until it is stopped. The pace is
    kept over all: what was late is caught up with."""

    EVERY_S = 0.1

    def __init__(self, stack: Engine, port: int, dataset: str, per_s: int = 50) -> None:
        self.acknowledged: list[Range] = []
        self.seconds = 0.0
        self._batch = round(per_s * self.EVERY_S)
        self._http, self._dataset = stack.client(port), dataset
        self._broken: BaseException | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="producer", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(60)
        self._http.close()

    def check(self) -> None:
        if self._broken is not None:
            raise self._broken

    def _run(self) -> None:
        began = time.monotonic()
        try:
            for n in itertools.count():
                due = began + n * self.EVERY_S
                if self._stopping.wait(max(0.0, due - time.monotonic())):
                    break
                self._emit(range(n * self._batch, (n + 1) * self._batch))
        except BaseException as error:
            self._broken = error
        self.seconds = time.monotonic() - began

    def _emit(self, blocks: range) -> None:
        """Sent until it is acknowledged: an event counts once, however often it is sent."""
        events = [{"partition_key": f"{n}-{n}", "start": n, "end": n} for n in blocks]
        body = {"dataset": self._dataset, "events": events}
        repeated(lambda: self._http.post("/v1/events", json=body).raise_for_status())
        self.acknowledged += [(n, n) for n in blocks]


def repeated(ask: Callable[[], T]) -> T:
    """Asked until it is answered."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return ask()
        except httpx.TransportError:
            assert time.monotonic() < deadline, "the dispatcher did not come back"
            time.sleep(0.02)


@contextmanager
def stopping(*parts: PollingReader | Producer) -> Iterator[None]:
    try:
        yield
    finally:
        for part in parts:
            part.stop()


def published_generations(stack: Engine, version: Any) -> dict[str, str]:
    """By published name: the generation of the dataset that this version of the DAG shows."""
    rows = stack.sql(
        "SELECT p.name, v.version FROM dag_version_publishes p"
        " JOIN dag_version_jobs j USING (dag_version_id)"
        " JOIN dataset_versions v"
        "   ON v.dataset_uuid = p.dataset_uuid AND v.generation_id = j.generation_id"
        " WHERE p.dag_version_id = %s",
        version,
    )
    return {row["name"]: str(row["version"]) for row in rows}


def active_version(stack: Engine, dag: str) -> Any:
    return stack.value("SELECT dag_version_id FROM active_dags WHERE dag_name = %s", dag)


def is_settled(stack: Engine) -> bool:
    """Nothing is on its way, runs, waits or is being built."""
    return not stack.value(
        "SELECT EXISTS (SELECT FROM outbox WHERE kind = 'route')"
        " OR EXISTS (SELECT FROM live_tasks)"
        " OR EXISTS (SELECT FROM deploys WHERE status = 'Building')"
    )


def check_tables(stack: Engine, dag: str, blocks: int) -> None:
    """Nothing was lost and nothing doubled, in any generation: asked once all is settled and so
    many ranges of one block each were emitted, from block 0 on."""
    _check_lost(stack, dag, blocks)
    _check_doubled(stack)


def _check_lost(stack: Engine, dag: str, blocks: int) -> None:
    source = stack.sql(
        "SELECT e.range_start FROM events e JOIN datasets d ON d.uuid = e.dataset_uuid"
        " WHERE d.dag_name = %s AND d.job_name = 'source' ORDER BY 1",
        dag,
    )
    assert [row["range_start"] for row in source] == list(range(blocks)), "events of the source"
    jobs = stack.sql(
        "SELECT j.name, v.generation_id FROM active_dags a"
        " JOIN dag_version_jobs v USING (dag_version_id) JOIN jobs j ON j.id = v.job_id"
        " WHERE a.dag_name = %s AND j.activation = 'reactive'",
        dag,
    )
    held = stack.sql(
        "SELECT d.job_name, v.generation_id, p.range_start AS first, p.range_end AS last"
        " FROM datasets d JOIN dataset_versions v ON v.version = d.current_version"
        " JOIN partition_versions p ON p.dataset_version = v.version AND p.superseded_at IS NULL"
        " WHERE d.dag_name = %s ORDER BY p.range_start",
        dag,
    )
    for job in jobs:
        rows = [row for row in held if row["job_name"] == job["name"]]
        covered = [n for row in rows for n in range(row["first"], row["last"] + 1)]
        assert covered == list(range(blocks)), f"not every block once in {job['name']}"
        assert {row["generation_id"] for row in rows} == {job["generation_id"]}
    forgotten = stack.sql(
        "SELECT s.generation_id, e.partition_key"
        " FROM subscriptions s CROSS JOIN LATERAL current_events(s.dataset_version, NULL) e"
        " LEFT JOIN task_inputs i ON i.event_id = e.id AND i.generation_id = s.generation_id"
        " LEFT JOIN tasks t ON t.id = i.task_id"
        " WHERE s.held OR t.status IS DISTINCT FROM 'Completed'"
    )
    assert not forgotten, f"{len(forgotten)} events that nobody completed: {forgotten[0]}"


def _check_doubled(stack: Engine) -> None:
    """An event is given to a generation once (the key of `task_inputs`), and tasks have no others
    than these: so no event became two tasks of a generation."""
    odd = stack.sql(
        "SELECT t.id, t.dedupe_key FROM tasks t"
        " LEFT JOIN task_inputs i ON i.task_id = t.id AND i.generation_id = t.generation_id"
        " GROUP BY t.id HAVING count(i.event_id) <> jsonb_array_length(t.inputs)"
    )
    assert not odd, f"{len(odd)} tasks that have more or less than their events: {odd[0]}"
    ends = stack.sql(
        "SELECT t.id, t.status, t.superseded, t.error_code,"
        "       coalesce(a.completions, 0) AS completions, coalesce(p.commits, 0) AS commits"
        " FROM tasks t"
        " LEFT JOIN (SELECT task_id, count(*) AS completions FROM task_attempts"
        "             WHERE outcome = 'Completed' GROUP BY 1) a ON a.task_id = t.id"
        " LEFT JOIN (SELECT task_id, count(*) AS commits FROM partition_versions GROUP BY 1) p"
        "        ON p.task_id = t.id"
    )
    wrong = [end for end in ends if not _ended_once(end)]
    assert not wrong, f"{len(wrong)} tasks that did not end once, such as {wrong[0]}"


def _ended_once(end: dict[str, Any]) -> bool:
    if end["status"] == "Completed":
        return bool(end["completions"] == 1 and end["commits"] <= 1)
    # Of a version that gave way, or whose build failed.
    given_up = end["superseded"] or end["status"] == "Failed"
    return bool(given_up and end["completions"] == end["commits"] == 0)
