"""Take any one comparison of positions away, and the judge turns red."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import trace_platform

pytestmark = [pytest.mark.long, pytest.mark.timeout(1_800)]

ROOT = Path(__file__).parents[2]
HISTORIES = 4_000
FRESHNESS = "domain/freshness.py"
COMMIT = "dispatcher/commits/commit_outputs.py"
FIT = "dispatcher/freshness/fit_ranges.py"
PIN = "dispatcher/freshness/pin_inputs.py"

# What it is called, where it is, what is there, what takes its place, and which shapes show it.
MUTANTS = {
    "a partition holds changes that it was made before": (
        FRESHNESS,
        "and read.position >= change.changed_at",
        "",
        "A,B",
    ),
    "a partition holds changes of versions that it was not made of": (
        FRESHNESS,
        "(read.input_index, read.version) == (change.input_index, change.version)",
        "read.input_index == change.input_index",
        "C",
    ),
    "a partition holds what lies between the ranges that were read": (
        FRESHNESS,
        "[overlap(own, read.span) for read",
        "[own for read",
        "D,Ec",
    ),
    "what is to be done whatever was read is taken for done": (
        FRESHNESS,
        "same and change.changed_at is not None and read.position >= change.changed_at",
        "same and read.position >= (change.changed_at or 0)",
        "A",
    ),
    "an attempt that had read less replaces what had read more": (
        FRESHNESS,
        "known.get((read.input_index, read.version), _unsaid(read)) < read.position",
        "False",
        "A,B",
    ),
    "who began before anything was asked for once more counts as knowing of it": (
        FRESHNESS,
        "return 0 if read.input_index == REDONE else read.position",
        "return read.position",
        "D",
    ),
    "an attempt commits what it made of a version that gave way": (
        COMMIT,
        "    _refuse_obsolete(task, wakes)\n",
        "",
        "C",
    ),
    "an attempt replaces what it did not read": (
        COMMIT,
        " or not has_read(ours, asked):",
        ":",
        "D,Ec",
    ),
    "a position of one version is compared with another's": (
        PIN,
        'if name not in ("changed_at", "read_at")',
        "",
        "C",
    ),
    "several changes in one range count as the oldest": (
        FIT,
        'max((each["changed_at"] for each in inside), default=0)',
        'min((each["changed_at"] for each in inside), default=0)',
        "D,Ec",
    ),
    "an attempt is said to have read more than it had": (
        "state/tasks.sql",
        "to_jsonb(coalesce((\n                    SELECT v.position FROM",
        "to_jsonb(coalesce((\n                    SELECT v.position + 1 FROM",
        "A,B",
    ),
    "changes do not move the position": (
        "state/events.sql",
        "SET position = l.position + g.events",
        "SET position = l.position",
        "A,B",
    ),
    "a task that stands for another invalidation does not know how new that is": (
        "state/invalidations.sql",
        "|| jsonb_build_object('changed_at', e.position)",
        "",
        "A,B",
    ),
    "a generation is not given what was invalid while it was not read": (
        "state/generations.sql",
        "OR e.position > g.position)",
        "OR false)",
        "A,B",
    ),
    "a partition that changed twice counts as the older of both": (
        PIN,
        'max(known["changed_at"], given["changed_at"])',
        'min(known["changed_at"], given["changed_at"])',
        "D,Ec",
    ),
    "a change that is routed later takes the place of a newer one": (
        "state/events.sql",
        "> (excluded.inputs->0->>'changed_at')::bigint THEN tasks.inputs",
        "> (excluded.inputs->0->>'changed_at')::bigint THEN excluded.inputs",
        "F",
    ),
    "an attempt does not know how far the inputs are that it does not read": (
        PIN,
        "for index, version in sorted(others.items())",
        "for index, version in ()",
        "H",
    ),
    "what the maker of a partition knew without reading it does not count": (
        COMMIT,
        "is_older(known, [*partition.made_of, *partition.knows])",
        "is_older(known, partition.made_of)",
        "H",
    ),
    "an attempt does not know that its work was asked for once more": (
        "state/scopes.sql",
        "SET redone = redone + 1",
        "SET redone = redone",
        "A,B",
    ),
    "an invalidation is forgotten before all were given it": (
        "state/history.sql",
        "AND r.position < e.position",
        "AND false",
        "A,B",
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_the_judge_notices(name: str, tmp_path: Path) -> None:
    file, old, new, shapes = MUTANTS[name]
    answer = judged(mutated(tmp_path, file, old, new), shapes)
    print(f"{name}: {found(answer.stdout)}")
    assert answer.returncode == 1, answer.stdout + answer.stderr
    assert found(answer.stdout), answer.stdout + answer.stderr


def mutated(folder: Path, file: str, old: str, new: str) -> Path:
    """A copy of the sources with this one change."""
    copy = folder / "src" / "trace_platform"
    shutil.copytree(
        Path(trace_platform.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__")
    )
    text = (copy / file).read_text()
    assert text.count(old) == 1, f"{old!r} is {text.count(old)} times in {file}"
    (copy / file).write_text(text.replace(old, new))
    return copy.parent


def judged(sources: Path, shapes: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.support.judge", "--no-shrink", "--shapes", shapes]
    environment = os.environ | {"PYTHONPATH": f"{sources}{os.pathsep}{ROOT}"}
    return subprocess.run(
        [*command, "--histories", str(HISTORIES), "--seed", "1", "--workers", "2"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=1_500,
        check=False,
    )


def found(output: str) -> str:
    """The line that says which history failed, and by which rule."""
    return next((line for line in output.splitlines() if re.match(r"history \d+ failed", line)), "")
