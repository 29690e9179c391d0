"""`trace dag`: files, before they are deployed; nothing needs to run for that. What an instance
knows of DAGs is in dag_versions.py and dag_list.py."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trace_platform.cli import dag_list, dag_versions
from trace_platform.cli.options import JsonOption, group
from trace_platform.domain.errors import BadInput
from trace_platform.domain.figures import count

if TYPE_CHECKING:
    from trace_platform.dag.model.dag import Dag
    from trace_platform.dag.read.errors import DagError
    from trace_platform.domain.runtimes import Runtimes

dag_app = group("Check and draw DAG files; list, compare and remove DAGs.")

dag_app.command("list")(dag_list.list_dags)
for _of_an_instance in (dag_versions.versions, dag_versions.show, dag_versions.diff):
    dag_app.command()(_of_an_instance)
dag_app.command()(dag_list.remove)

STDIN = Path("-")

RuntimeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--runtime", metavar="NAME", help="A runtime of your own, by name; may be repeated."
    ),
]


class Format(StrEnum):
    terminal = "terminal"
    mermaid = "mermaid"
    json = "json"


@dag_app.command()
def schema() -> None:
    """Print the JSON Schema of DAG files, for editors."""
    typer.echo(schema_text())


def schema_text() -> str:
    from trace_platform.dag.model.json_schema import editor_schema
    from trace_platform.domain.runtimes import Runtimes

    runtimes = [runtime.name for runtime in Runtimes.default()]
    return json.dumps(editor_schema(_configs(), runtimes), indent=2)


@dag_app.command()
def lint(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...", help="DAG files, folders of *.yaml, or - for standard input."
        ),
    ],
    runtime: RuntimeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check DAG files without an instance. Ends with 1 when there are errors."""
    found = [_checked(file, _offline(runtime or [])) for file in _spread(files)]
    if as_json:
        typer.echo(json.dumps([each.as_data() for each in found]))
    else:
        for each in found:
            typer.echo("\n".join(each.lines()))
    if any(each.errors for each in found):
        raise typer.Exit(1)


@dag_app.command()
def graph(
    file: Annotated[Path, typer.Argument(help="A DAG file, or - for standard input.")],
    form: Annotated[Format, typer.Option("--format", help="How to draw it.")] = Format.terminal,
    runtime: RuntimeOption = None,
) -> None:
    """Draw a DAG: its jobs, their outputs, and the names under which these are published."""
    from trace_platform.cli import dag_graph
    from trace_platform.dag.read.errors import invalid_dag

    found = _checked(file, _offline(runtime or []))
    if found.dag is None:
        raise invalid_dag(found.file, found.errors)
    drawn = dag_graph.Graph.of(found.dag)
    if form is Format.json:
        typer.echo(json.dumps(dag_graph.as_data(drawn)))
    elif form is Format.mermaid:
        typer.echo("\n".join(dag_graph.mermaid(drawn)))
    else:
        _print_drawing(drawn, found)


def _print_drawing(drawn: Any, found: Checked) -> None:
    from trace_platform.cli.dag_graph import terminal
    from trace_platform.cli.words import wide_console

    console = wide_console()
    console.print(f"{drawn.dag.name}: {found.counts()}\n", highlight=False, markup=False)
    for line in terminal(drawn, unicode=_speaks_unicode()):
        console.print(line, no_wrap=True, overflow="ellipsis", crop=True)


def _speaks_unicode() -> bool:
    try:
        "●│╰→".encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


@dataclass(frozen=True, slots=True)
class Checked:
    """A file, and what is to be said of it."""

    file: str
    dag: Dag | None = None
    errors: list[DagError] = field(default_factory=list)
    warnings: list[DagError] = field(default_factory=list)

    def counts(self) -> str:
        assert self.dag is not None
        jobs, published = len(self.dag.jobs), len(self.dag.publish)
        return f"{count(jobs, 'job')}, {count(published, 'published dataset')}"

    def lines(self) -> Iterator[str]:
        from trace_platform.cli.words import printable
        from trace_platform.dag.read.errors import MAX_LISTED

        if self.dag is not None:
            for warning in self.warnings[:MAX_LISTED]:
                yield printable(warning.at(self.file, "warning"))
            yield f"{self.file}: ok: {self.counts()}{self._elsewhere()}"
            return
        for error in self.errors[:MAX_LISTED]:
            yield printable(error.at(self.file))
        if len(self.errors) > MAX_LISTED:
            yield f"{self.file}: and {len(self.errors) - MAX_LISTED:,} more"
        yield f"{self.file}: {count(len(self.errors), 'error')}"

    def _elsewhere(self) -> str:
        assert self.dag is not None
        said = [f"{name}{_own(name, self.dag)}" for name in reads_from_other_dags(self.dag)]
        return f"; reads from other DAGs: {', '.join(said)}" if said else ""

    def as_data(self) -> dict[str, Any]:
        from trace_platform.dag.read.errors import MAX_LISTED

        return {
            "file": self.file,
            "ok": self.dag is not None,
            "dag": self.dag.name if self.dag else None,
            "jobs": len(self.dag.jobs) if self.dag else None,
            "published": len(self.dag.publish) if self.dag else None,
            "reads_from_other_dags": reads_from_other_dags(self.dag) if self.dag else [],
            "errors": [asdict(error) for error in self.errors[:MAX_LISTED]],
            "more_errors": max(len(self.errors) - MAX_LISTED, 0),
            "warnings": [asdict(warning) for warning in self.warnings[:MAX_LISTED]],
        }


def _own(name: str, dag: Dag) -> str:
    from trace_platform.wire.suggest import near

    # busy_blocks is no blocks that was mistyped.
    others = [each for each in dag.publish if not set(name.split("_")) < set(each.split("_"))]
    meant = near(name, others)
    return f" (or is '{meant}' of this one meant?)" if meant else ""


def reads_from_other_dags(dag: Dag) -> list[str]:
    """Only an instance knows whether these are published."""
    from trace_platform.dag.model.dag import DatasetRef

    read = [edge.source for job in dag.jobs for edge in job.inputs]
    names = dict.fromkeys(ref.dataset for ref in read if isinstance(ref, DatasetRef))
    return [name for name in names if name not in dag.publish]


def _checked(file: Path, runtimes: Runtimes) -> Checked:
    from trace_platform.app.code_beside import code_beside
    from trace_platform.dag.check.check_dag import check_file
    from trace_platform.dag.read.errors import DagErrors

    name = "standard input" if file == STDIN else str(file)
    try:
        text = _text(file)
        code = code_beside(None if file == STDIN else file.parent, text)
        found = check_file(text, runtimes, code=code)
        return Checked(name, dag=found.dag, warnings=found.warnings)
    except DagErrors as wrong:
        return Checked(name, errors=wrong.errors)


def _text(file: Path) -> str:
    """Never more than is needed to see that it is too much."""
    from trace_platform.dag.read.errors import DagError, DagErrors
    from trace_platform.dag.read.load import MAX_BYTES

    try:
        with sys.stdin.buffer if file == STDIN else file.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except OSError as error:
        said = f"cannot be read: {error.strerror}"
        raise DagErrors([DagError(1, 1, "", said)]) from None
    if len(content) > MAX_BYTES:
        said = f"the file has more than {MAX_BYTES:,} bytes: split the DAG"
        raise DagErrors([DagError(1, 1, "", said)])
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        before = content[: error.start].decode()
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        raise DagErrors([DagError(line, column, "", "is no UTF-8: save it as that")]) from None


def _spread(files: list[Path]) -> Iterator[Path]:
    for file in files:
        if file == STDIN or not file.is_dir():
            yield file
            continue
        found = [each for end in ("yaml", "yml") for each in file.rglob(f"*.{end}")]
        if not found:
            raise BadInput(f"there is no *.yaml in {file}", hint="give a DAG file")
        yield from sorted(found)


def _offline(own: list[str]) -> Runtimes:
    """The built-in runtimes as an instance could have them, and the author's own."""
    from trace_platform.domain.runtimes import DEFAULT_RUNTIMES, Runtimes, starting_point

    known = {runtime.name: runtime for runtime in DEFAULT_RUNTIMES}
    # Which function it calls is the instance's to know, not the file's.
    known["lambda"] = replace(known["lambda"], url="http://offline.invalid")
    for name in own:
        known[name] = replace(known.get(name, starting_point(name)), enabled=True)
    return Runtimes(known.values())


def _configs() -> dict[str, dict[str, Any]]:
    """The config of each operator, as a JSON Schema."""
    from trace_platform.dag.event_operators import registry as in_process
    from trace_platform.operators import registry

    classes: dict[str, Any] = {name: registry.load(name) for name in registry.OPERATORS}
    classes |= {name: in_process.load(name) for name in in_process.OPERATORS}
    return {name: each.Config.model_json_schema() for name, each in classes.items()}
