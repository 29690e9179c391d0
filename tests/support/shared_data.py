"""A data database for all tests of a file, for those that use tables of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trace_platform.app.instance import databases

if TYPE_CHECKING:
    from tests.conftest import PostgresServer


@dataclass(frozen=True)
class SharedData:
    owner: str
    writer: str
    janitor: str
    query: str


@contextmanager
def shared_data(postgres: PostgresServer) -> Iterator[SharedData]:
    with postgres.clones.lend(databases.DATA) as name:
        yield SharedData(*(postgres.dsn(role, name) for role in databases.DATA.roles))
