"""DAGs of `lineage` jobs, a worker for them in this process, and a reader of what they make."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import yaml

from tests.support.control_plane import ControlPlane
from tests.support.lineage_operator import Lineage, revisions
from trace_platform.dispatcher.datasets.resolve_datasets import resolve_datasets
from trace_platform.dispatcher.tasks.claim_task import claim_tasks
from trace_platform.dispatcher.tasks.complete_task import complete_task
from trace_platform.dispatcher.tasks.requeue_failed import requeue_failed
from trace_platform.dispatcher.versions.advance_deploys import advance_deploys
from trace_platform.dispatcher.versions.deploy_dag import deploy_dag
from trace_platform.domain.errors import CommitOvertaken, TraceError
from trace_platform.drivers.rpc_endpoint import RpcEndpoint
from trace_platform.operators.contract import TaskContext
from trace_platform.wire.control import DeployResponse
from trace_platform.wire.query import DatasetRef, ResolveRequest
from trace_platform.wire.task import Claimed, CompleteRequest

SOURCE = "source"
# By published name and range: the content of its file.
Seen = dict[str, dict[tuple[int, int], dict[str, Any]]]


@dataclass(frozen=True)
class Job:
    """Reads the outputs of these jobs; no inputs: the source's ranges."""

    inputs: tuple[str, ...] = ()
    revision: int = 1
    fields: tuple[tuple[str, Any], ...] = ()


Jobs = Mapping[str, Job]


def edited(jobs: Jobs, name: str, **changes: Any) -> dict[str, Job]:
    return {**jobs, name: replace(jobs[name], **changes)}


def dag_yaml(jobs: Jobs, dag: str = "p", published: Iterable[str] | None = None) -> str:
    names = list(jobs if published is None else published)
    made: list[dict[str, Any]] = [
        {
            "name": SOURCE,
            "activation": "source",
            "source": {"kind": "manual"},
            "outputs": ["ranges"],
        }
    ]
    for name, job in jobs.items():
        fields = dict(job.fields)
        config = {"job": name, "revision": job.revision} | fields.pop("config", {})
        made.append(
            {
                "name": name,
                "activation": "reactive",
                "runtime": "ecs_platform",
                "operator": "lineage",
                "inputs": [_edge(each) for each in job.inputs or (SOURCE,)],
                "config": config,
                **fields,
            }
        )
    publish = {f"{dag}_{name}": {"from": {"job": name}} for name in names}
    return yaml.safe_dump({"name": dag, "jobs": made, "publish": publish}, sort_keys=False)


def _edge(name: str) -> dict[str, Any]:
    """A job of the DAG, or with `@` before it a dataset of another."""
    return {"from": {"dataset": name[1:]} if name.startswith("@") else {"job": name}}


@dataclass
class Pipeline:
    """What dispatcher loops and a worker would do, done by hand until nothing is left."""

    plane: ControlPlane

    async def deploy(self, jobs: Jobs, dag: str = "p", **fields: Any) -> DeployResponse:
        dispatcher = self.plane.dispatcher
        text = dag_yaml(jobs, dag, fields.pop("published", None))
        return await deploy_dag(dispatcher.state, dispatcher.org_id, text, "dag.yaml", **fields)

    async def trigger(self, *ranges: tuple[int, int], dag: str = "p") -> None:
        for start, end in ranges:
            await self.plane.trigger(start, end, dag, SOURCE)

    async def claim(self, tasks: int = 50) -> list[Claimed]:
        dispatcher = self.plane.dispatcher
        await requeue_failed(dispatcher.state)
        await self.plane.settle()
        found = await claim_tasks(
            dispatcher.state, dispatcher.grants, "ecs_platform", ["w"] * tasks
        )
        return [claimed for _, claimed in found]

    async def run(self, claimed: Claimed) -> None:
        """One attempt from claim to completion."""
        fence = {
            "task_id": claimed.task.task_id,
            "attempt": claimed.attempt,
            "lease_token": claimed.lease_token,
        }
        try:
            result = Lineage().run(self.context(claimed))
            request = CompleteRequest(
                **fence, status="Completed", outputs=result.outputs, events=result.events
            )
        except TraceError as error:
            request = CompleteRequest(
                **fence,
                status="Failed",
                error_code=error.code,
                error_message=error.message,
                retryable=error.retryable,
            )
        await self._report(request)

    async def _report(self, request: CompleteRequest) -> None:
        """As a worker does: an attempt that was overtaken says so, and another follows."""
        try:
            await complete_task(self.plane.dispatcher.completing, request)
        except CommitOvertaken as error:
            fence = request.model_dump(include={"task_id", "attempt", "lease_token"})
            failed = CompleteRequest(
                **fence, status="Failed", error_code=error.code, error_message=error.message
            )
            await complete_task(self.plane.dispatcher.completing, failed)

    def context(self, claimed: Claimed) -> TaskContext:
        task = claimed.task
        return TaskContext(
            task_id=task.task_id,
            attempt=task.attempt,
            config=Lineage.Config.model_validate(task.config),
            inputs=tuple(task.inputs),
            outputs=tuple(task.outputs),
            store=self.plane.dispatcher.store,
            spark=_none,
            rpc=RpcEndpoint,
            check=lambda: None,
        )

    async def work(self) -> list[str]:
        """Route and run until nothing is left; the jobs whose tasks ran."""
        ran: list[str] = []
        while claims := await self.claim():
            for claimed in claims:
                await self.run(claimed)
                ran.append(f"{claimed.task.job.dag_name}.{claimed.task.job.name}")
        return ran

    async def settle(self) -> list[str]:
        """As `work`, with deploys that cut over meanwhile."""
        ran = await self.work()
        while await advance_deploys(self.plane.dispatcher.state):
            ran += await self.work()
        return ran

    async def read(self) -> Seen:
        """Every published dataset, in one look, as the query service would find it."""
        seen: Seen = {}
        for name, uris in (await published_files(self.plane)).items():
            if not uris:
                continue
            contents = [json.loads(self.plane.dispatcher.store.get(uri)) for uri in uris]
            seen[name] = {(c["range"][0], c["range"][1]): c for c in contents}
        return seen

    def active(self, dag: str = "p") -> Any:
        (row,) = self.plane.sql("SELECT dag_version_id FROM active_dags WHERE dag_name = %s", dag)
        return row["dag_version_id"]


async def published_files(plane: ControlPlane) -> dict[str, list[str]]:
    """By published name, all at one moment."""
    names = [row["name"] for row in plane.sql("SELECT name FROM datasets WHERE name IS NOT NULL")]
    request = ResolveRequest(datasets=[DatasetRef(name=name) for name in names])
    found = await resolve_datasets(plane.dispatcher.state, plane.dispatcher.org_id, request)
    return {name: each.files for name, each in zip(names, found.datasets, strict=True)}


def mixed(seen: Seen) -> dict[str, set[int]]:
    """Jobs that were seen in more than one revision: versions that were mixed."""
    found: dict[str, set[int]] = {}
    for partitions in seen.values():
        for content in partitions.values():
            for job, revision in revisions(content):
                found.setdefault(job, set()).add(revision)
    return {job: several for job, several in found.items() if len(several) > 1}


def _none() -> Any:
    raise AssertionError("a lineage job uses no Spark")
