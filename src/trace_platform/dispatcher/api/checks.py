"""The routes for checks."""

from __future__ import annotations

from typing import Annotated

from fastapi import FastAPI, Query

from trace_platform.dispatcher.api.parameters import DatasetName, Limit
from trace_platform.dispatcher.api.routes import Routes
from trace_platform.dispatcher.checks.list_checks import list_checks, show_checks
from trace_platform.dispatcher.dispatcher import Dispatcher
from trace_platform.wire.check import CheckList, CheckResults


def install(app: FastAPI, dispatcher: Dispatcher, route: Routes) -> None:
    @app.get(
        "/v1/checks",
        summary="The checks that have run, each by its newest result",
        **route("checks", "user", 404),
    )
    async def checks(
        dataset: Annotated[
            str | None, Query(min_length=1, max_length=512, description="Of this dataset alone.")
        ] = None,
    ) -> CheckList:
        return await list_checks(dispatcher.state, dispatcher.org_id, dataset)

    @app.get(
        "/v1/checks/{dataset}",
        summary="What the checks of a dataset found, the newest first",
        **route("checks", "user", 404),
    )
    async def results(
        dataset: DatasetName,
        failed: Annotated[bool, Query(description="Only what did not pass.")] = False,
        limit: Limit = 100,
    ) -> CheckResults:
        """With a sample of the rows that are wrong, where there are such; personal columns are
        masked."""
        return await show_checks(dispatcher.state, dispatcher.org_id, dataset, limit, failed=failed)
