"""The Dispatcher of a running instance, as a user sees it."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote
from uuid import UUID

from pydantic import BaseModel

from trace_platform.app.home import Home
from trace_platform.app.service_client import call
from trace_platform.domain.errors import BadInput, NotFound
from trace_platform.wire.alert import AlertList
from trace_platform.wire.control import (
    DagStatus,
    DeployResponse,
    EmitResponse,
    EventList,
    Health,
    JobHolds,
    QueueOverview,
    RollbackResponse,
    TaskAction,
    TaskDetail,
    TaskList,
    TaskLog,
    TriggerResponse,
)
from trace_platform.wire.plan import (
    DagVersionDetail,
    DagVersionList,
    DeployList,
    DeployStatus,
    Plan,
    RollbackRequest,
)
from trace_platform.wire.sources import SourceList

Answer = TypeVar("Answer", bound=BaseModel)

# Shorter ones would name any task of a day.
MIN_PREFIX = 8


def read_dag_file(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}", hint="give a DAG file") from None
    except UnicodeDecodeError:
        raise BadInput(f"{path} is not a text file", hint="a DAG is YAML in UTF-8") from None


def deploy(home: Home, yaml: str, file: str, plan_hash: str | None = None) -> DeployResponse:
    body = {"yaml": yaml, "file": file, "plan_hash": plan_hash}
    return _post(home, DeployResponse, "/v1/dags", body)


def plan(home: Home, yaml: str, file: str) -> Plan:
    return _post(home, Plan, "/v1/plans", {"yaml": yaml, "file": file})


def rollback(
    home: Home, dag: str, instead_of: UUID, to_version: UUID | None = None
) -> RollbackResponse:
    request = RollbackRequest(instead_of=instead_of, to_version=to_version)
    body = request.model_dump(mode="json")
    return _post(home, RollbackResponse, f"/v1/dags/{_name(dag)}/rollback", body)


def deploys(home: Home, dag: str | None = None, limit: int = 20) -> DeployList:
    return _get(home, DeployList, "/v1/deploys", dag_name=dag, limit=limit)


def deploy_status(home: Home, deploy_id: UUID) -> DeployStatus:
    return _get(home, DeployStatus, f"/v1/deploys/{deploy_id}")


def dag_versions(home: Home, dag: str, limit: int = 100) -> DagVersionList:
    return _get(home, DagVersionList, f"/v1/dags/{_name(dag)}/versions", limit=limit)


def dag_version(home: Home, dag: str, version: str) -> DagVersionDetail:
    """By id, by the beginning of one, or `active`."""
    return _get(home, DagVersionDetail, f"/v1/dags/{_name(dag)}/versions/{_name(version)}")


def trigger(home: Home, dag: str, job: str, start: int, end: int) -> TriggerResponse:
    path = f"/v1/sources/{_name(dag)}/{_name(job)}/trigger"
    return _post(home, TriggerResponse, path, {"start": start, "end": end})


def alerts(home: Home, severity: str, limit: int) -> AlertList:
    """Of this severity and worse, the newest first."""
    return _get(home, AlertList, "/v1/alerts", severity=severity, limit=limit)


def sources(home: Home) -> SourceList:
    return _get(home, SourceList, "/v1/sources")


def dag_status(home: Home, dag: str, since: datetime | None = None) -> DagStatus:
    """What is alive, and what was made since: the last day unless given."""
    moment = since.isoformat() if since else None
    return _get(home, DagStatus, f"/v1/dags/{_name(dag)}", since=moment)


def tasks(
    home: Home,
    dag: str | None = None,
    status: str | None = None,
    limit: int = 100,
    job: str | None = None,
) -> TaskList:
    filters = {"dag_name": dag, "job_name": job, "status": status}
    return _get(home, TaskList, "/v1/tasks", **filters, limit=limit)


def find_task(home: Home, named: str) -> UUID:
    """A task by its id, or by the beginning of it when only one task begins so."""
    try:
        return UUID(named)
    except ValueError:
        pass
    if not looks_like_id(named):
        raise BadInput(
            f"'{named}' is no task's id",
            hint=f"give the id, or {MIN_PREFIX} characters or more of its beginning",
        )
    found = _get(home, TaskList, "/v1/tasks", id_prefix=named, limit=5).tasks
    if not found:
        raise NotFound(f"no task's id begins with {named}", hint="trace tasks list")
    if len(found) > 1:
        those = ", ".join(str(task.task_id) for task in found)
        raise BadInput(f"several tasks begin with {named}", hint=f"which of: {those}")
    return found[0].task_id


def looks_like_id(named: str) -> bool:
    """Whether a task's id may begin so."""
    return MIN_PREFIX <= len(named) <= 36 and set(named.lower()) <= set("0123456789abcdef-")


def task(home: Home, task_id: UUID) -> TaskDetail:
    return _get(home, TaskDetail, f"/v1/tasks/{task_id}")


def task_log(home: Home, task_id: UUID, attempt: int | None = None) -> TaskLog:
    return _get(home, TaskLog, f"/v1/tasks/{task_id}/logs", attempt=attempt)


def cancel(home: Home, task_id: UUID) -> TaskAction:
    return _post(home, TaskAction, f"/v1/tasks/{task_id}/cancel")


def retry(home: Home, task_id: UUID) -> TaskAction:
    return _post(home, TaskAction, f"/v1/tasks/{task_id}/retry")


def events(home: Home, dataset: str | None = None, limit: int = 100) -> EventList:
    return _get(home, EventList, "/v1/events", dataset=dataset, limit=limit)


def emit(home: Home, dataset: str, scope: dict[str, Any]) -> EmitResponse:
    return _post(home, EmitResponse, "/v1/events", {"dataset": dataset, "events": [scope]})


def pause(home: Home, dag: str, job: str, reason: str | None = None) -> JobHolds:
    return _post(home, JobHolds, f"/v1/jobs/{_name(dag)}/{_name(job)}/pause", {"reason": reason})


def resume(home: Home, dag: str, job: str) -> JobHolds:
    return _post(home, JobHolds, f"/v1/jobs/{_name(dag)}/{_name(job)}/resume")


def queues(home: Home) -> QueueOverview:
    return _get(home, QueueOverview, "/v1/queues")


def health(home: Home) -> Health:
    return _get(home, Health, "/v1/health")


def _get(home: Home, kind: type[Answer], path: str, **query: str | int | None) -> Answer:
    return kind.model_validate_json(call(home, "dispatcher", "GET", path, None, **query))


def _post(home: Home, kind: type[Answer], path: str, body: dict[str, Any] | None = None) -> Answer:
    return kind.model_validate_json(call(home, "dispatcher", "POST", path, body))


def _name(text: str) -> str:
    """One segment of a path, whatever a user typed."""
    return quote(text, safe="")
