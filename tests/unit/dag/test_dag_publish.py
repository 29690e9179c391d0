"""What a DAG declares and its jobs cannot keep, and fields that nothing acts on."""

from __future__ import annotations

from pathlib import Path

import trace_platform
from tests.support.corpus import corpus
from trace_platform.app.code_beside import code_beside
from trace_platform.dag.check.check_dag import check_dag, check_file
from trace_platform.dag.read.dag_yaml import DagErrors
from trace_platform.domain.runtimes import Runtimes, starting_point

OWN = Runtimes([*Runtimes.default(), starting_point("ecs_own")])


def errors_of(text: str) -> list[str]:
    try:
        check_dag(text, OWN)
    except DagErrors as found:
        return [error.at("dag.yaml") for error in found.errors]
    return []


def publishing(*, job: str = "", **said: str) -> str:
    """One job and what is published of it."""
    fields = "".join(f"\n    {field}: {value}" for field, value in said.items())
    return f"""\
name: p
jobs:
  - {{ name: request, activation: source, source: {{ kind: manual }} }}
  - {{ name: hook, activation: source, source: {{ kind: webhook, secret: s }} }}
  - name: follow
    activation: source
    source: {{ kind: always_on }}
    runtime: ecs_platform
    operator: block_follower
    outputs: [blocks, transactions, logs]
    config: {{ chain_id: 1, rpc_pool: p }}
  - name: ingest
    activation: reactive
    runtime: ecs_platform
    operator: cryo_ingest
    inputs: [{{ from: {{ job: request }} }}]
    outputs: [logs, blocks]
    config: {{ chain_id: 1, rpc_pool: p, tables: [logs, blocks] }}
  - name: mine
    activation: reactive
    runtime: ecs_own
    operator: mine
    inputs: [{{ from: {{ job: request }} }}]
publish:
  rows:
    from: {{ job: {job or "ingest"} }}{fields}
"""


@corpus(
    ("text", "expected"),
    [
        (
            publishing(storage="postgres"),
            ["storage: job 'ingest' writes files: write storage: parquet, or leave it out"],
        ),
        (publishing(job="hook", storage="postgres"), ["storage: job 'hook' writes files: write "]),
        (
            publishing(job="follow", storage="parquet"),
            ["storage: job 'follow' writes tables of Postgres data: write storage: postgres"],
        ),
        (publishing(storage="parquet"), []),
        (publishing(job="follow", storage="postgres"), []),
        # Where nothing is said it is where the job writes.
        (publishing(job="follow"), []),
        (
            publishing(storage="buffered"),
            ["storage: job 'ingest' writes files, and a buffered dataset is made of batches"],
        ),
        (publishing(job="hook", storage="buffered"), ["storage: job 'hook' writes files, and a "]),
        (
            publishing(job="request", storage="buffered"),
            ["storage: job 'request' writes no rows, it only emits, and a buffered dataset is"],
        ),
        (publishing(job="mine", storage="buffered"), []),
        # Nobody here knows what workers of one's own write.
        (publishing(job="mine", storage="postgres"), []),
        (publishing(schema="{ address: binary(20), topic0: binary, block_number: int64 }"), []),
        (
            publishing(schema="{ adress: binary(20), block_number: uint64 }"),
            [
                "schema.adress: job 'ingest' writes no column 'adress'; did you mean 'address'?",
                "schema.block_number: job 'ingest' writes int64, which is no uint64",
            ],
        ),
        # Its second table.
        (
            publishing(job="ingest, output: blocks", schema="{ address: binary(20) }"),
            ["schema.address: job 'ingest' writes no column 'address'"],
        ),
        (
            publishing(job="follow, output: logs", schema="{ data: string }"),
            ["schema.data: job 'follow' writes binary, which is no string"],
        ),
        (
            publishing(job="hook", schema="{ body: string, sender: string }"),
            ["schema.sender: job 'hook' writes no column 'sender'"],
        ),
        (
            publishing(job="mine", storage="postgres", schema="{ day: date, n: int64, u: json }"),
            ["schema.day: a table of Postgres data has no date: it holds bool, int64, float64, "],
        ),
        (publishing(job="mine", schema="{ day: date, n: uint8, f: float32 }"), []),
    ],
)
def test_what_no_run_could_commit_is_refused(text: str, expected: list[str]) -> None:
    found = [said.partition(": publish.rows.")[2] for said in errors_of(text)]
    assert len(found) == len(expected), found
    assert all(map(str.startswith, found, expected)), found


def test_fields_that_nothing_acts_on_are_warned_of_with_their_line() -> None:
    text = """\
name: w
defaults: { max_attempts: 5 }
jobs:
  - name: request
    activation: source
    source: { kind: manual }
    timeout_seconds: 5
    operator: anything
  - name: tick
    activation: source
    source: { kind: always_on }
    runtime: ecs_platform
    operator: ticker
    config: { every_seconds: 1 }
    max_attempts: 2
    heartbeat_timeout_seconds: 9
  - name: work
    activation: reactive
    runtime: ecs_own
    operator: udf
    udf: { bundle: "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
           handler: a.b }
    inputs: [{ from: { job: request } }]
    secrets: [a_key]
    idle_timeout: 5m
    max_attempts: 2
    timeout_seconds: 5
  - name: quiet
    activation: reactive
    runtime: ecs_platform
    operator: no_op
    inputs: [{ from: { job: request } }]
    secrets: []
    idle_timeout:
publish:
  shared:
    from: [{ job: work }, { job: quiet }]
    storage: buffered
"""
    found = check_file(text, OWN, "w.yaml")
    emitted = "a source of kind manual has no tasks, so this changes nothing"
    assert [said.partition(": warning: ")[0:3:2] for said in found.said_warnings] == [
        ("w.yaml:7:5", f"jobs[0].timeout_seconds: {emitted}"),
        ("w.yaml:8:5", f"jobs[0].operator: {emitted}"),
        (
            "w.yaml:15:5",
            "jobs[1].max_attempts: a source that never ends is started again "
            "for ever, whatever this says",
        ),
        (
            "w.yaml:21:5",
            "jobs[2].udf: no bundle is loaded yet: a worker of your own has to "
            "know the code by other means",
        ),
        (
            "w.yaml:24:5",
            "jobs[2].secrets: no secret reaches the job yet: its code has to be "
            "given them by other means",
        ),
        ("w.yaml:25:5", "jobs[2].idle_timeout: no worker is stopped when it is idle yet"),
        (
            "w.yaml:38:5",
            "publish.shared.storage: its batches are taken and kept, and nothing "
            "writes them to a table yet",
        ),
    ]


def test_the_examples_have_no_warnings() -> None:
    for file in (Path(trace_platform.__file__).parent / "examples").glob("*.yaml"):
        text = file.read_text()
        checked = check_file(text, OWN, code=code_beside(file.parent, text))
        assert checked.said_warnings == [], file
