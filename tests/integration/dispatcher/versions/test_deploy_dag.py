"""What a deploy stores of how jobs run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.control_plane import DAG, ControlPlane
from trace_platform.dispatcher.versions.deploy_dag import deploy_dag
from trace_platform.domain.runtimes import DEFAULT_RUNTIMES, Runtimes

pytestmark = pytest.mark.anyio

CONFIG = "    config: { chunk_blocks: 10 }\n"


async def test_limits_and_filters_are_stored(plane: ControlPlane) -> None:
    limits = (
        "    execution_strategy: Bulk\n"
        "    scaling: { max_concurrency: 20 }\n"
        "    backpressure: { max_queue_depth: 100, max_queue_age: 10m, mode: coalesce }\n"
    )
    where = 'output: ranges }, where: { block_number: { gte: 5 }, text: "it\'s" } }]'
    yaml = DAG.replace(CONFIG, CONFIG + limits).replace("output: ranges } }]", where)
    await plane.deploy(yaml)
    assert plane.sql(
        "SELECT execution_strategy, max_concurrency, max_queue_depth, max_queue_age_s,"
        " pressure_mode, filter"
        " FROM jobs JOIN input_edges ON job_id = id WHERE name = 'split'"
    ) == [
        {
            "execution_strategy": "Bulk",
            "max_concurrency": 20,
            "max_queue_depth": 100,
            "max_queue_age_s": 600.0,
            "pressure_mode": "coalesce",
            "filter": {"block_number": {"gte": 5}, "text": "it's"},
        }
    ]
    assert plane.sql(
        "SELECT execution_strategy, max_concurrency, pressure_mode, filter"
        " FROM jobs JOIN input_edges ON job_id = id WHERE name = 'ingest'"
    ) == [
        {
            "execution_strategy": "PerUpdate",
            "max_concurrency": None,
            "pressure_mode": None,
            "filter": None,
        }
    ]


async def test_a_large_number_in_a_filter_survives(plane: ControlPlane) -> None:
    where = f"output: ranges }}, where: {{ value: {{ lt: {2**256} }} }} }}]"
    await plane.deploy(DAG.replace("output: ranges } }]", where))
    stored = plane.sql("SELECT filter FROM input_edges WHERE filter IS NOT NULL")
    assert stored == [{"filter": {"value": {"lt": 2**256}}}]


async def test_the_runtimes_limit_is_stored_where_it_is_smaller(plane: ControlPlane) -> None:
    runtimes = Runtimes([replace(DEFAULT_RUNTIMES[2], max_concurrency=3, timeout_seconds=60)])
    await deploy_dag(plane.dispatcher.state, plane.dispatcher.org_id, DAG, "dag.yaml", runtimes)
    assert plane.sql(
        "SELECT DISTINCT max_concurrency, timeout_seconds FROM jobs WHERE activation = 'reactive'"
    ) == [{"max_concurrency": 3, "timeout_seconds": 60.0}]
    again = await deploy_dag(plane.dispatcher.state, plane.dispatcher.org_id, DAG, "dag.yaml")
    assert again.new
    assert again.added == ["split", "ingest"]


async def test_a_dag_reads_what_it_publishes_itself_on_the_first_deploy(
    plane: ControlPlane,
) -> None:
    own = DAG.replace("job: split, output: chunks", "dataset: pieces").replace(
        "publish:", "publish:\n  pieces: { from: { job: split, output: chunks } }"
    )
    await plane.deploy(own)
    assert plane.sql(
        "SELECT d.job_name, d.name FROM input_edges JOIN jobs j ON j.id = job_id"
        " JOIN datasets d ON d.uuid = dataset_uuid WHERE j.name = 'ingest'"
    ) == [{"job_name": "split", "name": "pieces"}]
