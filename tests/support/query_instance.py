"""A real Dispatcher on a real database, and the real query service that asks it: what a user sees
of what was really deployed, delivered and committed. Workers are played by hand."""

from __future__ import annotations

import asyncio
import hashlib
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.chain_data import take
from tests.support.control_plane import HOOK_SECRET, SECRETS, ControlPlane, stage
from tests.support.query_service import QueryProcess, user_client
from tests.support.served_dispatcher import ServedDispatcher
from tests.support.stack import wait_for
from tests.support.staged_rows import stage_rows
from trace_platform.app.instance.home import Home
from trace_platform.app.instance.open_instance import open_instance
from trace_platform.app.instance.query_users import OWNER, QueryUsers
from trace_platform.app.instance.settings import load_settings
from trace_platform.domain.webhook_signature import sign, signing_key
from trace_platform.drivers.lite.certificates import ensure_certificates
from trace_platform.wire.task import Claimed

_LONGEST_S = 60


class QueryInstance:
    """Started and stopped by `query_instance`."""

    def __init__(self, dispatcher: ServedDispatcher, query: QueryProcess) -> None:
        self.dispatcher, self.query = dispatcher, query
        self.users = QueryUsers(query.home)

    def forget(self) -> None:
        """Users, and what the query service still has to tell the dispatcher, in its order."""
        for user in self.users.listing():
            if user.name != OWNER:
                self.users.remove(user.name)
        self.users.grant(OWNER, ())
        last = f"select '{uuid4()}'"
        assert self.ask(last, SECRETS.user_token).status_code == 200
        told = "SELECT 1 FROM queries WHERE sql_sha256 = %s"
        digest = hashlib.sha256(last.encode()).hexdigest()
        wait_for("the history", lambda: self.sql(told, digest))

    # --- what its owner does

    def deploy(self, yaml: str) -> None:
        self.dispatcher.run(lambda plane: plane.deploy(yaml))

    def sql(self, statement: str, *parameters: Any) -> list[dict[str, Any]]:
        return self.dispatcher.plane.sql(statement, *parameters)

    def version_of(self, job: str) -> UUID:
        """The generation of the job's first output that readers see."""
        (row,) = self.sql(
            "SELECT current_version FROM datasets WHERE job_name = %s AND output_index = 0", job
        )
        version: UUID = row["current_version"]
        return version

    def look(self, path: str) -> httpx.Response:
        """At the dispatcher, as the owner."""
        with user_client(self.query.home, self.dispatcher.url) as client:
            return client.get(path)

    # --- what brings data

    def deliver(self, path: str, webhook_id: str, body: bytes = b"{}") -> bool:
        """Whether it is new."""
        (row,) = self.sql("SELECT extract(epoch FROM clock_timestamp())::bigint AS now")
        headers = {
            "webhook-id": webhook_id,
            "webhook-timestamp": str(row["now"]),
            "webhook-signature": sign(signing_key(HOOK_SECRET), webhook_id, row["now"], body),
        }
        with user_client(self.query.home, self.dispatcher.url) as client:
            answer = client.post(f"/v1/hooks/{path}", content=body, headers=headers)
        assert answer.status_code == 200, answer.text
        return bool(answer.json()["accepted"])

    def commit(self, rows: pa.Table, *, says_columns: bool = True) -> None:
        """The one task that is due ends with these rows."""
        self.dispatcher.run(lambda plane: _commit(plane, rows, says_columns))

    # --- what a user does

    def ask(self, sql: str, token: str, **more: Any) -> httpx.Response:
        with self.query.client(token=token) as client:
            return client.post("/v1/query", json={"sql": sql, **more})

    def page(self, name: str, token: str) -> httpx.Response:
        with self.query.client(token=token) as client:
            return client.get(f"/v1/datasets/{name}")


@contextmanager
def query_process(folder: Path) -> Iterator[QueryProcess]:
    """For all tests of a file: to start it takes longer than most of them."""
    home = Home(folder)
    home.root.mkdir(parents=True, exist_ok=True)
    home.config_file.write_text("[query]\nconcurrency = 1\nmemory_mb = 256\n")
    for name in ("service_token", "user_token"):
        (home.secrets / name).write_text(getattr(SECRETS, name))
    ensure_certificates(home.tls)
    query = QueryProcess(home, open_instance(home, load_settings(home)))
    query.start()
    try:
        yield query
    finally:
        query.stop()


@contextmanager
def query_instance(query: QueryProcess, dsns: Any, data_dsn: str) -> Iterator[QueryInstance]:
    """A dispatcher and users of a test's own."""
    home = query.home
    port = open_instance(home, load_settings(home)).port("dispatcher")
    dispatcher = ServedDispatcher(
        dsns, home.objects, data_dsn, (port, ensure_certificates(home.tls))
    )
    dispatcher.start()
    made = QueryInstance(dispatcher, query)
    try:
        yield made
        made.forget()
    finally:
        dispatcher.stop()


async def _commit(plane: ControlPlane, rows: pa.Table, says_columns: bool) -> None:
    claimed = await _due(plane)
    given = claimed.task.inputs[0]
    if says_columns:
        output = stage_rows(plane.dispatcher.store, claimed, rows)
    else:
        assert given.start is not None
        assert given.end is not None
        file = io.BytesIO()
        pq.write_table(rows, file)
        store: Any = plane.dispatcher.store
        output = stage(store, claimed, 0, given.start, given.end, file.getvalue())
    await plane.complete(claimed, outputs=[output])


async def _due(plane: ControlPlane) -> Claimed:
    """The dispatcher's own loops are at it too: it may come a little later."""
    async with asyncio.timeout(_LONGEST_S):
        while True:
            if found := await take(plane, 1):
                return found[0]
            await asyncio.sleep(0.01)
