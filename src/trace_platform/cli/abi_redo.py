"""What is decoded again because an ABI changed: said, and waited for."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from trace_platform.app.api_client import backfill_client
from trace_platform.app.instance.home import Home
from trace_platform.cli.follow import goes_on, patiently
from trace_platform.cli.given_home import at_home
from trace_platform.cli.progress_columns import fitting
from trace_platform.domain.errors import TaskFailed
from trace_platform.wire.abi import AbiRedo
from trace_platform.wire.invalidation import InvalidationStatus

WaitOption = Annotated[
    bool, typer.Option("--wait", help="Show progress until it is decoded again.")
]
_POLL_S = 0.3
# Of a dataset: the newest invalidations, among which is what was just said.
_LOOKED_AT = 1_000


def finish(home: Home, redo: Sequence[AbiRedo], *, wait: bool, said: bool) -> None:
    """What is decoded again is said unless something else is to be printed, and waited for where
    that is asked."""
    if said:
        for each in redo:
            typer.echo(f"{each.job} decodes blocks {each.start:,} to {each.end:,} again")
        if redo and not wait:
            typer.echo(at_home("how far that is: trace invalidations list"))
    if wait and redo:
        # On stderr: standard output holds the answer and nothing else.
        with goes_on("it goes on; trace invalidations list shows how far it is"):
            _follow(Console(stderr=True), home, redo)


def _follow(console: Console, home: Home, redo: Sequence[AbiRedo]) -> None:
    """A bar for each job until all of it is done. Raise TaskFailed when one of its tasks failed for
    good."""
    columns = fitting(
        console,
        TextColumn("  {task.description}"),
        BarColumn(bar_width=28),
        MofNCompleteColumn(),
        TextColumn("tasks"),
        TimeElapsedColumn(),
    )
    left = list(redo)
    with Progress(*columns, console=console) as progress:
        bars = {each.invalidation_id: progress.add_task(each.job, total=None) for each in redo}
        while left:
            for each in list(left):
                found = _state(home, each)
                bar = bars[each.invalidation_id]
                progress.update(bar, completed=found.tasks_done, total=found.tasks or None)
                if found.state == "processed":
                    left.remove(each)
                elif found.failed_task_id is not None:
                    raise TaskFailed(
                        f"a task of {each.job} failed: some of its blocks are not decoded again",
                        hint=f"mend the cause, then: trace tasks retry {found.failed_task_id}",
                    )
            if left:
                time.sleep(_POLL_S)


def _state(home: Home, redo: AbiRedo) -> InvalidationStatus:
    """As it is, or as the one is that stands for it too."""
    found = patiently(
        lambda: backfill_client.invalidations(home, redo.dataset, _LOOKED_AT, open_only=False)
    )
    return next(
        each for each in found.invalidations if each.invalidation_id == redo.invalidation_id
    )
