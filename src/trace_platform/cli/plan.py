"""`trace plan`: what a deploy would do, before anything happens."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from trace_platform.app.api_client import control_client
from trace_platform.app.code_beside import code_beside, refuse_unreadable
from trace_platform.app.instance.home import Home
from trace_platform.cli.given_home import at_home
from trace_platform.cli.options import HomeOption, JsonOption
from trace_platform.cli.output_file import check_writable, output_file
from trace_platform.cli.table import show_table
from trace_platform.cli.words import printable, wide_console
from trace_platform.domain.alike import listed
from trace_platform.domain.figures import count, duration, size
from trace_platform.domain.own_code import Files
from trace_platform.wire.plan import Amount, JobChange, Plan, SavedPlan

# Of columns that a line names.
_MOST_COLUMNS = 12
_COLUMN = {"added": "new", "changed": "changes", "removed": "gone"}
_SIGNS = {
    "added": "[green]+ added[/green]",
    "changed": "[yellow]~ changed[/yellow]",
    "affected": "[yellow]~ affected[/yellow]",
    "updated": "[cyan]· updated[/cyan]",
    "removed": "[red]- removed[/red]",
}


def plan(
    file: Annotated[Path, typer.Argument(help="The DAG file.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Save the plan, for trace deploy --plan."),
    ] = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what a deploy of this file would do: jobs, data to build, what stays."""
    if out is not None:
        check_writable(out)
    yaml = control_client.read_dag_file(file)
    code = refuse_unreadable(code_beside(file.parent, yaml)).files
    found = control_client.plan(Home.at(home), yaml, str(file), code)
    if out is not None:
        with output_file(out) as target:
            target.write(f"{_saved(yaml, code, found).model_dump_json(indent=2)}\n".encode())
    if as_json:
        typer.echo(found.model_dump_json())
    else:
        show_warnings(found.warnings)
        show_plan(wide_console(), found)
        if out is not None:
            typer.echo(at_home(f"saved: trace deploy --plan {out} does exactly this, or nothing"))


def show_warnings(warnings: list[str]) -> None:
    """On stderr: standard output holds the answer and nothing else."""
    for warning in warnings:
        typer.echo(printable(warning), err=True)


def show_plan(console: Console, plan: Plan) -> None:
    if plan.base_version is None:
        console.print(f"{plan.dag_name}: not deployed yet", highlight=False)
    else:
        version = str(plan.base_version)[:8]
        console.print(
            f"{plan.dag_name}: against version {version}, which is active", highlight=False
        )
    if not plan.changes and not plan.publishes:
        console.print("nothing changes")
        return
    if plan.changes:
        rows = [_change(each) for each in plan.changes]
        show_table(console, ("", "job", "data", "why"), rows, prose=("data", "why"))
        for change in plan.changes:
            for said in _columns(change):
                console.print(f"  {escape(printable(said))}", highlight=False, soft_wrap=True)
    for each in plan.publishes:
        console.print(f"  dataset {each.dataset}: {each.action}, {each.why}", highlight=False)
    for reader in plan.readers:
        job = f"{reader.dag_name}.{reader.job_name}"
        console.print(f"  {job} reads {reader.dataset} and does its work again", highlight=False)
    console.print(_total(plan), highlight=False, soft_wrap=True)


def _change(job: JobChange) -> tuple[str, ...]:
    return _SIGNS[job.action], job.job, _data(job), escape(printable("; ".join(job.why)))


def _columns(job: JobChange) -> Iterator[str]:
    """A line for each output of which it is known what changes."""
    for output in job.columns or ():
        name = f"{job.job}.{output.output}"
        changed = [f"{each.column} ({_COLUMN[each.change]})" for each in output.columns]
        said = f"columns {listed(changed, _MOST_COLUMNS)}" if changed else "no column changes"
        rows = ", and which rows there are" if output.rows else ""
        yield f"{name}: {said}{rows}"


def _data(job: JobChange) -> str:
    if job.action == "removed":
        return "kept, not read any more"
    if not job.builds:
        return "stays"
    if job.reuses:
        return "is there from before: only what is missing is made"
    return f"built anew: {amount(job.holds)}" if job.holds.partitions else "built from its inputs"


def amount(of: Amount) -> str:
    return f"{count(of.partitions, 'partition')}, {of.rows:,} rows, {size(of.bytes)}"


def _total(plan: Plan) -> str:
    stays = len(plan.jobs) - len(plan.builds) - sum(j.action == "removed" for j in plan.jobs)
    if not plan.builds:
        return "No data is built: it is active at once."
    total = plan.total
    if plan.base_version is None:
        return "It is active at once, or as soon as what its inputs hold is worked through."
    text = f"To build: {amount(total)}"
    if total.seconds is not None:
        slots = max(plan.slots, 1)
        took = duration(max(total.seconds / slots, 1.0))
        text += f"; about {took} at {slots} tasks at a time, by past attempts"
    keep = "keeps its" if stays == 1 else "keep their"
    return f"{text}. {stays} of {count(len(plan.jobs), 'job')} {keep} data."


def _saved(yaml: str, code: Files, plan: Plan) -> SavedPlan:
    return SavedPlan(
        yaml=yaml,
        code=dict(code),
        plan=plan,
        plan_hash=plan.plan_hash,
        saved_at=datetime.now(UTC),
    )
