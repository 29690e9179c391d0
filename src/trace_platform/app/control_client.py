"""The Dispatcher of a running instance, as a user sees it."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

from trace_platform.app.home import Home
from trace_platform.app.service_client import call
from trace_platform.domain.errors import BadInput
from trace_platform.wire.control import (
    DagStatus,
    DeployResponse,
    TaskAction,
    TaskList,
    TriggerResponse,
)


def read_dag_file(path: Path) -> str:
    try:
        return path.read_text()
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}", hint="give a DAG file") from None
    except UnicodeDecodeError:
        raise BadInput(f"{path} is not a text file", hint="a DAG is YAML in UTF-8") from None


def deploy(home: Home, yaml: str, file: str) -> DeployResponse:
    body = {"yaml": yaml, "file": file}
    return DeployResponse.model_validate_json(call(home, "dispatcher", "POST", "/v1/dags", body))


def trigger(home: Home, dag: str, job: str, start: int, end: int) -> TriggerResponse:
    path = f"/v1/sources/{dag}/{job}/trigger"
    body = {"start": start, "end": end}
    return TriggerResponse.model_validate_json(call(home, "dispatcher", "POST", path, body))


def dag_status(home: Home, dag: str) -> DagStatus:
    return DagStatus.model_validate_json(call(home, "dispatcher", "GET", f"/v1/dags/{dag}"))


def tasks(
    home: Home, dag: str | None = None, status: str | None = None, limit: int = 100
) -> TaskList:
    answer = call(home, "dispatcher", "GET", "/v1/tasks", dag_name=dag, status=status, limit=limit)
    return TaskList.model_validate_json(answer)


def cancel(home: Home, task_id: UUID) -> TaskAction:
    answer = call(home, "dispatcher", "POST", f"/v1/tasks/{task_id}/cancel")
    return TaskAction.model_validate_json(answer)


def retry(home: Home, task_id: UUID) -> TaskAction:
    answer = call(home, "dispatcher", "POST", f"/v1/tasks/{task_id}/retry")
    return TaskAction.model_validate_json(answer)
