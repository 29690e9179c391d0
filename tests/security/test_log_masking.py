from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from trace_platform.app.supervise.log import configure_logging
from trace_platform.domain.masking import mask_text

SECRET = "hunter2-and-more"


class Log:
    def __init__(self) -> None:
        self.stream = io.StringIO()

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]


@pytest.fixture
def log() -> Iterator[Log]:
    root, hook = logging.getLogger(), sys.excepthook
    before = (root.handlers, root.level)
    captured = Log()
    configure_logging("testing", captured.stream)
    yield captured
    structlog.reset_defaults()
    logging.captureWarnings(False)
    root.handlers, sys.excepthook = before[0], hook
    root.setLevel(before[1])


@pytest.mark.parametrize(
    "key",
    [
        *("token", "password", "dsn", "authorization", "lease_token", "capability_token"),
        *("Authorization", "X-Trace-Worker-Token", "state_dsn", "pg_password", "client_secret"),
        *("X-Trace-Task-Capability", "x-trace-service-token", "task_capability"),
    ],
)
def test_values_of_secret_keys_are_masked(log: Log, key: str) -> None:
    structlog.get_logger().info("seen", **{key: SECRET}, nested=[{"inner": {key: SECRET}}])
    assert SECRET not in log.stream.getvalue()
    assert log.lines()[0][key] == "***"


def test_what_is_not_secret_is_kept(log: Log) -> None:
    structlog.get_logger().info("claimed", task_id="7", attempt=2, tokens_used=3, ok=True, why=None)
    line = log.lines()[0]
    assert (line["task_id"], line["attempt"], line["tokens_used"]) == ("7", 2, 3)
    assert line["ok"] is True
    assert line["why"] is None


@pytest.mark.parametrize(
    "text",
    [
        f"connection to host=db user=me password={SECRET} failed",
        f"password = '{SECRET}'",
        f"cannot open postgresql://me:{SECRET}@db:5432/state",
        f"Authorization: Bearer {SECRET}",
        f"https://:{SECRET}@node.example/v1",
        f"X-Trace-Task-Capability: {SECRET}",
        f"{{'X-Trace-Task-Capability': '{SECRET}', 'accept': '*/*'}}",
        f"x-trace-worker-token={SECRET}",
        f"the token eyJhbGciOiJFUzI1NiJ9.{SECRET}.c2lnbmF0dXJl was refused",
    ],
)
def test_secrets_inside_of_texts_are_masked(log: Log, text: str) -> None:
    assert SECRET not in mask_text(text)
    structlog.get_logger().error(text, error=ValueError(text))
    logging.getLogger("psycopg").warning("failed: %s", text)
    try:
        raise RuntimeError(text)
    except RuntimeError:
        structlog.get_logger().exception("broke")
    sys.excepthook(RuntimeError, RuntimeError(text), None)
    assert len(log.lines()) == 4
    assert SECRET not in log.stream.getvalue()


def test_standard_logging_becomes_the_same_json(log: Log) -> None:
    logging.getLogger("uvicorn.error").warning("started %s", "now", extra={"lease_token": SECRET})
    structlog.contextvars.bind_contextvars(task_id="7")
    try:
        structlog.get_logger().info("bound")
    finally:
        structlog.contextvars.clear_contextvars()
    foreign, own = log.lines()
    assert foreign["event"] == "started now"
    assert foreign["lease_token"] == "***"
    assert (foreign["process"], foreign["level"]) == ("testing", "warning")
    assert foreign["timestamp"].endswith("Z")
    assert own["task_id"] == "7"
