"""What `trace sql` remembers between statements, and its commands."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

import typer

from trace_platform.app.api_client.query_client import dataset, datasets
from trace_platform.cli.output_file import check_writable
from trace_platform.cli.query_output import Format, Statement, format_of, show, write
from trace_platform.cli.sql_describe import show_dataset, show_datasets
from trace_platform.cli.words import wide_console
from trace_platform.client.connection import Connection
from trace_platform.domain.errors import BadInput
from trace_platform.domain.moment import moment_or_id
from trace_platform.wire.query import DatasetList

HELP = r"""
  \d               the datasets
  \d NAME          a dataset: columns, rows, versions, how fresh it is
  \format FORMAT   show rows as table, json or csv
  \at MOMENT       read the datasets as they were then; \at alone: as they are
  \timing          say how long each statement takes, or no longer
  \export FILE     write all rows of the last statement to FILE: .json .csv .arrow .parquet
  \q               leave, as exit, quit and Ctrl-D do
  Tab completes; Ctrl-C stops the running query, or clears what is typed.
  NAME@VERSION reads one generation of a dataset: \d NAME lists them.
""".strip("\n")


# What people type who do not know the commands yet.
PLAIN_WORDS = {"exit": r"\q", "quit": r"\q", "help": r"\?"}


# Of the shell what has the same here; what follows it is the name of a dataset.
_SAME_HERE = {
    "datasets list": r"\d lists the datasets",
    "datasets show": r"\d {name} shows it here",
    "datasets versions": r"\d {name} shows them here",
}


class ShownFormat(StrEnum):
    table = "table"
    json = "json"
    csv = "csv"


class Session:
    def __init__(
        self, connection: Connection, format: ShownFormat, limit: int, at: str | None, timing: bool
    ) -> None:
        self._connection = connection
        self._format, self._limit, self._at, self._timing = format, limit, at, timing
        self._last: str | None = None
        self.left = False
        # By dataset, for the completion.
        self.columns: dict[str, list[str]] = {}

    def run(self, sql: str) -> None:
        _refuse_shell(sql)
        self._last = sql
        statement = Statement(sql, self._limit, self._at)
        format = Format(self._format.value)
        show(self._connection, statement, format, timing=self._timing, more=r"\export writes all")

    def refresh(self) -> DatasetList:
        """What is published now, also for the completion."""
        found = datasets(self._connection)
        self.columns.clear()
        self.columns.update({d.name: [c.name for c in d.columns or []] for d in found.datasets})
        return found

    def command(self, text: str) -> None:
        name, _, argument = text.removesuffix(";").partition(" ")
        known: dict[str, Callable[[str], None]] = {
            r"\d": self._describe,
            r"\format": self._set_format,
            r"\at": self._set_at,
            r"\timing": self._toggle_timing,
            r"\export": self._export,
            r"\?": lambda _: typer.echo(HELP),
            r"\q": self._leave,
        }
        if name not in known:
            raise BadInput(f"there is no command {name}", hint=r"\? lists them")
        known[name](argument.strip())

    def _describe(self, name: str) -> None:
        if name:
            show_dataset(wide_console(), dataset(self._connection, name))
        else:
            show_datasets(wide_console(), self.refresh())

    def _set_format(self, name: str) -> None:
        if name not in list(ShownFormat):
            raise BadInput(
                f"rows cannot be shown as {name!r}", hint=r"\format table, json or csv; \export"
            )
        self._format = ShownFormat(name)

    def _set_at(self, moment: str) -> None:
        if moment:
            moment_or_id(moment)
        self._at = moment or None
        typer.echo(f"datasets as of {moment}" if moment else "datasets as they are")

    def _toggle_timing(self, _: str) -> None:
        self._timing = not self._timing
        typer.echo(f"timing is {'on' if self._timing else 'off'}")

    def _export(self, name: str) -> None:
        if not name:
            raise BadInput("export to which file?", hint=r"\export rows.parquet")
        if self._last is None:
            raise BadInput("there is no statement to export yet", hint="run one first")
        file = Path(name).expanduser()
        format = format_of(file)
        check_writable(file)
        write(self._connection, Statement(self._last, None, self._at), format, file)

    def _leave(self, _: str) -> None:
        self.left = True


def _refuse_shell(sql: str) -> None:
    """A command that a hint named, typed where it was read."""
    first, *words = sql.rstrip("; ").split() or [""]
    if first.lower() != "trace" or not words:
        return
    same = _SAME_HERE.get(" ".join(words[:2]), "")
    name = words[2] if len(words) > 2 else "NAME"
    raise BadInput(
        f"`{' '.join([first, *words[:2]])}` is a command of the shell",
        hint=same.format(name=name) or r"\q leaves the prompt; \? shows what there is here",
    )
