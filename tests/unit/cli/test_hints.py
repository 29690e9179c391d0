"""What messages tell people to type exists: every `trace …` in a text of the code is a command."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup

import trace_platform
from trace_platform import cli
from trace_platform.cli.sql_session import Session, ShownFormat
from trace_platform.domain.errors import BadInput

SOURCES = Path(trace_platform.__file__).parent
# In backquotes, or as a hint has it: at its beginning, or after a colon or a bracket.
_COMMAND = re.compile(r"(?:`|^|[:(] )trace ((?:[a-z]+(?:-[a-z]+)*)(?: [a-z]+(?:-[a-z]+)*)?)")
# Beginnings of sentences about traces of a node.
_NOT_COMMANDS = ("of ", "in ", "for ")


def hints() -> Iterator[tuple[str, str]]:
    """Texts that are shown, and where: hints whole, of others what is in backquotes."""
    for file in sorted(SOURCES.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.keyword) and node.arg == "hint":
                for text in _texts(node.value):
                    yield f"{file.relative_to(SOURCES)}:{node.value.lineno}", text
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                for command in re.findall(r"`trace [a-z][^`]*`", node.value):
                    yield f"{file.relative_to(SOURCES)}:{node.lineno}", command


def _texts(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.JoinedStr):
        # What is filled in is a name.
        parts = (p.value if isinstance(p, ast.Constant) else "X" for p in node.values)
        yield "".join(map(str, parts))
    elif isinstance(node, ast.Constant):
        yield str(node.value)
    else:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                yield from _texts(child)


def is_command(said: str) -> bool:
    group = typer.main.get_command(cli.app)
    assert isinstance(group, TyperGroup)
    first, _, second = said.partition(" ")
    found = group.get_command(None, first)  # type: ignore[arg-type]
    if found is None:
        return False
    # Of a command that has commands: one of them, if a word follows.
    is_group = isinstance(found, TyperGroup)
    return not is_group or not second or second in found.list_commands(None)  # type: ignore[arg-type]


def test_commands_that_messages_name_exist() -> None:
    named = [(place, said) for place, text in hints() for said in _COMMAND.findall(text)]
    assert len(named) > 60
    unknown = [
        f"{place}: trace {said}"
        for place, said in named
        if not said.startswith(_NOT_COMMANDS) and not is_command(said)
    ]
    assert not unknown, "\n".join(unknown)


@pytest.mark.parametrize("said", ["datasets ls", "dataset list", "nothing"])
def test_the_check_sees_what_does_not_exist(said: str) -> None:
    assert not is_command(said)


def test_a_hint_of_the_shell_typed_at_the_prompt_says_where_it_belongs() -> None:
    session = Session(None, ShownFormat.table, 10, None, False)  # type: ignore[arg-type]
    with pytest.raises(BadInput) as refused:
        session.run("trace datasets versions blocks")
    assert r"\d blocks" in str(refused.value.hint)
    with pytest.raises(BadInput) as refused:
        session.run("trace status")
    assert r"\q" in str(refused.value.hint)
