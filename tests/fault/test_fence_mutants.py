"""The mutation gate: take any one predicate of a fence away, and the suite turns red."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import SHARED, PostgresServer

pytestmark = pytest.mark.timeout(600)

SUITE = "tests/integration/dispatcher/tasks/test_fence.py"
CLAIMS = "tests/integration/dispatcher/tasks/test_claims.py"
OWNED = "(t.status = 'Running' OR t.reaped_at IS NOT NULL)"

MUTANTS = [
    ("claim_tasks", "AND t.status || '' = 'Queued'", ""),
    ("claim_tasks", "t.attempt + 1", "t.attempt"),
    ("claim_tasks", "reaped_at = NULL,", ""),
    ("claim_tasks", "lease_token = gen_random_uuid(),", ""),
    ("fail_tasks", "t.cancel_requested_at IS NULL THEN 'Failed'", "true THEN 'Failed'"),
    ("extend_leases", "clock_timestamp() < t.started_at", "now() > t.started_at"),
    ("hold_fences", "t.id = g.task_id", "true"),
    ("hold_fences", "t.attempt = g.attempt", "true"),
    ("hold_fences", "t.lease_token = g.lease_token", "true"),
    ("hold_fences", OWNED, "true"),
    ("extend_leases", "t.id = g.task_id", "true"),
    ("extend_leases", "t.attempt = g.attempt", "true"),
    ("extend_leases", "t.lease_token = g.lease_token", "true"),
    ("extend_leases", OWNED, "true"),
    ("finish_tasks", "t.id = g.task_id", "true"),
    ("finish_tasks", "t.attempt = g.attempt", "true"),
    ("finish_tasks", "t.lease_token = g.lease_token", "true"),
    ("finish_tasks", OWNED, "true"),
    ("finish_tasks", OWNED, "t.status = 'Running'"),
    ("fail_tasks", "t.id = g.task_id", "true"),
    ("fail_tasks", "t.attempt = g.attempt", "true"),
    ("fail_tasks", "t.lease_token = g.lease_token", "true"),
    ("fail_tasks", OWNED, "true"),
    ("reap_leases", "lease_expires_at < (SELECT clock_timestamp())", "true"),
    ("ended_outcomes", "a.lease_token = g.lease_token", "true"),
]


# What is routed where, what is given once, and what a version that gave way may still do.
DEPLOYS = "tests/integration/dispatcher/versions/test_deploys.py"
RACES = "tests/fault/test_deploy_races.py"
VERSION_MUTANTS = [
    (DEPLOYS, "route_events", "THEN NOT s.held", "THEN true"),
    (DEPLOYS, "route_events", "i.event_id = due.id", "false"),
    (DEPLOYS, "owe_missing", "i.event_id = e.id", "false"),
    (DEPLOYS, "subscribe", "e.changes AND NOT coalesce(p.changes, false)", "false"),
    (DEPLOYS, "point_at", "d.current_version <> v.version", "d.output_index < 0"),
    (DEPLOYS, "supersede_tasks", "SET superseded = true,", "SET"),
    (RACES, "supersede_tasks", "status IN ('Queued', 'Running') OR next_retry_at", "true OR id"),
    (RACES, "revive_tasks", "CASE WHEN status = 'Running' THEN clock_timestamp() END", "NULL"),
]

# The limit of a job is guarded by what a claim counts, and by claims that take turns.
LIMIT_MUTANTS = [
    ("claims", "locks.take_claims(:runtime)", ":runtime::text"),
    ("claim_tasks", "c.turn <= c.room", "true"),
    ("claim_tasks", "j.max_concurrency - coalesce(r.tasks, 0)", "j.max_concurrency"),
    ("claim_tasks", "AND h.job_name = j.name AND h.from_rank <= w.priority", "AND false"),
]


def _shown_by(mutants: list[tuple[str, str, str]], one: tuple[str, str, str]) -> list[Any]:
    """Each takes some ten seconds: `make test` has this one, `make fault` all others."""
    assert one in mutants
    return [pytest.param(*m, marks=[pytest.mark.long] * (m != one)) for m in mutants]


@pytest.mark.parametrize(
    ("query", "old", "new"),
    _shown_by(MUTANTS, ("finish_tasks", "t.lease_token = g.lease_token", "true")),
)
def test_a_weakened_fence_is_noticed(
    query: str, old: str, new: str, tmp_path: Path, postgres: PostgresServer
) -> None:
    assert_caught(SUITE, query, old, new, tmp_path, postgres)


@pytest.mark.parametrize(
    ("query", "old", "new"),
    _shown_by(LIMIT_MUTANTS, ("claims", "locks.take_claims(:runtime)", ":runtime::text")),
)
def test_a_weakened_limit_is_noticed(
    query: str, old: str, new: str, tmp_path: Path, postgres: PostgresServer
) -> None:
    assert_caught(CLAIMS, query, old, new, tmp_path, postgres)


@pytest.mark.long
@pytest.mark.parametrize(("suite", "query", "old", "new"), VERSION_MUTANTS)
def test_a_weakened_cut_over_is_noticed(
    suite: str, query: str, old: str, new: str, tmp_path: Path, postgres: PostgresServer
) -> None:
    assert_caught(suite, query, old, new, tmp_path, postgres)


# `make test` runs both suites anyway.
@pytest.mark.long
@pytest.mark.parametrize("suite", [SUITE, CLAIMS])
def test_the_suite_is_green_without_a_mutant(
    suite: str, tmp_path: Path, postgres: PostgresServer
) -> None:
    """Else every mutant above would look caught."""
    done = run_suite(suite, tmp_path, postgres)
    assert done.returncode == 0, done.stdout


def assert_caught(
    suite: str, query: str, old: str, new: str, folder: Path, postgres: PostgresServer
) -> None:
    mutant = json.dumps({"query": query, "old": old, "new": new})
    plugin = ("-p", "tests.support.sql_mutant")
    done = run_suite(suite, folder, postgres, *plugin, SQL_MUTANT=mutant)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "does not fit" not in done.stdout + done.stderr
    assert "FAILED" in done.stdout


def run_suite(
    suite: str, folder: Path, postgres: PostgresServer, *options: str, **env: str
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", suite, *options]
    return subprocess.run(
        [*command, f"--basetemp={folder / 'nested'}"],
        env={**os.environ, **env, SHARED: str(postgres.home.root)},
        capture_output=True,
        text=True,
    )
