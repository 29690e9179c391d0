"""`trace operators`: what jobs can do here, and what each wants to be told. Needs no instance."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from trace_platform.cli.options import JsonOption, group
from trace_platform.domain.schema_words import type_words

if TYPE_CHECKING:
    from trace_platform.operators.facts import OperatorFacts

operators_app = group("Show the operators that jobs can name, and what each wants.")

_TRACE = "Trace"


@dataclass(frozen=True, slots=True)
class Found:
    """An operator by name: what it is, or why it cannot be used."""

    name: str
    facts: OperatorFacts | None = None
    problem: str | None = None
    # Of one that runs inside the Dispatcher.
    in_dispatcher: bool = False

    def as_data(self) -> dict[str, Any]:
        if self.facts is None:
            return {"name": self.name, "problem": self.problem}
        told = self.facts.model_dump(mode="json")
        told["accepts"]["updates"] = sorted(self.facts.accepts.updates)
        told["emits"] = None if self.facts.emits is None else sorted(self.facts.emits)
        fields = [field.as_data() for field in fields_of(self.facts.config)]
        return told | {"in_dispatcher": self.in_dispatcher, "fields": fields}


@dataclass(frozen=True, slots=True)
class ConfigField:
    name: str
    kind: str
    required: bool
    default: Any
    description: str

    def as_data(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "type": self.kind,
            "required": self.required,
            "default": self.default,
            "description": self.description,
        }


@operators_app.command("list")
def list_operators(as_json: JsonOption = False) -> None:
    """Trace's own, and those of packages that are installed beside it."""
    from trace_platform.cli.table import show_table
    from trace_platform.cli.words import printable, wide_console

    found = [*own_operators(), *_installed()]
    if as_json:
        typer.echo(json.dumps([each.as_data() for each in found]))
        return
    console = wide_console()
    rows = [tuple(map(escape, _row(each))) for each in sorted(found, key=lambda f: f.name)]
    show_table(console, ("operator", "accepts", "emits", "from", "does"), rows, prose=("does",))
    for each in found:
        if each.problem:
            typer.echo(printable(f"warning: {each.problem}"), err=True)


@operators_app.command()
def show(
    name: Annotated[
        str,
        typer.Argument(help="Its name, or a class in a Python file: ./my_ops.py:BigBlocks."),
    ],
    as_json: JsonOption = False,
) -> None:
    """What wakes it, what comes out, and the fields of its config."""
    found = _found(name)
    if as_json:
        typer.echo(json.dumps(found.as_data()))
        return
    for line in _told(found):
        typer.echo(line)
    _show_fields(found)


def _found(name: str) -> Found:
    from trace_platform.domain.errors import InvalidConfig, NotFound
    from trace_platform.domain.own_code import parse
    from trace_platform.operators import registry

    if parse(name) is not None:
        found = _of_file(name)
    else:
        known = {each.name: each for each in (*own_operators(), *_installed())}
        if name not in known:
            missing = registry.unknown(name)
            raise NotFound(missing.message, hint=missing.hint)
        found = known[name]
    if found.problem is not None:
        raise InvalidConfig(found.problem)
    return found


def own_operators() -> list[Found]:
    """Those that come with Trace."""
    from trace_platform.dag.event_operators import registry as in_process
    from trace_platform.operators import registry
    from trace_platform.operators.facts import facts_of

    ours = [Found(name, facts_of(registry.load(name), name, _TRACE)) for name in registry.OPERATORS]
    theirs = [
        Found(name, facts_of(in_process.load(name), name, _TRACE), in_dispatcher=True)
        for name in in_process.OPERATORS
    ]
    return ours + theirs


def _installed() -> list[Found]:
    """Looked at in a process of its own: one that is broken breaks no list."""
    from trace_platform.operators import registry
    from trace_platform.operators.own.inspect import Asked, inspect_operators
    from trace_platform.operators.own.installed import installed

    names = [name for name in installed() if name not in registry.OPERATORS]
    answers = inspect_operators([Asked(operator=name) for name in names])
    return [
        Found(name, answer.facts, answer.problem)
        for name, answer in zip(names, answers, strict=True)
    ]


def _of_file(operator: str) -> Found:
    from trace_platform.app.code_beside import code_named
    from trace_platform.operators.own.inspect import asked_of, inspect_operators

    asked = asked_of(operator, None, code_named(Path(), operator))
    (answer,) = inspect_operators([asked])
    return Found(operator, answer.facts, answer.problem)


def _row(each: Found) -> tuple[str, ...]:
    if each.facts is None:
        return each.name, "-", "-", "-", "cannot be used"
    facts = each.facts
    return each.name, accepted(facts), emitted(facts), facts.origin, facts.summary


def accepted(facts: OperatorFacts) -> str:
    if not facts.accepts.updates:
        return "nothing: a source"
    return f"{facts.accepts}{', or nothing as a source' if facts.accepts.source else ''}"


def emitted(facts: OperatorFacts) -> str:
    from trace_platform.operators.accepts import several

    if facts.emits is None:
        return "what woke it"
    return several(facts.emits) if facts.emits else "nothing"


def made(facts: OperatorFacts) -> str:
    if facts.outputs == ():
        return "none"
    return ", ".join(facts.outputs) if facts.outputs else "as the job names them"


def _told(found: Found) -> Iterator[str]:
    from trace_platform.cli.words import printable

    facts = found.facts
    assert facts is not None
    yield printable(f"{facts.name}: {facts.summary or 'says nothing of itself'}")
    yield printable(f"  from     {facts.origin}")
    yield f"  accepts  {accepted(facts)}"
    yield f"  emits    {emitted(facts)}"
    yield printable(f"  outputs  {made(facts)}")
    if found.in_dispatcher:
        yield "  runtime  dispatcher"


def _show_fields(found: Found) -> None:
    from trace_platform.cli.table import show_table
    from trace_platform.cli.words import printable, wide_console

    assert found.facts is not None
    fields = list(fields_of(found.facts.config))
    if not fields:
        typer.echo("  config   none")
        return
    typer.echo("")
    rows = [
        tuple(
            escape(printable(c)) for c in (each.name, each.kind, _default(each), each.description)
        )
        for each in fields
    ]
    show_table(wide_console(), ("config", "type", "default", ""), rows, prose=("",))


def _default(each: ConfigField) -> str:
    return "required" if each.required else json.dumps(each.default)


def fields_of(schema: dict[str, Any]) -> Iterator[ConfigField]:
    needed = schema.get("required", [])
    for name, field in schema.get("properties", {}).items():
        yield ConfigField(
            name=name,
            kind=type_words(field, schema.get("$defs", {})),
            required=name in needed,
            default=field.get("default"),
            description=field.get("description", ""),
        )
