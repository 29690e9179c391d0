"""`trace gc`: files that nobody needs go now, or what stays is explained."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from trace_platform.app.api_client import dataset_client
from trace_platform.app.instance.home import Home
from trace_platform.cli.options import HomeOption, JsonOption
from trace_platform.cli.table import show_table
from trace_platform.cli.words import clock, printable, seconds, wide_console
from trace_platform.domain.figures import count, size
from trace_platform.wire.dataset import Garbage, GarbageExplanation, KeptFiles


def gc(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what nobody committed and would go.")
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Only show what files stay, how long, and why.")
    ] = False,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete files that nobody needs, now: what attempts left that nobody committed, and what gave
    way to newer files too long ago."""
    place = Home.at(home)
    found = dataset_client.explain_garbage(place) if explain else _collect(place, dry_run)
    if as_json:
        typer.echo(found.model_dump_json())
    elif isinstance(found, GarbageExplanation):
        _show_explanation(found)
    else:
        for line in _collected(found, dry_run=dry_run):
            typer.echo(printable(line))


def _collect(place: Home, dry_run: bool) -> Garbage:
    found = dataset_client.collect_garbage(place, dry_run=dry_run)
    while found.next is not None:
        more = dataset_client.collect_garbage(place, dry_run=dry_run, after=found.next)
        found = Garbage(
            items=found.items + more.items,
            unknown=found.unknown + more.unknown,
            places=found.places + more.places,
            next=more.next,
        )
    return found


def _collected(found: Garbage, *, dry_run: bool) -> Iterator[str]:
    for item in found.items:
        yield f"{item.why}: {item.place}: {count(item.objects, 'object')}, {size(item.bytes)}"
    for place in found.unknown:
        yield f"unknown, left alone: {place}"
    objects, total = (sum(getattr(i, name) for i in found.items) for name in ("objects", "bytes"))
    done = "would be deleted" if dry_run else "deleted"
    held = f"{count(objects, 'object')}, {size(total)}"
    yield f"{count(found.places, 'place')}: {held} {done}"


def _show_explanation(found: GarbageExplanation) -> None:
    console = wide_console()
    if found.generations:
        show_table(
            console,
            ("dataset", "generation", "live", "superseded", "pinned", "retired", "next goes (UTC)"),
            [_kept(each) for each in found.generations],
            right=("live", "superseded", "pinned", "retired"),
        )
        console.print()
    for line in _rules(found):
        console.print(line, highlight=False, markup=False)


def _kept(each: KeptFiles) -> tuple[str, ...]:
    return (
        each.dataset,
        f"{str(each.dataset_version)[:8]}{'' if each.current else ' (kept)'}",
        size(each.live_bytes),
        size(each.superseded_bytes),
        size(each.pinned_bytes),
        size(each.retired_bytes),
        clock(each.next_retired_at) if each.next_retired_at else "-",
    )


def _rules(found: GarbageExplanation) -> Iterator[str]:
    yield (
        f"superseded files stay {found.superseded_days:g} days, and of one partition the newest"
        f" {found.superseded_versions:,}; then they are retired, and deleted"
        f" {seconds(found.reader_grace_s)} later"
    )
    if found.oldest_reader and found.oldest_reader_since:
        yield (
            f"pinned: task {found.oldest_reader} runs since {clock(found.oldest_reader_since)} UTC"
            " and may read what gave way since"
        )
    yield "live files stay, of every generation; trace datasets purge deletes a generation"
