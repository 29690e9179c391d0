"""`trace queues dead`: messages that nobody could handle, listed, sent again or dropped."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Annotated

import typer
from rich.markup import escape

from trace_platform.app.api_client import control_client
from trace_platform.app.instance.home import Home
from trace_platform.cli.options import HomeOption, JsonOption, LimitOption, group
from trace_platform.cli.table import show_table
from trace_platform.cli.words import ago, clock, printable, wide_console
from trace_platform.domain.errors import BadInput
from trace_platform.domain.figures import count
from trace_platform.wire.dead_letter import DeadLetter
from trace_platform.wire.task import Accepted

dead = group("Messages that were received again and again, and never acknowledged.")

# As many as one request takes.
_AT_ONCE = 1_000

Letters = Annotated[
    list[int] | None, typer.Argument(metavar="ID", min=1, max=2**63 - 1, help="As listed.")
]
AllOption = Annotated[bool, typer.Option("--all", help="Every one there is.")]
QueueOption = Annotated[str | None, typer.Option("--queue", help="Only of this queue.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


@dead.command("list")
def list_dead(
    queue: QueueOption = None,
    limit: LimitOption = 20,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """The newest first, with the tasks that they would wake."""
    found = control_client.dead_letters(Home.at(home), queue, limit)
    if as_json:
        typer.echo(found.model_dump_json())
        return
    console = wide_console()
    if not found.dead_letters:
        console.print("no dead letters")
        return
    heads = ("id", "queue", "died", "received", "for", "task")
    show_table(console, heads, [_cells(each) for each in found.dead_letters], right=("received",))
    if found.total > len(found.dead_letters):
        console.print(f"{found.total:,} in all: --limit shows more", highlight=False)


@dead.command()
def show(
    letter: Annotated[int, typer.Argument(metavar="ID", min=1, max=2**63 - 1)],
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a message whole."""
    found = control_client.dead_letter(Home.at(home), letter)
    if as_json:
        typer.echo(found.model_dump_json())
        return
    typer.echo(f"queue     {printable(found.queue)}")
    typer.echo(f"sent      {clock(found.sent_at)} UTC")
    typer.echo(f"died      {clock(found.died_at)} UTC, received {count(found.receives, 'time')}")
    typer.echo(f"for       {_for(found)}")
    typer.echo(f"body      {printable(json.dumps(found.body))}")


@dead.command()
def resend(
    letters: Letters = None,
    everything: AllOption = False,
    queue: QueueOption = None,
    yes: YesOption = False,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Send messages again, each to the queue that it was in."""
    _change(
        home, letters, everything, queue, yes, as_json, control_client.resend_dead, "sent again"
    )


@dead.command()
def drop(
    letters: Letters = None,
    everything: AllOption = False,
    queue: QueueOption = None,
    yes: YesOption = False,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Forget messages. The tasks that they would wake are announced by themselves."""
    _change(home, letters, everything, queue, yes, as_json, control_client.drop_dead, "dropped")


def _change(
    home: HomeOption,
    letters: list[int] | None,
    everything: bool,
    queue: str | None,
    yes: bool,
    as_json: bool,
    change: Callable[[Home, Sequence[int]], Accepted],
    done: str,
) -> None:
    if bool(letters) == everything or (queue and not everything):
        raise BadInput("name messages by their ids, or give --all, perhaps with --queue")
    place = Home.at(home)
    if letters:
        accepted = change(place, letters).accepted
    else:
        accepted = _change_all(place, queue, yes, as_json, change, done)
    typer.echo(
        json.dumps({"accepted": accepted}) if as_json else f"{count(accepted, 'message')} {done}"
    )


def _change_all(
    place: Home,
    queue: str | None,
    yes: bool,
    as_json: bool,
    change: Callable[[Home, Sequence[int]], Accepted],
    done: str,
) -> int:
    """Those that are there now. What dies meanwhile is not among them."""
    found = control_client.dead_letters(place, queue, _AT_ONCE)
    asked = f"{count(found.total, 'message')} will be {done}. Go on?"
    if found.total and not yes and not typer.confirm(asked, err=as_json):
        raise typer.Exit(1)
    left, accepted = found.total, 0
    while found.dead_letters and left > 0:
        ids = [each.id for each in found.dead_letters][:left]
        accepted += change(place, ids).accepted
        left -= len(ids)
        found = control_client.dead_letters(place, queue, _AT_ONCE)
    return accepted


def _cells(each: DeadLetter) -> tuple[str, ...]:
    return (
        str(each.id),
        escape(printable(each.queue)),
        ago(each.died_at),
        str(each.receives),
        escape(printable(_job(each))),
        each.task_status or "-",
    )


def _job(each: DeadLetter) -> str:
    return f"{each.dag_name}.{each.job_name}" if each.dag_name else str(each.body.get("kind", "-"))


def _for(each: DeadLetter) -> str:
    if each.task_status is None:
        return "no task that there is"
    return printable(f"a task of {_job(each)}, which is {each.task_status} now")
