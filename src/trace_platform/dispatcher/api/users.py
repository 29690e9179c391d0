"""Routes for people and their tools: events, tasks, jobs, and what is going on."""

from __future__ import annotations

from typing import Annotated

from fastapi import FastAPI, Path, Query
from fastapi.responses import StreamingResponse

from trace_platform.dispatcher.api.parameters import (
    DagNamed,
    DatasetName,
    JobNamed,
    Limit,
    OfDag,
    OfTask,
)
from trace_platform.dispatcher.api.routes import Routes
from trace_platform.dispatcher.dispatcher import Dispatcher
from trace_platform.dispatcher.events.emit_events import emit_events
from trace_platform.dispatcher.events.list_events import list_events
from trace_platform.dispatcher.health.check_health import check_health
from trace_platform.dispatcher.health.describe import (
    group_tasks,
    list_tasks,
    tasks_ending,
    tasks_like,
)
from trace_platform.dispatcher.health.explain import explain
from trace_platform.dispatcher.pressure.list_queues import list_queues
from trace_platform.dispatcher.pressure.pause_job import pause_job
from trace_platform.dispatcher.pressure.resume_job import resume_job
from trace_platform.dispatcher.sources.trigger_source import trigger_source
from trace_platform.dispatcher.tasks.cancel_task import cancel_task
from trace_platform.dispatcher.tasks.change_tasks import cancel_tasks, retry_tasks
from trace_platform.dispatcher.tasks.read_task_log import open_task_log, read_task_log
from trace_platform.dispatcher.tasks.retry_task import retry_task
from trace_platform.dispatcher.tasks.show_task import show_task
from trace_platform.drivers.openapi import documented_lines
from trace_platform.wire import control, dataset
from trace_platform.wire.task import Accepted

OfJob = Annotated[str, Query(description="Only of jobs with this name.")]
WithStatus = Annotated[control.Status, Query(description="Only with this status.")]
Attempt = Annotated[
    int, Query(ge=1, le=2**31 - 1, description="Number of the attempt; the newest unless given.")
]
IdPrefix = Annotated[
    str,
    Query(
        pattern=r"^[0-9a-fA-F-]{8,36}$",
        description="Only tasks whose id begins so; the other filters do not count then.",
    ),
]
IdSuffix = Annotated[
    str,
    Query(pattern=r"^[0-9a-fA-F-]{8,36}$", description="The same of the end of the id."),
]


def install(app: FastAPI, dispatcher: Dispatcher, route: Routes) -> None:
    _events(app, dispatcher, route)
    _tasks(app, dispatcher, route)
    _jobs(app, dispatcher, route)
    _overviews(app, dispatcher, route)


def _events(app: FastAPI, dispatcher: Dispatcher, route: Routes) -> None:
    @app.post(
        "/v1/sources/{dag_name}/{job_name}/trigger",
        summary="Make a manual source emit a block range",
        **route("events", "user", 404, 409),
    )
    async def trigger(
        dag_name: DagNamed, job_name: JobNamed, body: control.TriggerRequest
    ) -> Accepted:
        accepted = await trigger_source(
            dispatcher.state, dispatcher.org_id, dag_name, job_name, body
        )
        dispatcher.wake.set()
        return Accepted(accepted=accepted)

    @app.post(
        "/v1/events",
        summary="Emit events of a dataset",
        **route("events", "user", 404, 409, 413),
    )
    async def emit(body: control.EmitRequest) -> Accepted:
        accepted = await emit_events(dispatcher.state, dispatcher.org_id, body)
        dispatcher.wake.set()
        return Accepted(accepted=accepted)

    @app.get(
        "/v1/events",
        summary="The newest events",
        **route("events", "user", 404),
    )
    async def events(
        dataset: DatasetName | None = None,
        limit: Limit = 100,
    ) -> control.EventList:
        return await list_events(dispatcher.state, dispatcher.org_id, dataset, limit)


def _tasks(app: FastAPI, dispatcher: Dispatcher, route: Routes) -> None:
    @app.get("/v1/tasks", summary="The newest tasks", **route("tasks", "user", 404))
    async def tasks(
        dag_name: OfDag | None = None,
        job_name: OfJob | None = None,
        status: WithStatus | None = None,
        id_prefix: IdPrefix | None = None,
        id_suffix: IdSuffix | None = None,
        limit: Limit = 100,
    ) -> control.TaskList:
        if id_prefix is not None:
            return await tasks_like(dispatcher.state, dispatcher.org_id, id_prefix, limit)
        if id_suffix is not None:
            return await tasks_ending(dispatcher.state, dispatcher.org_id, id_suffix, limit)
        return await list_tasks(
            dispatcher.state, dispatcher.org_id, dag_name, job_name, status, limit
        )

    @app.get(
        "/v1/task-groups",
        summary="The newest tasks, many that are alike as one",
        **route("tasks", "user", 404),
    )
    async def groups(dag_name: OfDag | None = None, limit: Limit = 100) -> control.TaskGroups:
        return await group_tasks(dispatcher.state, dispatcher.org_id, dag_name, limit)

    @app.post(
        "/v1/tasks/cancel",
        summary="Cancel tasks by DAG, job, status and time",
        **route("tasks", "user", 404),
    )
    async def cancel_many(body: control.TaskSelection) -> control.SelectedTasks:
        """What has not ended: at once what waits, with its next heartbeat what runs. Not the runs
        of sources."""
        return await cancel_tasks(dispatcher.state, dispatcher.org_id, body)

    @app.post(
        "/v1/tasks/retry",
        summary="Give failed or canceled tasks all their attempts again, by DAG, job and time",
        **route("tasks", "user", 404),
    )
    async def retry_many(body: control.TaskSelection) -> control.SelectedTasks:
        """What failed for good, or with `status` what was canceled. Not the runs of sources."""
        done = await retry_tasks(dispatcher.state, dispatcher.org_id, body)
        dispatcher.wake.set()
        return done

    @app.get(
        "/v1/tasks/{task_id}",
        summary="A task with its attempts",
        **route("tasks", "user", 404),
    )
    async def task(task_id: OfTask) -> control.TaskDetail:
        return await show_task(dispatcher.state, dispatcher.org_id, task_id)

    @app.get(
        "/v1/tasks/{task_id}/logs",
        summary="What an attempt logged",
        **route("tasks", "user", 404, 409),
    )
    async def logs(task_id: OfTask, attempt: Attempt | None = None) -> control.TaskLog:
        return await read_task_log(
            dispatcher.state,
            dispatcher.store,
            dispatcher.grants.bucket,
            dispatcher.org_id,
            task_id,
            attempt,
        )

    @app.get(
        "/v1/tasks/{task_id}/log-file",
        summary="The log of an attempt, as it is kept",
        response_class=StreamingResponse,
        **route("tasks", "user", 404) | documented_lines("tasks", 404),
    )
    async def log_file(task_id: OfTask, attempt: Attempt | None = None) -> StreamingResponse:
        """Of any length: it is read in parts."""
        size, parts = await open_task_log(
            dispatcher.state,
            dispatcher.store,
            dispatcher.grants.bucket,
            dispatcher.org_id,
            task_id,
            attempt,
        )
        headers = {"Content-Length": str(size)}
        return StreamingResponse(parts, headers=headers, media_type="application/x-ndjson")

    @app.post(
        "/v1/tasks/{task_id}/cancel",
        summary="Cancel a task",
        **route("tasks", "user", 404, 409),
    )
    async def cancel(task_id: OfTask) -> control.TaskAction:
        """At once when it waits, with its next heartbeat when it runs."""
        return control.TaskAction(
            status=await cancel_task(dispatcher.state, dispatcher.org_id, task_id)
        )

    @app.post(
        "/v1/tasks/{task_id}/retry",
        summary="Give a failed or canceled task all its attempts again",
        **route("tasks", "user", 404, 409),
    )
    async def retry(task_id: OfTask) -> control.TaskAction:
        await retry_task(dispatcher.state, dispatcher.org_id, task_id)
        dispatcher.wake.set()
        return control.TaskAction(status="Queued")


def _jobs(app: FastAPI, dispatcher: Dispatcher, route: Routes) -> None:
    @app.post(
        "/v1/jobs/{dag_name}/{job_name}/pause",
        summary="Start no more tasks of a job",
        **route("jobs", "user", 404),
    )
    async def pause(
        dag_name: DagNamed, job_name: JobNamed, body: control.PauseRequest | None = None
    ) -> control.JobHolds:
        request = body or control.PauseRequest()
        return await pause_job(dispatcher.state, dispatcher.org_id, dag_name, job_name, request)

    @app.post(
        "/v1/jobs/{dag_name}/{job_name}/resume",
        summary="Let a paused job go on",
        **route("jobs", "user", 404),
    )
    async def resume(dag_name: DagNamed, job_name: JobNamed) -> control.JobHolds:
        held = await resume_job(dispatcher.state, dispatcher.org_id, dag_name, job_name)
        dispatcher.wake.set()
        return held


def _overviews(app: FastAPI, dispatcher: Dispatcher, route: Routes) -> None:
    @app.get(
        "/v1/queues",
        summary="What waits and runs, by job, and who works",
        **route("overview", "user"),
    )
    async def queues() -> control.QueueOverview:
        return await list_queues(dispatcher.state, dispatcher.dead_letters, dispatcher.org_id)

    @app.get(
        "/v1/why/{subject}",
        summary="Why a task or a job does not move, or a dataset is not up to date",
        **route("overview", "user", 404),
    )
    async def why(
        subject: Annotated[
            str,
            Path(min_length=1, max_length=300, description="A task's id, DAG.JOB, or a dataset."),
        ],
    ) -> control.Why | dataset.DatasetWhy:
        return await explain(
            dispatcher.state, dispatcher.data, dispatcher.runtimes, dispatcher.org_id, subject
        )

    @app.get(
        "/v1/health",
        summary="Whether the instance is well, rule by rule",
        **route("overview", "user"),
    )
    async def health() -> control.Health:
        return await check_health(
            dispatcher.state,
            dispatcher.data,
            dispatcher.runtimes,
            dispatcher.org_id,
            dispatcher.runs,
        )
