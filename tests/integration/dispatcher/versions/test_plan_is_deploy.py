"""A plan says what the deploy then does: random DAGs, random edits, on a real database.

What happened is read from tables and files; what had to happen is found by a walk over the graph
(`tests/support/dag_edits.py`). Neither asks the code that made the plan.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st
from psycopg.rows import dict_row

from tests.support.control_plane import ControlPlane
from tests.support.dag_edits import (
    ELSEWHERE,
    MAIN,
    SOURCE,
    Doc,
    Named,
    Node,
    Scenario,
    Step,
    edited_itself,
    rebuilt,
    scenarios,
    text,
)
from tests.support.pipeline import Job, Pipeline, dag_yaml, mixed
from trace_platform.dispatcher.events.reconcile_partitions import reconcile_partitions
from trace_platform.dispatcher.versions.deploy_dag import deploy_dag
from trace_platform.dispatcher.versions.plan_dag import plan_dag
from trace_platform.domain.errors import StalePlan
from trace_platform.operators import registry
from trace_platform.state import staleness
from trace_platform.wire.control import DeployResponse
from trace_platform.wire.plan import Plan

Range = tuple[int, int]
Content = dict[str, Any]
# Of a generation: the partitions that are current, and those that were.
Parts = tuple[frozenset[UUID], frozenset[UUID]]
MAX_OUTPUTS = 2
# By job and output: the content and the partition of each range.
Look = dict[tuple[str, int], dict[Range, tuple[Content, UUID]]]

_JOBS = """
SELECT j.name, v.job_id, v.generation_id FROM dag_version_jobs v JOIN jobs j ON j.id = v.job_id
 WHERE v.dag_version_id = %s
"""
_PARTITIONS = """
SELECT d.job_name, d.output_index, p.id, p.range_start, p.range_end, p.location,
       p.files->0->>'name' AS file
  FROM datasets d JOIN partition_versions p ON p.dataset_version = d.current_version
 WHERE d.org_id = %s AND d.dag_name = %s AND p.superseded_at IS NULL
"""
_OF_GENERATIONS = """
SELECT v.generation_id, p.id, p.superseded_at IS NULL AS current
  FROM dataset_versions v JOIN partition_versions p ON p.dataset_version = v.version
  JOIN generations g ON g.id = v.generation_id
 WHERE g.org_id = %s
"""
_NAMES = """
SELECT d.name, d.job_name, d.output_index, d.metadata FROM datasets d
 WHERE d.org_id = %s AND d.dag_name = 'p' AND d.name IS NOT NULL
"""
_TASKS = """
SELECT t.id, t.generation_id, g.dag_name, (t.inputs->0->>'start')::bigint AS start
  FROM tasks t JOIN generations g ON g.id = t.generation_id WHERE t.org_id = %s
"""
_ROUTES = """
SELECT s.generation_id, s.input_index, v.generation_id AS reads, d.output_index, s.held,
       d.current_version = s.dataset_version AS current
  FROM subscriptions s JOIN dataset_versions v ON v.version = s.dataset_version
  JOIN datasets d ON d.uuid = v.dataset_uuid WHERE s.org_id = %s
"""
# What an example that failed has left must not run in the next.
_LEFT = (
    "DELETE FROM outbox",
    "UPDATE deploys SET status = 'Canceled' WHERE status = 'Building'",
    "UPDATE tasks SET status = 'Canceled', lease_expires_at = NULL, next_retry_at = NULL"
    " WHERE status IN ('Queued', 'Running') OR next_retry_at IS NOT NULL",
)


@dataclass(frozen=True)
class Moment:
    """What the tables say at one time."""

    version: UUID
    jobs: dict[str, dict[str, Any]]
    # By generation.
    partitions: dict[UUID, Parts]
    generations: set[UUID]
    tasks: set[UUID]
    look: Look
    names: dict[str, dict[str, Any]]


@dataclass
class World:
    """The DAG `p` under edit, `q` that it reads, and `r` that reads it, in an org of their own."""

    pipe: Pipeline
    database: psycopg.Connection[dict[str, Any]]
    # Ranges of p's source, by what the source means.
    ranges: dict[int | None, set[Range]] = field(default_factory=dict)
    elsewhere: set[Range] = field(default_factory=set)
    emitted: int = 0

    @property
    def org_id(self) -> UUID:
        return self.pipe.plane.dispatcher.org_id

    def sql(self, statement: str, *parameters: Any) -> list[dict[str, Any]]:
        """What the database says, asked past the code under test; of this org unless told."""
        return self.database.execute(statement, parameters or (self.org_id,)).fetchall()

    async def plan(self, doc: Doc) -> Plan:
        return await plan_dag(self.pipe.plane.dispatcher.state, self.org_id, text(doc), "dag.yaml")

    async def deploy(self, doc: Doc, plan_hash: str | None = None) -> DeployResponse:
        state = self.pipe.plane.dispatcher.state
        return await deploy_dag(state, self.org_id, text(doc), "dag.yaml", plan_hash=plan_hash)

    async def begin(self, scenario: Scenario) -> None:
        for statement in _LEFT:
            self.pipe.plane.sql(statement)
        await self.pipe.deploy({"x": Job()}, "q")
        await self.deploy(scenario.first)
        reader = dag_yaml({"y": Job((f"@{MAIN}",))}, "r")
        await deploy_dag(self.pipe.plane.dispatcher.state, self.org_id, reader, "dag.yaml")
        await self.emit(scenario.first, scenario.ranges, scenario.ranges_elsewhere)
        await self.pipe.settle()

    def version(self, plan: Plan) -> Any:
        """The version of the plan's content, if there is one."""
        found = self.pipe.plane.sql(
            "SELECT id FROM dag_versions WHERE org_id = %s AND content_hash = %s",
            self.pipe.plane.dispatcher.org_id,
            plan.content_hash,
        )
        return found[0]["id"] if found else None

    async def emit(self, doc: Doc, ranges: int, elsewhere: int) -> set[Range]:
        """New ranges, of the source as the active version has it."""
        mine, theirs = self._next(ranges), self._next(elsewhere)
        self.ranges.setdefault(doc.source_key, set()).update(mine)
        self.elsewhere.update(theirs)
        await self.pipe.trigger(*mine, dag="p")
        await self.pipe.trigger(*theirs, dag="q")
        return {*mine, *theirs}

    def _next(self, n: int) -> list[Range]:
        self.emitted += n
        return [(10 * i, 10 * i + 9) for i in range(self.emitted - n, self.emitted)]

    def moment(self) -> Moment:
        (active,) = self.sql(
            "SELECT dag_version_id FROM active_dags WHERE org_id = %s AND dag_name = 'p'"
        )
        return Moment(
            version=active["dag_version_id"],
            jobs=self.jobs(active["dag_version_id"]),
            partitions=self._partitions(),
            generations={
                row["id"] for row in self.sql("SELECT id FROM generations WHERE org_id = %s")
            },
            tasks={row["id"] for row in self.sql(_TASKS)},
            look=self.look("p"),
            names={row.pop("name"): row for row in self.sql(_NAMES)},
        )

    def jobs(self, version: UUID) -> dict[str, dict[str, Any]]:
        return {row["name"]: row for row in self.sql(_JOBS, version)}

    def _partitions(self) -> dict[UUID, Parts]:
        found: dict[UUID, tuple[set[UUID], set[UUID]]] = {}
        for row in self.sql(_OF_GENERATIONS):
            found.setdefault(row["generation_id"], (set(), set()))[not row["current"]].add(
                row["id"]
            )
        return {key: (frozenset(now), frozenset(gone)) for key, (now, gone) in found.items()}

    def look(self, dag: str) -> Look:
        """All that is current, published or not, in one look."""
        seen: Look = {}
        for row in self.sql(_PARTITIONS, self.org_id, dag):
            content = json.loads(
                self.pipe.plane.dispatcher.store.get(row["location"] + row["file"])
            )
            span = (row["range_start"], row["range_end"])
            seen.setdefault((row["job_name"], row["output_index"]), {})[span] = content, row["id"]
        return seen

    def new_tasks(self, before: Moment) -> list[dict[str, Any]]:
        return [row for row in self.sql(_TASKS) if row["id"] not in before.tasks]


def only(look: Look, jobs: Iterable[str]) -> Look:
    """Of the jobs of a version: what was removed keeps what it last had, what is new is unread."""
    return {place: parts for place, parts in look.items() if place[0] in set(jobs)}


def unmixed(look: Look, doc: Doc) -> None:
    seen = {
        f"{job}.{output}": {span: content for span, (content, _) in parts.items()}
        for (job, output), parts in only(look, doc.by_name).items()
    }
    assert mixed(seen) == {}


def action(before: Doc, after: Doc, node: Node, was: Any, now: Any) -> str:
    """What happened to a job, by its rows and by what was edited."""
    if was is None:
        return "added"
    if was["generation_id"] == now["generation_id"]:
        return "unchanged" if was["job_id"] == now["job_id"] else "updated"
    above = {name for name, _ in after.reads(node)} & rebuilt(before, after)
    return "changed" if edited_itself(before, after, node) or not above else "affected"


def check_jobs(plan: Plan, before: Doc, after: Doc, was: Moment, now: dict[str, Any]) -> set[str]:
    """Action and reuse of each job as planned; the names that are built."""
    planned = {job.job: job for job in plan.jobs}
    assert planned.keys() == was.jobs.keys() | now.keys()
    seen = {
        node.name: action(before, after, node, was.jobs.get(node.name), now[node.name])
        for node in after.nodes
    }
    same = was.jobs[SOURCE]["generation_id"] == now[SOURCE]["generation_id"]
    kept = was.jobs[SOURCE]["job_id"] == now[SOURCE]["job_id"]
    seen[SOURCE] = ("unchanged" if kept else "updated") if same else "changed"
    seen |= dict.fromkeys(was.jobs.keys() - now.keys(), "removed")
    assert {name: job.action for name, job in planned.items()} == seen
    reused = {name for name, row in now.items() if row["generation_id"] in was.generations}
    assert {name for name, job in planned.items() if job.reuses} == reused
    built = rebuilt(before, after)
    assert {job.job for job in plan.builds} == built
    return built


def check_size(plan: Plan, was: Moment) -> None:
    replaced = [
        was.jobs[job.job]["generation_id"]
        for job in plan.builds
        if not job.reuses and job.job in was.jobs
    ]
    held = [len(was.partitions[each][0]) for each in replaced if each in was.partitions]
    assert plan.total.partitions == sum(held)


def check_names(plan: Plan, before: Doc, after: Doc, now: Moment) -> None:
    """The names point where the file says, with what it says, and the plan told the difference."""
    places = {name: (after.by_label[each.of[0]].name, each.of[1]) for name, each in after.publish}
    assert {n: (row["job_name"], row["output_index"]) for n, row in now.names.items()} == places
    for name, each in after.publish:
        assert now.names[name]["metadata"].keys() == dict(each.said).keys()
    old, new = dict(before.publish), dict(after.publish)
    was = {name: before.place(each.of) for name, each in before.publish}
    expected = dict.fromkeys(old.keys() - new.keys(), "unpublished")
    expected |= dict.fromkeys(new.keys() - old.keys(), "published")
    for name in old.keys() & new.keys():
        if was[name] != places[name]:
            expected[name] = "moved"
        elif old[name].said != new[name].said:
            expected[name] = "redescribed"
    assert {each.dataset: each.action for each in plan.publishes} == expected


def check_content(world: World, doc: Doc) -> None:
    """Every dataset is what it would be if this version had run from the beginning."""
    look = world.look("p")
    elsewhere = {span: content for span, (content, _) in world.look("q").get(("x", 0), {}).items()}
    assert set(elsewhere) == world.elsewhere
    made: dict[tuple[str, int], dict[Range, Content]] = {(ELSEWHERE, 0): elsewhere}
    for node in doc.nodes:
        for output in range(len(node.outputs)):
            found = look.get((node.name, output), {})
            expected: set[Range] = set()
            for ref in node.inputs:
                expected |= (
                    world.ranges.get(doc.source_key, set()) if ref[0] == SOURCE else set(made[ref])
                )
            assert set(found) == expected, node.name
            for span, (content, _) in found.items():
                assert (content["job"], content["revision"]) == (node.label, node.revision)
                assert content["range"] == list(span)
                # One of its inputs told it last: with what that holds now.
                told = [
                    [] if ref[0] == SOURCE else [made[ref][span]]
                    for ref in node.inputs
                    if (
                        span in world.ranges.get(doc.source_key, ())
                        if ref[0] == SOURCE
                        else span in made[ref]
                    )
                ]
                assert content["inputs"] in told, (node.name, span)
            made[node.label, output] = {span: content for span, (content, _) in found.items()}


def check_reader(world: World, doc: Doc) -> None:
    """The other DAG has read what the name stands for now."""
    current = world.look("p").get(doc.place(dict(doc.publish)[MAIN].of), {})
    theirs = world.look("r").get(("y", 0), {})
    for span, (content, _) in current.items():
        assert theirs[span][0]["inputs"] == [content], span


def check_routes(world: World, doc: Doc, jobs: dict[str, Any]) -> None:
    """Each job is given what the file says, of the generations of this version."""
    seen: dict[UUID, dict[int, Any]] = {}
    for row in world.sql(_ROUTES):
        assert row["current"]
        assert not row["held"]
        seen.setdefault(row["generation_id"], {})[row["input_index"]] = row
    for node in doc.nodes:
        routes = seen[jobs[node.name]["generation_id"]]
        assert len(routes) == len(node.inputs)
        for index, (name, output) in enumerate(doc.reads(node)):
            found = routes[index]["reads"], routes[index]["output_index"]
            if name != ELSEWHERE:
                assert found == (jobs[name]["generation_id"], output), node.name


def check_kept(was: Moment, now: Moment, built: set[str], late: set[Range]) -> None:
    """Jobs that are not built have the partitions they had, and what arrived since."""
    for name in now.jobs.keys() - built - {SOURCE}:
        for (job, output), before in was.look.items():
            if job == name:
                after = now.look[job, output]
                assert {span: after[span][1] for span in before} == {
                    span: part for span, (_, part) in before.items()
                }, name
                assert after.keys() - before.keys() <= late
    # What gave way is left as it was: it is what a rollback serves.
    for name, row in was.jobs.items():
        if name in built or name not in now.jobs:
            none: Parts = (frozenset(), frozenset())
            before, after = (m.partitions.get(row["generation_id"], none) for m in (was, now))
            # A source that starts from nothing goes on as it is until then.
            grows = SOURCE in built and len(after[0]) <= len(before[0]) + len(late) * MAX_OUTPUTS
            assert after == before or (grows and after[0] > before[0]), name


async def check_nothing_owed(world: World, now: Moment) -> None:
    ids = [row["generation_id"] for row in now.jobs.values()]
    async with world.pipe.plane.dispatcher.state.transaction() as tx:
        found = await staleness.of_generations(tx, ids)
    behind = {key: each for key, each in found.items() if each.pending or each.failed}
    assert behind == {}
    assert await reconcile_partitions(world.pipe.plane.dispatcher.state) == 0


async def take(world: World, before: Doc, step: Step) -> None:
    """One edit: planned, deployed, built and cut over, and everything that is said of it."""
    after, was = step.doc, world.moment()
    plan = await world.plan(after)
    assert plan.base_version == was.version
    done = await world.deploy(after, plan.plan_hash)
    assert (done.status == "Unchanged") == (after.content == before.content)
    assert not (done.status == "Unchanged" and (plan.changes or plan.publishes))
    jobs = world.jobs(done.dag_version)
    built = check_jobs(plan, before, after, was, jobs)
    assert set(done.builds) == built
    check_size(plan, was)
    building = {jobs[name]["generation_id"] for name in built}

    # Until it cuts over, nothing but what is built has work, and readers see what they saw.
    waits = done.status == "Building"
    await world.pipe.work()
    if waits:
        assert only(world.look("p"), was.jobs) == only(was.look, was.jobs)
        assert {row["generation_id"] for row in world.new_tasks(was)} <= building
    active = before if waits else after
    late = await world.emit(active, step.late, step.late_elsewhere)
    await world.pipe.work()
    starts = {start for start, _ in late}
    if waits:
        unmixed(world.look("p"), before)
        for row in world.new_tasks(was):
            mine = row["generation_id"] in building
            assert mine or row["start"] in starts, row
    await world.pipe.settle()
    now = world.moment()
    assert now.version == done.dag_version
    assert world.jobs(now.version) == jobs
    again = [
        row
        for row in world.new_tasks(was)
        if row["start"] not in starts and row["generation_id"] not in building
    ]
    assert {row["dag_name"] for row in again} <= {"r"}
    told = {(reader.dag_name, reader.job_name, reader.dataset) for reader in plan.readers}
    read = now.look.get(after.place(dict(after.publish)[MAIN].of), {})
    if read.keys() - late:
        assert bool(again) == (("r", "y", MAIN) in told)
    check_kept(was, now, built, late)
    check_names(plan, before, after, now)
    check_routes(world, after, jobs)
    check_content(world, after)
    check_reader(world, after)
    unmixed(now.look, after)
    await check_nothing_owed(world, now)


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


class Runs:
    """Examples on one database, each in an org of its own."""

    def __init__(self, loop: asyncio.AbstractEventLoop, dsns: Any, folder: Path) -> None:
        self._loop = loop
        self._plane = self.do(ControlPlane.open(dsns, folder))
        self._database = psycopg.connect(dsns.owner, row_factory=dict_row, autocommit=True)

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self._loop.run_until_complete(work)

    def world(self) -> World:
        (org,) = self._plane.sql(
            "INSERT INTO orgs (slug, name) VALUES (%s, 'Another') RETURNING id", str(uuid4())
        )
        dispatcher = replace(self._plane.dispatcher, org_id=org["id"])
        return World(Pipeline(replace(self._plane, dispatcher=dispatcher)), self._database)

    def close(self) -> None:
        self._database.close()
        self.do(self._plane.close())


@pytest.fixture
def runs(
    loop: asyncio.AbstractEventLoop,
    state_dsns: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Runs]:
    monkeypatch.setitem(registry.OPERATORS, "lineage", "tests.support.lineage_operator.Lineage")
    opened = Runs(loop, state_dsns, tmp_path)
    yield opened
    opened.close()


def bounded(examples: int) -> settings:
    return settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        # An example takes a second or two: as it was found it is worth more than a time-out.
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        database=None,
    )


async def play(world: World, scenario: Scenario) -> None:
    await world.begin(scenario)
    before = scenario.first
    for step in scenario.steps:
        await take(world, before, step)
        before = step.doc


def check_all(runs: Runs, examples: int) -> None:
    @bounded(examples)
    @given(scenarios())
    def check(scenario: Scenario) -> None:
        first = Step("first", scenario.first, scenario.ranges, scenario.ranges_elsewhere)
        for step in (first, *scenario.steps):
            shown = text(replace(step.doc, style=2))
            note(f"{step.edit}, then {step.late} and {step.late_elsewhere} ranges\n{shown}")
        runs.do(play(runs.world(), scenario))

    check()


def test_what_is_planned_is_what_is_done(runs: Runs) -> None:
    check_all(runs, 5)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_what_is_planned_is_what_is_done_many_times(runs: Runs) -> None:
    check_all(runs, 400)


async def apply_late(world: World, scenario: Scenario, other: Doc) -> None:
    """A plan holds as long as the version that it was made for is active, and no longer."""
    await world.begin(scenario)
    wanted = scenario.steps[0].doc
    plan = await world.plan(wanted)
    between = await world.deploy(other)
    await world.pipe.settle()
    if between.status == "Unchanged":
        await world.deploy(wanted, plan.plan_hash)
    elif between.dag_version == world.version(plan):
        # It was done meanwhile: whoever repeats it is told so.
        assert (await world.deploy(wanted, plan.plan_hash)).status == "Unchanged"
    else:
        with pytest.raises(StalePlan):
            await world.deploy(wanted, plan.plan_hash)
    await world.pipe.settle()
    fresh = await world.plan(wanted)
    assert (await world.deploy(wanted, fresh.plan_hash)).dag_version is not None
    await world.pipe.settle()


@pytest.mark.parametrize("examples", [10, pytest.param(200, marks=pytest.mark.long)])
def test_a_plan_is_applied_unchanged_or_refused(runs: Runs, examples: int) -> None:
    @bounded(examples)
    @given(scenarios(max_steps=2), st.booleans())
    def check(scenario: Scenario, same: bool) -> None:
        other = scenario.first if same else scenario.steps[-1].doc
        runs.do(apply_late(runs.world(), scenario, other))

    check()


A, B, C = Node("a", "a", ((SOURCE, 0),)), Node("b", "b", (("a", 0),)), Node("c", "c", (("b", 0),))
TWO = replace(A, outputs=("rows", "more"))
ONE_NAME = ((MAIN, Named(("b", 0))),)
CASES = {
    "outputs that change their names": (
        Doc((TWO, B), ONE_NAME),
        Doc((replace(TWO, outputs=("more", "rows")), replace(B, inputs=(("a", 1),))), ONE_NAME),
    ),
    "a name that moves": (Doc((A, B, C), ONE_NAME), Doc((A, B, C), ((MAIN, Named(("c", 0))),))),
    "another name for a job": (
        Doc((A, B, C), ONE_NAME),
        Doc((replace(A, name="first"), B, C), ONE_NAME),
    ),
    "another name for a job that others read": (
        Doc((A, B, C), ONE_NAME),
        Doc((A, replace(B, name="second"), C), ONE_NAME),
    ),
    "another name, then another revision below, and back": (
        Doc((A, B, C), ONE_NAME),
        Doc((replace(A, name="first"), B, C), ONE_NAME),
        Doc((replace(A, name="first"), replace(B, revision=2), C), ONE_NAME),
        Doc((replace(A, name="first"), B, C), ONE_NAME),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_cases_that_are_rare(runs: Runs, case: str) -> None:
    first, *others = CASES[case]
    steps = tuple(Step(case, doc, 1, 1) for doc in others)
    runs.do(play(runs.world(), Scenario(first, 2, 1, steps)))
