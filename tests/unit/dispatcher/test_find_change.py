"""What a plan says of each job and each name, and the sentence that says why."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
import yaml

from tests.support.corpus import corpus
from trace_platform.dag.check.check_dag import check_dag
from trace_platform.dag.model.dag import Dag
from trace_platform.dag.model.fingerprint import definition_hash, fingerprints
from trace_platform.dispatcher.versions.find_change import Change, find_change, publish_metadata
from trace_platform.state.dags import VersionJob
from trace_platform.state.generations import KeptGeneration
from trace_platform.state.plans import PublishedOutput

SOURCE: dict[str, Any] = {"name": "source", "activation": "source", "source": {"kind": "manual"}}
THEN = datetime(2026, 1, 1, tzinfo=UTC)
DIFFERENT = "which does not change its data"


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


def dag(jobs: list[dict[str, Any]] = CHAIN, **publish: Any) -> Dag:
    return check_dag(yaml.safe_dump({"name": "p", "jobs": jobs, "publish": publish}))


def edited(name: str, **fields: Any) -> list[dict[str, Any]]:
    return [each | fields if each["name"] == name else each for each in CHAIN]


def rows(of: Dag) -> dict[str, VersionJob]:
    """As the database has them of the active version."""
    prints = fingerprints(of)
    return {
        each.name: VersionJob(
            name=each.name,
            job_id=uuid4(),
            config_hash=definition_hash(of, each),
            activation=each.activation,
            definition=of.effective(each),
            generation_id=uuid4(),
            fingerprint=prints[each.name],
            built_at=THEN,
            purged_at=None,
        )
        for each in of.jobs
    }


def kept(of: Dag, *, built: bool = True) -> list[KeptGeneration]:
    return [
        KeptGeneration(uuid4(), name, found, THEN if built else None, THEN)
        for name, found in fingerprints(of).items()
    ]


def names(of: Dag) -> list[PublishedOutput]:
    return [
        PublishedOutput(name, publish_metadata(of, name), each.source.job, 0)
        for name, each in of.publish.items()
    ]


def change(
    after: Dag, before: Dag | None = None, *, there: list[KeptGeneration] | None = None
) -> Change:
    was = dag() if before is None else before
    return find_change(after, rows(was), kept(was) if there is None else there, names(was))


def said(found: Change) -> dict[str, tuple[str, list[str]]]:
    """Of what is not unchanged."""
    return {j.job: (j.action, j.why) for j in found.jobs if j.action != "unchanged"}


def test_the_same_again_is_no_change() -> None:
    found = change(dag())
    assert said(found) == {}
    assert found.publishes == []


def test_what_is_described_differently_is_unchanged() -> None:
    assert said(change(dag(edited("b", description="what it is for")))) == {}


@corpus(
    ("fields", "named"),
    [
        ({"priority": "high"}, ["priority"]),
        ({"max_attempts": 9, "timeout_seconds": 9}, ["max_attempts", "timeout_seconds"]),
        ({"scaling": {"max_concurrency": 2}}, ["scaling"]),
        ({"backpressure": {"max_queue_depth": 9}}, ["backpressure"]),
        ({"outputs": ["rows"]}, ["outputs"]),
        ({"execution_strategy": "PerUpdate"}, ["execution_strategy"]),
    ],
    ids=str,
)
def test_what_runs_differently_keeps_its_data(fields: dict[str, Any], named: list[str]) -> None:
    why = [f"{field} changed, {DIFFERENT}" for field in named]
    assert said(change(dag(edited("b", **fields)))) == {"b": ("updated", why)}


@corpus(
    ("fields", "named"),
    [
        ({"config": {"emit": True}}, ["config"]),
        ({"operator": "wire_tap", "runtime": "dispatcher"}, ["operator", "runtime"]),
        ({"execution_strategy": "PerPartition"}, ["execution_strategy"]),
        ({"outputs": 2}, ["outputs"]),
        ({"update_strategy": "append", "unique_key": ["n"]}, ["unique_key", "update_strategy"]),
        ({"inputs": [{"from": {"job": "source"}}]}, ["inputs"]),
        ({"inputs": [{"from": {"job": "a"}, "where": {"n": 1}}]}, ["inputs"]),
        # What decides is named, what changed besides is not.
        ({"config": {"emit": True}, "priority": "low", "description": "x"}, ["config"]),
    ],
    ids=str,
)
def test_what_makes_other_data_is_built_with_everything_after_it(
    fields: dict[str, Any], named: list[str]
) -> None:
    assert said(change(dag(edited("b", **fields)))) == {
        "b": ("changed", [f"{field} changed" for field in named]),
        "c": ("affected", ["it reads b, which is built anew"]),
    }


def test_fields_that_go_away_are_named_too() -> None:
    before = dag(edited("b", update_strategy="append", unique_key=["n"]))
    assert said(change(dag(), before))["b"] == (
        "changed",
        ["unique_key changed", "update_strategy changed"],
    )


def test_what_is_edited_and_reads_what_is_built_anew_says_both() -> None:
    jobs = [
        each | {"config": {"emit": True}} if each["name"] in ("a", "b") else each for each in CHAIN
    ]
    assert said(change(dag(jobs))) == {
        "a": ("changed", ["config changed"]),
        "b": ("changed", ["config changed", "it reads a, which is built anew"]),
        "c": ("affected", ["it reads b, which is built anew"]),
        "d": ("affected", ["it reads a, which is built anew"]),
    }


@pytest.mark.parametrize(
    "fields",
    [{"priority": "low"}, {"outputs": ["rows"]}, {"execution_strategy": "PerUpdate"}],
    ids=str,
)
def test_what_only_runs_differently_below_an_edit_is_affected(fields: dict[str, Any]) -> None:
    jobs = [each | {"config": {"emit": True}} if each["name"] == "a" else each for each in CHAIN]
    jobs = [each | fields if each["name"] == "b" else each for each in jobs]
    assert said(change(dag(jobs)))["b"] == ("affected", ["it reads a, which is built anew"])


def test_two_ways_from_one_edit_are_both_said_once() -> None:
    both = [*CHAIN, job("e", "b", "d")]
    jobs = [each | {"config": {"emit": True}} if each["name"] == "a" else each for each in both]
    assert said(change(dag(jobs), dag(both)))["e"] == (
        "affected",
        ["it reads b, which is built anew", "it reads d, which is built anew"],
    )


def test_jobs_that_come_and_go() -> None:
    found = change(dag([*CHAIN[:-1], job("e", "c")]))
    assert said(found) == {
        "e": ("added", ["it is new"]),
        "d": ("removed", ["it is not in the file"]),
    }


def test_with_nothing_before_it_everything_is_new() -> None:
    found = find_change(dag(), {}, [], [])
    assert [j.job for j in found.jobs] == ["source", "a", "b", "c", "d"]
    assert {(j.action, j.reuses) for j in found.jobs} == {("added", False)}


def test_data_of_an_earlier_version_is_reused_when_it_was_built() -> None:
    before, now = dag(), dag(edited("b", config={"emit": True}))
    back = change(before, now, there=[*kept(before), *kept(now)])
    assert {j.job for j in back.jobs if j.builds and j.reuses} == {"b", "c"}
    # A part of it may be there, which saves work but is not what is planned with.
    half = change(before, now, there=[*kept(before, built=False), *kept(now)])
    assert {j.job for j in half.jobs if j.builds and not j.reuses} == {"b", "c"}


def test_a_source_that_starts_from_nothing_says_so() -> None:
    found = change(dag(edited("source", bootstrap={"reset_outputs": True})))
    assert said(found)["source"] == ("changed", ["bootstrap changed"])
    assert said(found)["a"] == ("affected", ["it reads source, which is built anew"])
    assert said(change(dag(edited("source", config={"n": 1})))) == {
        "source": ("updated", [f"config changed, {DIFFERENT}"])
    }


def test_definitions_from_before_they_were_kept_are_changed_without_a_field() -> None:
    old = {name: replace(row, definition={}, fingerprint="x") for name, row in rows(dag()).items()}
    found = find_change(dag(), old, [], [])
    assert said(found)["source"] == ("changed", ["its definition changed"])


def test_names_that_come_go_move_and_are_described() -> None:
    before = dag(
        one={"from": {"job": "a"}}, two={"from": {"job": "b"}}, three={"from": {"job": "c"}}
    )
    after = dag(
        two={"from": {"job": "d"}},
        three={"from": {"job": "c"}, "description": "rows"},
        four={"from": {"job": "a"}},
    )
    found = change(after, before)
    assert said(found) == {}
    assert [(each.dataset, each.action, each.why) for each in found.publishes] == [
        ("four", "published", "of a, output 0"),
        ("three", "redescribed", "what is said of it changed"),
        ("two", "moved", "from b to d, output 0"),
        ("one", "unpublished", "it is not in the file"),
    ]


def test_a_chain_of_900_jobs_is_compared() -> None:
    chain = [SOURCE, job("j0", "source")]
    chain += [job(f"j{n}", f"j{n - 1}") for n in range(1, 900)]
    later = [
        each | {"config": {"emit": True}} if each["name"] == "j450" else each for each in chain
    ]
    found = change(dag(later), dag(chain))
    assert sum(each.builds for each in found.jobs) == 450
