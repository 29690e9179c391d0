"""The Dispatcher of a running instance, as a user sees it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

from trace_platform.app.api_client.service_client import ANSWER_S, get, get_soon, post, segment
from trace_platform.app.instance.home import Home
from trace_platform.domain.alike import instead
from trace_platform.domain.errors import BadInput, NotFound
from trace_platform.domain.own_code import Files
from trace_platform.wire.alert import Acknowledged, AcknowledgeRequest, AlertList
from trace_platform.wire.check import CheckList, CheckResults
from trace_platform.wire.control import (
    DagStatus,
    DeployResponse,
    EventList,
    Health,
    JobHolds,
    QueueOverview,
    RollbackResponse,
    SelectedTasks,
    TaskAction,
    TaskDetail,
    TaskGroups,
    TaskList,
    TaskLog,
    TaskSelection,
)
from trace_platform.wire.dead_letter import DeadLetter, DeadLetterList
from trace_platform.wire.plan import (
    DagList,
    DagVersionDetail,
    DagVersionList,
    DeployList,
    DeployStatus,
    Plan,
    RemovalPlan,
    RemovalRequest,
    RemovalResponse,
    RollbackPlan,
    RollbackRequest,
)
from trace_platform.wire.sources import SourceList
from trace_platform.wire.task import Accepted

Planned = TypeVar("Planned", Plan, DeployResponse)

# Of an id, its beginning or its end. Shorter beginnings would name any task of a day.
MIN_PART = 8


def read_dag_file(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}", hint=_beside(path)) from None
    except UnicodeDecodeError:
        raise BadInput(f"{path} is not a text file", hint="a DAG is YAML in UTF-8") from None


def _beside(path: Path) -> str:
    kind = f"*{path.suffix or '.yaml'}"
    found = sorted(each.name for each in path.parent.glob(kind))
    if not found:
        return f"there is no {kind} in {path.parent.absolute()}"
    return instead(path.name, found, most=5, said=f"in {path.parent.absolute()} there are")


def deploy(
    home: Home, yaml: str, file: str, plan_hash: str | None = None, code: Files | None = None
) -> DeployResponse:
    body = {"yaml": yaml, "file": file, "plan_hash": plan_hash, "code": dict(code or {})}
    done = post(home, DeployResponse, "/v1/dags", body)
    return _warned_of_pools(home, yaml, file, done)


def plan(home: Home, yaml: str, file: str, code: Files | None = None) -> Plan:
    body = {"yaml": yaml, "file": file, "code": dict(code or {})}
    return _warned_of_pools(home, yaml, file, post(home, Plan, "/v1/plans", body))


def _warned_of_pools(home: Home, yaml: str, file: str, answer: Planned) -> Planned:
    # Reads the language of DAGs, which other commands do not need.
    from trace_platform.app.api_client.unknown_pools import unknown_pools

    warnings = [*answer.warnings, *unknown_pools(home, yaml, file)]
    return answer.model_copy(update={"warnings": warnings})


def plan_rollback(home: Home, dag: str, to_version: UUID | None = None) -> RollbackPlan:
    path = f"/v1/dags/{segment(dag)}/rollback"
    return get(home, RollbackPlan, path, to_version=to_version)


def rollback(
    home: Home, dag: str, instead_of: UUID | None, to_version: UUID | None = None
) -> RollbackResponse:
    request = RollbackRequest(instead_of=instead_of, to_version=to_version)
    body = request.model_dump(mode="json")
    return post(home, RollbackResponse, f"/v1/dags/{segment(dag)}/rollback", body)


def dags(home: Home, answer_s: float = ANSWER_S) -> DagList:
    return get_soon(home, DagList, "/v1/dags", answer_s=answer_s)


def plan_removal(home: Home, dag: str) -> RemovalPlan:
    return get(home, RemovalPlan, f"/v1/dags/{segment(dag)}/removal")


def remove_dag(home: Home, dag: str, dag_version: UUID) -> RemovalResponse:
    body = RemovalRequest(dag_version=dag_version).model_dump(mode="json")
    return post(home, RemovalResponse, f"/v1/dags/{segment(dag)}/removal", body)


def deploys(home: Home, dag: str | None = None, limit: int = 20) -> DeployList:
    return get(home, DeployList, "/v1/deploys", dag_name=dag, limit=limit)


def deploy_status(home: Home, deploy_id: UUID) -> DeployStatus:
    return get(home, DeployStatus, f"/v1/deploys/{deploy_id}")


def dag_versions(home: Home, dag: str, limit: int = 100) -> DagVersionList:
    return get(home, DagVersionList, f"/v1/dags/{segment(dag)}/versions", limit=limit)


def dag_version(home: Home, dag: str, version: str) -> DagVersionDetail:
    """By id, by the beginning of one, or `active`."""
    return get(home, DagVersionDetail, f"/v1/dags/{segment(dag)}/versions/{segment(version)}")


def trigger(home: Home, dag: str, job: str, start: int, end: int) -> Accepted:
    path = f"/v1/sources/{segment(dag)}/{segment(job)}/trigger"
    return post(home, Accepted, path, {"start": start, "end": end})


def alerts(home: Home, severity: str, limit: int, *, standing: bool = False) -> AlertList:
    """Of this severity and worse, the newest first."""
    filters = {"severity": severity, "standing": standing or None}
    return get(home, AlertList, "/v1/alerts", **filters, limit=limit)


def checks(home: Home, dataset: str | None) -> CheckList:
    """Each check that has run, by its newest result."""
    return get(home, CheckList, "/v1/checks", dataset=dataset)


def check_results(home: Home, dataset: str, limit: int, *, failed: bool) -> CheckResults:
    """The newest first."""
    path = f"/v1/checks/{segment(dataset)}"
    return get(home, CheckResults, path, failed=failed or None, limit=limit)


def acknowledge(home: Home, alert_ids: Sequence[UUID], by: str, note: str | None) -> Acknowledged:
    request = AcknowledgeRequest(alert_ids=list(alert_ids), by=by, note=note)
    return post(home, Acknowledged, "/v1/alerts/acknowledge", request.model_dump(mode="json"))


def sources(home: Home) -> SourceList:
    return get(home, SourceList, "/v1/sources")


def dag_status(home: Home, dag: str, since: datetime | None = None) -> DagStatus:
    """What is alive, and what was made since: the last day unless given."""
    moment = since.isoformat() if since else None
    return get(home, DagStatus, f"/v1/dags/{segment(dag)}", since=moment)


def tasks(
    home: Home,
    dag: str | None = None,
    status: str | None = None,
    limit: int = 100,
    job: str | None = None,
) -> TaskList:
    filters = {"dag_name": dag, "job_name": job, "status": status}
    return get(home, TaskList, "/v1/tasks", **filters, limit=limit)


def task_groups(home: Home, dag: str | None = None, limit: int = 100) -> TaskGroups:
    return get(home, TaskGroups, "/v1/task-groups", dag_name=dag, limit=limit)


def find_task(home: Home, named: str) -> UUID:
    """A task by its id, or by the end or the beginning of it when only one task has that."""
    try:
        return UUID(named)
    except ValueError:
        pass
    if not looks_like_id(named):
        raise BadInput(
            f"'{named}' is no task's id",
            hint=f"give the id, or {MIN_PART} characters or more of its end or its beginning",
        )
    ends = get(home, TaskList, "/v1/tasks", id_suffix=named, limit=5).tasks
    begins = get(home, TaskList, "/v1/tasks", id_prefix=named, limit=5).tasks
    found = list(dict.fromkeys(task.task_id for task in (*ends, *begins)))
    if not found:
        raise NotFound(f"no task's id begins or ends with {named}", hint="trace tasks list")
    if len(found) > 1:
        hint = f"give more of it, or its end: {', '.join(map(str, found))}"
        raise BadInput(f"several tasks' ids begin or end with {named}", hint=hint)
    return found[0]


def looks_like_id(named: str) -> bool:
    """Whether a task's id may begin or end so."""
    return MIN_PART <= len(named) <= 36 and set(named.lower()) <= set("0123456789abcdef-")


def task(home: Home, task_id: UUID) -> TaskDetail:
    return get(home, TaskDetail, f"/v1/tasks/{task_id}")


def task_log(home: Home, task_id: UUID, attempt: int | None = None) -> TaskLog:
    return get(home, TaskLog, f"/v1/tasks/{task_id}/logs", attempt=attempt)


def cancel(home: Home, task_id: UUID) -> TaskAction:
    return post(home, TaskAction, f"/v1/tasks/{task_id}/cancel")


def retry(home: Home, task_id: UUID) -> TaskAction:
    return post(home, TaskAction, f"/v1/tasks/{task_id}/retry")


def change_tasks(home: Home, verb: str, chosen: TaskSelection) -> SelectedTasks:
    """`cancel` or `retry` all that is meant."""
    return post(home, SelectedTasks, f"/v1/tasks/{verb}", chosen.model_dump(mode="json"))


def events(home: Home, dataset: str | None = None, limit: int = 100) -> EventList:
    return get(home, EventList, "/v1/events", dataset=dataset, limit=limit)


def emit(home: Home, dataset: str, scope: dict[str, Any]) -> Accepted:
    return post(home, Accepted, "/v1/events", {"dataset": dataset, "events": [scope]})


def pause(home: Home, dag: str, job: str, reason: str | None = None) -> JobHolds:
    return post(home, JobHolds, f"/v1/jobs/{segment(dag)}/{segment(job)}/pause", {"reason": reason})


def resume(home: Home, dag: str, job: str) -> JobHolds:
    return post(home, JobHolds, f"/v1/jobs/{segment(dag)}/{segment(job)}/resume")


def queues(home: Home) -> QueueOverview:
    return get(home, QueueOverview, "/v1/queues")


def dead_letters(home: Home, queue: str | None = None, limit: int = 100) -> DeadLetterList:
    return get(home, DeadLetterList, "/v1/dead-letters", queue=queue, limit=limit)


def dead_letter(home: Home, letter: int) -> DeadLetter:
    return get(home, DeadLetter, f"/v1/dead-letters/{letter}")


def resend_dead(home: Home, letters: Sequence[int]) -> Accepted:
    return post(home, Accepted, "/v1/dead-letters/resend", {"ids": list(letters)})


def drop_dead(home: Home, letters: Sequence[int]) -> Accepted:
    return post(home, Accepted, "/v1/dead-letters/drop", {"ids": list(letters)})


def health(home: Home) -> Health:
    return get(home, Health, "/v1/health")
