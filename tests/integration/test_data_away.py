"""Postgres data that is away is an outage, which no attempt pays for, whoever asked it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.conftest import DataDsns
from tests.support.tcp_forwarder import TcpForwarder
from trace_platform.data.arrow_connection import arrow_transaction
from trace_platform.data.connection import DataConnection
from trace_platform.data.database import DataDatabase
from trace_platform.domain.errors import Unavailable


@pytest.fixture
def forwarder(data_dsns: DataDsns) -> Iterator[TcpForwarder]:
    made = TcpForwarder(int(str(conninfo_to_dict(data_dsns.writer)["port"])))
    yield made
    made.close()


@pytest.fixture
def data(data_dsns: DataDsns, forwarder: TcpForwarder) -> DataDatabase:
    there = {"host": "127.0.0.1", "port": forwarder.port}
    return DataDatabase(make_conninfo(data_dsns.writer, **there))


def test_transactions_say_so(data: DataDatabase, forwarder: TcpForwarder) -> None:
    def ask(connection: DataConnection, *, cut: bool = False) -> None:
        with connection.transaction() as tx:
            if cut:
                forwarder.close()
            tx.execute("SELECT 1")

    with DataConnection(data, "test") as connection:
        ask(connection)
        with pytest.raises(Unavailable) as during:
            ask(connection, cut=True)
        with pytest.raises(Unavailable) as before:
            ask(connection)
    assert (during.value.is_outage, before.value.is_outage) == (True, True)


def test_arrow_says_so(data: DataDatabase, forwarder: TcpForwarder) -> None:
    def ask() -> None:
        with arrow_transaction(data) as transaction:
            forwarder.close()
            transaction.run("SELECT 1")

    for _ in ("while it is asked", "before"):
        with pytest.raises(Unavailable) as caught:
            ask()
        assert caught.value.is_outage
