"""Routes for datasets: what there is, where it comes from, and what may go."""

from __future__ import annotations

from typing import Annotated

from fastapi import FastAPI, Path, Query

from trace_platform.dispatcher.api.parameters import DatasetName
from trace_platform.dispatcher.api.routes import Routes
from trace_platform.dispatcher.datasets.list_datasets import list_datasets
from trace_platform.dispatcher.datasets.list_partitions import (
    list_files,
    list_partition_columns,
    list_partitions,
)
from trace_platform.dispatcher.datasets.show_dataset import list_generations, show_dataset
from trace_platform.dispatcher.datasets.trace_lineage import trace_lineage
from trace_platform.dispatcher.datasets.whole_graph import whole_graph
from trace_platform.dispatcher.dispatcher import Dispatcher
from trace_platform.dispatcher.storage.collect_garbage import (
    Collecting,
    collect_after,
    sweep_attempts,
)
from trace_platform.dispatcher.storage.explain_garbage import explain_garbage
from trace_platform.dispatcher.storage.purge_generation import plan_purge, purge_generations
from trace_platform.dispatcher.storage.retire_superseded import retire_superseded
from trace_platform.domain.block_range import MAX_BLOCK
from trace_platform.wire import dataset as wire

Limit = Annotated[int, Query(ge=1, le=1000, description="At most this many.")]
ManyLimit = Annotated[int, Query(ge=1, le=20_000, description="At most this many.")]
After = Annotated[str, Query(max_length=512, description="`next` of the page before.")]
Block = Annotated[int, Query(ge=0, le=MAX_BLOCK)]
Generation = Annotated[
    str,
    Query(
        min_length=4,
        max_length=36,
        pattern="^[0-9a-fA-F-]+$",
        description="A generation of the dataset, or the beginning of its id.",
    ),
]


def install(app: FastAPI, dispatcher: Dispatcher, route: Routes) -> None:
    _read_routes(app, dispatcher, route)
    _pages(app, dispatcher, route)
    _purges(app, dispatcher, route)
    _garbage(app, dispatcher, route)


def _read_routes(app: FastAPI, dispatcher: Dispatcher, route: Routes) -> None:
    @app.get(
        "/v1/datasets",
        summary="The datasets, and whether they are up to date",
        **route("datasets", "user"),
    )
    async def datasets(
        everything: Annotated[
            bool, Query(alias="all", description="Also outputs that are not published.")
        ] = False,
    ) -> wire.DatasetEntries:
        return await list_datasets(
            dispatcher.state, dispatcher.data, dispatcher.org_id, everything=everything
        )

    @app.get(
        "/v1/datasets/{dataset}",
        summary="A dataset",
        **route("datasets", "user", 404),
    )
    async def show(dataset: DatasetName) -> wire.DatasetDetail:
        """What is said of it, what it holds and lacks, its neighbours."""
        bucket = dispatcher.grants.bucket
        return await show_dataset(
            dispatcher.state, dispatcher.data, bucket, dispatcher.org_id, dataset, messages=True
        )

    @app.get(
        "/v1/datasets/{dataset}/versions",
        summary="The generations of a dataset",
        **route("datasets", "user", 404),
    )
    async def versions(dataset: DatasetName) -> wire.DatasetVersions:
        return await list_generations(dispatcher.state, dispatcher.org_id, dataset)

    @app.get(
        "/v1/lineage",
        summary="All datasets and jobs, and what flows between them",
        **route("datasets", "user"),
    )
    async def graph() -> wire.Graph:
        """Of the active versions of all DAGs."""
        return await whole_graph(dispatcher.state, dispatcher.org_id)

    @app.get(
        "/v1/lineage/{subject}",
        summary="What something comes from, and what comes of it",
        **route("datasets", "user", 404),
    )
    async def lineage(
        subject: Annotated[
            str,
            Path(
                min_length=1,
                max_length=512,
                description="A dataset, a job as DAG.JOB, or a column as DATASET.COLUMN.",
            ),
        ],
        column: Annotated[
            str | None, Query(min_length=1, max_length=128, description="A column of the dataset.")
        ] = None,
        direction: Annotated[
            wire.Direction,
            Query(description="What it comes from (`up`), what comes of it (`down`), or both."),
        ] = "both",
        depth: Annotated[
            int, Query(ge=1, le=1000, description="How many datasets away at most.")
        ] = 1000,
    ) -> wire.Lineage:
        return await trace_lineage(
            dispatcher.state, dispatcher.org_id, subject, column, direction, depth
        )


def _pages(app: FastAPI, dispatcher: Dispatcher, route: Routes) -> None:
    @app.get(
        "/v1/datasets/{dataset}/partitions",
        summary="The partitions of a dataset",
        **route("datasets", "user", 404),
    )
    async def partitions(
        dataset: DatasetName,
        first: Annotated[
            Block | None, Query(alias="from", description="First block of the range.")
        ] = None,
        last: Annotated[
            Block | None, Query(alias="to", description="Last block of the range, included.")
        ] = None,
        at: Generation | None = None,
        after: After | None = None,
        limit: Limit = 100,
    ) -> wire.Partitions:
        """Those that reach into the range, in order."""
        return await list_partitions(
            dispatcher.state, dispatcher.org_id, dataset, first, last, at, after, limit
        )

    @app.get(
        "/v1/datasets/{dataset}/partition-columns",
        summary="The partitions of a dataset in columns",
        **route("datasets", "user", 404),
    )
    async def partition_columns(
        dataset: DatasetName,
        at: Generation | None = None,
        after: After | None = None,
        limit: ManyLimit = 20_000,
    ) -> wire.PartitionColumns:
        """The same in less space, for who draws all of them."""
        return await list_partition_columns(
            dispatcher.state, dispatcher.org_id, dataset, at, after, limit
        )

    @app.get(
        "/v1/datasets/{dataset}/files",
        summary="The files of a dataset",
        **route("datasets", "user", 404),
    )
    async def files(
        dataset: DatasetName,
        at: Generation | None = None,
        after: After | None = None,
        limit: Limit = 100,
    ) -> wire.DatasetFiles:
        """By partition, with the bytes, rows and SHA-256 that were promised when each was
        committed."""
        return await list_files(dispatcher.state, dispatcher.org_id, dataset, at, after, limit)


def _purges(app: FastAPI, dispatcher: Dispatcher, route: Routes) -> None:
    @app.get(
        "/v1/datasets/{dataset}/purge",
        summary="What a purge would delete",
        **route("datasets", "user", 404),
    )
    async def plan(
        dataset: DatasetName,
        generation: Generation | None = None,
        keep: Annotated[
            int | None,
            Query(ge=0, le=1000, description="Keep the newest so many; 2 unless given."),
        ] = None,
    ) -> wire.PurgePlan:
        """Changes nothing."""
        return await plan_purge(dispatcher.state, dispatcher.org_id, dataset, generation, keep)

    @app.post(
        "/v1/datasets/{dataset}/purge",
        summary="Delete generations of a dataset",
        **route("datasets", "user", 404, 409),
    )
    async def purge(dataset: DatasetName, body: wire.PurgeRequest) -> wire.PurgeResponse:
        """With all outputs of the job that makes it, for good. Nothing that is used goes."""
        return await purge_generations(
            dispatcher.state,
            dispatcher.data,
            dispatcher.store,
            dispatcher.grants.bucket,
            dispatcher.org_id,
            dataset,
            body.versions,
        )


def _garbage(app: FastAPI, dispatcher: Dispatcher, route: Routes) -> None:
    @app.get(
        "/v1/garbage",
        summary="What is kept in the object store, and why",
        **route("datasets", "user"),
    )
    async def explain() -> wire.GarbageExplanation:
        """By generation: live, superseded and pinned bytes, and when the next file goes."""
        return await explain_garbage(dispatcher.state, dispatcher.org_id, dispatcher.retention)

    @app.post(
        "/v1/garbage",
        summary="Delete what nobody committed",
        **route("datasets", "user"),
    )
    async def collect(body: wire.CollectRequest) -> wire.Garbage:
        """A round at once, through the next places of the object store. What readers see is never
        touched, nor what an attempt wrote or reads that may still run."""
        here = Collecting(
            dispatcher.state,
            dispatcher.store,
            dispatcher.grants.bucket,
            dispatcher.grants.scratch_bucket,
            dispatcher.garbage_grace_s,
        )
        swept = [] if body.dry_run or body.after else await sweep_attempts(here)
        if not body.dry_run and not body.after:
            swept += await retire_superseded(here, dispatcher.retention)
        found = await collect_after(here, body.after, dry_run=body.dry_run)
        if not body.dry_run:
            dispatcher.metrics.garbage_deleted([*swept, *found.items])
        return found.model_copy(update={"items": [*swept, *found.items]})
