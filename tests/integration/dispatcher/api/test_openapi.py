"""The API is as it describes itself, whatever it is sent: no defects, and every error is named."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.support.control_plane import DAG, SECRETS, WORKER_TOKEN, ControlPlane, fence_fields
from tests.support.served_dispatcher import ServedDispatcher
from trace_platform.dispatcher.api.create_app import create_app
from trace_platform.domain import errors
from trace_platform.wire.task import Claimed

# Described without a database: only what opens a route is looked at.
DESCRIBED: Any = SimpleNamespace(secrets=SECRETS, grants=SimpleNamespace(tokens=None))
SCHEMA: dict[str, Any] = create_app(DESCRIBED).openapi()
OPERATIONS = sorted(
    (path, method) for path, methods in SCHEMA["paths"].items() for method in methods
)
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
CODES = set(errors.subclasses()) - {errors.InternalError.code, errors.TraceError.code}
RIGHT, WRONG = GenerationMode.POSITIVE, GenerationMode.NEGATIVE
NAMES = {
    "dag_name": "chain",
    "job_name": "request",
    "subject": "chain.ingest",
    "dataset": "chain.request",
    "runtime": "ecs_platform",
    "yaml": DAG,
}
EXAMPLES = settings(
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)

# Connection pools of the dispatcher under test draw their jitter from `random`, in a thread of
# their own: nothing that a case is made of.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Do not use the `random` module:hypothesis.errors.HypothesisDeprecationWarning"
)


@pytest.fixture
def served(state_dsns: Any, data_dsns: Any, tmp_path: Path) -> Iterator[ServedDispatcher]:
    dispatcher = ServedDispatcher(state_dsns, tmp_path, data_dsns.janitor)
    dispatcher.start()
    yield dispatcher
    dispatcher.stop()


def test_every_route_says_what_it_is_whose_it_is_and_how_it_fails() -> None:
    for path, method in OPERATIONS:
        operation = SCHEMA["paths"][path][method]
        assert operation["summary"], path
        assert operation["tags"], path
        answer = operation["responses"]["200"]["content"]
        assert set(answer) <= {"application/json", "application/x-ndjson", "text/plain"}, path
        for status in ("422", "500", "503"):
            (kind,) = operation["responses"][status]["content"]
            assert kind == "application/problem+json", (path, status)
        open_to_all = path in ("/healthz", "/internal/jwks/task")
        assert ("security" not in operation) is open_to_all, path
        assert ("401" not in operation["responses"]) is open_to_all, path


def test_each_kind_of_secret_is_described() -> None:
    schemes = SCHEMA["components"]["securitySchemes"]
    assert set(schemes) == {"user", "worker", "service", "task", "task_bearer", "webhook"}
    # Either header opens a route of an attempt.
    wanted = SCHEMA["paths"]["/v1/task/heartbeat"]["post"]["security"]
    assert wanted == [{"task": []}, {"task_bearer": []}]
    assert schemes["worker"]["name"] == "X-Trace-Worker-Token"
    assert "code" in SCHEMA["components"]["schemas"]["ProblemDetails"]["required"]


# Of each operation, by each of three who ask.
@pytest.mark.parametrize("examples", [3, pytest.param(25, marks=pytest.mark.long)])
def test_every_answer_is_as_described(
    served: ServedDispatcher, subtests: Any, examples: int
) -> None:
    claimed = served.run(a_claimed_task)
    schema = schemathesis.openapi.from_url(f"{served.url}/openapi.json")
    with requests.Session() as session:
        for found in schema.get_all_operations():
            operation = found.ok()
            for mode, knows in ((WRONG, False), (RIGHT, False), (RIGHT, True)):
                with subtests.test(f"{operation.label} {mode.value}", knows_names=knows):
                    caller = Caller(served.url, session, claimed, knows)
                    try_out(operation, mode, caller, examples)


async def a_claimed_task(plane: ControlPlane) -> Claimed:
    return await plane.claimed(await plane.queued_ingest())


@dataclass
class Caller:
    """Holds every secret, and the fence of one attempt; may know the names of what is there."""

    url: str
    session: requests.Session
    claimed: Claimed
    knows_names: bool

    def call(self, case: Any) -> Any:
        fence = {k: str(v) for k, v in fence_fields(self.claimed).items()}
        body = case.body if isinstance(case.body, dict) else {}
        if case.path.startswith("/v1/task/"):
            body |= fence
        if self.knows_names:
            names = NAMES | {"task_id": fence["task_id"]}
            for given in (case.path_parameters, case.query, body):
                given.update({name: names[name] for name in given if name in names})
        return case.call(
            base_url=self.url,
            session=self.session,
            headers={
                # A token of somebody else beside the attempt's would be refused.
                "Authorization": f"Bearer {self._bearer(case.path)}",
                "X-Trace-Worker-Token": WORKER_TOKEN,
                "X-Trace-Service-Token": SECRETS.service_token,
                "X-Trace-Task-Capability": self.claimed.capability_token,
            },
        )

    def _bearer(self, path: str) -> str:
        is_of_attempts = path.startswith("/v1/task/")
        return self.claimed.capability_token if is_of_attempts else SECRETS.user_token


def try_out(operation: Any, mode: GenerationMode, caller: Caller, examples: int) -> None:
    @settings(EXAMPLES, max_examples=examples)
    @given(case=operation.as_strategy(generation_mode=mode))
    def look(case: Any) -> None:
        response = caller.call(case)
        case.validate_response(response, checks=CHECKS)
        if response.status_code >= 400:
            assert response.headers["content-type"] == ["application/problem+json"]
            assert response.json()["code"] in CODES, response.text

    # What takes no input cannot be given a wrong one.
    with suppress(Unsatisfiable):
        look()
