"""What a job's data depends on, and what it does not."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
import yaml

from tests.support.corpus import corpus
from trace_platform.dag.check.check_dag import check_dag
from trace_platform.dag.model.dag import Dag
from trace_platform.dag.model.fingerprint import OPERATIONAL, fingerprints, meaning

SOURCE: dict[str, Any] = {
    "name": "source",
    "activation": "source",
    "source": {"kind": "manual"},
    "outputs": ["one", "two"],
}


def job(name: str, *above: str, **fields: Any) -> dict[str, Any]:
    return {
        "name": name,
        "activation": "reactive",
        "runtime": "ecs_platform",
        "operator": "no_op",
        "inputs": [{"from": {"job": each}} for each in above],
        **fields,
    }


CHAIN = [SOURCE, job("a", "source"), job("b", "a"), job("c", "b"), job("d", "a")]


def dag(jobs: list[dict[str, Any]], **fields: Any) -> Dag:
    return check_dag(yaml.safe_dump({"name": "p", "jobs": jobs, **fields}))


def edited(name: str, **fields: Any) -> list[dict[str, Any]]:
    """The chain with these fields of one job; None takes one away."""
    return [
        {k: v for k, v in (each | fields).items() if v is not None}
        if each["name"] == name
        else each
        for each in CHAIN
    ]


def changed(jobs: list[dict[str, Any]], before: list[dict[str, Any]] = CHAIN) -> set[str]:
    old, new = fingerprints(dag(before)), fingerprints(dag(jobs))
    return {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}


def test_how_a_file_is_written_does_not_matter() -> None:
    spread = {"name": "p", "jobs": [dict(reversed(each.items())) for each in CHAIN]}
    again = check_dag("# a comment\n" + json.dumps(spread, indent=4))
    assert fingerprints(again) == fingerprints(dag(CHAIN))


def test_the_order_of_jobs_does_not_matter() -> None:
    assert changed(CHAIN[::-1]) == set()


@corpus(
    "fields",
    [
        {"description": "what it is for"},
        {"priority": "high"},
        {"max_attempts": 9},
        {"timeout_seconds": 9},
        {"heartbeat_timeout_seconds": 9},
        {"idle_timeout": "5m"},
        {"scaling": {"max_concurrency": 2}},
        {"backpressure": {"max_queue_depth": 9}},
        {"secrets": ["a_key"]},
        {"outputs": ["rows"]},
        # What it is when nothing is said.
        {"execution_strategy": "PerUpdate"},
        {"update_strategy": "replace"},
        {"config": {}},
    ],
    ids=str,
)
def test_how_a_job_runs_and_what_it_is_called_does_not_matter(fields: dict[str, Any]) -> None:
    assert changed(edited("b", **fields)) == set()


def test_defaults_of_the_dag_do_not_matter() -> None:
    defaults = {"priority": "low", "max_attempts": 9}
    assert fingerprints(dag(CHAIN, defaults=defaults)) == fingerprints(dag(CHAIN))


@corpus(
    "fields",
    [
        {"config": {"emit": True}},
        {"operator": "wire_tap", "runtime": "dispatcher"},
        {"execution_strategy": "PerPartition"},
        {"execution_strategy": "Bulk"},
        {"update_strategy": "append", "unique_key": ["n"]},
        {"outputs": 2},
        {"inputs": [{"from": {"job": "source"}}]},
        {"inputs": [{"from": {"job": "source", "output": 1}}]},
        {"inputs": [{"from": {"job": "a"}}, {"from": {"job": "source"}}]},
        {"inputs": [{"from": {"dataset": "of_another"}}]},
        {"inputs": [{"from": {"job": "a"}, "where": {"n": 1}}]},
    ],
    ids=str,
)
def test_what_decides_about_data_reaches_from_the_edit_onward(fields: dict[str, Any]) -> None:
    assert changed(edited("b", **fields)) == {"b", "c"}


def test_a_udf_is_what_its_bundle_is() -> None:
    def with_udf(bundle: str, handler: str = "m.f") -> list[dict[str, Any]]:
        udf = {"bundle": "sha256:" + bundle * 64, "handler": handler}
        return edited("b", operator="udf", udf=udf)

    first = Dag.model_validate({"name": "p", "jobs": with_udf("a")})
    for other in (with_udf("b"), with_udf("a", "m.g")):
        second = Dag.model_validate({"name": "p", "jobs": other})
        assert {
            name for name, was in fingerprints(first).items() if fingerprints(second)[name] != was
        } == {"b", "c"}


def test_another_unique_key_is_other_data() -> None:
    first = edited("b", update_strategy="append", unique_key=["n"])
    second = edited("b", update_strategy="append", unique_key=["n", "m"])
    assert changed(second, first) == {"b", "c"}


def test_a_job_by_another_name_has_other_datasets_so_whoever_reads_them_is_built_too() -> None:
    jobs = [each | {"name": "first"} if each["name"] == "a" else each for each in CHAIN]
    jobs = [
        each | {"inputs": [{"from": {"job": "first"}}]} if each["name"] in ("b", "d") else each
        for each in jobs
    ]
    assert changed(jobs) == {"a", "first", "b", "c", "d"}
    # It makes the same, though: its own name is not in it.
    assert fingerprints(dag(jobs))["first"] == fingerprints(dag(CHAIN))["a"]


def test_a_name_for_an_own_output_is_that_output() -> None:
    publish = {"of_a": {"from": {"job": "a"}}}
    named = edited("b", inputs=[{"from": {"dataset": "of_a"}}])
    assert fingerprints(dag(named, publish=publish)) == fingerprints(dag(CHAIN, publish=publish))


@corpus(
    "fields",
    [
        {"config": {"n": 1}},
        {"source": {"kind": "cron", "schedule": "0 3 * * *"}},
        {"source": {"kind": "webhook", "secret": "a_key"}},
        {"bootstrap": {"reset_outputs": False}},
        {"outputs": ["other", "names"]},
        {"priority": "low"},
    ],
    ids=str,
)
def test_a_source_keeps_what_it_emitted_however_it_is_defined(fields: dict[str, Any]) -> None:
    assert changed(edited("source", **fields)) == set()


@pytest.mark.parametrize(
    "fields",
    [
        {"config": {"n": 1}},
        {"source": {"kind": "cron", "schedule": "0 3 * * *"}},
        {"bootstrap": None},
    ],
    ids=str,
)
def test_a_source_that_starts_from_nothing_does_so_when_it_changes(fields: dict[str, Any]) -> None:
    resets = {"reset_outputs": True}
    before = edited("source", bootstrap=resets)
    after = edited("source", **({"bootstrap": resets} | fields))
    assert changed(after, before) == {"source", "a", "b", "c", "d"}
    assert changed(edited("source", bootstrap=resets, priority="low"), before) == set()


def test_every_field_of_a_job_is_either_operational_or_decides() -> None:
    """A new field that nobody thought of decides: too much is rebuilt rather than too little."""
    own = dag(CHAIN).effective(dag(CHAIN).jobs[1])
    decides = meaning(own | {"invented": 1}).keys()
    assert decides - {"outputs", "activation"} == (own.keys() | {"invented"}) - OPERATIONAL


def test_a_chain_of_900_jobs_is_no_deep_recursion() -> None:
    names = [f"j{n}" for n in range(900)]
    jobs = [SOURCE, job("j0", "source")]
    jobs += [job(name, above) for above, name in pairwise(names)]
    # Written last first, so that the first one asked for is the deepest.
    found = fingerprints(dag(jobs[::-1]))
    assert len(set(found.values())) == 901


def test_many_ways_to_a_job_are_walked_once() -> None:
    """Sixty diamonds in a row have 2^60 paths."""
    jobs = [SOURCE, job("e0", "source")]
    for n in range(60):
        jobs += [job(f"l{n}", f"e{n}"), job(f"r{n}", f"e{n}"), job(f"e{n + 1}", f"l{n}", f"r{n}")]
    found = fingerprints(dag(jobs))
    assert found["l3"] == found["r3"] != found["l4"]
