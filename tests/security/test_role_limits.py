"""What a role that was stolen can do to everybody else: nothing that stops them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import psycopg
import pytest

from tests.support.control_plane import ControlPlane
from trace_platform.app.instance.databases import prepare
from trace_platform.app.security import as_stranger
from trace_platform.dispatcher.events.emit_events import emit_events
from trace_platform.dispatcher.events.publish_outbox import publish_outbox
from trace_platform.dispatcher.health import check_health
from trace_platform.dispatcher.tasks.claim_task import claim_tasks
from trace_platform.state import locks
from trace_platform.wire.control import EmitRequest

if TYPE_CHECKING:
    from tests.conftest import DataDsns, PostgresServer, StateDsns

pytestmark = pytest.mark.anyio

DENIED = psycopg.errors.InsufficientPrivilege
# As they were when a stolen role froze claims and routing with them.
OLD_KEYS = (
    "hashtextextended('routing', 0)",
    "hashtextextended('claim/ecs_platform', 0)",
    "hashtextextended('relieve_pressure', 0)",
    "hashtextextended('route_invalidations', 0)",
)
CLOSED = [
    *(f"SELECT pg_advisory_lock({key})" for key in OLD_KEYS),
    "SELECT pg_try_advisory_xact_lock(n) FROM generate_series(1, 100000) n",
    "SELECT lo_create(0)",
    "SELECT lo_from_bytea(0, 'x')",
    "SELECT pg_logical_emit_message(false, 'x', repeat('x', 1000000))",
]
# Of the state: what a worker's role could stop the control plane with.
LOCKS = [
    "LOCK TABLE locks.routing IN SHARE MODE",
    "LOCK TABLE locks.claims_0 IN ACCESS SHARE MODE",
    "SELECT locks.take_claims('ecs_platform')",
    "SELECT locks.take_if_free('relieve_pressure')",
    "SELECT FROM orgs FOR KEY SHARE",
    "LOCK TABLE tasks IN ACCESS SHARE MODE",
    "LOCK TABLE queue.messages IN ACCESS SHARE MODE",
]


@pytest.fixture
async def plane(
    state_dsns: StateDsns, janitor_dsn: str, tmp_path: Path
) -> AsyncIterator[ControlPlane]:
    opened = await ControlPlane.open(state_dsns, tmp_path, janitor_dsn)
    yield opened
    await opened.close()


@pytest.fixture
def stolen(state_dsns: StateDsns) -> Iterator[psycopg.Connection]:
    with psycopg.connect(state_dsns.queue, autocommit=True) as connection:
        yield connection


def allowed(connection: psycopg.Connection, statements: Sequence[str]) -> list[str]:
    """Those that were not refused for want of a right."""
    found = []
    for statement in statements:
        try:
            with connection.transaction():
                connection.execute(statement.encode())
            found.append(statement)
        except DENIED:
            pass
    return found


def test_roles_of_the_data_take_no_lock_and_fill_no_disk(data_dsns: DataDsns) -> None:
    for dsn in (data_dsns.writer, data_dsns.janitor, data_dsns.query):
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("SET default_transaction_read_only = off")
            assert allowed(connection, [*CLOSED, "LOCK TABLE hot_table_making"]) == []


async def test_claims_and_routes_go_on_whatever_the_queues_role_tries(
    plane: ControlPlane, stolen: psycopg.Connection
) -> None:
    await plane.deploy()
    assert allowed(stolen, [*CLOSED, *LOCKS]) == []
    request: Any = {"dataset": "chain.request", "events": [{"cursor": 7}]}
    async with asyncio.timeout(20):
        await emit_events(plane.dispatcher.state, plane.dispatcher.org_id, EmitRequest(**request))
        assert await publish_outbox(plane.publishing()) > 0
        claimed = await claim_tasks(
            plane.dispatcher.state, plane.dispatcher.grants, "ecs_platform", ["w"]
        )
    assert len(claimed) == 1


def test_no_role_takes_all_connections(state_dsns: StateDsns, data_dsns: DataDsns) -> None:
    with psycopg.connect(state_dsns.queue) as connection:
        rows = connection.execute(
            "SELECT rolname, rolconnlimit, current_setting('max_connections')::integer"
            "  FROM pg_roles WHERE rolname LIKE 'trace\\_%' AND rolname NOT LIKE '%\\_owner'"
            "   AND rolname NOT IN ('trace_dispatcher', 'trace_admin')"
        ).fetchall()
    limits = {name: limit for name, limit, _ in rows}
    assert set(limits) == {"trace_queue", "trace_data_writer", "trace_data_janitor", "trace_query"}
    assert all(limit > 0 for limit in limits.values())
    # The dispatcher's own pool fits beside all of them.
    assert sum(limits.values()) + 16 < rows[0][2]


async def test_health_notices_a_claim_that_gets_no_turn(
    plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    await plane.deploy()
    transport = httpx.ASGITransport(plane.app)
    token = plane.dispatcher.secrets.user_token
    http = httpx.AsyncClient(
        transport=transport,
        base_url="https://dispatcher",
        headers={"Authorization": f"Bearer {token}"},
    )
    monkeypatch.setattr(check_health, "MAX_LOCK_WAIT_S", 0.2)
    assert (await http.get("/healthz")).status_code == 200
    with psycopg.connect(plane.owner_dsn) as owner:
        holder = owner.info.backend_pid
        owner.execute("LOCK TABLE locks.routing, locks.claims_0 IN EXCLUSIVE MODE")
        # Whoever shares the lock of routing waits as a claim would.
        waiting = asyncio.create_task(_wait_for_routing(plane))
        try:
            rule = await _firing(http)
            alive = await http.get("/healthz")
        finally:
            owner.rollback()
        await waiting
    assert str(holder) in rule["text"]
    assert (alive.status_code, alive.json()["code"]) == (503, "unavailable")


async def _wait_for_routing(plane: ControlPlane) -> None:
    async with plane.dispatcher.state.transaction() as tx:
        await locks.share_routing(tx)


async def _firing(http: httpx.AsyncClient) -> dict[str, Any]:
    async with asyncio.timeout(20):
        while True:
            health = (await http.get("/v1/health")).json()
            rule: dict[str, Any] = next(r for r in health["rules"] if r["code"] == "database_locks")
            if rule["firing"]:
                assert health["firing"] is True
                return rule


def test_what_a_stolen_role_set_for_itself_ends_with_the_next_start(
    postgres: PostgresServer, state_dsns: StateDsns
) -> None:
    with psycopg.connect(state_dsns.queue, autocommit=True) as stolen:
        database = stolen.info.dbname
        stolen.execute("ALTER ROLE CURRENT_USER SET search_path = 'nowhere'")
        stolen.execute(
            f"ALTER ROLE CURRENT_USER IN DATABASE {database} SET statement_timeout = 1".encode()
        )
        stolen.execute("ALTER ROLE CURRENT_USER PASSWORD 'mine'")
    prepare(postgres.home, postgres.settings, postgres.instance)
    with psycopg.connect(state_dsns.queue, autocommit=True) as owner:
        shown = "SELECT current_setting('search_path'), current_setting('statement_timeout')"
        assert owner.execute(shown).fetchone() == ('"$user", public', "1min")


def test_no_role_fills_the_disk_by_the_log_or_temporary_files(
    postgres: PostgresServer, state_dsns: StateDsns, data_dsns: DataDsns
) -> None:
    dsns = (state_dsns.queue, data_dsns.writer, data_dsns.janitor, data_dsns.query)
    before = _logged(postgres)
    for dsn in dsns:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("SET default_transaction_read_only = off")
            # What is said of plans is a role's own to set, and goes to the log.
            connection.execute("SET debug_print_plan = on")
            with pytest.raises(psycopg.errors.InvalidTextRepresentation):
                connection.execute("SELECT repeat('x', 3000000)::integer")
            closed = [
                "DO $$ BEGIN RAISE LOG 'x'; END $$",
                "SET log_min_messages = log",
                "ALTER ROLE CURRENT_USER RESET log_min_messages",
            ]
            assert allowed(connection, closed) == []
            [limit] = connection.execute("SHOW temp_file_limit").fetchone() or [""]
            assert limit in ("64MB", "1GB")
            [pages] = connection.execute("SHOW max_notify_queue_pages").fetchone() or [""]
            assert int(pages) == 64
    # Who connects later is logged later.
    with postgres.admin() as admin, pytest.raises(psycopg.errors.DivisionByZero):
        admin.execute("SELECT 1 / 0")
    assert _logged(postgres) - before < 1_000_000


def _logged(postgres: PostgresServer) -> int:
    return sum(path.stat().st_size for path in (postgres.home.postgres / "log").iterdir())


def test_a_connection_that_says_no_password_is_closed_soon(postgres: PostgresServer) -> None:
    with as_stranger._unproven(postgres.instance.port("postgres")) as client:
        assert as_stranger._held(client) == ""
