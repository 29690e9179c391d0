"""Why a file is no YAML, in words that tell the cure. YAML's own words hardly do."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

import yaml

from trace_platform.dag.read.errors import DagError, shown

_MAX_KEY = 1_024
_NO_SPACE = re.compile(r"\s*(?:- +)?[A-Za-z_][A-Za-z0-9_]*:[^\s:/]")


class Trouble(NamedTuple):
    """What the parser says, and the text around it."""

    said: str
    context: str
    line: str
    line_before: str
    column: int
    # The line in which the mapping, the list or the text began.
    opened: int

    @property
    def character(self) -> str:
        return self.line[self.column : self.column + 1]


def syntax_error(text: str, error: yaml.MarkedYAMLError) -> DagError:
    mark = error.problem_mark or error.context_mark
    if mark is None:
        return DagError(1, 1, "", f"not valid YAML: {shown(error.problem or '')}")
    lines = [*text.split("\n"), ""]
    number = min(mark.line, len(lines) - 1)
    begun = error.context_mark or mark
    trouble = Trouble(
        said=(error.problem or "").lower(),
        context=(error.context or "").lower(),
        line=lines[number],
        line_before=lines[number - 1] if number else "",
        column=mark.column,
        opened=begun.line + 1,
    )
    cure = _cure(trouble) or f"not valid YAML: {shown(error.problem or '')}"
    # What has no end is best shown where it begins.
    at = begun if _endless(trouble) else mark
    return DagError(at.line + 1, at.column + 1, "", cure)


def _cure(trouble: Trouble) -> str | None:
    said = next((said for fits, said in _CURES if fits(trouble)), None)
    facts = {"opened": trouble.opened, "character": trouble.character}
    return said.format(**facts) if said else None


def _endless(trouble: Trouble) -> bool:
    return "quoted scalar" in trouble.context or "simple key" in trouble.context


def _begins_with(characters: str) -> Callable[[Trouble], bool]:
    return lambda t: "cannot start any token" in t.said and t.character in tuple(characters)


def _indented_by_tab(trouble: Trouble) -> bool:
    return "\t" in trouble.line[: len(trouble.line) - len(trouble.line.lstrip())]


def _second_colon(trouble: Trouble) -> bool:
    return "mapping values" in trouble.said and ": " in trouble.line[: trouble.column]


def _no_space_before(trouble: Trouble) -> bool:
    return "mapping values" in trouble.said and bool(_NO_SPACE.match(trouble.line_before))


# The first that fits counts.
_CURES: tuple[tuple[Callable[[Trouble], bool], str], ...] = (
    (_indented_by_tab, "a tab: indent with spaces, two for each level"),
    (_begins_with("\t"), "a tab: use spaces"),
    (
        _begins_with("@`%|>"),
        "text that begins with '{character}' must be quoted",
    ),
    (
        lambda t: "alias" in t.context,
        "text that begins with '*' must be quoted, such as schedule: \"*/5 * * * *\"",
    ),
    (lambda t: "anchor" in t.context, "text that begins with '&' must be quoted"),
    (
        lambda t: "quoted scalar" in t.context and "found unexpected" in t.said,
        "the quote of line {opened} is not closed",
    ),
    (
        lambda t: "quoted scalar" in t.context,
        "in double quotes a backslash begins an escape: use single quotes, or write \\\\",
    ),
    (
        lambda t: "found unexpected ':'" in t.said,
        "put a space after this ':', or quote the text that it is in",
    ),
    (
        lambda t: "node content" in t.said,
        "a value is missing here: add one, or quote text that begins with such a character",
    ),
    (
        lambda t: "block scalar" in t.context,
        "after '|' or '>' the text starts on the next line: quote text that begins with them",
    ),
    (
        lambda t: "mapping keys are not allowed" in t.said,
        "text that begins with '? ' must be quoted",
    ),
    (
        lambda t: "flow sequence" in t.context or "or ']'" in t.said,
        "the '[' of line {opened} is not closed: a ',' between its items or a ']' is missing",
    ),
    (
        lambda t: "flow mapping" in t.context or "or '}'" in t.said,
        "the '{{' of line {opened} is not closed: a ',' between its fields or a '}}' is missing",
    ),
    (
        lambda t: "mapping values" in t.said and t.column > _MAX_KEY,
        "a field's name has at most 1,024 characters",
    ),
    (_second_colon, "a second ':' in one line: quote text that has ': ' in it"),
    (_no_space_before, "the line before this one has no space after its ':'"),
    (
        lambda t: "mapping values" in t.said,
        "this line is indented deeper than the one before, which has a value already: "
        "start it in the same column as its neighbours",
    ),
    (
        lambda t: bool(t.character) and t.character in "]}",
        "a '{character}' too many, or its opening bracket is missing",
    ),
    (
        lambda t: "block" in t.context and t.line.lstrip().startswith("- "),
        "this '-' stands in another column than the items above it: "
        "all items of a list start in the same column",
    ),
    (
        lambda t: "block collection" in t.context or "block sequence" in t.context,
        "this line does not fit the list that begins in line {opened}: "
        "its items start with '- ', all in the same column",
    ),
    (
        lambda t: "block mapping" in t.context,
        "this line does not fit the mapping that begins in line {opened}: "
        "its fields start in the same column, and items of a list with '- '",
    ),
    (
        lambda t: "document start" in t.said,
        "this line does not go with those above it: name, jobs and publish start in the same "
        "column, each as 'field: value'",
    ),
    (
        lambda t: "simple key" in t.context,
        "a ':' is missing: write 'field: value', with a space after the ':'",
    ),
    (
        lambda t: "sequence entries are not allowed" in t.said,
        "a '-' where no list can be: put it on a line of its own, below the field",
    ),
)
