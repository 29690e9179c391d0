"""The middle of a DAG of 30 jobs changes, and changes back, while 50 events a second flow."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.deploy_reader import (
    Poll,
    PollingReader,
    Producer,
    active_version,
    check_tables,
    is_settled,
    published_generations,
    repeated,
    stopping,
)
from tests.support.engine_stack import Engine, engine
from tests.support.killable_stack import KillableDispatcher, KillableEngine, killable_engine
from tests.support.pipeline import Job, Jobs, dag_yaml, edited
from tests.support.stack import wait_for

pytestmark = pytest.mark.timeout(1200)

SEED = 5_46
DAG = "flow"
# What is rebuilt goes first, so that it is there while events still flow.
FIRST = (("priority", "high"),)
SPREAD: Jobs = (
    {f"s{i}{k}": Job((f"r{i}",)) for i in range(3) for k in range(3)}
    | {f"t{i}": Job((above,)) for i, above in enumerate(("s01", "s02", "s10"))}
    # Of two branches that stay.
    | {"join_kept": Job(("s12", "s22"))}
)
REBUILT: Jobs = (
    {"middle": Job(("s00",), fields=FIRST)}
    | {f"m{i}": Job(("middle",), fields=FIRST) for i in range(4)}
    | {f"n{i}": Job((f"m{i}",), fields=FIRST) for i in range(4)}
    # Of two branches that change, and of one that does and one that stays.
    | {"join_0": Job(("n0", "n1"), fields=FIRST), "join_1": Job(("n2", "n3"), fields=FIRST)}
    | {"join_half": Job(("m0", "s11"), fields=FIRST), "below_join": Job(("join_0",), fields=FIRST)}
)
BEHIND: Jobs = {**SPREAD, **REBUILT}
# Every event is a task of every job; of a join, and what is below it, two.
EACH: Jobs = {**{f"r{i}": Job() for i in range(3)}, "t3": Job(("s20",)), **BEHIND}
# In front, one task takes all that came meanwhile.
TOGETHER = (("operator", "gather"), ("execution_strategy", "Bulk"))
GATHERED: Jobs = {
    "gather": Job(fields=TOGETHER),
    **{f"r{i}": Job(("gather",)) for i in range(3)},
    **BEHIND,
}
PUBLISHED = ["r0", "s00", "s11", "t2", "join_kept", "middle", "m0", "m1", "n0", "n2", "join_0",
             "join_half", "below_join"]  # fmt: skip
# With no join above them, a range of theirs has one possible content in a version.
PLAIN = [f"{DAG}_{job}" for job in ("middle", "m0", "m1", "n0", "n2")]


@pytest.mark.long
def test_a_deploy_and_a_rollback_under_load(state_dsns: Any, tmp_path: Path) -> None:
    with engine(tmp_path, state_dsns) as stack:
        dispatcher = stack.dispatcher()
        dispatcher.await_ready()
        Load(stack, GATHERED, dispatcher.port).run(rounds=1)


@pytest.mark.long
def test_a_deploy_and_a_rollback_under_load_with_a_task_for_each_event(
    state_dsns: Any, tmp_path: Path
) -> None:
    with engine(tmp_path, state_dsns) as stack:
        dispatcher = stack.dispatcher()
        dispatcher.await_ready()
        Load(stack, EACH, dispatcher.port).run(rounds=1)


@pytest.mark.long
def test_deploys_and_rollbacks_under_load_while_the_dispatcher_is_killed(
    state_dsns: Any, tmp_path: Path
) -> None:
    with killable_engine(tmp_path, state_dsns) as stack:
        dispatcher = stack.killable_dispatcher()
        dispatcher.await_ready()
        with killing(stack, dispatcher):
            Load(stack, GATHERED, dispatcher.port).run(rounds=3)


@contextmanager
def killing(stack: KillableEngine, dispatcher: KillableDispatcher) -> Iterator[None]:
    """kill -9 again and again, at moments that chance chooses, until all is done."""
    ended, kills, chance = threading.Event(), list[int](), random.Random(SEED)

    def kill() -> None:
        while not ended.wait(chance.uniform(0.5, 4)):
            killed = dispatcher.pid
            kills.append(killed)
            os.kill(killed, signal.SIGKILL)
            dispatcher.await_ready(killed)
            stack.expire_leases()
            stack.heal()

    thread = threading.Thread(target=kill, name="killer", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(60)
    print(f"{len(kills)} kills")
    assert len(kills) > 3


@dataclass
class Shown:
    """What a version shows: the generations of what it publishes, made by this revision."""

    version: Any
    generations: Mapping[str, str]
    revision: int


@dataclass
class Load:
    stack: Engine
    jobs: Jobs
    port: int
    readers: list[PollingReader] = field(default_factory=list)

    def run(self, rounds: int) -> None:
        assert len(self.jobs) == 30
        for worker in [self.stack.worker(self.port, slots=16) for _ in range(2)]:
            worker.await_ready()
        self.post("/v1/dags", {"yaml": dag_yaml(self.jobs, DAG, PUBLISHED)})
        first = self.shown(active_version(self.stack, DAG), 1)
        self.readers = [PollingReader(self.stack, self.port) for _ in range(2)]
        producer = Producer(self.stack, self.port, f"{DAG}.source")
        known = [first]
        with stopping(producer, *self.readers):
            for number in range(rounds):
                known.append(self.change_and_back(first, number + 2))
                producer.check()
            producer.stop()
            wait_for("the end of all tasks", lambda: is_settled(self.stack), 900)
            settled = time.monotonic()
            for reader in self.readers:
                last = wait_for("a last look", partial(_first, reader, first, settled), 60)
                assert set(last.revisions().values()) == {1}
        producer.check()
        self.check_polls(known)
        blocks = len(producer.acknowledged)
        check_tables(self.stack, DAG, blocks)
        pace = blocks / producer.seconds
        print(
            f"{blocks} events, {pace:.0f} a second; tasks: {self.stack.statuses()};"
            f" {sum(len(r.polls) for r in self.readers)} polls"
        )

    def post(self, path: str, body: dict[str, Any]) -> Any:
        return repeated(lambda: self.stack.post(self.port, path, body))

    def shown(self, version: Any, revision: int) -> Shown:
        return Shown(version, published_generations(self.stack, version), revision)

    def change_and_back(self, first: Shown, revision: int) -> Shown:
        """Another revision of the middle, and a second after it is active, back."""
        wait_for("something to go back to", self.middle_holds, 60)
        yaml = dag_yaml(edited(self.jobs, "middle", revision=revision), DAG, PUBLISHED)
        answer = self.post("/v1/dags", {"yaml": yaml})
        if answer["status"] == "Building":
            assert sorted(answer["builds"]) == sorted(REBUILT)
        second = self.shown(answer["dag_version"], revision)
        ended_at, seen_at = self.await_cut_over(second)
        cut_over = time.monotonic()
        self.await_seen(second, cut_over)
        # The scenario itself: one second after the cut-over.
        passed_s = (seen_at - ended_at).total_seconds() + time.monotonic() - cut_over
        time.sleep(max(0.0, 1 - passed_s))
        asked = time.monotonic()
        path = f"/v1/dags/{DAG}/rollback"
        body = {"instead_of": str(second.version)}
        assert self.post(path, body)["dag_version"] == str(first.version)
        back = time.monotonic()
        self.await_seen(first, back)
        self.check_order(first, second, cut_over, asked, back)
        self.check_restored(first, second, seen_at)
        for reader in self.readers:
            check_same_answers(reader, first, cut_over, back)
        return second

    def middle_holds(self) -> bool:
        return all(len(_last(reader, f"{DAG}_below_join")) > 3 for reader in self.readers)

    def await_cut_over(self, shown: Shown) -> tuple[Any, Any]:
        """When it was, and the time right after it: both the database's."""
        seen = (
            "SELECT ended_at, clock_timestamp() AS seen_at FROM deploys"
            " WHERE to_version = %s AND kind = 'deploy' AND status = 'CutOver'"
        )
        (row,) = wait_for("the cut-over", lambda: self.stack.sql(seen, shown.version), 120)
        return row["ended_at"], row["seen_at"]

    def await_seen(self, shown: Shown, since: float) -> None:
        """Until every reader saw it in an answer that it asked for since."""
        for reader in self.readers:
            wait_for("readers to see it", partial(_first, reader, shown, since), 60)

    def check_order(
        self, first: Shown, second: Shown, cut_over: float, asked: float, back: float
    ) -> None:
        for reader in self.readers:
            for poll in reader.polls:
                if cut_over <= poll.began_at and poll.ended_at <= asked:
                    assert poll.generations == second.generations
                elif poll.began_at >= back:
                    assert poll.generations == first.generations

    def check_restored(self, first: Shown, second: Shown, seen_at: Any) -> None:
        """What the generations that were replaced held when they gave way is what they hold at the
        moment of the rollback."""
        (deploy,) = self.stack.sql(
            "SELECT * FROM deploys WHERE to_version = %s AND kind = 'deploy'", second.version
        )
        (rollback,) = self.stack.sql(
            "SELECT * FROM deploys WHERE from_version = %s AND kind = 'rollback'", second.version
        )
        gap_s = (rollback["ended_at"] - deploy["ended_at"]).total_seconds()
        built_s = (deploy["ended_at"] - deploy["started_at"]).total_seconds()
        print(f"built in {built_s:.1f} s; rolled back {gap_s:.2f} s after the cut-over")
        assert gap_s >= 1
        then = self.held(first, second, deploy["ended_at"])
        gave_way = self.held(first, second, seen_at)
        back = self.held(first, second, rollback["ended_at"])
        assert then
        assert back == gave_way, "what was replaced changed before it came back"
        # The cut-over says when it ended, and then waits for commits that began before.
        print(
            f"{len(back)} partitions gave way and came back, {len(back ^ then)} of them written"
            " while the cut-over ended"
        )

    def held(self, first: Shown, second: Shown, moment: Any) -> set[Any]:
        """The partitions that were current at that moment in what the second version replaced."""
        rows = self.stack.sql(
            "SELECT p.id FROM partition_versions p"
            " JOIN dataset_versions v ON v.version = p.dataset_version"
            " WHERE p.committed_at <= %s AND (p.superseded_at IS NULL OR p.superseded_at > %s)"
            "   AND v.generation_id IN ("
            "       SELECT generation_id FROM dag_version_jobs WHERE dag_version_id = %s"
            "       EXCEPT SELECT generation_id FROM dag_version_jobs WHERE dag_version_id = %s)",
            moment,
            moment,
            first.version,
            second.version,
        )
        return {row["id"] for row in rows}

    def check_polls(self, known: list[Shown]) -> None:
        """Each answer is one version's, and made by that version's revision."""
        for reader in self.readers:
            reader.check()
            reader.reread()
            for poll in reader.polls:
                (shown,) = [s for s in known if s.generations == poll.generations]
                revisions = poll.revisions()
                assert revisions.pop("middle", shown.revision) == shown.revision
                assert set(revisions.values()) <= {1}


def check_same_answers(reader: PollingReader, first: Shown, cut_over: float, back: float) -> None:
    """The last answer before the cut-over is part of the first one after the rollback: all its
    ranges, and where a range has one possible content, byte for byte."""
    before = reader.last_of(first.generations, cut_over).contents()
    after_poll = reader.first_of(first.generations, back)
    assert after_poll is not None
    after = after_poll.contents()
    for name, contents in before.items():
        assert after[name].keys() >= contents.keys(), f"{name} lost ranges"
    for name in PLAIN:
        assert before[name], f"{name} had nothing to lose"
        assert {r: after[name][r] for r in before[name]} == before[name]


def _first(reader: PollingReader, shown: Shown, since: float) -> Poll | None:
    return reader.first_of(shown.generations, since)


def _last(reader: PollingReader, name: str) -> tuple[Any, ...]:
    reader.check()
    return reader.polls[-1].files.get(name, ()) if reader.polls else ()
