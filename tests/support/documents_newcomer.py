"""Somebody new who reads the pages in order, on one machine, and types what they show."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support import documents_dags as dags
from tests.support import documents_python
from tests.support.documents import ROOT, Block, Document
from tests.support.documents_python import Python
from tests.support.documents_shell import Ran, Shell
from tests.support.documents_shown import begins, fits
from tests.support.documents_standins import Standins
from tests.support.documents_steps import SHELL, Command, commands
from tests.support.short_lived import settle_for_short
from tests.support.stack import wait_for
from trace_platform.app.api_client import dataset_client
from trace_platform.app.instance.home import Home
from trace_platform.operators.spark.java import java_home

# A first line that says which file the block is.
_FILE = re.compile(r"(?:#|--) ([\w./-]+\.\w+)\n")
# What people type, in a block that nobody would run.
_TYPED = re.compile(r"^(?:\$ |(?:trace|make|export|curl|python|pip) )", re.MULTILINE)
_ON_AN_INSTANCE = (*SHELL, "python", "sql")
# Of drawings, answers and settings (whose test is in test_docs_are_true.py).
_TO_LOOK_AT = ("", "text", "toml", "mermaid")


# Where `make demo` ends, on a chain that stays.
_DEMO = """
trace up --detach && trace deploy src/trace_platform/examples/chain.yaml &&
trace sources trigger chain request --from 0 --to 999 --wait
"""


class Newcomer:
    def __init__(self, folder: Path, node: str, free_port: int) -> None:
        self.folder = folder / "trace"
        self.scratch = folder / "scratch"
        self.scratch.mkdir(parents=True)
        _clone(self.folder)
        self.env = _environment(folder)
        self.node = node
        self.free_port = free_port
        self.transcript: list[str] = []

    def run_the_demo(self) -> None:
        self.env["TRACE_RPC_DEMO"] = self.node
        settle_for_short(Home(self.folder / ".trace"))
        with self._shell() as shell:
            ran = shell.run(_DEMO)
        assert ran.code == 0, ran.printed

    def wait_until_quiet(self, page: Document) -> None:
        """Start what the page before stopped, and wait for the work that it left behind."""
        if all(block.language not in _ON_AN_INSTANCE for block in page.blocks):
            return
        with self._shell() as shell:
            ran = shell.run("trace status || trace up --detach")
            assert ran.code == 0, ran.printed
        # Not by commands: each takes longer to start than most of what is waited for.
        home = Home(self.folder / ".trace")
        wait_for("fresh datasets", lambda: _no_work_is_left(home))

    def lint_arguments(self, page: Document) -> list[str]:
        """Of `trace dag lint` for what the page shows, once the reader has written its files."""
        with ExitStack() as stack:
            reading = _Reading(self, page, stack.enter_context(self._shell()), stack)
            for block in page.blocks:
                if block.not_run is None:
                    reading.write_file(block)
                    reading.copy_files(block)
            return reading.written_dags()

    def read(self, page: Document) -> list[str]:
        """What a reader would stumble over, each with its place."""
        return self._read(page, at_the_end=":")

    def read_and_stop(self, page: Document) -> list[str]:
        """As `read`, and ends the instance that the page started, wherever its home is."""
        return self._read(page, at_the_end="trace down")

    def _read(self, page: Document, at_the_end: str) -> list[str]:
        with ExitStack() as stack:
            shell = stack.enter_context(self._shell())
            stack.callback(self._keep_transcript)
            stack.callback(shell.run, at_the_end)
            return list(_Reading(self, page, shell, stack).failures())

    def close(self) -> None:
        with self._shell() as shell:
            shell.run("trace down")

    def _shell(self) -> closing[Shell]:
        return closing(Shell(self.folder, self.scratch, self.env))

    def _keep_transcript(self) -> None:
        (self.scratch / "transcript.txt").write_text("\n\n".join(self.transcript))


def _no_work_is_left(home: Home) -> bool:
    return all(each.state != "stale" for each in dataset_client.datasets(home).datasets)


@dataclass
class _Reading:
    newcomer: Newcomer
    page: Document
    shell: Shell
    stack: ExitStack
    _python: Python | None = None

    def __post_init__(self) -> None:
        newcomer = self.newcomer
        self.standins = Standins(newcomer.node, newcomer.free_port, self._ask)

    def _ask(self, command: str) -> Any:
        ran = self.shell.run(command)
        assert ran.code == 0, ran.printed
        return json.loads(ran.printed)

    def failures(self) -> Iterator[str]:
        for block in self.page.blocks:
            if block.not_run is None:
                yield from self._block(block)
        yield from self._dags()

    def _block(self, block: Block) -> Iterator[str]:
        yield from self._file(block)
        if block.language in SHELL:
            for command in commands(block):
                yield from self._command(command)
        elif block.language == "sql":
            sql = f"trace query <<'END_OF_SQL'\n{block.text}END_OF_SQL"
            yield from self._command(Command(sql, block.line))
        elif block.language == "python":
            yield from self._code(block)
        elif block.language == "json":
            json.loads(block.text)
        elif block.language not in (*_TO_LOOK_AT, "yaml"):
            yield self._said(block.line, f"nobody knows how to run {block.language!r}")
        elif _TYPED.search(block.text):
            yield self._said(block.line, "this is typed: make it a console block")

    def _file(self, block: Block) -> Iterator[str]:
        """One of the repository's own is quoted; any other is written by the reader."""
        named = self.write_file(block)
        if named is None or not (quoted := ROOT / named[1]).exists():
            return
        if block.text[named.end() :].strip() not in quoted.read_text():
            yield self._said(block.line, f"{named[1]} does not say so")

    def write_file(self, block: Block) -> re.Match[str] | None:
        """The line that names it, if it is one."""
        named = None if block.language in _TO_LOOK_AT else _FILE.match(block.text)
        if named is None or (ROOT / named[1]).exists():
            return named
        file = self.newcomer.folder / named[1]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(self.standins.put(block.text))
        return named

    def copy_files(self, block: Block) -> None:
        """What the page copies and changes nowhere."""
        if block.language in SHELL:
            for command in commands(block):
                if command.text.startswith("cp "):
                    self.shell.run(command.text)

    def _command(self, command: Command) -> Iterator[str]:
        text = self.standins.put(command.text)
        if command.interrupted:
            shown = self._here(command)
            ran = self.shell.interrupt(text, lambda printed: begins(shown, printed))
            good = ran.code in (0, 130) and begins(shown, ran.printed)
        else:
            ran = self.shell.run(text, command.answers)
            # An id that it shows may be of what it made.
            shown = self._here(command)
            good = (ran.code != 0) is command.fails and (not shown or fits(shown, ran.printed))
        said = self._said(command.line, f"$ {text}", ran, shown)
        self.newcomer.transcript.append(said)
        if not good:
            yield said

    def _here(self, command: Command) -> list[str]:
        return [self.standins.put(line) for line in command.shown]

    def _dags(self) -> Iterator[str]:
        """All of the page at once, since lint needs no instance: a file's name has its line."""
        if arguments := self.written_dags():
            ran = self.shell.run(f"trace dag lint {' '.join(arguments)}")
            if ran.code != 0:
                yield self._said(0, "trace dag lint of its DAGs and parts of DAGs", ran)

    def written_dags(self) -> list[str]:
        files, own = [], set()
        for block in self.page.blocks:
            if block.not_run is not None or block.language != "yaml":
                continue
            text = self.standins.put(block.text)
            if dags.is_dag(text):
                whole = text if dags.is_whole(text) else dags.completed(text)
                own |= dags.own_runtimes(whole)
                files.append(f"line-{block.line}.yaml")
                # Beside the code that a page puts there.
                (self.newcomer.folder / files[-1]).write_text(whole)
        runtimes = [word for name in sorted(own) for word in ("--runtime", name)]
        return [*runtimes, *files] if files else []

    def _code(self, block: Block) -> Iterator[str]:
        if self._python is None:
            # A Spark of one's own needs a Java of one's own.
            env = self._variables() | {"JAVA_HOME": java_home(self.newcomer.scratch)}
            made = Python(self.newcomer.folder, self.page.name, env)
            self._python = self.stack.enter_context(closing(made))
        code = self.standins.put(block.text)
        ran = self._python.run(code)
        shown = documents_python.shown(code)
        if ran.code != 0 or (shown and not fits(shown, ran.printed)):
            yield self._said(block.line, code, ran, shown)

    def _variables(self) -> dict[str, str]:
        """What the page has exported by now is there for all that it starts."""
        lines = self.shell.run("env -0").printed.split("\0")
        return dict(line.split("=", 1) for line in lines if line)

    def _said(self, line: int, what: str, ran: Ran | None = None, shown: Any = ()) -> str:
        lines = [f"{self.page.name}:{line}: {what}"]
        if shown:
            lines += ["the page shows:", *(f"    {each}" for each in shown)]
        if ran is not None:
            lines += [f"it ended with {ran.code} and printed:"]
            lines += [f"    {each}" for each in ran.printed.splitlines()]
        return "\n".join(lines)


def _environment(home: Path) -> dict[str, str]:
    """Of somebody who has installed Trace and nothing else; as wide as pages are."""
    kept = ("TMPDIR", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS")
    return {
        **{name: os.environ[name] for name in kept if name in os.environ},
        "HOME": str(home),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "COLUMNS": "110",
    }


def _clone(folder: Path) -> None:
    """What a clone has: a copy, which pages may write to."""
    leave = shutil.ignore_patterns(".*", "__pycache__", "out")
    shutil.copytree(ROOT, folder, ignore=leave)
