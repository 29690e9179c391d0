"""Queries on record: who read what and who saw what of persons, never the text of a query."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import httpx
import psycopg
import pytest

from tests.support.control_plane import SECRETS, ControlPlane
from trace_platform.dispatcher.datasets.record_queries import (
    list_pii_accesses,
    list_queries,
    record_queries,
)
from trace_platform.dispatcher.storage.prune_history import prune_history
from trace_platform.domain.errors import BadInput
from trace_platform.wire.pii_access import PiiAccess
from trace_platform.wire.query import QueryRecord, RecordQueries, UsedDataset

pytestmark = pytest.mark.anyio

SERVICE = {"X-Trace-Service-Token": SECRETS.service_token}
USER = {"Authorization": f"Bearer {SECRETS.user_token}"}
BEGIN = datetime(2026, 5, 1, 12, tzinfo=UTC)
DENIED = psycopg.errors.InsufficientPrivilege


def used(name: str, version: int = 1, **fields: Any) -> UsedDataset:
    return UsedDataset(
        name=name,
        dataset_uuid=UUID(int=1000 + len(name)),
        dataset_version=UUID(int=version),
        **fields,
    )


def asked(minute: int, caller: str = "ann", *datasets: UsedDataset, **fields: Any) -> QueryRecord:
    values: dict[str, Any] = {
        "query_id": uuid4(),
        "caller": caller,
        "kind": "user",
        "sql_sha256": "a" * 64,
        "format": "json",
        "datasets": list(datasets),
        "row_count": 3,
        "bytes": 120,
        "elapsed_ms": 4.5,
        "started_at": BEGIN + timedelta(minutes=minute),
    }
    return QueryRecord(**values | fields)


async def record(plane: ControlPlane, *queries: QueryRecord) -> int:
    request = RecordQueries(queries=list(queries))
    return await record_queries(plane.dispatcher.state, plane.dispatcher.org_id, request)


async def listed(
    plane: ControlPlane, caller: str | None = None, dataset: str | None = None, limit: int = 100
) -> list[QueryRecord]:
    found = await list_queries(
        plane.dispatcher.state, plane.dispatcher.org_id, caller, dataset, limit
    )
    return found.queries


async def logged(
    plane: ControlPlane, caller: str | None = None, dataset: str | None = None, limit: int = 100
) -> list[PiiAccess]:
    found = await list_pii_accesses(
        plane.dispatcher.state, plane.dispatcher.org_id, caller, dataset, limit
    )
    return found.accesses


def count(plane: ControlPlane, table: str) -> int:
    (row,) = plane.sql(f"SELECT count(*) AS n FROM {table}")
    return int(row["n"])


async def test_queries_come_back_as_they_were_told_the_newest_first(plane: ControlPlane) -> None:
    first = asked(1, "ann", used("blocks", masked=["miner"]))
    second = asked(2, "bob", used("logs"), error="query_too_large", format="parquet")
    third = asked(3, "ann", kind="task")
    assert await record(plane, second, third, first) == 3
    assert await listed(plane) == [third, second, first]
    assert await listed(plane, "ann") == [third, first]
    assert await listed(plane, limit=2) == [third, second]
    assert await listed(plane, "ann", limit=1) == [third]


async def test_queries_are_found_by_what_they_read(plane: ControlPlane) -> None:
    both = asked(1, "ann", used("blocks"), used("blocks", 2), used("logs"))
    logs = asked(2, "bob", used("logs"))
    await record(plane, both, logs, asked(3))
    assert await listed(plane, dataset="logs") == [logs, both]
    assert await listed(plane, dataset="blocks") == [both]
    assert await listed(plane, "ann", "logs") == [both]
    assert await listed(plane, dataset="logs", limit=1) == [logs]
    assert await listed(plane, dataset="other") == []


async def test_telling_it_again_changes_nothing(plane: ControlPlane) -> None:
    query = asked(1, "ann", used("blocks"), pii={"blocks": ["miner"]})
    assert await record(plane, query, query) == 1
    changed = query.model_copy(update={"row_count": 99, "pii": {"blocks": ["other"]}})
    assert await record(plane, changed, asked(2)) == 1
    assert await listed(plane, dataset="blocks") == [query]
    (access,) = await logged(plane)
    assert access.columns == ["miner"]
    assert await record(plane) == 0


async def test_an_id_that_is_used_again_hides_no_query(plane: ControlPlane) -> None:
    """Whoever asks may choose the id."""
    first = asked(1, "ann", used("blocks"), pii={"blocks": ["miner"]})
    second = asked(2, "ann", used("blocks"), pii={"blocks": ["miner"]}, query_id=first.query_id)
    await record(plane, first)
    assert await record(plane, second) == 1
    assert await listed(plane) == [second, first]
    assert len(await logged(plane)) == 2


async def test_what_was_shown_of_persons_is_logged_by_generation(plane: ControlPlane) -> None:
    query = asked(
        1,
        "ann",
        used("users"),
        used("users", 2),
        used("blocks"),
        pii={"users": ["email", "name"], "blocks": []},
    )
    other = asked(2, "bob", used("people"), pii={"people": ["phone"]}, kind="task")
    await record(plane, query, other, asked(3, "ann", used("users")))
    newest, *rest = await logged(plane)
    assert newest == PiiAccess(
        query_id=other.query_id,
        caller="bob",
        kind="task",
        dataset="people",
        dataset_uuid=other.datasets[0].dataset_uuid,
        dataset_version=other.datasets[0].dataset_version,
        columns=["phone"],
        accessed_at=other.started_at,
    )
    assert {(each.dataset, each.dataset_version.int) for each in rest} == {
        ("users", 1), ("users", 2),
    }  # fmt: skip
    assert {tuple(each.columns) for each in rest} == {("email", "name")}
    assert await logged(plane, "bob") == [newest] == await logged(plane, dataset="people")
    assert await logged(plane, "ann", "people") == []
    assert len(await logged(plane, "ann", "users")) == 2
    assert len(await logged(plane, limit=1)) == 1


async def test_what_was_shown_has_to_be_of_something_that_was_read(plane: ControlPlane) -> None:
    wrong = asked(1, "ann", used("blocks"), pii={"users": ["email"]})
    with pytest.raises(BadInput, match="'users', which it did not read"):
        await record(plane, asked(2), wrong)
    assert count(plane, "queries") == 0


async def test_nothing_of_another_organisation_is_shown(plane: ControlPlane) -> None:
    (org,) = plane.sql("INSERT INTO orgs (slug, name) VALUES ('b', 'B') RETURNING id")
    theirs = asked(1, "ann", used("users"), pii={"users": ["email"]})
    await record_queries(plane.dispatcher.state, org["id"], RecordQueries(queries=[theirs]))
    for filters in ({}, {"caller": "ann"}, {"dataset": "users"}):
        assert await listed(plane, **filters) == []
        assert await logged(plane, **filters) == []


# --- forgetting


def age(plane: ControlPlane, table: str, days: int) -> None:
    ago = f"interval '{days} days'"
    plane.sql(f"UPDATE {table} SET recorded_at = clock_timestamp() - {ago}")


async def test_old_queries_are_forgotten_with_what_finds_them(plane: ControlPlane) -> None:
    await record(plane, asked(1, "ann", used("users"), used("users", 2), used("blocks")))
    age(plane, "queries", 91)
    kept = asked(2, "ann", used("users"))
    await record(plane, kept)
    assert await prune_history(plane.dispatcher.state, keep_days=92) == 0
    assert await prune_history(plane.dispatcher.state, keep_days=90) == 1
    assert await listed(plane) == await listed(plane, dataset="users") == [kept]
    assert count(plane, "query_reads") == 1


async def test_a_round_forgets_so_many_the_oldest_first(plane: ControlPlane) -> None:
    queries = [asked(n, "ann", used("users"), pii={"users": ["email"]}) for n in range(3)]
    for days, query in zip((500, 400, 600), queries, strict=True):
        await record(plane, query)
        for table in ("queries", "pii_access_log"):
            plane.sql(
                f"UPDATE {table} SET recorded_at = clock_timestamp() - make_interval(days => %s)"
                " WHERE query_id = %s",
                days,
                query.query_id,
            )
    assert await prune_history(plane.dispatcher.state, keep_days=90, limit=2) == 4
    assert await listed(plane) == [queries[1]]
    assert [each.query_id for each in await logged(plane)] == [queries[1].query_id]


async def test_who_saw_what_of_persons_is_kept_for_a_year_at_least(plane: ControlPlane) -> None:
    await record(plane, asked(1, "ann", used("users"), pii={"users": ["email"]}))
    age(plane, "queries", 364)
    age(plane, "pii_access_log", 364)
    assert await prune_history(plane.dispatcher.state, keep_days=1) == 1
    assert (await listed(plane), len(await logged(plane))) == ([], 1)
    age(plane, "pii_access_log", 366)
    assert await prune_history(plane.dispatcher.state, keep_days=400) == 0
    assert await prune_history(plane.dispatcher.state, keep_days=1) == 1
    assert await logged(plane) == []


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE pii_access_log SET columns = '{}'",
        "DELETE FROM pii_access_log",
        "TRUNCATE pii_access_log",
        "UPDATE queries SET caller = 'nobody'",
    ],
)
async def test_the_dispatcher_cannot_change_what_was_seen(
    plane: ControlPlane, statement: str
) -> None:
    await record(plane, asked(1, "ann", used("users"), pii={"users": ["email"]}))
    with pytest.raises(DENIED):
        async with plane.dispatcher.state.transaction() as tx:
            await tx.execute(statement.encode())
    assert len(await logged(plane)) == 1


# --- over HTTP


@pytest.fixture
async def http(plane: ControlPlane) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=plane.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        yield client


async def test_services_tell_and_operators_look(http: httpx.AsyncClient) -> None:
    mine = asked(1, "ann", used("users"), pii={"users": ["email"]})
    body = RecordQueries(queries=[mine, asked(2, "bob", used("blocks"))])
    told: dict[str, Any] = {"json": body.model_dump(mode="json"), "headers": SERVICE}
    assert (await http.post("/internal/queries", **told)).json() == {"accepted": 2}
    assert (await http.post("/internal/queries", **told)).json() == {"accepted": 0}
    looks = {
        "/internal/queries?caller=ann": ["ann"],
        "/v1/queries": ["bob", "ann"],
        "/v1/queries?caller=ann": ["ann"],
        "/v1/queries?dataset=blocks": ["bob"],
        "/v1/queries?limit=1": ["bob"],
    }
    for path, callers in looks.items():
        headers = SERVICE if path.startswith("/internal") else USER
        found = (await http.get(path, headers=headers)).json()["queries"]
        assert [each["caller"] for each in found] == callers, path
    (access,) = (await http.get("/v1/pii-access?dataset=users", headers=USER)).json()["accesses"]
    assert (access["caller"], access["columns"]) == ("ann", ["email"])


async def test_each_door_opens_to_its_own_secret_and_takes_what_fits(
    http: httpx.AsyncClient,
) -> None:
    for path, right, wrong in (
        ("/internal/queries?caller=a", SERVICE, USER),
        ("/v1/queries", USER, SERVICE),
        ("/v1/pii-access", USER, SERVICE),
    ):
        assert (await http.get(path, headers=right)).status_code == 200
        assert (await http.get(path, headers=wrong)).status_code == 401
        assert (await http.get(path)).status_code == 401
    body = {"queries": []}
    assert (await http.post("/internal/queries", json=body, headers=USER)).status_code == 401
    for path in (
        "/internal/queries",
        "/internal/queries?caller=",
        "/internal/queries?caller=a&limit=0",
    ):
        assert (await http.get(path, headers=SERVICE)).status_code == 422
    many = {"queries": [asked(1).model_dump(mode="json")] * 1_001}
    assert (await http.post("/internal/queries", json=many, headers=SERVICE)).status_code == 422
    texts = {"queries": [asked(1).model_dump(mode="json") | {"sql": "SELECT 1"}]}
    assert (await http.post("/internal/queries", json=texts, headers=SERVICE)).status_code == 422
