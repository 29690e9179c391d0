"""Routes for DAGs as code: plan, deploy, roll back, and what became of it."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import FastAPI, Path, Query
from pydantic import AwareDatetime

from trace_platform.dispatcher.api.parameters import DagNamed, Limit, OfDag
from trace_platform.dispatcher.api.routes import Routes
from trace_platform.dispatcher.dispatcher import Dispatcher
from trace_platform.dispatcher.health.describe import dag_status
from trace_platform.dispatcher.versions.deploy_dag import deploy_dag
from trace_platform.dispatcher.versions.list_dags import list_dags
from trace_platform.dispatcher.versions.plan_dag import plan_dag
from trace_platform.dispatcher.versions.remove_dag import plan_removal, remove_dag
from trace_platform.dispatcher.versions.roll_back import plan_rollback, roll_back
from trace_platform.dispatcher.versions.show_deploy import list_deploys, show_deploy
from trace_platform.dispatcher.versions.show_version import list_versions, show_version
from trace_platform.domain.own_code import Code
from trace_platform.wire import control, plan

ToVersion = Annotated[
    UUID,
    Query(
        description="Id of the version to go back to; the one that was active before unless given."
    ),
]
Since = Annotated[
    AwareDatetime,
    Query(
        description="Count ended tasks that were made then or later; of the last day unless given."
    ),
]


def install(app: FastAPI, dispatcher: Dispatcher, route: Routes) -> None:
    _changes(app, dispatcher, route)
    _read_routes(app, dispatcher, route)


def _changes(app: FastAPI, dispatcher: Dispatcher, route: Routes) -> None:
    @app.post(
        "/v1/plans",
        summary="What a deploy would do",
        **route("dags", "user", 413),
    )
    async def make_plan(body: plan.PlanRequest) -> plan.Plan:
        """Changes nothing."""
        code = Code(body.code, allowed=dispatcher.beside_dags)
        return await plan_dag(
            dispatcher.state, dispatcher.org_id, body.yaml, body.file, dispatcher.runtimes, code
        )

    @app.post(
        "/v1/dags",
        summary="Deploy a DAG",
        **route("dags", "user", 409, 413),
    )
    async def deploy(body: control.DeployRequest) -> control.DeployResponse:
        code = Code(body.code, allowed=dispatcher.beside_dags)
        done = await deploy_dag(
            dispatcher.state,
            dispatcher.org_id,
            body.yaml,
            body.file,
            dispatcher.runtimes,
            body.plan_hash,
            code,
        )
        dispatcher.wake.set()
        return done

    @app.post(
        "/v1/dags/{dag_name}/rollback",
        summary="Make an earlier version active again",
        **route("dags", "user", 404, 409),
    )
    async def rollback(
        dag_name: DagNamed, body: plan.RollbackRequest | None = None
    ) -> control.RollbackResponse:
        """Gives up a deploy that is being built; without a version to go to, that is all."""
        done = await roll_back(
            dispatcher.state, dispatcher.org_id, dag_name, body or plan.RollbackRequest()
        )
        dispatcher.wake.set()
        return done

    @app.post(
        "/v1/dags/{dag_name}/removal",
        summary="Remove a DAG",
        **route("dags", "user", 404, 409),
    )
    async def remove(
        dag_name: DagNamed, body: plan.RemovalRequest | None = None
    ) -> plan.RemovalResponse:
        """Sources finish and end, names stand for nothing, data is kept. Refused while another DAG
        reads it, or while a version of it is being built."""
        request = body or plan.RemovalRequest()
        done = await remove_dag(dispatcher.state, dispatcher.org_id, dag_name, request)
        dispatcher.wake.set()
        return done


def _read_routes(app: FastAPI, dispatcher: Dispatcher, route: Routes) -> None:
    @app.get("/v1/dags", summary="Every DAG, and how it stands", **route("dags", "user"))
    async def dags() -> plan.DagList:
        """Also what was removed or never built."""
        return await list_dags(dispatcher.state, dispatcher.org_id)

    @app.get(
        "/v1/dags/{dag_name}/removal",
        summary="What removing a DAG would do",
        **route("dags", "user", 404),
    )
    async def removal(dag_name: DagNamed) -> plan.RemovalPlan:
        """Changes nothing."""
        return await plan_removal(dispatcher.state, dispatcher.org_id, dag_name)

    @app.get(
        "/v1/dags/{dag_name}/rollback",
        summary="What a rollback would do",
        **route("dags", "user", 404, 409),
    )
    async def rolled_back(
        dag_name: DagNamed, to_version: ToVersion | None = None
    ) -> plan.RollbackPlan:
        """Changes nothing."""
        return await plan_rollback(dispatcher.state, dispatcher.org_id, dag_name, to_version)

    @app.get(
        "/v1/dags/{dag_name}",
        summary="What a DAG is doing",
        **route("dags", "user", 404),
    )
    async def show(dag_name: DagNamed, since: Since | None = None) -> control.DagStatus:
        """Counts what is alive, and what was made since then (the last day unless given)."""
        return await dag_status(dispatcher.state, dispatcher.org_id, dag_name, since)

    @app.get(
        "/v1/dags/{dag_name}/versions",
        summary="The versions of a DAG",
        **route("dags", "user", 404),
    )
    async def versions(dag_name: DagNamed, limit: Limit = 100) -> plan.DagVersionList:
        return await list_versions(dispatcher.state, dispatcher.org_id, dag_name, limit)

    @app.get(
        "/v1/dags/{dag_name}/versions/{version}",
        summary="A version of a DAG, with its file",
        **route("dags", "user", 404),
    )
    async def version(
        dag_name: DagNamed,
        version: Annotated[
            str,
            Path(
                min_length=4,
                max_length=36,
                description="`active`, an id, or the beginning of one.",
            ),
        ],
    ) -> plan.DagVersionDetail:
        return await show_version(dispatcher.state, dispatcher.org_id, dag_name, version)

    @app.get(
        "/v1/deploys",
        summary="Deploys and rollbacks",
        **route("dags", "user", 404),
    )
    async def deploys(dag_name: OfDag | None = None, limit: Limit = 20) -> plan.DeployList:
        return await list_deploys(dispatcher.state, dispatcher.org_id, dag_name, limit)

    @app.get(
        "/v1/deploys/{deploy_id}",
        summary="How far a deploy is",
        **route("dags", "user", 404),
    )
    async def deploy_progress(
        deploy_id: Annotated[UUID, Path(description="Id of the deploy.")],
    ) -> plan.DeployStatus:
        return await show_deploy(dispatcher.state, dispatcher.org_id, deploy_id)
