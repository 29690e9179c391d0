"""The mutation gate: take any one predicate of a fence away, and the suite turns red."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(120)

SUITE = "tests/integration/dispatcher/test_fence.py"
OWNED = "(status = 'Running' OR reaped_at IS NOT NULL)"
OWNED_T = "(t.status = 'Running' OR t.reaped_at IS NOT NULL)"

MUTANTS = [
    ("claim_task", "t.status = 'Queued'", "true"),
    ("claim_task", "t.attempt + 1", "t.attempt"),
    ("claim_task", "reaped_at = NULL,", ""),
    ("fail_task", "t.cancel_requested_at IS NULL THEN 'Failed'", "true THEN 'Failed'"),
    ("extend_lease", "clock_timestamp() < t.started_at", "now() > t.started_at"),
    ("hold_fence", "id = :task_id", "true"),
    ("hold_fence", "attempt = :attempt", "true"),
    ("hold_fence", "lease_token = :lease_token", "true"),
    ("hold_fence", OWNED, "true"),
    ("extend_lease", "t.id = :task_id", "true"),
    ("extend_lease", "t.attempt = :attempt", "true"),
    ("extend_lease", "t.lease_token = :lease_token", "true"),
    ("extend_lease", OWNED_T, "true"),
    ("finish_task", "id = :task_id", "true"),
    ("finish_task", "attempt = :attempt", "true"),
    ("finish_task", "lease_token = :lease_token", "true"),
    ("finish_task", OWNED, "true"),
    ("finish_task", OWNED, "status = 'Running'"),
    ("fail_task", "t.id = :task_id", "true"),
    ("fail_task", "t.attempt = :attempt", "true"),
    ("fail_task", "t.lease_token = :lease_token", "true"),
    ("fail_task", OWNED_T, "true"),
    ("reap_leases", "lease_expires_at < (SELECT clock_timestamp())", "true"),
    ("ended_outcome", "lease_token = :lease_token", "true"),
]


@pytest.mark.parametrize(("query", "old", "new"), MUTANTS)
def test_a_weakened_fence_is_noticed(query: str, old: str, new: str, tmp_path: Path) -> None:
    mutant = json.dumps({"query": query, "old": old, "new": new})
    done = run_suite(tmp_path, "-p", "tests.support.sql_mutant", SQL_MUTANT=mutant)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "does not fit" not in done.stdout + done.stderr
    assert "FAILED" in done.stdout


def test_the_suite_is_green_without_a_mutant(tmp_path: Path) -> None:
    """Else every mutant above would look caught."""
    done = run_suite(tmp_path)
    assert done.returncode == 0, done.stdout


def run_suite(folder: Path, *options: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", SUITE, *options]
    return subprocess.run(
        [*command, f"--basetemp={folder / 'nested'}"],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
    )
