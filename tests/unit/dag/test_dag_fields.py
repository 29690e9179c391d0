"""Sources, code of one's own, secrets and what is published: what a DAG file may say of them."""

from __future__ import annotations

import pytest

from tests.support.corpus import corpus
from trace_platform.dag.check.check_dag import check_dag
from trace_platform.dag.model.dag import (
    AlwaysOnSource,
    Column,
    CronSource,
    Dag,
    JobOutputRef,
    WebhookSource,
)
from trace_platform.dag.read.dag_yaml import DagErrors
from trace_platform.domain.runtimes import DEFAULT_RUNTIMES, Runtime, Runtimes

OWN = Runtimes((*DEFAULT_RUNTIMES, Runtime("ecs_own", queue="ecs_own")))
HASH = "sha256:" + "0123456789abcdef" * 4


def source(kind: str, *fields: str) -> str:
    lines = "".join(f"    {field}\n" for field in fields)
    return f"name: d\njobs:\n  - name: s\n    activation: source\n    source: {kind}\n{lines}"


def reactive(*fields: str, publish: str = "") -> str:
    lines = "".join(f"    {field}\n" for field in fields)
    return (
        "name: d\njobs:\n  - { name: s, activation: source, source: { kind: manual } }\n"
        "  - name: r\n    activation: reactive\n    runtime: ecs_own\n"
        "    inputs: [{ from: { job: s } }]\n" + lines + publish
    )


def job(*fields: str) -> str:
    return reactive("operator: x", *fields)


def published(*fields: str, also: str = "", jobs: tuple[str, ...] = ()) -> str:
    lines = "".join(f"    {field}\n" for field in fields)
    text = f"publish:\n  rows:\n    from: {{ job: r }}\n{lines}{also}"
    return reactive("operator: x", *jobs, publish=text)


def read(text: str) -> Dag:
    return check_dag(text, OWN)


def errors_of(text: str) -> list[str]:
    with pytest.raises(DagErrors) as caught:
        check_dag(text, OWN)
    return [f"{error.field}: {error.problem}" for error in caught.value.errors]


CRON = '{ kind: cron, schedule: "0  3 * *  *", timezone: Europe/Berlin, missed: all }'


def test_each_kind_of_source_is_read() -> None:
    assert read(source(CRON)).jobs[0].source == CronSource(
        kind="cron", schedule="0 3 * * *", timezone="Europe/Berlin", missed="all"
    )
    plain = read(source('{ kind: cron, schedule: "*/5 * * * MON-FRI" }')).jobs[0].source
    assert isinstance(plain, CronSource)
    assert (plain.timezone, plain.missed) == ("UTC", "latest")
    hook = read(source("{ kind: webhook, secret: github_hook }")).jobs[0].source
    assert hook == WebhookSource(kind="webhook", secret="github_hook")
    on = read(source("{ kind: always_on }", "runtime: ecs_own", "operator: follow")).jobs[0]
    assert (on.source, on.always_on) == (AlwaysOnSource(kind="always_on"), True)


@corpus(
    ("text", "said"),
    [
        (source("{ kind: cron }"), "jobs[0].source: the field 'schedule' is missing: add schedule"),
        (source("{ kind: crn }"), "jobs[0].source.kind: use manual, always_on, cron or webhook; "),
        (source("{}"), "jobs[0].source: the field 'kind' is missing: add kind: manual, always_on"),
        (source("[cron]"), "jobs[0].source: write it as a mapping, such as source: { kind: manua"),
        (source('{ kind: manual, schedule: "0 3 * * *" }'), "jobs[0].source.schedule: unknown fi"),
        (source('{ kind: cron, schedule: "0 3 * *" }'), "jobs[0].source.schedule: has 4 fields a"),
        (source('{ kind: cron, schedule: "0 3 30 2 *" }'), "jobs[0].source.schedule: the day-of-m"),
        (source('{ kind: cron, schedule: "a b c d e" }'), "jobs[0].source.schedule: the minute ca"),
        (
            source('{ kind: cron, schedule: "0 3 * * *", timezone: Europe/Berln }'),
            "jobs[0].source.timezone: there is no such time zone; did you mean 'Europe/Berlin'? "
            "(found 'Europe/Berln')",
        ),
        (
            source('{ kind: cron, schedule: "0 3 * * *", timezone: ../../etc/passwd }'),
            "jobs[0].source.timezone: there is no such time zone; use an IANA name",
        ),
        (
            source('{ kind: cron, schedule: "0 3 * * *", missed: none }'),
            "jobs[0].source.missed: use skip, latest or all (found 'none')",
        ),
        (
            source(CRON, "config: { a: 1 }"),
            "jobs[0].config: the dispatcher emits this source's events itself, so no config",
        ),
        (
            source("{ kind: webhook, secret: k }", "operator: x"),
            "jobs[0].operator: the dispatcher emits this source's events itself",
        ),
        (
            source("{ kind: always_on }", "runtime: ecs_own"),
            "jobs[0]: an always_on source needs 'operator'",
        ),
        (
            source("{ kind: always_on }", "runtime: dispatcher", "operator: wire_tap"),
            "jobs[0].runtime: an always_on source runs without end, which dispatcher cannot: "
            "use ecs_platform or ecs_own",
        ),
        (
            source("{ kind: manual }", "idle_timeout: 5m"),
            "jobs[0].idle_timeout: a source job is never idle",
        ),
    ],
)
def test_a_source_that_cannot_work_is_refused_once(text: str, said: str) -> None:
    found = errors_of(text)
    assert len(found) == 1
    assert found[0].startswith(said)


def test_a_manual_source_keeps_what_it_could_have() -> None:
    assert read(source("{ kind: manual }", "runtime: ecs_own", "operator: x")).jobs[0].operator


def test_bootstrap_belongs_to_sources() -> None:
    dag = read(source("{ kind: manual }", "bootstrap: { reset_outputs: true }"))
    assert dag.jobs[0].bootstrap is not None
    assert dag.jobs[0].bootstrap.reset_outputs
    assert errors_of(job("bootstrap: { reset_outputs: true }")) == [
        "jobs[1].bootstrap: only a job with activation: source has 'bootstrap': remove it"
    ]
    assert (
        "write true or false"
        in errors_of(source("{ kind: manual }", "bootstrap: { reset_outputs: 1 }"))[0]
    )


def test_code_of_ones_own_is_pinned() -> None:
    udf = f'udf: {{ bundle: "{HASH}", handler: main.run, memory_mb: 512 }}'
    found = read(reactive("operator: udf", udf)).jobs[1].udf
    assert found is not None
    assert (found.bundle, found.handler, found.memory_mb) == (HASH, "main.run", 512)
    assert "only a job with operator: udf has 'udf'" in errors_of(job(udf))[0]
    assert "operator: udf needs udf: {" in errors_of(reactive("operator: udf"))[0]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (HASH, "sha256:12", "jobs[1].udf.bundle: write sha256: and the 64 hex digits of the bundl"),
        ("main.run", "run", "jobs[1].udf.handler: write module.function (found 'run')"),
        ("512", "64", "jobs[1].udf.memory_mb: must be at least 128 (found 64)"),
        ("512", "20480", "jobs[1].udf.memory_mb: must be at most 10,240 (found 20480)"),
    ],
)
def test_code_that_cannot_be_found_or_run_is_refused(old: str, new: str, said: str) -> None:
    udf = f'udf: {{ bundle: "{HASH}", handler: main.run, memory_mb: 512 }}'
    assert errors_of(reactive("operator: udf", udf.replace(old, new)))[0].startswith(said)


@corpus(
    "value", ["hunter-2", "'S3cr3t!'", "true", "2024", "AKIAIOSFODNN7EXAMPLE", '"a b"', "{ a: b }"]
)
@corpus("place", ["secrets", "webhook"])
def test_a_secrets_value_is_never_repeated(value: str, place: str) -> None:
    text = job(f"secrets: [{value}]")
    if place == "webhook":
        text = source(f"{{ kind: webhook, secret: {value} }}")
    found = errors_of(text)
    assert "name a secret here, never write its value" in found[0]
    assert not any(value.strip("'\"{}") in error for error in found)


def test_values_under_secret_names_are_never_repeated() -> None:
    where = "inputs: [{ from: { job: s }, where: { a: 1 } }]"
    text = reactive("operator: x").replace("inputs: [{ from: { job: s } }]", where)
    assert read(text).jobs[1].inputs[0].where == {"a": 1}
    config = reactive("operator: range_splitter", "config: { api_token: hunter2, password: x }")
    found = "\n".join(errors_of(config.replace("ecs_own", "ecs_platform")))
    assert "config.api_token: unknown field" in found
    assert "hunter2" not in found


@corpus(
    "field",
    [
        "secrets: sk-live-hunter2",
        "config: { emit: sk-live-hunter2, api_key: [sk-live-hunter2] }",
        "inputs: [{ from: { job: s }, where: { api_token: { gt: sk-live-hunter2, lt: a } } }]",
        "inputs: [{ from: { job: s }, where: api_token = sk-live-hunter2 }]",
        "inputs: [{ from: { job: s }, where: api_token = 'b' sk-live-hunter2 }]",
        "inputs: [{ from: { job: s }, where: api_token > 'sk-live-hunter2' and api_token < 'a' }]",
    ],
)
def test_no_way_of_writing_a_secret_repeats_it(field: str) -> None:
    text = reactive("operator: no_op", field).replace("ecs_own", "ecs_platform")
    if field.startswith("inputs"):
        text = text.replace("    inputs: [{ from: { job: s } }]\n", "")
    found = "\n".join(errors_of(text))
    assert "sk-live" not in found.replace("(found 'sk-live-hunter2')", "", found.count(".emit"))


def test_a_job_that_lacks_something_is_checked_all_the_same() -> None:
    text = reactive("operator: range_spliter").replace("ecs_own", "ecs_platform")
    text = text.replace("    inputs: [{ from: { job: s } }]\n", "")
    assert [error.split(":")[0] for error in errors_of(text)] == ["jobs[1]", "jobs[1].operator"]


def test_a_word_in_a_config_that_yaml_takes_for_another_is_shown_as_written() -> None:
    config = "config: { chain_id: 1, rpc_pool: yes }"
    text = reactive("operator: cryo_ingest", "outputs: [a, b, c]", config)
    assert errors_of(text.replace("ecs_own", "ecs_platform")) == [
        'jobs[1].config.rpc_pool: should be text, and YAML reads yes as true: quote it, "yes"'
    ]


def test_secrets_are_names() -> None:
    assert read(job("secrets: [rpc_key, db_key]")).jobs[1].secrets == ["rpc_key", "db_key"]
    assert "is there twice" in errors_of(job("secrets: [a, a]"))[0]
    many = ", ".join(f"k{n}" for n in range(65))
    assert errors_of(job(f"secrets: [{many}]")) == [
        "jobs[1].secrets: has 65 entries, at most 64 are allowed"
    ]


def test_append_has_a_key() -> None:
    found = read(job("update_strategy: append", "unique_key: [block_hash, log_index]")).jobs[1]
    assert (found.update_strategy, found.unique_key) == ("append", ["block_hash", "log_index"])
    assert "append needs 'unique_key'" in errors_of(job("update_strategy: append"))[0]
    assert "goes with update_strategy: append" in errors_of(job("unique_key: [a]"))[0]


@pytest.mark.parametrize(
    ("given", "seconds"), [("never", "never"), ("0", 0), ("5m", 300), ("90", 90), ("1.5h", 5400)]
)
def test_an_idle_timeout_is_seconds_or_never(given: str, seconds: object) -> None:
    assert read(job(f"idle_timeout: {given}")).jobs[1].idle_timeout == seconds


@pytest.mark.parametrize("given", ["forever", "-1", "true", "[1]", "400d"])
def test_an_idle_timeout_that_is_none_is_refused_once(given: str) -> None:
    found = errors_of(job(f"idle_timeout: {given}"))
    assert len(found) == 1
    assert found[0].startswith("jobs[1].idle_timeout: write never, 0, or a duration as 90s, 5m")


def test_what_is_published_may_be_described() -> None:
    dag = read(
        published(
            "description: All rows.",
            "storage: postgres",
            "write_mode: replace",
            "schema: { a: INT64, b: 'decimal(38, 0)', c: { type: binary(32), from: [s.hash] } }",
            "pii: [a]",
            "max_age: 15m",
            "owner: chain team",
            "tags: [raw, team/chain]",
        )
    )
    rows = dag.publish["rows"]
    assert (rows.source, rows.storage) == (JobOutputRef(job="r"), "postgres")
    assert (rows.write_mode, rows.pii, rows.max_age) == ("replace", ["a"], 900)
    assert (rows.owner, rows.tags) == ("chain team", ["raw", "team/chain"])
    assert rows.columns == {
        "a": Column(type="int64"),
        "b": Column(type="decimal(38,0)"),
        "c": Column.model_validate({"type": "binary(32)", "from": ["s.hash"]}),
    }


SCHEMA = "schema: { id: int64, name: string }"


@corpus(
    ("text", "said"),
    [
        (published("schema: { a: int63 }"), "publish.rows.schema.a.type: unknown type; did you me"),
        (published("schema: { a: integer }"), "publish.rows.schema.a.type: unknown type: use int3"),
        (
            published("schema: { a: 'decimal(39,0)' }"),
            "publish.rows.schema.a.type: write decimal(p",
        ),
        (
            published("schema: { a: 'decimal(5,6)' }"),
            "publish.rows.schema.a.type: write decimal(p,",
        ),
        (published("schema: { a: binary(0) }"), "publish.rows.schema.a.type: write binary(n) wit"),
        (published("schema: { a: {} }"), "publish.rows.schema.a: the field 'type' is missing"),
        (published("schema: {}"), "publish.rows.schema: is empty"),
        (published("schema: { a: string, A: string }"), "publish.rows.schema.A: differs from 'a'"),
        (published("schema: { 1a: string }"), "publish.rows.schema.1a: a column is letters, digi"),
        (published("pii: [nam]", SCHEMA), "publish.rows.pii[0]: the schema has no column 'nam'; "),
        (published("storage: s3"), "publish.rows.storage: use parquet, postgres or buffered"),
        (
            published("write_mode: append"),
            "publish.rows.write_mode: job 'r' has update_strategy: replace: "
            "write write_mode: replace, or leave it out",
        ),
        (
            published("schema: { a: { type: string, from: [nobody.x] } }"),
            "publish.rows.schema.a.from[0]: there is no job 'nobody' here, and no dataset",
        ),
        (
            published("schema: { a: { type: string, from: [rows.b] } }"),
            "publish.rows.schema.a.from[0]: the schema of 'rows' has no column 'b'",
        ),
        (
            published("schema: { a: { type: string, from: [x] } }"),
            "publish.rows.schema.a.from[0]: write dataset.column or job.column",
        ),
        (
            published(SCHEMA, jobs=("update_strategy: append", "unique_key: [nme]")),
            "publish.rows.schema: the unique_key of job 'r' has the column 'nme', the schema not; "
            "did you mean 'name'?",
        ),
        (published("tags: [a, a]"), "publish.rows.tags: the tag 'a' is there twice: leave one"),
        (published("max_age: soon"), "publish.rows.max_age: write a duration as 90s"),
        (
            published().replace("{ job: r }", "[{ job: r }, { job: s }]"),
            "publish.rows.from: only with storage: buffered several outputs make one dataset",
        ),
        (
            published("storage: buffered").replace("{ job: r }", "[{ job: r }, { job: r }]"),
            "publish.rows.from[1]: this output is in the list already",
        ),
        (
            published("storage: buffered").replace("{ job: r }", "[{ job: r }, { job: q }]"),
            "publish.rows.from[1].job: there is no job 'q'",
        ),
        (published().replace("rows:", "Rows:"), "publish.Rows: use lower-case letters"),
        (
            published().replace("{ job: r }", "r.output_0"),
            "publish.rows.from: write it as a mapping: from: { job: r, output: output_0 }",
        ),
    ],
)
def test_what_cannot_be_published_is_refused(text: str, said: str) -> None:
    found = errors_of(text)
    assert found[0].startswith(said)
    assert len(found) == 1


def test_a_buffered_dataset_has_several_producers() -> None:
    other = (
        "  - { name: q, activation: reactive, runtime: ecs_own, operator: x,"
        " inputs: [{ from: { job: s } }] }\npublish:"
    )
    text = published("storage: buffered").replace("{ job: r }", "[{ job: r }, { job: q }]")
    text = text.replace("publish:", other)
    dag = read(text)
    assert [ref.job for ref in dag.publish["rows"].sources] == ["r", "q"]
    reader = (
        "  - { name: t, activation: reactive, runtime: ecs_own, operator: x,"
        " inputs: [{ from: { dataset: rows } }] }\npublish:"
    )
    assert read(text.replace("publish:", reader)).jobs[3].inputs[0].source.model_dump() == {
        "dataset": "rows"
    }
    # A job among its producers that reads it waits for itself.
    loop = text.replace("inputs: [{ from: { job: s } }]", "inputs: [{ from: { dataset: rows } }]")
    assert "reads its own output" in errors_of(loop)[0]


def test_words_for_people_make_a_version_but_no_new_job() -> None:
    plain, described = read(published()), read(published("description: Rows.", SCHEMA))
    named = read(published().replace("name: d\n", "name: d\ndescription: All of it.\n"))
    said = read(published(jobs=("description: Makes rows.",)))
    assert len({dag.content_hash for dag in (plain, described, named, said)}) == 4
    assert len({dag.job_hash(dag.jobs[1]) for dag in (plain, described, named, said)}) == 1
    assert said.effective(said.jobs[1])["description"] == "Makes rows."


def test_what_a_job_does_makes_a_new_job() -> None:
    fields = ["secrets: [k]", "idle_timeout: 0", "update_strategy: append\n    unique_key: [a]"]
    dags = [read(job()), *(read(job(field)) for field in fields)]
    assert len({dag.job_hash(dag.jobs[1]) for dag in dags}) == 4


def test_short_and_long_words_are_the_same_version() -> None:
    assert (
        read(published("schema: { a: int64 }")).content_hash
        == read(published("storage: parquet", "schema: { a: { type: INT64 } }")).content_hash
    )


def test_a_description_has_an_end() -> None:
    assert errors_of(job(f"description: {'x' * 2001}")) == [
        "jobs[1].description: has 2,001 characters, at most 2,000 are allowed"
    ]


def test_a_found_value_is_cut() -> None:
    assert len(errors_of(job(f"priority: {'x' * 5000}"))[0]) < 200
