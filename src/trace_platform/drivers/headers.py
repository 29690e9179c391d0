"""Headers that carry a secret, by who holds it."""

from __future__ import annotations

AUTHORIZATION = "Authorization"
WORKER_TOKEN = "X-Trace-Worker-Token"  # noqa: S105
SERVICE_TOKEN = "X-Trace-Service-Token"  # noqa: S105
TASK_CAPABILITY = "X-Trace-Task-Capability"
WEBHOOK_SIGNATURE = "webhook-signature"
