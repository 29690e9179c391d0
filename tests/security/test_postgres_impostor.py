"""Whoever holds the port of Postgres while it is down gets no password, and is not believed."""

from __future__ import annotations

import socket
import struct
import threading
from pathlib import Path

import psycopg
import pytest

from trace_platform.app.instance import databases
from trace_platform.app.instance.home import Home
from trace_platform.app.instance.open_instance import Instance
from trace_platform.app.instance.settings import PostgresSettings, Settings
from trace_platform.data.arrow_connection import connect as connect_arrow
from trace_platform.domain.errors import SetupError, Unavailable

# What a server may ask for in its first message: nothing, the password itself, its MD5.
ASKS = {"nothing": struct.pack("!I", 0), "cleartext": struct.pack("!I", 3), "md5": b"\0\0\0\5salt"}
_READY = b"Z\0\0\0\5I"


class Impostor:
    """Speaks as much of the protocol as it takes to be given a password."""

    def __init__(self, asks: bytes) -> None:
        self.asks = asks
        self.told: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> Impostor:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # Who waits in `accept` is woken by a caller, not by a close.
        socket.create_connection(("127.0.0.1", self.port)).close()
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        while True:
            client, _ = self._listener.accept()
            with client:
                client.settimeout(5)
                if not (head := client.recv(4)):
                    return
                client.recv(int.from_bytes(head, "big") - 4)
                client.sendall(b"R" + struct.pack("!I", 4 + len(self.asks)) + self.asks)
                if self.asks == ASKS["nothing"]:
                    client.sendall(_READY)
                self.told.append(client.recv(1000))


@pytest.mark.parametrize("asks", sorted(ASKS))
def test_nobody_tells_an_impostor_a_password_or_believes_it(asks: str, tmp_path: Path) -> None:
    home, settings = Home(tmp_path / "home"), Settings()
    with Impostor(ASKS[asks]) as impostor:
        instance = Instance({"postgres": impostor.port})
        writer = databases.data_database(home, settings, instance, "trace_data_writer")
        own = databases.dsn(home, settings, instance, "trace_dispatcher")
        with pytest.raises(SetupError):
            databases.prepare(home, settings, instance)
        with pytest.raises(Unavailable):
            connect_arrow(writer)
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(own)
    assert impostor.told == [b"", b"", b""]


def test_an_external_server_is_asked_as_its_owner_says(tmp_path: Path) -> None:
    given = {
        name: f"postgresql://admin:secret@db.example:5432/{name}?require_auth=md5"
        for name in ("state", "data")
    }
    postgres = PostgresSettings(state_dsn=given["state"], data_dsn=given["data"])
    settings = Settings(postgres=postgres)
    own = databases.dsn(Home(tmp_path), settings, Instance({}), "trace_queue")
    assert "require_auth=md5" in own
