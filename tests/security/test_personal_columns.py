"""Personal columns and who may see them, attacked as a user who may only query would: over a real
query service, with data that was really delivered and committed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from tests.support.query_instance import QueryInstance, query_instance, query_process
from tests.support.query_service import QueryProcess
from trace_platform.domain.errors import InvalidDag

SECRET = "ann@example.com"

HOOKED = """
name: hooked
jobs:
  - { name: calls, activation: source, source: { kind: webhook, secret: hook_key } }
  - name: react
    activation: reactive
    runtime: ecs_platform
    operator: no_op
    inputs: [{ from: { job: calls } }]
publish:
  calls: { from: { job: calls }, pii: [body] }
"""
LOADED = """
name: crm
jobs:
  - { name: request, activation: source, source: { kind: manual }, outputs: [ranges] }
  - name: load
    activation: reactive
    runtime: ecs_platform
    operator: no_op
    inputs: [{ from: { job: request } }]
    outputs: [rows]
publish:
  labels: { from: { job: load }, pii: [email] }
"""
# Other data: a generation of its own.
REBUILT = LOADED.replace("operator: no_op", "operator: no_op\n    config: { emit: true }")


@pytest.fixture(scope="module")
def query(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueryProcess]:
    with query_process(tmp_path_factory.mktemp("query") / "home") as running:
        yield running


@pytest.fixture
def instance(query: QueryProcess, state_dsns: Any, janitor_dsn: str) -> Iterator[QueryInstance]:
    with query_instance(query, state_dsns, janitor_dsn) as running:
        yield running


def people(column: str = "email") -> pa.Table:
    return pa.table({"n": pa.array([1], pa.int64()), column: [SECRET]})


def load(instance: QueryInstance, yaml: str, rows: pa.Table, **how: Any) -> UUID:
    """The generation with these rows, current."""
    instance.deploy(yaml)
    instance.dispatcher.run(lambda plane: plane.trigger(0, 9, "crm", "request"))
    instance.commit(rows, **how)
    return instance.version_of("load")


def rebuild(
    instance: QueryInstance, yaml: str, rows: pa.Table, eventually: Callable[..., None]
) -> UUID:
    """As `load`, beside the generation that was there."""
    before = instance.version_of("load")
    instance.deploy(yaml)
    instance.commit(rows)
    eventually(lambda: instance.version_of("load") != before, "the cut-over")
    return instance.version_of("load")


def seen(instance: QueryInstance, sql: str, token: str) -> tuple[list[Any], list[str]]:
    """Rows, and what was masked in them."""
    answer = instance.ask(sql, token)
    assert answer.status_code == 200, answer.text
    return answer.json()["rows"], answer.json()["datasets"][0]["masked"]


# --- a classification that matches no column


def test_a_misspelt_personal_column_of_a_webhook_is_refused_before_anything_is_delivered(
    instance: QueryInstance,
) -> None:
    misspelt = HOOKED.replace("[body]", "[bodi]")
    with pytest.raises(InvalidDag, match="`pii` of 'calls' names 'bodi'") as refused:
        instance.deploy(misspelt)
    assert refused.value.hint == "did you mean body?"
    instance.deploy(HOOKED)
    assert instance.deliver("hooked/calls", "msg_1", json.dumps({"mail": SECRET}).encode())
    ana = instance.users.add("ana")
    [row], masked = seen(instance, "select webhook_id, body from calls", ana)
    assert (row, masked) == (["msg_1", "***"], ["body"])


def test_deliveries_whose_columns_were_never_recorded_show_nothing_for_a_misspelt_name(
    instance: QueryInstance,
) -> None:
    """As an instance has them that took deliveries before their columns were said."""
    instance.deploy(HOOKED)
    instance.deliver("hooked/calls", "msg_1", json.dumps({"mail": SECRET}).encode())
    instance.sql("UPDATE dataset_versions SET columns = NULL, schema_hash = NULL")
    ana, owner = instance.users.add("ana"), instance.users.add("ben", pii=["calls"])

    def said(column: str) -> None:
        pii = json.dumps({"pii": [column]})
        instance.sql("UPDATE datasets SET metadata = %s WHERE name = 'calls'", pii)

    said("body")
    assert seen(instance, "select webhook_id, body from calls", ana)[0] == [["msg_1", "***"]]
    said("bodi")
    rows, masked = seen(instance, "select * from calls", ana)
    assert (rows, masked) == ([["***", None, "***"]], ["webhook_id", "received_at", "body"])
    for sql in (
        "select count(*) from calls where body like '%ann%'",
        "select count(*) from calls where received_at is not null",
    ):
        assert seen(instance, sql, ana)[0] == [[0]], sql
    assert SECRET in instance.ask("select body from calls", owner).text
    accesses = instance.look("/v1/pii-access").json()["accesses"]
    assert [each["caller"] for each in accesses] == ["ben"]


def test_rows_of_a_writer_that_says_no_columns_are_masked_until_the_name_is_right(
    instance: QueryInstance,
) -> None:
    load(instance, LOADED.replace("[email]", "[emial]"), people(), says_columns=False)
    ana = instance.users.add("ana")
    assert seen(instance, "select * from labels", ana) == ([[None, "***"]], ["n", "email"])
    instance.deploy(LOADED)
    assert seen(instance, "select * from labels", ana) == ([[1, "***"]], ["email"])


def test_an_older_generation_shows_no_column_that_nobody_has_classified(
    instance: QueryInstance, eventually: Callable[..., None]
) -> None:
    """The column has another name by now, and only that was ever said to be personal."""
    old = load(instance, LOADED.replace(", pii: [email]", ""), people("email"))
    rebuild(instance, REBUILT.replace("[email]", "[mail]"), people("mail"), eventually)
    ana = instance.users.add("ana")
    assert seen(instance, f"select * from labels@{old}", ana) == ([[1, "***"]], ["email"])
    assert seen(instance, "select * from labels", ana) == ([[1, "***"]], ["mail"])
    # A classification that matches nothing today says nothing of the past either.
    instance.sql("""UPDATE datasets SET metadata = '{"pii": ["maill"]}' WHERE name = 'labels'""")
    rows, masked = seen(instance, f"select * from labels@{old}", ana)
    assert (rows, masked) == ([[None, "***"]], ["n", "email"])


# --- a name that moved


def test_a_grant_and_the_log_are_of_the_dataset_and_not_of_a_name_that_it_had(
    instance: QueryInstance,
) -> None:
    version = load(instance, LOADED, people())
    ben = instance.users.add("ben", pii=["labels"])
    assert seen(instance, "select email from labels", ben) == ([[SECRET]], [])
    instance.deploy(LOADED.replace("  labels:", "  customers:"))
    carl = instance.users.add("carl", pii=["customers"])
    (row,) = instance.sql("SELECT ended_at FROM deploys ORDER BY ended_at LIMIT 1")
    then = row["ended_at"].isoformat()
    old_names = [
        (f"select email from labels@{version}", {}),
        ("select email from labels", {"at": str(version)}),
        ("select email from customers", {}),
    ]
    for sql, more in old_names:
        assert SECRET not in instance.ask(sql, ben, **more).text, sql
        assert instance.ask(sql, carl, **more).json()["rows"] == [[SECRET]], sql
    # What readers of the name saw then has no rows yet, and is the same dataset.
    past = instance.ask("select email from labels", ben, at=then)
    assert past.json()["datasets"][0]["masked"] == ["email"]
    (dataset,) = instance.sql("SELECT uuid FROM datasets WHERE name = 'customers'")
    accesses = instance.look("/v1/pii-access?dataset=customers").json()["accesses"]
    assert {each["dataset_uuid"] for each in accesses} == {str(dataset["uuid"])}
    assert [(each["caller"], each["dataset"]) for each in accesses] == [
        *[("carl", "customers")] * 3,
        ("ben", "labels"),
    ]
    with instance.query.client(token=carl) as client:
        (newest, *_) = client.get("/v1/queries?limit=1").json()["queries"]
    assert newest["pii"] == {"customers": ["email"]}


def test_a_grant_of_a_name_does_not_open_what_lost_it_to_another(
    instance: QueryInstance,
) -> None:
    version = load(instance, LOADED, people())
    ben, dora = instance.users.add("ben", pii=["labels"]), instance.users.add("dora", pii=["*"])
    other = LOADED.replace("  labels: { from: { job: load }", "  labels: { from: { job: request }")
    instance.deploy(other.replace(", pii: [email]", ""))
    sql = f"select email from labels@{version}"
    assert seen(instance, sql, ben) == ([["***"]], ["email"])
    assert seen(instance, sql, dora) == ([[SECRET]], [])
    (access,) = instance.look("/v1/pii-access").json()["accesses"]
    assert (access["caller"], access["dataset"]) == ("dora", "crm.load.0")


# --- an id that tells about a person


def test_a_webhooks_id_is_shown_nowhere_that_a_mask_does_not_reach(
    instance: QueryInstance,
) -> None:
    instance.deploy(HOOKED.replace("[body]", "[webhook_id, body]"))
    assert instance.deliver("hooked/calls", SECRET)
    assert not instance.deliver("hooked/calls", SECRET), "the same id again changes nothing"
    ana = instance.users.add("ana")
    shown = {
        "rows": instance.ask("select * from calls", ana).text,
        "page": instance.page("calls", ana).text,
        "partitions": instance.look("/v1/datasets/calls/partitions").text,
        "events": instance.look("/v1/events").text,
        "tasks": instance.look("/v1/tasks").text,
    }
    assert [what for what, text in shown.items() if SECRET in text] == []
    stored = [
        each["line"]
        for table in ("events", "outbox", "tasks", "partition_versions")
        for each in instance.sql(f"SELECT row_to_json(t)::text AS line FROM {table} t")
    ]
    assert stored
    assert not [line for line in stored if SECRET in line]
    # One that came when ids were still keys.
    instance.sql("UPDATE partition_versions SET partition_key = %s, schema_hash = 'json'", SECRET)
    page = instance.page("calls", ana)
    assert len(page.json()["partitions"]["partitions"]) == 1
    assert SECRET not in page.text
    assert not instance.deliver("hooked/calls", SECRET)
    [row], _ = seen(instance, "select webhook_id, received_at is null, body from calls", ana)
    assert row == ["***", False, "***"]


# --- the catalog


def test_the_catalog_of_each_user_marks_what_that_user_does_not_see(
    instance: QueryInstance,
) -> None:
    load(instance, LOADED, people())
    ana, ben = instance.users.add("ana"), instance.users.add("ben", pii=["labels"])
    marked = "select column_name, is_masked from information_schema.columns"
    for token, hidden in ((ana, True), (ben, False)):
        rows = instance.ask(marked, token).json()["rows"]
        assert rows == [["n", False], ["email", hidden]]
        assert instance.ask("show tables", token).json()["rows"] == [["labels"]]
        described = instance.ask("describe labels", token).json()["rows"]
        assert [row[5] for row in described] == [None, "masked" if hidden else None]
        for sql in ("explain analyze select * from labels", "summarize labels"):
            answer = instance.ask(sql, token).text
            assert str(instance.query.home.root) not in answer
            assert (SECRET in answer) == (not hidden and sql.startswith("summarize"))
    assert instance.ask("select sql from duckdb_views()", ana).status_code == 422
