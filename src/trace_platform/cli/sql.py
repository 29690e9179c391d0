"""`trace sql`: statements one after the other, at a prompt or from a file."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trace_platform.app.api_client.query_client import connect
from trace_platform.app.instance.home import Home
from trace_platform.cli import show_error
from trace_platform.cli.options import HomeOption
from trace_platform.cli.query import AtOption
from trace_platform.cli.query_output import note, say_wait
from trace_platform.cli.signals import end_on_signals
from trace_platform.cli.sql_session import PLAIN_WORDS, Session, ShownFormat
from trace_platform.cli.sql_split import says_something, split
from trace_platform.domain.errors import BadInput, TraceError
from trace_platform.domain.figures import count
from trace_platform.drivers.lite.private_file import give_to_owner_of
from trace_platform.wire.query import MAX_ROWS

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.key_binding import KeyBindings
    from prompt_toolkit.key_binding.key_processor import KeyPressEvent

_PROMPT, _GOES_ON = "trace> ", "  ...> "


def sql(
    home: HomeOption = None,
    format: Annotated[ShownFormat, typer.Option(help="How rows are shown.")] = ShownFormat.table,
    limit: Annotated[
        int, typer.Option(min=1, max=MAX_ROWS, help="Rows that a statement shows at most.")
    ] = 1000,
    at: AtOption = None,
    timing: Annotated[bool, typer.Option("--timing", help="Say how long each took.")] = False,
) -> None:
    """Query at a prompt, with completion and history; \\? there explains the rest.

    Without a terminal the statements are read from the input, each ended by ';'. The first error
    stops them, with exit code 1.
    """
    place = Home.at(home)
    with connect(place, say_wait) as connection:
        session = Session(connection, format, limit, at, timing)
        if sys.stdin.isatty():
            session.refresh()  # also tells whether anybody answers
            with end_on_signals(at_prompt=True):
                talk(session, prompt_session(place, session))
        else:
            with end_on_signals():
                _run(session, _read_input())


def talk(session: Session, prompt: PromptSession[str]) -> None:
    """Until Ctrl-D or \\q. An error ends a statement, and nothing else."""
    there = count(len(session.columns), "dataset")
    note(f"{there}; end a statement with ';'. \\? for help, \\q to leave")
    while not session.left:
        try:
            entered = prompt.prompt()
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        try:
            _run(session, entered)
        except KeyboardInterrupt:
            note("canceled")
        except TraceError as error:
            show_error(error)


def prompt_session(home: Home, session: Session) -> PromptSession[str]:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.application import get_app
    from prompt_toolkit.filters import Condition
    from prompt_toolkit.history import FileHistory

    from trace_platform.cli.sql_complete import SqlCompleter

    return PromptSession(
        _PROMPT,
        multiline=Condition(lambda: not is_complete(get_app().current_buffer.text)),
        prompt_continuation=_GOES_ON,
        key_bindings=_keys(),
        history=FileHistory(history_file(home)),
        completer=SqlCompleter(session.columns),
        complete_while_typing=False,
        enable_history_search=True,
    )


def _keys() -> KeyBindings:
    from prompt_toolkit.application import get_app
    from prompt_toolkit.filters import Condition
    from prompt_toolkit.key_binding import KeyBindings

    keys = KeyBindings()

    @keys.add("c-d", filter=Condition(lambda: not get_app().current_buffer.document.current_line))
    def _leave(event: KeyPressEvent) -> None:
        """Also from an empty line of a statement that was begun."""
        event.app.exit(exception=EOFError)

    return keys


def is_complete(text: str) -> bool:
    """Whether Enter runs it: a command, nothing, or something that ends with `;`."""
    if _command(text) or not text.strip():
        return True
    statements, rest = split(text)
    return bool(statements) and not says_something(rest)


def history_file(home: Home) -> Path:
    """For its owner alone: statements may hold data."""
    path = home.root / "sql_history"
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
    path.chmod(0o600)
    give_to_owner_of(home.root, path)
    return path


def _read_input() -> str:
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError:
        raise BadInput("the input is not text", hint="SQL is read as UTF-8") from None


def _run(session: Session, text: str) -> None:
    """Statements, and commands that have a line of their own; the last `;` may be missing."""
    waiting = ""
    for line in text.splitlines(keepends=True):
        if not says_something(waiting) and (command := _command(line)):
            session.command(command)
            waiting = ""
        else:
            statements, waiting = split(waiting + line)
            for each in statements:
                session.run(each)
        if session.left:
            return
    if says_something(waiting):
        session.run(waiting.strip())


def _command(line: str) -> str | None:
    """What a line asks of the prompt; None: it is SQL."""
    said = line.strip()
    return said if said.startswith("\\") else PLAIN_WORDS.get(said.rstrip("; ").lower())
