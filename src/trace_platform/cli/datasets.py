"""`trace datasets`: what there is, where it comes from, whether it is up to date, what may go."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated
from uuid import UUID

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from trace_platform.app.api_client import dataset_client
from trace_platform.app.instance.home import Home
from trace_platform.app.verify_dataset import Verification, invalidate_broken, verify_dataset
from trace_platform.cli import complete
from trace_platform.cli.confirm import YesOption, confirm
from trace_platform.cli.draw_lineage import as_mermaid, as_tree
from trace_platform.cli.gc import gc
from trace_platform.cli.given_home import at_home
from trace_platform.cli.options import HomeOption, JsonOption, LimitOption, block_option, group
from trace_platform.cli.progress_columns import fitting
from trace_platform.cli.table import short_id, show_table
from trace_platform.cli.words import clock, printable, roughly, seconds, wide_console
from trace_platform.domain.alike import instead
from trace_platform.domain.errors import NotFound
from trace_platform.domain.figures import count, size
from trace_platform.wire.dataset import (
    DatasetDetail,
    DatasetEntry,
    DatasetState,
    DatasetVersion,
    FileBytes,
    Partition,
    PurgedGeneration,
    PurgePlan,
)

_COLOURS: dict[DatasetState, str] = {"fresh": "green", "stale": "yellow", "blocked": "red"}

datasets = group("Show datasets and lineage, purge old generations.")
Dataset = Annotated[
    str,
    typer.Argument(
        help="A published name, a uuid, or an output as DAG.JOB.OUTPUT.",
        autocompletion=complete.datasets,
    ),
]


class Direction(StrEnum):
    up = "up"
    down = "down"
    both = "both"


class Format(StrEnum):
    tree = "tree"
    mermaid = "mermaid"
    json = "json"


@datasets.command("list")
def list_datasets(
    everything: Annotated[
        bool, typer.Option("--all", help="Also outputs that are not published.")
    ] = False,
    tag: Annotated[
        list[str] | None, typer.Option("--tag", help="Only with this tag; several: with all.")
    ] = None,
    owner: Annotated[
        str | None, typer.Option("--owner", help="Only what this one answers for.")
    ] = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show every published dataset, what it holds, and whether it is up to date."""
    there = dataset_client.datasets(Home.at(home), everything=everything)
    wanted = [each for each in there.datasets if _fits(each, tag or [], owner)]
    found = there.model_copy(update={"datasets": wanted})
    if as_json:
        typer.echo(found.model_dump_json())
        return
    console = wide_console()
    if there.datasets and not wanted:
        console.print("no dataset has that owner and these tags")
        return
    if not found.datasets:
        console.print("no datasets" if everything else "nothing is published; --all shows all")
        return
    heads = ["dataset", "producer", "generation", "partitions", "rows", "size", "newest", "state"]
    if any(each.owner or each.tags for each in found.datasets):
        heads += ["owner", "tags"]
    show_table(
        console,
        heads,
        [_entry(each)[: len(heads)] for each in found.datasets],
        right=("partitions", "rows", "size", "newest"),
        spare=("generation", "partitions", "producer"),
    )
    if any(each.state != "fresh" for each in found.datasets):
        said = at_home("\ntrace why DATASET says because of what")
        console.print(said, markup=False, highlight=False, soft_wrap=True)


@datasets.command()
def show(dataset: Dataset, home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Show what is said of a dataset, what it holds and lacks, and its neighbours."""
    found = dataset_client.dataset(Home.at(home), dataset)
    if as_json:
        typer.echo(found.model_dump_json())
        return
    for name, value in _facts(found):
        typer.echo(f"{name:<12} {printable(value)}")
    if found.columns:
        typer.echo()
        heads: tuple[str, ...] = ("column", "declared", "committed", "from", "description")
        if all(column.get("declared") is None for column in found.columns.values()):
            heads = ("column", "type", "nullable")
        show_table(wide_console(), heads, _columns(found, heads), prose=("from", "description"))


@datasets.command()
def versions(dataset: Dataset, home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Show the generations of a dataset, the newest first, and who uses them."""
    found = dataset_client.versions(Home.at(home), dataset)
    if as_json:
        typer.echo(found.model_dump_json())
        return
    console = wide_console()
    show_table(
        console,
        ("generation", "is", "partitions", "rows", "size"),
        [_version(console, each) for each in found.versions],
        right=("partitions", "rows", "size"),
        notes=[_history(each) for each in found.versions],
    )


@datasets.command()
def partitions(
    dataset: Dataset,
    first: Annotated[int | None, block_option("--from", help="From this block on.")] = None,
    last: Annotated[int | None, block_option("--to", help="Up to this block, included.")] = None,
    at: Annotated[
        str | None, typer.Option(help="Of this generation, or the beginning of its id.")
    ] = None,
    after: Annotated[str | None, typer.Option(help="What follows the page before.")] = None,
    limit: LimitOption = 100,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the partitions of a dataset in order, and the task that made each."""
    found = dataset_client.partitions(Home.at(home), dataset, first, last, at, after, limit)
    if as_json:
        typer.echo(found.model_dump_json())
        return
    console = wide_console()
    if found.cold_of:
        told = f"{found.cold_of} is a table in Postgres; of its cold part {found.dataset}:"
        console.print(told, highlight=False, markup=False)
    if not found.partitions:
        console.print("no partitions")
        return
    show_table(
        console,
        ("partition", "rows", "size", "files", "committed (UTC)", "task"),
        [_partition(console, each) for each in found.partitions],
        right=("rows", "size", "files"),
        spare=("files",),
    )
    if found.next:
        console.print(f"\nthere are more: --after {found.next}", highlight=False, markup=False)


@datasets.command()
def lineage(
    subject: Annotated[
        str,
        typer.Argument(
            help="A dataset, a job as DAG.JOB, or a column as DATASET.COLUMN.",
            autocompletion=complete.datasets_and_jobs,
        ),
    ],
    column: Annotated[str | None, typer.Option(help="Only this column of the dataset.")] = None,
    direction: Annotated[
        Direction, typer.Option(help="What it comes from, what comes of it, or both.")
    ] = Direction.both,
    depth: Annotated[
        int | None,
        typer.Option(help="How many datasets away at most.", metavar="N", min=1, max=1000),
    ] = None,
    form: Annotated[Format, typer.Option("--format", help="How to draw it.")] = Format.tree,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what a dataset, a job or a column comes from, and what comes of it, across DAGs."""
    place = Home.at(home)
    found = dataset_client.lineage(place, subject, column, direction.value, depth)
    if not found.edges and found.nodes[0].kind == "column":
        named, _, column = found.subject.rpartition(".")
        _refuse_unknown_column(dataset_client.dataset(place, named), column)
    if as_json or form is Format.json:
        typer.echo(found.model_dump_json())
        return
    lines = as_mermaid(found) if form is Format.mermaid else as_tree(found)
    for line in lines:
        typer.echo(printable(line))


@datasets.command()
def purge(
    dataset: Dataset,
    generation: Annotated[
        str | None, typer.Option(help="This generation, or the beginning of its id.")
    ] = None,
    keep: Annotated[
        int | None,
        typer.Option(
            help="All but the newest so many; 2 unless given.", metavar="N", min=0, max=1000
        ),
    ] = None,
    yes: YesOption = False,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete old generations of a dataset, with all outputs of its job, for good."""
    if generation is not None and keep is not None:
        raise typer.BadParameter("give one of: --generation VERSION, --keep N")
    place = Home.at(home)
    plan = dataset_client.plan_purge(place, dataset, generation, keep)
    # One that was asked for by name is tried, and refused with the reason.
    due = [g for g in plan.generations if generation is not None or g.in_use is None]
    if not as_json:
        for line in _purge_plan(plan, due):
            typer.echo(printable(line))
    if due and not yes:
        confirm("Delete this for good?")
    versions = [each.dataset_version for each in due]
    done = dataset_client.purge(place, dataset, versions) if due else None
    if as_json:
        typer.echo(done.model_dump_json() if done else plan.model_dump_json())
    elif done:
        typer.echo(f"{len(done.purged)} purged, {count(done.objects, 'object')} deleted")


@datasets.command()
def verify(
    dataset: Dataset,
    at: Annotated[
        str | None, typer.Option(help="Of this generation, or the beginning of its id.")
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option(help="Only so many partitions, chosen by chance.", metavar="N", min=1),
    ] = None,
    invalidate: Annotated[
        bool, typer.Option("--invalidate", help="Have what is broken made anew.")
    ] = False,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Read again what was committed: is every file there, and what was written? Exit code 1 when
    one is not."""
    place = Home.at(home)
    with _looking() as seen:
        found = verify_dataset(place, dataset, at, sample, seen)
    if invalidate and found.broken:
        found = invalidate_broken(place, found)
    if as_json:
        typer.echo(found.model_dump_json())
    else:
        for line in _verified(found):
            typer.echo(printable(line))
    if found.broken:
        raise typer.Exit(1)


datasets.command("gc")(gc)


def _refuse_unknown_column(dataset: DatasetDetail, column: str) -> None:
    known = list(dataset.columns or {})
    if known and column not in known:
        hint = instead(column, known, most=20)
        raise NotFound(f"'{dataset.dataset}' has no column '{column}'", hint=hint)


@contextmanager
def _looking() -> Iterator[Callable[[int, int], None]]:
    """A bar on a terminal; what is printed goes to another stream."""
    console = Console(stderr=True)
    columns = fitting(console, TextColumn("verifying"), BarColumn(), MofNCompleteColumn())
    # Where there is no terminal, a bar is an empty line.
    hidden = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=hidden) as bar:
        task = bar.add_task("verifying", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _verified(found: Verification) -> Iterator[str]:
    if found.cold_of:
        yield f"{found.cold_of} is a table in Postgres; its files are those of {found.dataset}"
    for each in found.broken:
        yield f"{each.partition_key}: {each.kind}: {each.uri}: {each.detail}"
    for key, invalidation_id in found.invalidated.items():
        yield f"{key}: to be made anew ({invalidation_id})"
    held = (count(found.partitions, "partition"), count(found.files, "file"), size(found.bytes))
    wrong = len({each.partition_key for each in found.broken})
    said = f"{wrong:,} broken" if wrong else "all as promised"
    yield f"{found.dataset}: {', '.join(held)}: {said}"


def _fits(each: DatasetEntry, tags: list[str], owner: str | None) -> bool:
    return set(tags) <= set(each.tags) and owner in (None, each.owner)


def _entry(each: DatasetEntry) -> tuple[str, ...]:
    newest = "-" if each.age_s is None else f"{seconds(each.age_s)} ago"
    return (
        each.dataset,
        each.producer,
        _short(each.dataset_version),
        f"{each.partitions:,}",
        roughly(each.rows, each.rows_estimated),
        size(each.bytes),
        newest,
        f"[{_COLOURS[each.state]}]{each.state}[/]",
        each.owner or "-",
        ", ".join(each.tags) or "-",
    )


def _facts(found: DatasetDetail) -> Iterator[tuple[str, str]]:
    yield "dataset", found.dataset
    if found.description:
        yield "description", found.description
    if found.owner:
        yield "owner", found.owner
    if found.tags:
        yield "tags", ", ".join(found.tags)
    yield "uuid", str(found.dataset_uuid)
    yield "producer", f"{found.producer}, output {found.output_index}"
    yield "state", found.answer
    yield "generation", f"{found.dataset_version} (of {found.generations})"
    mode = f", {found.write_mode}" if found.write_mode else ""
    yield "storage", f"{found.storage}{mode}"
    yield from _location(found)
    rows = ("~" if found.rows_estimated else "") + count(found.rows, "row")
    yield "holds", f"{count(found.partitions, 'partition')}, {rows}, {size(found.bytes)}"
    if found.files and found.files.superseded_bytes:
        yield "files", _file_bytes(found.files)
    if found.cold:
        held = (count(found.cold.partitions, "partition"), count(found.cold.rows, "row"))
        yield "cold part", f"{found.cold.dataset}: {', '.join(held)}, {size(found.cold.bytes)}"
    if found.cursor is not None:
        yield "cursor", f"{found.cursor:,}"
    if found.first_block is not None and found.last_block is not None:
        yield "blocks", f"{found.first_block:,} to {found.last_block:,}{_gaps(found)}"
    if found.newest_at is not None:
        yield "newest", f"{clock(found.newest_at)} UTC, {seconds(found.age_s)} ago"
    if found.max_age_s is not None:
        yield "max age", seconds(found.max_age_s)
    for misfit in found.misfits:
        yield "misfit", misfit
    if found.pii:
        yield "pii", ", ".join(found.pii)
    yield "reads", ", ".join(found.upstream) or "nothing: it is a source"
    yield "read by", ", ".join(found.downstream) or "nobody"


def _location(found: DatasetDetail) -> Iterator[tuple[str, str]]:
    """A path that can be opened, and what it is called everywhere else."""
    if found.table is not None:
        yield "location", found.table
        return
    if found.path is not None:
        empty = "" if Path(found.path).is_dir() else " (nothing there yet)"
        yield "path", f"{found.path}{empty}"
    yield "uri", found.location


def _file_bytes(files: FileBytes) -> str:
    pinned = f", of which {size(files.pinned_bytes)} pinned" if files.pinned_bytes else ""
    return f"{size(files.live_bytes)} live, {size(files.superseded_bytes)} superseded{pinned}"


def _gaps(found: DatasetDetail) -> str:
    if not found.gap_count:
        return ", without a gap"
    named = ", ".join(f"{gap.start}-{gap.end}" for gap in found.gaps)
    more = found.gap_count - len(found.gaps)
    return f", missing {named}{f' and {more:,} more' if more else ''}"


def _columns(found: DatasetDetail, heads: tuple[str, ...]) -> list[tuple[str, ...]]:
    return [
        (escape(printable(name)), *(_cell(column.get(head)) for head in heads[1:]))
        for name, column in (found.columns or {}).items()
    ]


def _cell(said: object) -> str:
    if isinstance(said, bool):
        return "yes" if said else "no"
    text = ", ".join(map(str, said)) if isinstance(said, list) else str(said or "-")
    return escape(printable(text))


def _version(console: Console, each: DatasetVersion) -> tuple[str, ...]:
    return (
        short_id(console, each.dataset_version),
        _standing(each),
        f"{each.partitions:,}",
        roughly(each.rows, each.rows_estimated),
        size(each.bytes),
    )


def _history(each: DatasetVersion) -> str:
    built = f", built {clock(each.built_at)} UTC" if each.built_at else ""
    used = ", ".join(_short(version) for version in each.dag_versions) or "none"
    return f"made {clock(each.created_at)} UTC{built}; versions of the DAG: {used}"


def _standing(each: DatasetVersion) -> str:
    if each.purged_at:
        return f"purged {clock(each.purged_at)}"
    if each.building:
        return "building"
    if each.current:
        return "current" if each.active else "current, not active"
    return "kept" if each.built_at else "not built"


def _partition(console: Console, each: Partition) -> tuple[str, ...]:
    return (
        escape(printable(each.partition_key)),
        f"{each.rows:,}",
        size(each.bytes),
        f"{each.files:,}",
        clock(each.committed_at),
        short_id(console, each.task_id) if each.task_id else "-",
    )


def _purge_plan(plan: PurgePlan, due: list[PurgedGeneration]) -> Iterator[str]:
    if not plan.generations:
        yield f"{plan.dataset} has no more generations than are kept: nothing to purge"
        yield "--keep 0 keeps only those that are used"
        return
    yield f"generations of {plan.producer}, each with all its outputs:"
    for each in plan.generations:
        yield from _purged(each)
    if due:
        total = sum(each.bytes for each in due)
        files = sum(each.files for each in due)
        yield f"{len(due)} would go: {count(files, 'file')}, {size(total)}"
    else:
        yield "all of them are used: nothing to purge"


def _purged(each: PurgedGeneration) -> Iterator[str]:
    amount = f"{count(each.rows, 'row')}, {size(each.bytes)}, {count(each.files, 'file')}"
    yield f"- {each.dataset_version} of {clock(each.created_at)} UTC: {amount}"
    yield f"  datasets: {', '.join(each.datasets)}"
    if each.in_use:
        yield f"  stays: {each.in_use}"
    elif each.purged_at:
        yield f"  purged {clock(each.purged_at)} UTC: what is left of its files goes"
    elif each.dag_versions:
        named = ", ".join(_short(version) for version in each.dag_versions)
        yield f"  cannot be rolled back to any more: {named}"


def _short(id: UUID) -> str:
    return str(id)[:8]
