"""The query service from Python."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from types import TracebackType
from typing import Any
from urllib.parse import quote
from uuid import UUID

from trace_platform.client.answer import Sink
from trace_platform.client.connection import Connection
from trace_platform.client.patience import Deadline
from trace_platform.client.place import Place, local_place
from trace_platform.client.result import Result
from trace_platform.client.whole_file import whole_file
from trace_platform.domain.errors import Unavailable
from trace_platform.wire.query import (
    DatasetList,
    DatasetPage,
    DatasetSummary,
    QueryExport,
    QueryHistory,
    QueryRecord,
    RunningQueries,
    RunningQuery,
)


class Client:
    """A user's way to the query service. Threads may share one.

    Raises what the service named: InvalidQuery, UnknownDataset, TooManyQueries, Unavailable, …
    (`trace_platform.domain.errors`). A busy service is asked again as it says, for up to
    `patience_s`.
    """

    def __init__(
        self,
        url: str,
        token: str,
        ca: str | os.PathLike[str] | None = None,
        *,
        patience_s: float = 30.0,
    ) -> None:
        """`ca`: the certificate that signed the service's, `tls/ca.pem` of the instance."""
        self._connection = Connection(Place(url, token, ca), patience_s=patience_s)

    @classmethod
    def local(cls, home: str | os.PathLike[str] | None = None) -> Client:
        """Of the instance in `home`, else TRACE_HOME, else `.trace`, with its owner's token."""
        place = local_place(home)
        return cls(place.url, place.token, place.ca)

    def query(
        self,
        sql: str,
        *,
        limit: int | None = None,
        at: str | None = None,
        timeout: float | None = None,
    ) -> Result:
        """The rows of one SELECT; without a `limit` all of them, or QueryTooLarge.

        `at`: a moment with its zone, or the id of a deploy, of a version of a DAG or of a
        generation; datasets are read as they were then.
        `timeout` in seconds: after it, or on Ctrl-C, the query is stopped in the service too.
        """
        asked = {"sql": sql, "limit": limit, "at": at, "format": "arrow"}
        with self._connection.ask(asked, Deadline(timeout)) as answer:
            return Result.read(answer)

    def export(
        self,
        sql: str,
        path: str | os.PathLike[str],
        *,
        limit: int | None = None,
        at: str | None = None,
        timeout: float | None = None,
    ) -> QueryExport:
        """The rows as a Parquet file at `path`: it appears whole and checked, or not at all.

        `timeout` in seconds, for the query and for fetching the file.
        """
        asked = {"sql": sql, "limit": limit, "at": at, "format": "parquet"}
        with whole_file(path) as file:
            return save_export(self._connection, asked, file, Deadline(timeout))

    def datasets(self) -> list[DatasetSummary]:
        """What is published."""
        found = self._connection.get("/v1/datasets")
        return DatasetList.model_validate_json(found).datasets

    def dataset(self, name: str) -> DatasetPage:
        """Columns, versions, partitions and lineage of one. Raise UnknownDataset."""
        found = self._connection.get(f"/v1/datasets/{quote(name, safe='')}")
        return DatasetPage.model_validate_json(found)

    def running(self) -> list[RunningQuery]:
        """One's own."""
        return RunningQueries.model_validate_json(self._connection.get("/v1/query")).queries

    def cancel(self, query_id: UUID | str) -> None:
        """Raise NotFound when none of one's own with that id runs."""
        self._connection.cancel(query_id)

    def history(self, limit: int = 100) -> list[QueryRecord]:
        """One's own queries, the newest first: how many rows and how long, never the SQL."""
        found = self._connection.get(f"/v1/queries?limit={limit}")
        return QueryHistory.model_validate_json(found).queries

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def save_export(
    connection: Connection,
    query: Mapping[str, Any],
    sink: Sink,
    deadline: Deadline | None = None,
) -> QueryExport:
    """Run it, and fetch the file that it made."""
    with connection.ask(query, deadline) as answer:
        export = QueryExport.model_validate_json(answer.read())
    digest = hashlib.sha256()
    with connection.follow(export.link, deadline) as answer:
        for chunk in answer.chunks():
            digest.update(chunk)
            sink.write(chunk)
    if digest.hexdigest() != export.sha256:
        raise Unavailable("the file is not what the service exported", hint="export it again")
    return export
