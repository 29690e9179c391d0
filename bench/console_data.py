"""What the console is measured with: real rows in a real instance, those of them that would take
hours to make put straight into its database and object store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import psycopg

from trace_platform.app.api_client import control_client
from trace_platform.app.instance import databases
from trace_platform.app.instance.home import Home
from trace_platform.app.instance.open_instance import open_instance
from trace_platform.app.instance.settings import load_settings

PARTITIONS, BLOCKS_EACH = 200_000, 100
LOG_LINES = 1_000_000
_HEAD = """\
name: {name}
jobs:
  - name: start
    activation: source
    source: {{ kind: manual }}
    outputs: [ranges]
"""
_JOB = """\
  - name: job_{n}
    activation: reactive
    runtime: ecs_platform
    operator: range_splitter
    inputs: [{inputs}]
    outputs: [ranges]
    config: {{ chunk_blocks: 100 }}
"""


def deploy_graph(home: Home, name: str, jobs: int) -> None:
    """As many jobs with an output each, twice as many nodes: every job reads one or two before it,
    so that the graph has some ten layers and edges that cross."""
    text = _HEAD.format(name=name) + "".join(
        _JOB.format(n=n, inputs=", ".join(_inputs(n))) for n in range(1, jobs)
    )
    control_client.deploy(home, text, f"{name}.yaml")


def _inputs(n: int) -> Iterator[str]:
    for parent in {(n - 1) // 2, (n - 1) // 3}:
        job = f"job_{parent}" if parent else "start"
        yield f"{{ from: {{ job: {job}, output: ranges }} }}"


def add_partitions(home: Home, dag: str, job: str) -> None:
    """As an ingest of 20 million blocks in parts of a hundred leaves them, some of them missing."""
    with _state(home) as state:
        state.execute(
            "INSERT INTO partition_versions (dataset_uuid, dataset_version, partition_key,"
            " range_start, range_end, location, files, row_count, byte_count, schema_hash,"
            " task_id, attempt, committed_at)"
            " SELECT d.uuid, d.current_version, first || '-' || first + size - 1, first,"
            "  first + size - 1, 's3://none/', '[]', 100 + n %% 900, 10000 + n %% 5000, 'none',"
            "  (SELECT id FROM tasks ORDER BY id LIMIT 1), 1,"
            "  clock_timestamp() - n * interval '1 second'"
            "  FROM datasets d, generate_series(0, %(count)s - 1) n,"
            "  LATERAL (SELECT (n + n / 1000)::bigint * %(size)s AS first, %(size)s AS size) p"
            " WHERE d.dag_name = %(dag)s AND d.job_name = %(job)s",
            {"count": PARTITIONS, "size": BLOCKS_EACH, "dag": dag, "job": job},
        )


def add_log(home: Home) -> UUID:
    """To the newest attempt of a task: it is kept where the worker would have left it."""
    with _state(home) as state:
        found = state.execute(
            "UPDATE task_attempts a SET has_log = true FROM tasks t WHERE t.id = a.task_id"
            " AND t.id = (SELECT id FROM tasks ORDER BY id LIMIT 1) RETURNING t.org_id, t.id"
        ).fetchone()
    assert found is not None
    org, task = found
    file = home.root / "objects" / "trace-data" / "org" / str(org) / "logs" / str(task) / "1.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w") as log:
        for n in range(LOG_LINES):
            log.write(json.dumps(_line(n)) + "\n")
    return UUID(str(task))


def _line(n: int) -> dict[str, Any]:
    return {
        "timestamp": f"2026-01-01T{n // 36_000 % 24:02d}:{n // 600 % 60:02d}:{n // 10 % 60:02d}Z",
        "level": "warning" if n % 1000 == 0 else "info",
        "event": "blocks_fetched",
        "start": n * 100,
        "node": f"node-{n % 7}",
    }


def _state(home: Home) -> psycopg.Connection[tuple[Any, ...]]:
    settings = load_settings(home)
    opened = open_instance(home, settings)
    return psycopg.connect(databases.dsn(home, settings, opened, "trace_dispatcher"))
