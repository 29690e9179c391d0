"""Reading a DAG file: every error with its line and what would be right; nothing blows up."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import pytest
import yaml

from tests.support.corpus import corpus
from trace_platform.dag.check.check_dag import check_dag
from trace_platform.dag.model.dag import Dag, JobOutputRef
from trace_platform.dag.model.fingerprint import fingerprints
from trace_platform.dag.read.dag_yaml import DagError, DagErrors, invalid_dag
from trace_platform.dag.read.load import load
from trace_platform.dispatcher.versions.deploy_dag import _new_job
from trace_platform.domain.runtimes import DEFAULT_RUNTIMES, Runtime, Runtimes

DAG = """
name: chain
defaults: { max_attempts: 3, heartbeat_timeout_seconds: 30 }
jobs:
  - name: request
    activation: source
    source: { kind: manual }
    outputs: [ranges]
  - name: split
    activation: reactive
    runtime: ecs_platform
    operator: range_splitter
    inputs: [{ from: { job: request, output: ranges } }]
    outputs: [chunks]
    config: { chunk_blocks: 10 }
  - name: ingest
    activation: reactive
    runtime: ecs_platform
    operator: cryo_ingest
    inputs: [{ from: { job: split, output: chunks } }]
    outputs: [blocks, transactions, logs]
    config: { chain_id: 31337, rpc_pool: demo }
publish:
  blocks: { from: { job: ingest, output: blocks } }
  transactions: { from: { job: ingest, output: transactions } }
  logs: { from: { job: ingest, output: logs } }
"""

SPLITTER = "runtime: ecs_platform\n    operator: range_splitter"
LAMBDA = replace(DEFAULT_RUNTIMES[1], url="http://127.0.0.1:1")


def errors_of(text: str, runtimes: Runtimes | None = None) -> list[str]:
    with pytest.raises(DagErrors) as caught:
        check_dag(text, runtimes or Runtimes.default())
    return [error.at("dag.yaml") for error in caught.value.errors]


def split_with(*fields: str) -> str:
    """The DAG with these fields in the job `split`, from line 16 on."""
    config = "    config: { chunk_blocks: 10 }"
    return DAG.replace(config, "\n".join([config, *(f"    {field}" for field in fields)]))


def edge_with(field: str) -> str:
    """The DAG with this field in the input of `split`, at 13:56."""
    return DAG.replace("output: ranges } }]", f"output: ranges }}, {field} }}]")


def on(*runtimes: Runtime) -> Runtimes:
    named = {runtime.name: runtime for runtime in (*DEFAULT_RUNTIMES, *runtimes)}
    return Runtimes(named.values())


def row_of(dag: Dag, name: str) -> dict[str, Any]:
    return asdict(_new_job(dag, next(job for job in dag.jobs if job.name == name)))


def test_the_example_is_a_valid_dag() -> None:
    from trace_platform.app.demo import _example

    dag = check_dag(_example())
    assert [job.name for job in dag.jobs] == ["request", "split", "ingest", "check"]
    assert set(dag.publish) == {"blocks", "transactions", "logs"}


@corpus(
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
            "did you mean 'split'?",
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
            "dag.yaml:15:15: jobs[1].config.chunk_blocks: should be a whole number (found 'many')",
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
            "dag.yaml:7:15: jobs[0].source.kind: use manual, always_on, cron or webhook; "
            "did you mean 'cron'? (found 'cronn')",
        ),
        (
            "name: split",
            "name: Split-Up",
            "dag.yaml:9:5: jobs[1].name: use lower-case letters, digits and '_', "
            "starting with a letter, such as 'split_up' (found 'Split-Up')",
        ),
        (
            "max_attempts: 3",
            "max_attempts: 0",
            "dag.yaml:3:13: defaults.max_attempts: must be at least 1 (found 0)",
        ),
        (
            "outputs: [blocks, transactions, logs]",
            "outputs: [blocks]",
            "dag.yaml:21:5: jobs[2].outputs: cryo_ingest writes 3 outputs: "
            "blocks, transactions, logs",
        ),
        (
            "name: ingest",
            "name: split",
            "dag.yaml:16:5: jobs[2].name: line 9 has a job 'split' already",
        ),
        (
            "job: request, output: ranges",
            "dataset: logs",
            "dag.yaml:13:16: jobs[1].inputs[0].from: the jobs form a cycle: "
            "split -> ingest -> split; remove one of these inputs",
        ),
        (
            "{ job: ingest, output: logs }",
            "{ job: ingest, output: blocks }",
            "dag.yaml:26:11: publish.logs.from: this output is published as 'blocks' already",
        ),
        (
            "chain_id: 31337",
            "timeout_s: .inf, chain_id: 31337",
            "dag.yaml:22:15: jobs[2].config.timeout_s: a number must be finite",
        ),
        ("name: chain\n", "nam: chain\n", "dag.yaml:2:1: nam: unknown field; did you mean 'name'?"),
        ("name: chain\n", "", "dag.yaml:2:1: the field 'name' is missing: add name: "),
        ("name: chain\n", "name: chain\nname: b\n", "dag.yaml:3:1: name: is given twice"),
        ("name: chain\n", "name: [chain\n", "dag.yaml:3:9: the '[' of line 2 is not closed"),
    ],
)
def test_a_mistake_is_shown_with_its_line_and_its_cure(old: str, new: str, expected: str) -> None:
    assert old in DAG
    assert any(found.startswith(expected) for found in errors_of(DAG.replace(old, new))), errors_of(
        DAG.replace(old, new)
    )


def test_every_mistake_is_reported_at_once() -> None:
    shapes = DAG.replace("kind: manual", "kind: x").replace("runtime: ecs_platform", "runtime: A-B")
    assert len(errors_of(shapes)) == 3
    meanings = DAG.replace("runtime: ecs_platform", "runtime: cloud").replace(
        "job: split", "job: x"
    )
    assert len(errors_of(meanings)) == 3


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
    "zero character": 'name: "a\\0"\n',
    "half a character": 'name: "\\ud800"\n',
    "zero character in a key": '"a\\0": 1\n',
    "number without end": "name: .inf\n",
    "number of a megabyte": "name: 0x" + "f" * 900_000,
    "look-alike name": DAG.replace("name: split", "name: splіt"),  # noqa: RUF001
    "look-alike field": DAG.replace("operator:", "оperator:", 1),  # noqa: RUF001
    "direction turned in a comment": DAG + "# \u202e detpurroc\n",
    "invisible space": DAG.replace("name: split", "name: sp\u200blit"),
    "mark in the middle": DAG.replace("name: split", "name: \ufeffsplit"),
    "space that is none": DAG.replace("name: split", "name:\u00a0split"),
    "hidden line": DAG.replace("name: chain", "name: chain # \rdescription: hidden"),
    "deep mappings": "{a: " * 5000,
    "deep lists in lines": "- " * 5000,
    "deep keys": "? " * 5000,
    "deep blocks": "".join(f"{' ' * depth}a:\n" for depth in range(100)),
    "one long value": "name: " + "x" * 900_000,
    "one long key": "x" * 900_000 + ": 1\n",
    "tab": DAG.replace("    activation", "\tactivation"),
    "tab before a value": DAG.replace("name: chain", "name:\tchain"),
    "thousands of errors": DAG + "".join(f"  d{n}: 1\n" for n in range(20_000)),
    "thousands of unknown jobs": "name: a\njobs:\n"
    + "".join(
        f"  - {{ name: j{n}, activation: reactive, runtime: dispatcher, operator: wire_tap,"
        f" inputs: [{{ from: {{ job: k{n} }} }}] }}\n"
        for n in range(1000)
    ),
    "octal": DAG.replace("chunk_blocks: 10", "chunk_blocks: 010"),
    "base 60": DAG.replace("chunk_blocks: 10", "chunk_blocks: 1:30"),
    "a date": DAG.replace("chunk_blocks: 10", "chunk_blocks: 2024-01-01"),
}


@corpus("kind", HOSTILE)
@pytest.mark.timeout(60)
def test_hostile_files_are_refused_with_a_line(kind: str) -> None:
    found = errors_of(HOSTILE[kind])
    assert all(error.startswith("dag.yaml:") for error in found)
    shown = invalid_dag("dag.yaml", [DagError(1, 1, "", error) for error in found]).message
    assert len(shown) < 40_000


@corpus("kind", [*HOSTILE, "valid", "crlf", "byte order mark"])
def test_the_parser_in_c_and_the_one_in_python_read_the_same(kind: str) -> None:
    valid = {"valid": DAG, "crlf": DAG.replace("\n", "\r\n"), "byte order mark": "\ufeff" + DAG}
    text = (HOSTILE | valid)[kind]
    if kind == "half a character":
        pytest.skip("both refuse it, one sooner")
    if len(text) > 200_000:
        pytest.skip("takes long in Python")
    assert read_with(yaml.CSafeLoader, text) == read_with(yaml.SafeLoader, text)


def read_with(loader: Any, text: str) -> object:
    try:
        loaded = load(text, loader)
    except DagErrors as found:
        return found.errors
    return loaded.data, loaded.root, loaded.errors


def test_files_of_windows_are_the_same_dag() -> None:
    assert (
        check_dag("\ufeff" + DAG.replace("\n", "\r\n")).content_hash == check_dag(DAG).content_hash
    )


def test_at_most_a_hundred_errors_are_listed() -> None:
    with pytest.raises(DagErrors) as caught:
        check_dag(HOSTILE["thousands of errors"])
    lines = invalid_dag("dag.yaml", caught.value.errors).message.splitlines()
    assert lines[0] == "dag.yaml has 20,000 errors:"
    assert (len(lines), lines[-1]) == (102, "and 19,900 more")


def test_what_is_wrong_in_one_job_hides_nothing_in_others() -> None:
    """Shapes, meanings and references, each in another job, in one go."""
    text = (
        DAG.replace("kind: manual", "kind: manul")
        .replace("chunk_blocks: 10", "chunk_blocks: 0")
        .replace("job: split, output: chunks", "job: split, output: chunk")
        .replace("rpc_pool: demo", "rpc_pol: demo")
        .replace("job: ingest, output: logs", "job: ingst")
    )
    assert [error.split(": ", 2)[1] for error in errors_of(text)] == [
        "jobs[0].source.kind",
        "jobs[1].config.chunk_blocks",
        "jobs[2].inputs[0].from.output",
        "jobs[2].config.rpc_pol",
        "publish.logs.from.job",
    ]


def test_a_wrong_name_is_not_blamed_on_those_who_use_it() -> None:
    assert len(errors_of(DAG.replace("name: split", "name: Split"))) == 1


def test_each_of_several_cycles_is_named() -> None:
    jobs = {"a": "b", "b": "a", "c": "c", "d": "e", "e": "f", "f": "d"}
    text = "name: knots\njobs:\n" + "".join(
        f"  - {{ name: {name}, activation: reactive, runtime: ecs_platform, operator: no_op,"
        f" inputs: [{{ from: {{ job: {reads} }} }}] }}\n"
        for name, reads in jobs.items()
    )
    assert [error.split("from: ")[1] for error in errors_of(text)] == [
        "the jobs form a cycle: a -> b -> a; remove one of these inputs",
        "job 'c' reads its own output: read from another job",
        "the jobs form a cycle: d -> f -> e -> d; remove one of these inputs",
    ]


def test_formatting_and_comments_do_not_make_a_version() -> None:
    assert (
        check_dag(DAG).content_hash
        == check_dag("# hi\n" + DAG.replace(": [", ":   [")).content_hash
    )


def test_defaults_reach_the_job_hash() -> None:
    one, two = check_dag(DAG), check_dag(DAG.replace("max_attempts: 3", "max_attempts: 4"))
    assert one.job_hash(one.jobs[1]) != two.job_hash(two.jobs[1])


@corpus(
    ("text", "expected"),
    [
        (
            split_with("scaling: { mode: steady, max_concurrency: 2 }"),
            "dag.yaml:16:5: jobs[1].scaling: steady means one task at a time: "
            "leave max_concurrency out, or use mode: backfill",
        ),
        (
            split_with("scaling: { mode: fast }"),
            "dag.yaml:16:16: jobs[1].scaling.mode: use backfill or steady (found 'fast')",
        ),
        (
            split_with("scaling: { max_concurency: 2 }"),
            "dag.yaml:16:16: jobs[1].scaling.max_concurency: unknown field; "
            "did you mean 'max_concurrency'?",
        ),
        (
            split_with("scaling: { max_concurrency: 0 }"),
            "dag.yaml:16:16: jobs[1].scaling.max_concurrency: must be at least 1 (found 0)",
        ),
        (
            split_with("scaling: { max_concurrency: true }"),
            "dag.yaml:16:16: jobs[1].scaling.max_concurrency: should be a whole number "
            "(found true)",
        ),
        (
            split_with("backpressure: { mode: pause }"),
            "dag.yaml:16:5: jobs[1].backpressure: give max_queue_depth, max_queue_age or both",
        ),
        (
            split_with("backpressure: { max_queue_age: 10m, mode: drop_oldest }"),
            "dag.yaml:16:5: jobs[1].backpressure: mode: drop_oldest needs max_queue_depth: "
            "how many tasks to keep",
        ),
        (
            split_with("backpressure: { max_queue_age: 10 minutes }"),
            "dag.yaml:16:21: jobs[1].backpressure.max_queue_age: write a duration as 90s, 10m, "
            "2h or 1d, or as a number of seconds (found '10 minutes')",
        ),
        (
            split_with("backpressure: { max_queue_age: true }"),
            "dag.yaml:16:21: jobs[1].backpressure.max_queue_age: write a duration as 90s",
        ),
        (
            split_with("backpressure: { max_queue_age: 0s }"),
            "dag.yaml:16:21: jobs[1].backpressure.max_queue_age: must be more than 0 (found '0s')",
        ),
        (
            split_with("backpressure: { max_queue_depth: 9, mode: drop }"),
            "dag.yaml:16:41: jobs[1].backpressure.mode: use pause, coalesce or drop_oldest "
            "(found 'drop')",
        ),
        (
            split_with("execution_strategy: Bulky"),
            "dag.yaml:16:5: jobs[1].execution_strategy: use PerUpdate, PerPartition or Bulk; "
            "did you mean 'Bulk'? (found 'Bulky')",
        ),
        (
            DAG.replace("kind: manual }", "kind: manual }\n    execution_strategy: Bulk"),
            "dag.yaml:8:5: jobs[0].execution_strategy: a source job has no tasks, "
            "so no execution_strategy: remove it",
        ),
        (
            DAG.replace("kind: manual }", "kind: manual }\n    scaling: { mode: steady }"),
            "dag.yaml:8:5: jobs[0].scaling: a source job has no tasks, so no scaling",
        ),
        (
            edge_with('where: "severity = critical"'),
            "dag.yaml:13:75: jobs[1].inputs[0].where.severity: text is in single quotes: "
            "write 'critical'",
        ),
        (
            edge_with("where: { a: { gt: 5, lt: 3 } }"),
            "dag.yaml:13:65: jobs[1].inputs[0].where.a: nothing can match gt 5 and lt 3: "
            "the lower end comes first",
        ),
        (
            edge_with("where: { a: { in: [1, {}] } }"),
            "dag.yaml:13:78: jobs[1].inputs[0].where.a.in[1]: is no single value: "
            "use text (a date in quotes), a number or null",
        ),
        (
            edge_with("where: { day: 2024-01-01 }"),
            "dag.yaml:13:65: jobs[1].inputs[0].where.day: YAML reads 2024-01-01 as a date: "
            'quote it, "2024-01-01"',
        ),
        (
            edge_with("were: { a: 1 }"),
            "dag.yaml:13:56: jobs[1].inputs[0].were: unknown field; did you mean 'where'?",
        ),
    ],
)
def test_a_mistake_in_how_a_job_runs_is_shown_with_its_cure(text: str, expected: str) -> None:
    assert any(found.startswith(expected) for found in errors_of(text)), errors_of(text)


@corpus(
    ("fields", "expected"),
    [
        (
            "runtime: ecs_platfrom\n    operator: range_splitter",
            "dag.yaml:11:5: jobs[1].runtime: there is no runtime 'ecs_platfrom'; "
            "did you mean 'ecs_platform'?",
        ),
        (
            "runtime: ecs_udf\n    operator: anything",
            "dag.yaml:11:5: jobs[1].runtime: ecs_udf is switched off; "
            "enable it by name: [runtimes.ecs_udf] enabled = true",
        ),
        (
            "runtime: lambda\n    operator: anything",
            "dag.yaml:11:5: jobs[1].runtime: runtime lambda has no invoker here: "
            "set [runtimes.lambda] url",
        ),
        (
            f"{SPLITTER}\n    timeout_seconds: 86401",
            "dag.yaml:13:5: jobs[1].timeout_seconds: must be at most 86,400 (found 86401)",
        ),
        (
            "runtime: dispatcher\n    operator: range_splitter",
            "dag.yaml:12:5: jobs[1].operator: there is no operator 'range_splitter'",
        ),
        (
            "runtime: dispatcher\n    scaling: { mode: steady }\n    operator: wire_tap",
            "dag.yaml:12:5: jobs[1].scaling: a job with runtime: dispatcher runs in order "
            "and has no scaling",
        ),
        (
            "runtime: dispatcher\n    backpressure: { max_queue_depth: 1, mode: coalesce }\n"
            "    operator: wire_tap",
            "dag.yaml:12:41: jobs[1].backpressure.mode: a job with runtime: dispatcher sees every "
            "event and cannot coalesce: use pause or drop_oldest",
        ),
    ],
)
def test_a_job_that_its_runtime_cannot_run_is_refused(fields: str, expected: str) -> None:
    found = errors_of(DAG.replace(SPLITTER, fields))
    assert any(error.startswith(expected) for error in found), found


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("operator: anything", "operator: anything\n    timeout_seconds: 901", "13:5: jobs[1]"),
        ("max_attempts: 3", "timeout_seconds: 901", "3:13: defaults"),
    ],
)
def test_a_timeout_beyond_the_runtimes_names_both(old: str, new: str, place: str) -> None:
    text = DAG.replace(SPLITTER, "runtime: lambda\n    operator: anything").replace(old, new)
    assert errors_of(text, on(LAMBDA)) == [
        f"dag.yaml:{place}.timeout_seconds: 901 s for job 'split' is more than the 900 s "
        "that runtime lambda allows"
    ]


@pytest.mark.parametrize("runtime", [LAMBDA, Runtime("ecs_r", queue="ecs_r")])
def test_the_operators_of_other_runtimes_are_their_own(runtime: Runtime) -> None:
    fields = f"runtime: {runtime.name}\n    operator: any_thing"
    text = DAG.replace(SPLITTER, fields).replace("chunk_blocks: 10", "deep: { x: [1, null] }")
    dag = check_dag(text, on(runtime))
    assert dag.jobs[1].config == {"deep": {"x": [1, None]}}
    found = errors_of(text.replace("any_", "Any "), on(runtime))
    assert "jobs[1].operator: use lower-case" in found[0]


def test_a_runtimes_limits_hold_where_the_author_set_none() -> None:
    slow = Runtime("ecs_r", queue="ecs_r", timeout_seconds=7200, heartbeat_timeout_seconds=300)
    text = DAG.replace(SPLITTER, "runtime: ecs_r\n    operator: forecast")
    by_runtime = row_of(check_dag(text, on(slow)), "split")
    # The DAG's own `defaults` has a heartbeat time-out of 30 s.
    assert (by_runtime["timeout_seconds"], by_runtime["heartbeat_timeout_seconds"]) == (7200, 30)
    by_defaults = text.replace("max_attempts: 3", "timeout_seconds: 1800")
    assert row_of(check_dag(by_defaults, on(slow)), "split")["timeout_seconds"] == 1800
    by_job = text.replace("operator: forecast", "operator: forecast\n    timeout_seconds: 5")
    assert row_of(check_dag(by_job, on(slow)), "split")["timeout_seconds"] == 5
    assert row_of(check_dag(text, on(slow)), "ingest")["timeout_seconds"] == 1800


def test_a_runtimes_new_limit_makes_a_new_job_and_version() -> None:
    limits: list[dict[str, Any]] = [{}, {"timeout_seconds": 60}, {"max_concurrency": 3}]
    dags = [check_dag(DAG, on(replace(DEFAULT_RUNTIMES[2], **limit))) for limit in limits]
    assert len({dag.content_hash for dag in dags}) == 3
    assert len({dag.job_hash(dag.jobs[1]) for dag in dags}) == 3
    assert len({dag.job_hash(dag.jobs[0]) for dag in dags}) == 1


@corpus(
    ("scaling", "of_runtime", "right"),
    [
        (None, None, None),
        (None, 8, 8),
        ("{ mode: steady }", None, 1),
        ("{ mode: steady, max_concurrency: 1 }", 8, 1),
        ("{ max_concurrency: 20 }", None, 20),
        ("{ mode: backfill, max_concurrency: 20 }", 8, 8),
        ("{ mode: backfill, max_concurrency: 5 }", 8, 5),
        ("{ mode: backfill }", 8, 8),
    ],
)
def test_the_smaller_limit_counts(
    scaling: str | None, of_runtime: int | None, right: int | None
) -> None:
    text = split_with(f"scaling: {scaling}") if scaling else DAG
    runtimes = on(replace(DEFAULT_RUNTIMES[2], max_concurrency=of_runtime))
    assert row_of(check_dag(text, runtimes), "split")["max_concurrency"] == right


@corpus(
    ("age", "seconds"),
    [
        ("90s", 90),
        ("10m", 600),
        ("2h", 7200),
        ("1.5 h", 5400),
        ("1d", 86400),
        ("45", 45),
        ("0.5", 0.5),
    ],
)
def test_an_age_is_a_duration_or_seconds(age: str, seconds: float) -> None:
    dag = check_dag(split_with(f"backpressure: {{ max_queue_age: {age} }}"))
    same = check_dag(split_with(f"backpressure: {{ max_queue_age: {seconds}, mode: pause }}"))
    assert dag.content_hash == same.content_hash
    row = row_of(dag, "split")
    assert (row["max_queue_age_s"], row["pressure_mode"]) == (seconds, "pause")
    assert row["max_queue_depth"] is None


def test_a_job_row_has_what_the_engine_needs() -> None:
    text = split_with(
        "execution_strategy: Bulk",
        "priority: bulk",
        "backpressure: { max_queue_depth: 100, mode: drop_oldest }",
    )
    dag = check_dag(text)
    wanted = {
        "execution_strategy": "Bulk",
        "priority": 2,
        "max_concurrency": None,
        "max_queue_depth": 100,
        "max_queue_age_s": None,
        "pressure_mode": "drop_oldest",
    }
    assert row_of(dag, "split").items() >= wanted.items()
    assert row_of(dag, "ingest")["execution_strategy"] == "PerUpdate"
    assert row_of(dag, "ingest")["pressure_mode"] is None
    assert row_of(dag, "request")["execution_strategy"] is None


def test_a_filter_is_kept_in_its_normal_form() -> None:
    dag = check_dag(edge_with("where: { b: { in: [2, 1, 2] }, a: 1.0 }"))
    assert dag.jobs[1].inputs[0].where == {"a": 1, "b": {"in": [1, 2]}}
    same = check_dag(edge_with("where: { a: 1, b: { in: [1, 2] } }"))
    assert dag.content_hash == same.content_hash
    assert dag.job_hash(dag.jobs[1]) != check_dag(DAG).job_hash(check_dag(DAG).jobs[1])
    assert check_dag(edge_with("where: {}")).content_hash == check_dag(DAG).content_hash


def test_a_filter_in_sql_is_kept_as_the_mapping_and_is_the_same_version() -> None:
    written = check_dag(edge_with("where: \"severity = 'critical' and n in (2, 1)\""))
    mapped = check_dag(edge_with("where: { n: { in: [1, 2] }, severity: critical }"))
    assert written.jobs[1].inputs[0].where == {"n": {"in": [1, 2]}, "severity": "critical"}
    assert written.content_hash == mapped.content_hash
    assert fingerprints(written) == fingerprints(mapped)


@corpus(
    "written",
    [
        "where: a = 1 and b ! 2",
        "where: 'a = ''it''''s'' and b ! 2'",
        """where: "a = '\\u0041\\x42\\n' and\\tb ! 2\"""",
        "where: |\n          a = 1\n            and b ! 2",
        "where: >-  # folded\n          a = 1\n\n          and b\n          ! 2",
        "where: a = 1\n          and b ! 2",
        'where: "a = 1\n          and b \\\n          ! 2"',
    ],
)
def test_an_error_in_a_text_stands_where_it_is_however_yaml_writes_it(written: str) -> None:
    inputs = "inputs:\n      - from: { job: request, output: ranges }\n        "
    text = DAG.replace("inputs: [{ from: { job: request, output: ranges } }]", inputs + written)
    assert text != DAG
    at = text.index("!")
    line, column = text.count("\n", 0, at) + 1, at - text.rindex("\n", 0, at)
    found = errors_of(text)
    assert [each.partition(": ")[0] for each in found] == [f"dag.yaml:{line}:{column}"], found


@pytest.mark.parametrize("again", ["job: request, output: 0", "job: request", "dataset: all"])
def test_one_output_has_one_filter(again: str) -> None:
    """An event makes one task: with two filters half of the rows would be lost."""
    publish = "publish:\n  all: { from: { job: request, output: ranges } }"
    edges = f"output: ranges }}, where: {{ a: 1 }} }}, {{ from: {{ {again} }} }}]"
    text = DAG.replace("publish:", publish).replace("output: ranges } }]", edges)
    assert errors_of(text) == [
        "dag.yaml:13:75: jobs[1].inputs[1]: inputs[0] reads this dataset too: "
        "one filter has to cover both"
    ]
    check_dag(text.replace(", where: { a: 1 }", ""))


OWN = DAG.replace("job: split, output: chunks", "dataset: pieces").replace(
    "publish:", "publish:\n  pieces: { from: { job: split, output: chunks } }"
)


def test_a_dataset_of_the_dag_itself_is_read_from_the_job_that_makes_it() -> None:
    dag = check_dag(OWN)
    assert dag.jobs[2].inputs[0].source == JobOutputRef(job="split", output="chunks")
    # Another producer under the same name is another job: its edges are not those of before.
    moved = check_dag(OWN.replace("from: { job: split, output: chunks }", "from: { job: request }"))
    assert dag.job_hash(dag.jobs[2]) != moved.job_hash(moved.jobs[2])


# Hashes of version 0.1.0. A job whose hash changes is another row, and its events are new to it.

GOLDEN = """\
name: golden
defaults: { max_attempts: 5, priority: low }
jobs:
  - name: request
    activation: source
    source: { kind: manual }
    outputs: [ranges]
  - name: split
    activation: reactive
    runtime: ecs_platform
    operator: range_splitter
    inputs: [{ from: { job: request, output: ranges } }]
    outputs: 1
    config: { chunk_blocks: 10 }
  - name: ingest
    activation: reactive
    runtime: ecs_platform
    operator: cryo_ingest
    inputs: [{ from: { job: split } }, { from: { dataset: elsewhere } }]
    outputs: [blocks, transactions, logs]
    execution_strategy: PerPartition
    config: { chain_id: 31337, rpc_pool: demo }
    timeout_seconds: 600
publish:
  blocks: { from: { job: ingest, output: blocks } }
"""


def test_a_file_that_uses_nothing_new_keeps_its_hashes() -> None:
    dag = check_dag(GOLDEN)
    assert dag.content_hash == "dfabe168576bf6d5228060f74809a3cd17ac88ea1aa15e2a4e48e4a98460a2e6"
    assert {job.name: dag.job_hash(job) for job in dag.jobs} == {
        "request": "9971af1b389aaa3ced41b1bdb02daa084612a9ebbc16cb66b316b7d4d6798f7d",
        "split": "739a6763a57bab5d0fe0456bb3daf2e4a5bf4d3acfec3659950bd30e7a7bae2e",
        "ingest": "457a7bd3daceabbd81e62ab2f6d4c5b672562ed484077716505528ed61eff7c6",
    }


IN_PROCESS = """
name: d
jobs:
  - {{ name: a, activation: source, source: {{ kind: manual }} }}
  - {{ name: b, activation: source, source: {{ kind: manual }} }}
  - name: both
    activation: reactive
    runtime: dispatcher
    operator: {operator}
    inputs: [{{ from: {{ job: a }} }}, {{ from: {{ job: b }}{edge} }}]
    {fields}
"""


def in_process(operator: str = "aggregator", edge: str = "", fields: str = "") -> str:
    return IN_PROCESS.format(operator=operator, edge=edge, fields=fields)


def test_operators_of_the_dispatcher_are_accepted() -> None:
    check_dag(in_process(fields="config: { need: 2, timeout: 60 }"))
    check_dag(in_process("wire_tap", fields="config: { log: true }"))


@corpus(
    ("yaml", "said"),
    [
        (in_process(fields="config: { need: 3 }"), "need is 3, and the job reads 2 datasets"),
        (in_process("agregator"), "did you mean"),
        (in_process(fields="config: { needs: 2 }"), "needs"),
        (in_process(fields="execution_strategy: PerPartition"), "use PerUpdate or Bulk"),
        (in_process(edge=", where: { x: 1 }"), "reads no rows to filter"),
        (in_process(fields="scaling: { mode: steady }"), "has no scaling"),
    ],
)
def test_what_the_dispatcher_cannot_run_is_refused(yaml: str, said: str) -> None:
    with pytest.raises(DagErrors) as caught:
        check_dag(yaml)
    assert said in "\n".join(f"{error.field}: {error.problem}" for error in caught.value.errors)
