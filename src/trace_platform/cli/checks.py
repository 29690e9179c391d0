"""`trace checks`: what checks found in what was written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from trace_platform.app.api_client import control_client
from trace_platform.app.instance.home import Home
from trace_platform.cli.options import HomeOption, JsonOption, LimitOption, group
from trace_platform.cli.table import brief, show_table
from trace_platform.cli.words import ago, printable, wide_console
from trace_platform.wire.check import CheckResult, SampleRow

checks = group("Show what checks found in what was written.")


@checks.command("list")
def list_checks(
    dataset: Annotated[
        str | None, typer.Argument(help="A dataset, by name or as DAG.JOB.OUTPUT.")
    ] = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Each check that has run, by its newest result."""
    found = control_client.checks(Home.at(home), dataset)
    if as_json:
        typer.echo(found.model_dump_json())
        return
    console = wide_console()
    if not found.checks:
        console.print("no checks have run")
        return
    rows = [
        (
            escape(each.dataset),
            escape(each.name),
            escape(each.on_failure),
            each.outcome,
            escape(printable(each.partition_key)),
            ago(each.checked_at),
            f"{each.passed:,}",
            f"{each.failed:,}",
        )
        for each in found.checks
    ]
    heads = ("dataset", "check", "on failure", "newest", "partition", "when", "passed", "failed")
    show_table(console, heads, rows, right=("passed", "failed"))


@checks.command()
def show(
    dataset: Annotated[str, typer.Argument(help="A dataset, by name or as DAG.JOB.OUTPUT.")],
    failed: Annotated[bool, typer.Option("--failed", help="Only what did not pass.")] = False,
    limit: LimitOption = 20,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """What the checks of a dataset found, the newest first, with a sample of wrong rows. Personal
    columns are masked."""
    found = control_client.check_results(Home.at(home), dataset, limit, failed=failed)
    if as_json:
        typer.echo(found.model_dump_json())
        return
    console = wide_console()
    if not found.results:
        console.print("no check of it has run" if not failed else "no check of it failed")
        return
    heads = ("check", "partition", "when", "outcome", "on failure", "state", "task")
    notes = [printable(each.message) if each.outcome != "passed" else "" for each in found.results]
    show_table(console, heads, [_cells(each) for each in found.results], notes=notes)
    for each in found.results:
        if each.sample:
            title = f"{each.name}, {each.partition_key}: {_shown(each)}"
            console.print(f"\n{escape(printable(title))}", highlight=False)
            _show_sample(console, each.sample)


def _cells(each: CheckResult) -> Sequence[str]:
    state = "committed" if each.committed else "not committed"
    return (
        escape(each.name),
        escape(printable(each.partition_key)),
        ago(each.checked_at),
        each.outcome,
        escape(each.on_failure),
        f"{state}, blocks" if each.blocks_now else state,
        brief(each.task_id),
    )


def _shown(each: CheckResult) -> str:
    shown = f"{len(each.sample):,} of {each.failing:,}"
    return shown + (f"; personal: {', '.join(each.masked)}" if each.masked else "")


def _show_sample(console: Console, sample: Sequence[SampleRow]) -> None:
    heads = list(dict.fromkeys(name for row in sample for name in row))
    rows = [[escape(printable(row.get(head) or "null")) for head in heads] for row in sample]
    show_table(console, heads, rows)
