"""A history that is being played: the situation, what was done so far, and what should be so."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from tests.support.judge import content_operator
from tests.support.judge.attempt import Attempt, complete, end_badly
from tests.support.judge.check import Oracle, Seen, Watch
from tests.support.judge.finding import Found
from tests.support.judge.shapes import SOURCE, DagShape, Definition, Shape, dag_yaml
from tests.support.judge.stage import Stage
from tests.support.judge.world import Content, World
from trace_platform.dispatcher.events.publish_outbox import publish_outbox
from trace_platform.dispatcher.redo.invalidate import invalidate
from trace_platform.dispatcher.redo.start_backfill import start_backfill
from trace_platform.dispatcher.tasks.claim_task import claim_tasks
from trace_platform.dispatcher.versions.deploy_dag import deploy_dag
from trace_platform.wire.backfill import BackfillRequest
from trace_platform.wire.invalidation import InvalidateRequest

MANY = 50
_MOST_TURNS = 200
_STANDING = """
SELECT d.dag_name, d.job_name, d.current_version, a.dag_version_id
  FROM datasets d JOIN active_dags a ON a.org_id = d.org_id AND a.dag_name = d.dag_name
 WHERE d.output_index = 0
"""
LIVE = """
SELECT t.id, j.dag_name, j.name, t.status, t.inputs->0->>'partition_key' AS part
  FROM tasks t JOIN jobs j ON j.id = t.job_id
 WHERE (t.status IN ('Queued', 'Running') OR t.status = 'Failed' AND t.next_retry_at IS NOT NULL)
 ORDER BY j.dag_name, j.name, t.id
"""
ENDED_BADLY = """
SELECT t.id, j.dag_name, j.name, t.status, t.inputs->0->>'partition_key' AS part
  FROM tasks t JOIN jobs j ON j.id = t.job_id
 WHERE t.status IN ('Failed', 'Canceled') AND t.next_retry_at IS NULL
 ORDER BY j.dag_name, j.name, t.id
"""


@dataclass
class Play:
    stage: Stage
    shape: Shape
    watch: Watch
    world: World = field(default_factory=World)
    attempts: list[Attempt] = field(default_factory=list)
    # What each version of a DAG says.
    versions: dict[UUID, Definition] = field(default_factory=dict)
    # By version of a source's dataset: the blocks that were emitted, or what was written.
    emitted: dict[UUID, set[int]] = field(default_factory=dict)
    written: dict[UUID, Content] = field(default_factory=dict)
    # By version of a source's dataset: the blocks that were said to be invalid.
    named: dict[UUID, set[int]] = field(default_factory=dict)
    # By version of a source's dataset: the world as its readers were told of it last.
    told: dict[UUID, list[int]] = field(default_factory=dict)
    # Blocks that were mended by hand: in other versions than the current ones they are as before.
    mended: set[int] = field(default_factory=set)
    # Versions of a source's dataset whose run a person canceled.
    stopped: set[UUID] = field(default_factory=set)
    writes: int = 0
    # What happened, for people.
    lines: list[str] = field(default_factory=list)

    # The situation.

    def standing(self) -> list[dict[str, Any]]:
        return self.stage.sql(_STANDING)

    def active(self, dag: str) -> Definition:
        row = next(row for row in self.standing() if row["dag_name"] == dag)
        return self.versions[row["dag_version_id"]]

    def source_version(self) -> UUID:
        for row in self.standing():
            if row["job_name"] == SOURCE:
                found: UUID = row["current_version"]
                return found
        raise AssertionError("every shape has a source")

    def oracle(self) -> Oracle:
        definitions = {dag.name: self.active(dag.name) for dag in self.shape.dags}
        version = self.source_version()
        if self.shape.writes:
            return Oracle(self.shape, definitions, {"p": self.written.get(version, {})})
        emitted = self.emitted.get(version, set())
        named = frozenset(self.named.get(version, set()) - emitted)
        return Oracle(self.shape, definitions, {"p": self.world.read(emitted | named)}, named)

    # What goes on.

    async def begin(self) -> None:
        self.stage.empty()
        content_operator.outside = self.world
        for dag in self.shape.dags:
            await self.deploy(Definition(dag))
            await self.settle()
        self.told[self.source_version()] = list(self.world.forks)

    def note(self, action: object, said: str = "") -> None:
        self.lines.append(f"{action!s:<24} {said}".rstrip())

    async def look(self) -> list[Seen]:
        version = self.source_version()
        await self._follow(version)
        return await self.watch.look(
            self.emitted.get(version, set()) | self.written.get(version, {}).keys()
        )

    async def _follow(self, version: UUID) -> None:
        """A follower tells the readers of the source that is current what changed meanwhile."""
        if self.shape.writes:
            return
        told = self.told.setdefault(version, list(self.world.forks))
        known = self.emitted.get(version, set()) | self.named.get(version, set())
        for start, end in self.world.differs(told, known):
            await self.invalidate(f"p.{SOURCE}", start, end)
            self.named.setdefault(version, set()).update(range(start, end + 1))
            self.note(f"  follower: {start}-{end} of p.{SOURCE} is invalid")
        self.told[version] = list(self.world.forks)

    async def settle(self) -> int:
        """How much was routed and announced, until nothing is owed."""
        routed = 0
        for _ in range(_MOST_TURNS):
            done = await publish_outbox(self.stage.publishing)
            if not done:
                return routed
            routed += done
        raise Found("stuck", f"the outbox is not empty after {_MOST_TURNS} turns")

    async def deploy(self, definition: Definition) -> str:
        dispatcher = self.stage.dispatcher
        answer = await deploy_dag(
            dispatcher.state, dispatcher.org_id, dag_yaml(definition), "dag.yaml"
        )
        self.versions[answer.dag_version] = definition
        self.changed()
        return f"{definition}: {answer.status}"

    def changed(self) -> None:
        """Other versions may be read from now on, to which nothing was done by hand."""
        self.stopped.clear()
        for told in self.told.values():
            for block in self.mended:
                told[block] = 0
        self.mended.clear()

    async def invalidate(self, dataset: str, start: int, end: int) -> str:
        dispatcher = self.stage.dispatcher
        request = InvalidateRequest(
            dataset=dataset, scope="row_range", start=start, end=end, reason="reorg"
        )
        answer = await invalidate(dispatcher.state, dispatcher.org_id, request)
        return answer.note or ""

    async def claim(self, most: int) -> list[Attempt]:
        dispatcher = self.stage.dispatcher
        claimed = [
            Attempt(claimed)
            for sources in ((False, True) if self.shape.writes else (False,))
            for _, claimed in await claim_tasks(
                dispatcher.state, dispatcher.grants, "ecs_platform", ["w"] * most, sources=sources
            )
        ]
        for attempt in claimed:
            if attempt.is_source and attempt.writes_to in self.stopped:
                raise Found("woken", f"{attempt} was canceled, and runs again")
        return sorted(claimed, key=Attempt.sort_key)

    async def backfill(
        self, dag: str, job: str, start: int, end: int, *, force: bool = False, at_once: int = MANY
    ) -> int:
        """How many inputs it goes through."""
        dispatcher = self.stage.dispatcher
        request = BackfillRequest(
            dag_name=dag, job_name=job, start=start, end=end, force=force, max_in_flight=at_once
        )
        answer = await start_backfill(dispatcher.state, dispatcher.org_id, request)
        return answer.backfill.total if answer.backfill else 0

    def make_due(self) -> int:
        """What waits for its next attempt has waited long enough."""
        rows = self.stage.sql(
            "UPDATE tasks SET next_retry_at = clock_timestamp() - interval '1 s'"
            " WHERE next_retry_at IS NOT NULL RETURNING id"
        )
        return len(rows)

    async def finish(self, attempt: Attempt) -> str:
        if not attempt.is_source:
            return await complete(self.stage, attempt)
        return await end_badly(self.stage, attempt, "Completed")

    def pick(self, k: int) -> Attempt | None:
        return self.attempts[k % len(self.attempts)] if self.attempts else None

    def take(self, k: int) -> Attempt | None:
        return self.attempts.pop(k % len(self.attempts)) if self.attempts else None

    def job_at(self, k: int) -> tuple[DagShape, str]:
        dag, job = self.shape.jobs[k % len(self.shape.jobs)]
        return dag, job.name
