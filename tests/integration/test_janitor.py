"""What the Dispatcher may do in Postgres data: drop purged tables, show alerts, nothing else."""

from __future__ import annotations

from uuid import uuid4

import psycopg
import pyarrow as pa
import pytest

from tests.conftest import DataDsns
from trace_platform.data import alerts, alerts_read, janitor
from trace_platform.data.alerts import Alert
from trace_platform.data.database import DataDatabase
from trace_platform.data.hot_tables import HotTable, HotWriter
from trace_platform.drivers.postgres.database import Database

pytestmark = pytest.mark.anyio

SCHEMA = pa.schema([pa.field("block_number", pa.int64(), nullable=False)])


async def test_a_purged_table_goes_with_all_that_is_known_of_it(data_dsns: DataDsns) -> None:
    table = HotTable(uuid4(), uuid4(), SCHEMA, ("block_number",))
    with HotWriter(DataDatabase(data_dsns.writer), [table], uuid4(), 1, 100) as writer:
        writer.take_over()
        rows = [pa.record_batch([pa.array([7])], schema=SCHEMA)]
        writer.rewrite(7, 7, {table.dataset_version: rows}, [(7, b"\x07" * 32)])
    data = Database(data_dsns.janitor)
    await data.open()
    async with data.transaction() as tx:
        assert await janitor.drop_hot_table(tx, table.dataset_version)
    async with data.transaction() as tx:
        assert not await janitor.drop_hot_table(tx, table.dataset_version)
    await data.close()
    with psycopg.connect(data_dsns.owner) as connection:
        left = connection.execute("SELECT to_regclass(%s)", (table.name,)).fetchone()
        owed = connection.execute("SELECT count(*) FROM hot_outbox").fetchone()
    assert left == (None,)
    assert owed == (0,)


async def test_alerts_are_listed_by_severity_the_newest_first(data_dsns: DataDsns) -> None:
    writer = DataDatabase(data_dsns.writer)
    for n, severity in enumerate(("info", "critical", "warning")):
        alerts.record(writer, Alert(severity, "code", f"message {n}", f"key {n}"))  # type: ignore[arg-type]
    data = Database(data_dsns.janitor)
    await data.open()
    async with data.transaction() as tx:
        found = await alerts_read.listing(tx, ["warning", "critical"], 10, standing=False)
    await data.close()
    assert [row.message for row in found] == ["message 2", "message 1"]


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM hot_tables",
        "SELECT * FROM hot_outbox",
        "DELETE FROM alert_events",
        "CREATE TABLE mine (a int)",
        "SELECT make_hot_table(gen_random_uuid(), gen_random_uuid(), '[]', '{}')",
    ],
)
def test_the_janitor_may_do_nothing_else(data_dsns: DataDsns, statement: str) -> None:
    with (
        psycopg.connect(data_dsns.janitor) as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        connection.execute(statement.encode())
