"""What happens in a history, one action after the other, from a seed.

An action means something in every situation: its numbers are taken modulo what there is, so that a
history of which a part was left out can still be played.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tests.support.judge.shapes import REVISIONS, Shape
from tests.support.judge.world import BLOCKS

_CELL = 10
_LONGEST = 18
# How many of the histories have a race in them.
_RACES = 0.5
# Of these: in how many the change happens twice, and its attempt begins before others end.
_TWICE, _BESIDE = 0.3, 0.7
# How many of the histories end with changes that are routed in another order than they happened.
_REORDERED = 0.05
# Where a job has several inputs: how many end with an attempt of one that outlasts another's.
_OUTLASTED = 0.05
Args = tuple[int, ...]


@dataclass(frozen=True)
class Action:
    kind: str
    args: Args = ()

    def __str__(self) -> str:
        return " ".join([self.kind, *map(str, self.args)])


History = tuple[Action, ...]


def parse(text: str) -> History:
    """`trigger 0 9; claim 1 0; finish 0` as a history."""
    said = [line.split("#")[0].split() for line in text.replace(";", "\n").splitlines()]
    return tuple(Action(words[0], tuple(map(int, words[1:]))) for words in said if words)


def _cell(rng: random.Random) -> Args:
    start = _CELL * rng.randrange(BLOCKS // _CELL)
    return start, start + _CELL - 1


def _cells(rng: random.Random) -> Args:
    """Halves, or all: never across the border of another."""
    return rng.choice(((0, BLOCKS // 2 - 1), (BLOCKS // 2, BLOCKS - 1), (0, BLOCKS - 1)))


def _some(rng: random.Random) -> Args:
    """A short range as often as a long one."""
    start = rng.randrange(BLOCKS)
    return start, min(BLOCKS - 1, start + rng.randrange(rng.choice((3, 15))))


def _one(rng: random.Random) -> Args:
    return (rng.randrange(8),)


def _none(rng: random.Random) -> Args:
    return ()


def _claim(rng: random.Random) -> Args:
    """How many, and whether each reads at once (bits)."""
    return rng.choice((1, 1, 2, 8)), rng.choice((0, 1))


def _run_job(rng: random.Random) -> Args:
    return rng.randrange(4), rng.randrange(2)


def _of_job(rng: random.Random) -> Args:
    return (rng.randrange(4), *_some(rng))


def _backfill(rng: random.Random) -> Args:
    return (rng.randrange(4), *rng.choice((_cells, _some))(rng), rng.randrange(2))


def _edit(rng: random.Random) -> Args:
    return rng.randrange(4), rng.choice(REVISIONS)


@dataclass(frozen=True)
class Kind:
    weight: int
    args: Callable[[random.Random], Args]
    said: str


KINDS: dict[str, Kind] = {
    "trigger": Kind(8, _cell, "START END: the source emits a cell of ten blocks"),
    "trigger_wide": Kind(3, _cells, "START END: it emits several cells as one range"),
    "trigger_odd": Kind(3, _some, "START END: it emits any range"),
    "reorg": Kind(
        6, _some, "START END: a new fork; the follower invalidates what was emitted of it"
    ),
    "reorg_split": Kind(
        3, _some, "START END: a new fork; what the splitter announced of it is said to be invalid"
    ),
    "reorg_beyond": Kind(2, _some, "START END: a new fork; the follower invalidates all of it"),
    "claim": Kind(12, _claim, "N EARLY: route; claim N tasks; with 1 they read at once"),
    "run_job": Kind(
        6, _run_job, "JOB EARLY: route; claim all; run those of the job, hold the rest"
    ),
    "finish": Kind(14, _one, "K: attempt K reads unless it has, and completes"),
    "finish_twice": Kind(1, _one, "K: the same completion arrives twice"),
    "fail": Kind(2, _one, "K: attempt K fails, and may be tried again"),
    "fail_for_good": Kind(2, _one, "K: attempt K fails, and nothing helps"),
    "split": Kind(1, _one, "K: attempt K asks for its range to be cut in two"),
    "expire": Kind(2, _one, "K: the lease of attempt K expires; it may still report"),
    "die": Kind(1, _one, "K: the lease of attempt K expires, and nothing is heard of it again"),
    "heed": Kind(1, _one, "K: attempt K asks whether to stop, and does when it shall"),
    "route": Kind(3, _none, "events and announcements are routed"),
    "route_invalidations": Kind(5, _none, "invalidations become tasks"),
    "close_invalidations": Kind(1, _none, "invalidations that nobody completes are closed"),
    "invalidate": Kind(2, _of_job, "JOB START END: a person says that a job's output is wrong"),
    "requeue": Kind(2, _none, "what failed is tried again"),
    "delay": Kind(2, _none, "the routes that are owed now wait; what is owed later comes first"),
    "pressure": Kind(3, _none, "queues are held against their limits"),
    "cancel": Kind(1, _one, "K: a person cancels task K of those that have not ended"),
    "retry": Kind(1, _one, "K: a person retries task K of those that failed or were canceled"),
    "deploy": Kind(3, _edit, "JOB REVISION: a job is edited"),
    "reset": Kind(
        1,
        lambda rng: (rng.choice(REVISIONS),),
        "ERA: the source begins anew, its readers are edited",
    ),
    "advance_deploys": Kind(3, _none, "what is built may take over"),
    "roll_back": Kind(1, _one, "DAG: the version before is active again"),
    "backfill": Kind(1, _backfill, "JOB START END FORCE"),
    "advance_backfills": Kind(1, _none, "backfills go on"),
    "prune": Kind(1, _none, "everything that may be forgotten is"),
    "reconcile": Kind(1, _none, "lost events are looked for"),
    "purge": Kind(1, _one, "JOB: generations that nobody needs are deleted"),
    "garbage": Kind(1, _none, "files that nobody committed are deleted"),
    "work": Kind(3, _none, "everything is done until all is quiet"),
    "mend": Kind(
        2, _some, "START END: unseen, blocks were wrong; a forced backfill reads them anew"
    ),
    "write": Kind(12, _some, "START END: the source that runs writes this range as files"),
}
_BEGINNINGS = ("trigger", "trigger_wide", "trigger_odd", "write")
_STARTS = {"claim", "run_job"}
_ENDS = {"finish", "finish_twice", "fail", "fail_for_good", "split", "die"}
# What changes under attempts that are held.
_CHANGES = {"reorg", "reorg_split", "reorg_beyond", "invalidate", "mend", "write", "deploy"}
_ONLY_WRITERS = {"write"}
_NOT_WRITERS = {"trigger", "trigger_wide", "trigger_odd", "reorg", "reorg_beyond", "mend"}


def kinds_for(shape: Shape, only: Sequence[str] = (), without: Sequence[str] = ()) -> list[str]:
    unknown = {*only, *without} - KINDS.keys()
    if unknown:
        raise ValueError(f"no kind of action: {', '.join(sorted(unknown))}")
    hidden = {*without, *(_NOT_WRITERS if shape.writes else _ONLY_WRITERS)}
    hidden |= set() if shape.splitter else {"reorg_split"}
    hidden |= set() if shape.mode else {"pressure"}
    # What is dropped was not wanted any more: a backfill's task, too.
    hidden |= {"mend"} if shape.mode == "drop_oldest" else set()
    return [kind for kind in KINDS if kind not in hidden and (not only or kind in only)]


def generate(shape: Shape, seed: int, kinds: Sequence[str]) -> History:
    """The same for the same shape, seed and kinds, in every process."""
    rng = random.Random(f"{shape.name}/{seed}")
    weights = [KINDS[kind].weight for kind in kinds]
    drawn = rng.choices(kinds, weights, k=rng.randint(3, _LONGEST))
    actions = [Action(kind, KINDS[kind].args(rng)) for kind in _sensible(rng, drawn, kinds)]
    changes = [kind for kind in kinds if kind in _CHANGES]
    if changes and rng.random() < _RACES:
        place = rng.randint(1, len(actions))
        race = _race(rng, rng.choice(changes))
        actions[place:place] = [action for action in race if action.kind in kinds]
    if not shape.writes and rng.random() < _REORDERED:
        actions += [action for action in _reordered(rng, len(shape.jobs)) if action.kind in kinds]
    if any(job.also for _, job in shape.jobs) and rng.random() < _OUTLASTED:
        outlasted = rng.choice((_outlasted, _outlasted_unread))
        actions += [action for action in outlasted(rng) if action.kind in kinds]
    return tuple(actions)


def _race(rng: random.Random, change: str) -> Iterator[Action]:
    """A change under attempts that have read, and its own attempt beside them: they end in any
    order. Or it happens twice, and a task for the first still waits. Chance alone seldom puts these
    steps one behind the other."""
    happens = [Action(change, KINDS[change].args(rng)), Action("route_invalidations")]
    if rng.random() < _TWICE:
        yield from happens
    yield Action("claim", (rng.choice((1, 8)), 1))
    yield from happens
    if rng.random() < _BESIDE:
        yield Action("claim", (8, rng.randrange(2)))
    for _ in range(rng.randint(1, 4)):
        yield Action("finish", _one(rng))


def _reordered(rng: random.Random, jobs: int) -> Iterator[Action]:
    """A job commits a cell twice. The first commit is routed after the second one, but its reader
    was begun anew between both, and ends before its next task starts."""
    cell = _cell(rng)
    writer = rng.randrange(max(1, jobs - 1))
    rewritten = (
        Action("reorg", cell),
        Action("route_invalidations"),
        Action("run_job", (writer, 0)),
    )
    yield from (Action("trigger", cell), Action("work"), *rewritten, Action("claim", (8, 0)))
    yield from (*rewritten, Action("delay"), Action("die", (0,)), Action("requeue"))
    yield from (Action("claim", (8, 1)), *rewritten, Action("route"), Action("finish", (0,)))


def _outlasted(rng: random.Random) -> Iterator[Action]:
    """An attempt has read a cell by one input of its job. The cell changes once more, of which the
    job hears by the other input alone; what it does about that mostly ends first."""
    cell = _cell(rng)
    yield from (Action("trigger", cell), Action("work"), Action("reorg", cell))
    yield from (Action("route_invalidations"), Action("run_job", (0, 1)))
    yield from (Action("reorg_split", cell), Action("route_invalidations"))
    yield from (Action("run_job", (0, 0)), Action("claim", (8, 0)))
    # The second one of those that are left, and at last the one that began first.
    yield from [Action("finish", (1,))] * rng.randint(3, 8)


def _outlasted_unread(rng: random.Random) -> Iterator[Action]:
    """The change is of the input that was read, and what is there by the end was made of the other
    one, by an attempt that only knew of the change: it was begun anew after it."""
    cell = _cell(rng)
    yield from (Action("trigger", cell), Action("work"), Action("reorg", cell))
    yield from (Action("route_invalidations"), Action("run_job", (0, 1)), Action("claim", (8, 1)))
    yield from (Action("die", (0,)), Action("reorg_split", cell), Action("route_invalidations"))
    yield from (Action("run_job", (0, 0)), Action("claim", (8, 0)), Action("finish", (1,)))
    yield from (Action("requeue"), Action("claim", (8, 0)), Action("finish", (1,)))
    yield Action("finish", (0,))


def _sensible(rng: random.Random, drawn: Sequence[str], kinds: Sequence[str]) -> Iterator[str]:
    """Begins with something to do, and mostly ends only attempts that there are."""
    firsts = [kind for kind in kinds if kind in _BEGINNINGS]
    if firsts:
        yield rng.choice(firsts)
    held = 0
    for kind in drawn:
        if kind in _ENDS and not held and "claim" in kinds:
            kind = "claim"
        held = 0 if kind == "work" else max(0, held + (kind in _STARTS) - (kind in _ENDS))
        yield kind
