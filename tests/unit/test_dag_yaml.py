"""Reading a DAG file: every error with its line and what would be right; nothing blows up."""

from __future__ import annotations

import pytest

from tests.support.control_plane import DAG
from trace_platform.dispatcher.check_dag import check_dag
from trace_platform.wire.dag_yaml import DagErrors


def errors_of(text: str) -> list[str]:
    with pytest.raises(DagErrors) as caught:
        check_dag(text)
    return [error.at("dag.yaml") for error in caught.value.errors]


def test_the_example_is_a_valid_dag() -> None:
    from trace_platform.app.demo import _example

    dag = check_dag(_example())
    assert [job.name for job in dag.jobs] == ["request", "split", "ingest"]
    assert set(dag.publish) == {"blocks", "transactions", "logs"}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "operator: range_splitter",
            "operater: range_splitter",
            "dag.yaml:12:5: jobs[1].operater: unknown field; did you mean 'operator'?",
        ),
        (
            "operator: range_splitter",
            "operator: range_spliter",
            "dag.yaml:12:5: jobs[1].operator: there is no operator 'range_spliter'; "
            "did you mean range_splitter?",
        ),
        (
            "job: split, output: chunks",
            "job: splat, output: chunks",
            "dag.yaml:20:24: jobs[2].inputs[0].from.job: there is no job 'splat'; "
            "jobs here: request, split, ingest",
        ),
        (
            "job: split, output: chunks",
            "job: split, output: parts",
            "dag.yaml:20:36: jobs[2].inputs[0].from.output: job 'split' has no output 'parts'; "
            "it has: chunks",
        ),
        (
            "chunk_blocks: 10",
            "chunk_blocks: many",
            "dag.yaml:15:15: jobs[1].config.chunk_blocks: Input should be a valid integer, "
            "unable to parse string as an integer",
        ),
        (
            "chunk_blocks: 10",
            "chunk_block: 10",
            "dag.yaml:15:15: jobs[1].config.chunk_block: unknown field; "
            "did you mean 'chunk_blocks'?",
        ),
        (
            "{ kind: manual }",
            "{ kind: cronn }",
            "dag.yaml:7:15: jobs[0].source.kind: Input should be 'manual' (found 'cronn')",
        ),
        (
            "name: split",
            "name: Split-Up",
            "dag.yaml:9:5: jobs[1].name: use lower-case letters, digits and '_', "
            "starting with a letter (found 'Split-Up')",
        ),
        (
            "max_attempts: 3",
            "max_attempts: 0",
            "dag.yaml:3:13: defaults.max_attempts: Input should be greater than or equal to 1 "
            "(found 0)",
        ),
        (
            "outputs: [blocks, transactions, logs]",
            "outputs: [blocks]",
            "dag.yaml:21:5: jobs[2].outputs: cryo_ingest writes 3 outputs: "
            "blocks, transactions, logs",
        ),
        ("name: ingest", "name: split", "dag.yaml:16:5: jobs[2].name: two jobs are called 'split'"),
        (
            "job: request, output: ranges",
            "dataset: logs",
            "dag.yaml:13:5: jobs[1].inputs: the jobs form a cycle: ",
        ),
        (
            "{ job: ingest, output: logs }",
            "{ job: ingest, output: blocks }",
            "dag.yaml:26:11: publish.logs.from: this output is published as 'blocks' already",
        ),
        ("chain_id: 31337", "timeout_s: .inf, chain_id: 31337", "dag.yaml:22:15: "),
        ("name: chain\n", "nam: chain\n", "dag.yaml:2:1: the field 'name' is missing"),
        ("name: chain\n", "name: chain\nname: b\n", "dag.yaml:3:1: name: is given twice"),
        ("name: chain\n", "name: [chain\n", "dag.yaml:3:9: not valid YAML: expected ',' or ']'"),
    ],
)
def test_a_mistake_is_shown_with_its_line_and_its_cure(old: str, new: str, expected: str) -> None:
    assert old in DAG
    assert any(found.startswith(expected) for found in errors_of(DAG.replace(old, new))), errors_of(
        DAG.replace(old, new)
    )


def test_every_mistake_is_reported_at_once() -> None:
    text = DAG.replace("kind: manual", "kind: x").replace("runtime: ecs_platform", "runtime: cloud")
    assert len(errors_of(text)) == 3


def test_a_cycle_names_its_jobs() -> None:
    text = DAG.replace("job: request, output: ranges", "job: ingest, output: logs")
    assert "the jobs form a cycle: " in errors_of(text)[0]


def test_a_chain_of_a_thousand_jobs_is_fine() -> None:
    jobs = ["  - { name: j0, activation: source, source: { kind: manual } }"]
    jobs += [
        f"  - {{ name: j{i}, activation: reactive, runtime: ecs_platform,"
        f" operator: range_splitter, inputs: [{{ from: {{ job: j{i - 1} }} }}],"
        " config: { chunk_blocks: 1 } }"
        for i in range(1, 1000)
    ]
    assert len(check_dag("name: long\njobs:\n" + "\n".join(jobs)).jobs) == 1000


HOSTILE = {
    "alias bomb": "a: &a [x,x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n",
    "python tag": "name: !!python/object/apply:os.system ['true']\n",
    "plain tag": "name: !thing x\n",
    "deep nesting": "[" * 5000 + "]" * 5000,
    "ten megabytes": "name: " + "x" * 10_000_000,
    "many values": "a: [" + "1," * 200_000 + "1]",
    "empty": "",
    "only a comment": "# nothing\n",
    "a list": "- 1\n- 2\n",
    "a scalar": "hello",
    "binary": "\x00\x01\x02",
    "two documents": "name: a\n---\nname: b\n",
    "bad date": "name: 2024-99-99\n",
    "merge key": "name: a\njobs:\n  - <<: { x: 1 }\n",
    "mapping key": "? [a, b]\n: c\n",
    "lone surrogate": "name: \ud800\n",
    "look-alike name": DAG.replace("name: split", "name: splіt"),  # noqa: RUF001
}


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.timeout(10)
def test_hostile_files_are_refused_with_a_line(kind: str) -> None:
    found = errors_of(HOSTILE[kind])
    assert all(error.startswith("dag.yaml:") for error in found)


def test_formatting_and_comments_do_not_make_a_version() -> None:
    assert (
        check_dag(DAG).content_hash
        == check_dag("# hi\n" + DAG.replace(": [", ":   [")).content_hash
    )


def test_defaults_reach_the_job_hash() -> None:
    one, two = check_dag(DAG), check_dag(DAG.replace("max_attempts: 3", "max_attempts: 4"))
    assert one.job_hash(one.jobs[1]) != two.job_hash(two.jobs[1])
