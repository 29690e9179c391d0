"""Critical alerts stand until they are over or acknowledged, and what is wrong is not fresh."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import psycopg
import pytest
from psycopg.rows import dict_row

from tests.conftest import DataDsns
from tests.integration.dispatcher.datasets.test_resolve_datasets import compacted
from tests.support.chain_data import READER, fill, work
from tests.support.control_plane import SECRETS, ControlPlane
from trace_platform.data import alerts
from trace_platform.data.alerts import Alert
from trace_platform.data.database import DataDatabase
from trace_platform.data.incidents import Incidents
from trace_platform.dispatcher.datasets.dataset_page import summarize_datasets
from trace_platform.dispatcher.datasets.list_datasets import list_datasets
from trace_platform.dispatcher.datasets.show_dataset import show_dataset
from trace_platform.dispatcher.health.check_health import check_health
from trace_platform.dispatcher.health.explain import explain
from trace_platform.dispatcher.health.measure_alerts import measure_alerts
from trace_platform.dispatcher.health.standing_alerts import end_repaired_alerts
from trace_platform.dispatcher.storage.prune_history import Keep, prune
from trace_platform.wire.control import HealthRule
from trace_platform.wire.dataset import DatasetWhy

pytestmark = pytest.mark.anyio

USER = {"Authorization": f"Bearer {SECRETS.user_token}"}
WRONG = "value of block 3 is 7, the chain has 8"


@pytest.fixture
async def plane(
    state_dsns: Any, data_dsns: DataDsns, tmp_path: Path
) -> AsyncIterator[ControlPlane]:
    opened = await ControlPlane.open(state_dsns, tmp_path, data_dsns.janitor)
    yield opened
    await opened.close()


@pytest.fixture
def writer(data_dsns: DataDsns) -> DataDatabase:
    return DataDatabase(data_dsns.writer, dag="chain", job="follow")


@pytest.fixture
async def http(plane: ControlPlane) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=plane.app)
    async with httpx.AsyncClient(
        transport=transport, base_url="https://dispatcher", headers=USER
    ) as client:
        yield client


def deep_reorg(key: str = "1") -> Alert:
    return Alert("critical", "deep_reorg", "a reorg of depth 99", f"deep_reorg:{key}")


async def rules(plane: ControlPlane) -> dict[str, HealthRule]:
    dispatcher = plane.dispatcher
    health = await check_health(
        dispatcher.state, dispatcher.data, dispatcher.runtimes, dispatcher.org_id
    )
    assert health.firing == any(rule.firing for rule in health.rules)
    return {rule.code: rule for rule in health.rules}


async def figures(plane: ControlPlane) -> str:
    dispatcher = plane.dispatcher
    await measure_alerts(dispatcher.state, dispatcher.data, dispatcher.org_id, dispatcher.metrics)
    return dispatcher.metrics.exposition().decode()


async def acknowledge(http: httpx.AsyncClient, *ids: object, **more: Any) -> httpx.Response:
    body = {"alert_ids": [str(each) for each in ids], "by": "ada@desk", **more}
    return await http.post("/v1/alerts/acknowledge", json=body)


async def listed(http: httpx.AsyncClient, **query: Any) -> list[dict[str, Any]]:
    answer = await http.get("/v1/alerts", params=query)
    found: list[dict[str, Any]] = answer.json()["alerts"]
    return found


def age(dsns: DataDsns, days: float) -> None:
    with psycopg.connect(dsns.owner) as connection:
        connection.execute(
            "UPDATE alert_events SET created_at = created_at - make_interval(secs => %s)",
            (days * 86_400,),
        )


def keys(dsns: DataDsns) -> list[str]:
    with psycopg.connect(dsns.owner, row_factory=dict_row) as connection:
        rows = connection.execute("SELECT dedupe_key FROM alert_events ORDER BY dedupe_key")
        return [row["dedupe_key"] for row in rows]


async def test_a_critical_alert_fires_until_somebody_acknowledges_it(
    plane: ControlPlane, writer: DataDatabase, data_dsns: DataDsns, http: httpx.AsyncClient
) -> None:
    assert not (await rules(plane))["alerts"].firing
    alerts.record(writer, deep_reorg())
    age(data_dsns, days=3)
    fired = (await rules(plane))["alerts"]
    assert (fired.firing, fired.value) == (True, 1)
    assert "deep_reorg of chain.follow, 3d 0h ago: a reorg of depth 99" in fired.text
    assert 'trace_alerts{code="deep_reorg",dag="chain",job="follow",severity="critical"} 1.0' in (
        await figures(plane)
    )
    (shown,) = await listed(http, standing=True)
    assert shown["stands"] is True
    assert shown["alert_id"] in fired.text, "the command that acknowledges it is named"

    done = (await acknowledge(http, shown["alert_id"], note="the chain forked")).json()
    assert done["acknowledged"] == 1
    assert not (await rules(plane))["alerts"].firing
    assert "deep_reorg" not in await figures(plane)
    assert await listed(http, standing=True) == []
    (shown,) = await listed(http)
    assert (shown["stands"], shown["acknowledged_by"]) == (False, "ada@desk")
    assert (shown["acknowledged_note"], bool(shown["acknowledged_at"])) == (
        "the chain forked",
        True,
    )


async def test_the_first_who_acknowledged_stays_on_record(
    writer: DataDatabase, http: httpx.AsyncClient
) -> None:
    alerts.record(writer, deep_reorg())
    (alert_id,) = [each["alert_id"] for each in await listed(http)]
    first = (await acknowledge(http, alert_id)).json()["alerts"]
    again = await acknowledge(http, alert_id, by="eve@elsewhere")
    assert again.json() == {"acknowledged": 0, "alerts": first}


async def test_of_alerts_of_which_one_is_unknown_none_is_acknowledged(
    writer: DataDatabase, http: httpx.AsyncClient
) -> None:
    alerts.record(writer, deep_reorg())
    (known,) = await listed(http)
    refused = await acknowledge(http, known["alert_id"], uuid4())
    assert (refused.status_code, refused.json()["code"]) == (404, "not_found")
    assert len(await listed(http, standing=True)) == 1


async def test_an_incident_that_is_over_fires_no_more(
    plane: ControlPlane, writer: DataDatabase
) -> None:
    stuck = Incidents(writer, "source_stuck:")
    stuck.begin("7", "critical", "source_stuck", "stands at block 7", {})
    assert (await rules(plane))["alerts"].firing
    stuck.end("source_stuck_ended", "goes on", {})
    assert not (await rules(plane))["alerts"].firing


async def test_a_warning_is_counted_and_fires_nothing(
    plane: ControlPlane, writer: DataDatabase, data_dsns: DataDsns
) -> None:
    alerts.record(writer, Alert("warning", "rpc_lags", "is behind", "rpc:a:lag:"))
    assert not (await rules(plane))["alerts"].firing
    assert 'code="rpc_lags"' in await figures(plane)
    age(data_dsns, days=2)
    assert 'code="rpc_lags"' not in await figures(plane)


async def test_health_says_that_it_cannot_know_while_postgres_data_is_away(
    state_dsns: Any, tmp_path: Path
) -> None:
    plane = await ControlPlane.open(state_dsns, tmp_path)
    await plane.deploy()
    rule = (await rules(plane))["alerts"]
    assert rule.firing
    assert "Postgres data does not answer" in rule.text
    assert (await why(plane, "logs")).dataset == "logs"
    await plane.close()


# --- data that is known to be wrong


async def why(plane: ControlPlane, dataset: str) -> DatasetWhy:
    dispatcher = plane.dispatcher
    found = await explain(
        dispatcher.state, dispatcher.data, dispatcher.runtimes, dispatcher.org_id, dataset
    )
    assert isinstance(found, DatasetWhy)
    return found


async def states(plane: ControlPlane, dataset: str) -> set[str]:
    """Whatever says whether it is up to date."""
    dispatcher = plane.dispatcher
    entries = await list_datasets(
        dispatcher.state, dispatcher.data, dispatcher.org_id, everything=True
    )
    detail = await show_dataset(
        dispatcher.state, dispatcher.data, dispatcher.grants.bucket, dispatcher.org_id, dataset
    )
    summaries = await summarize_datasets(dispatcher.state, dispatcher.data, dispatcher.org_id)
    return {
        (await why(plane, dataset)).state,
        *(each.state for each in entries.datasets if each.name == dataset),
        *(each.state for each in summaries.datasets if each.name == dataset),
        detail.state,
    }


def mismatch(plane: ControlPlane, key: str = "1", **facts: Any) -> Alert:
    """What `integrity_check` tells of the current file of `logs`."""
    (row,) = plane.sql(
        "SELECT d.uuid, p.dataset_version, p.location FROM partition_versions p"
        " JOIN datasets d ON d.current_version = p.dataset_version"
        " WHERE d.name = 'logs' AND p.superseded_at IS NULL"
    )
    known = {"dataset_version": str(row["dataset_version"]), "location": row["location"]}
    return Alert(
        "critical",
        "integrity_mismatch",
        WRONG,
        f"integrity:{key}",
        facts=known | facts,
        dataset_uuid=row["uuid"],
    )


async def chain_and_reader(plane: ControlPlane) -> None:
    await plane.deploy()
    await plane.deploy(READER)
    await fill(plane, (0, 9))
    await work(plane)
    assert await states(plane, "logs") == await states(plane, "transfers") == {"fresh"}


async def test_data_known_to_be_wrong_is_not_fresh_until_that_is_acknowledged(
    plane: ControlPlane, writer: DataDatabase, http: httpx.AsyncClient
) -> None:
    await chain_and_reader(plane)
    alerts.record(writer, mismatch(plane, is_given_up=True))

    for dataset in ("logs", "transfers"):
        assert await states(plane, dataset) == {"blocked"}, dataset
        answer = await why(plane, dataset)
        assert answer.reasons[0].code == "known_wrong"
        assert WRONG in answer.answer
    assert await states(plane, "blocks") == {"fresh"}, "of the same job, and not wrong"
    fired = await rules(plane)
    assert fired["dataset_freshness"].firing
    assert fired["dataset_freshness"].text.startswith("known to be wrong: logs")
    assert fired["alerts"].firing
    assert 'trace_dataset_known_wrong{dataset="logs"} 1.0' in await figures(plane)

    (known,) = await listed(http, standing=True)
    await acknowledge(http, known["alert_id"])
    assert await states(plane, "logs") == await states(plane, "transfers") == {"fresh"}
    assert not any(rule.firing for rule in (await rules(plane)).values())
    assert "known_wrong{" not in await figures(plane)


async def test_what_errors_say_of_rows_is_for_owners_alone(
    plane: ControlPlane, writer: DataDatabase
) -> None:
    await chain_and_reader(plane)
    alerts.record(writer, mismatch(plane))
    dispatcher = plane.dispatcher
    shown = await show_dataset(
        dispatcher.state, dispatcher.data, dispatcher.grants.bucket, dispatcher.org_id, "logs"
    )
    assert (shown.state, WRONG in shown.answer) == ("stale", False)
    assert "integrity_mismatch" in shown.answer


async def test_wrong_data_is_fresh_again_once_other_files_took_its_place(
    plane: ControlPlane, writer: DataDatabase, http: httpx.AsyncClient
) -> None:
    await chain_and_reader(plane)
    alerts.record(writer, mismatch(plane))
    dispatcher = plane.dispatcher
    assert await end_repaired_alerts(dispatcher.state, dispatcher.data) == 0
    assert await states(plane, "logs") == {"stale"}
    made_anew(plane, "logs")
    assert await end_repaired_alerts(dispatcher.state, dispatcher.data) == 1
    assert await states(plane, "logs") == {"fresh"}
    assert not (await rules(plane))["alerts"].firing
    (shown,) = await listed(http)
    assert (shown["stands"], shown["acknowledged_at"]) == (False, None)


def made_anew(plane: ControlPlane, dataset: str) -> None:
    """As a repair leaves it: the same partition, in another place."""
    plane.sql(
        "UPDATE partition_versions p SET location = location || 'again/' FROM datasets d"
        " WHERE d.current_version = p.dataset_version AND d.name = %s",
        dataset,
    )


async def test_an_alert_about_a_generation_that_is_not_read_says_nothing_of_the_one_that_is(
    plane: ControlPlane, writer: DataDatabase
) -> None:
    await chain_and_reader(plane)
    alerts.record(writer, mismatch(plane, dataset_version=str(UUID(int=1))))
    assert await states(plane, "logs") == {"fresh"}


async def test_a_table_is_wrong_where_what_has_left_it_is(
    plane: ControlPlane, writer: DataDatabase
) -> None:
    """Its readers are given the files of its cold part, too."""
    await compacted(plane)
    (cold,) = plane.sql("SELECT uuid FROM datasets WHERE job_name = 'compact'")
    assert "known_wrong" not in {r.code for r in (await why(plane, "blocks")).reasons}
    alert = Alert("critical", "integrity_mismatch", WRONG, "cold", dataset_uuid=cold["uuid"])
    alerts.record(writer, alert)
    assert "known_wrong" in {r.code for r in (await why(plane, "blocks")).reasons}
    assert "blocks" in (await rules(plane))["dataset_freshness"].text
    assert 'trace_dataset_known_wrong{dataset="blocks"} 1.0' in await figures(plane)


# --- what is kept


async def test_alerts_are_forgotten_unless_they_stand(
    plane: ControlPlane, writer: DataDatabase, data_dsns: DataDsns, http: httpx.AsyncClient
) -> None:
    alerts.record(writer, deep_reorg("stands"))
    alerts.record(writer, deep_reorg("known"))
    alerts.record(writer, Alert("warning", "rpc_rows_differ", "differs", "warning"))
    over, still = Incidents(writer, "over:"), Incidents(writer, "still:")
    over.begin("7", "critical", "source_stuck", "stands", {})
    over.end("source_stuck_ended", "goes on", {})
    still.begin("7", "warning", "rpc_silent", "silent", {})
    everything, dispatcher = keys(data_dsns), plane.dispatcher
    newest = next(each for each in await listed(http) if each["code"] == "deep_reorg")
    await acknowledge(http, newest["alert_id"])

    assert (
        await prune(dispatcher.state, dispatcher.data, dispatcher.dead_letters, Keep(alert_days=30))
        == 0
    )
    assert keys(data_dsns) == everything
    age(data_dsns, days=31)
    alerts.record(writer, deep_reorg("young"))
    await prune(dispatcher.state, dispatcher.data, dispatcher.dead_letters, Keep(alert_days=30))
    assert keys(data_dsns) == [
        "deep_reorg:stands",
        "deep_reorg:young",
        "still:7.0:begin",
    ]


async def test_an_incident_after_forgotten_ones_is_told(
    plane: ControlPlane, writer: DataDatabase, data_dsns: DataDsns
) -> None:
    """Their numbers are not given twice while one of them is remembered."""
    stuck, dispatcher = Incidents(writer, "stuck:"), plane.dispatcher
    stuck.begin("7", "warning", "source_stuck", "first", {})
    stuck.end("source_stuck_ended", "goes on", {})
    age(data_dsns, days=31)
    stuck.begin("7", "warning", "source_stuck", "second", {})
    stuck.end("source_stuck_ended", "goes on", {})
    await prune(dispatcher.state, dispatcher.data, dispatcher.dead_letters, Keep(alert_days=30))
    assert keys(data_dsns) == ["stuck:7.1:begin", "stuck:7.1:end"]
    Incidents(writer, "stuck:").begin("7", "warning", "source_stuck", "third", {})
    assert "stuck:7.2:begin" in keys(data_dsns)
