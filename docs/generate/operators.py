"""The reference of the operators, from what each says of itself."""

from __future__ import annotations

import json
from collections.abc import Iterator

from docs.generate import markdown
from trace_platform.cli.operators import Found, accepted, emitted, fields_of, made, own_operators
from trace_platform.operators.facts import OperatorFacts

INTRODUCTION = """\
What each operator accepts, emits and wants to be told, as `trace operators show NAME` says it.
What they are for, what they promise and how to write one is in [Operators](../operators.md),
what an update is in [what an operator accepts](../operators.md#what-an-operator-accepts)."""


def page() -> str:
    found = sorted(own_operators(), key=lambda each: each.name)
    return markdown.page("Operators: every field", INTRODUCTION, *map(_section, found))


def _section(found: Found) -> str:
    facts = found.facts
    assert facts is not None

    def parts() -> Iterator[str]:
        yield markdown.sentence(facts.summary[:1].upper() + facts.summary[1:])
        runtime = "`dispatcher`" if found.in_dispatcher else "`ecs_platform`, or one of your own"
        told = (accepted(facts), emitted(facts), made(facts), runtime)
        yield markdown.table(("accepts", "emits", "outputs", "runtime"), [told])
        yield _config(facts)

    return markdown.section(2, found.name, parts())


def _config(facts: OperatorFacts) -> str:
    rows = [
        (
            f"`{field.name}`",
            field.kind,
            "required" if field.required else f"`{json.dumps(field.default)}`",
            field.description,
        )
        for field in fields_of(facts.config)
    ]
    return markdown.table(("config", "type", "default", "meaning"), rows)
