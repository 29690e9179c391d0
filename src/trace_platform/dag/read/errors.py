"""What is wrong with a DAG file, and where in it."""

from __future__ import annotations

from dataclasses import dataclass, field

from trace_platform.dag.model.fields import Path
from trace_platform.dag.read.text_place import TextPlace
from trace_platform.domain.errors import InvalidDag

MAX_LISTED = 100
MAX_SHOWN = 80
MAX_PROBLEM = 600


@dataclass(frozen=True, slots=True)
class DagError:
    """One thing that is wrong, where it is, and what would be right."""

    line: int
    column: int
    field: str
    problem: str

    def at(self, file: str, level: str = "") -> str:
        where = f"{file}:{self.line}:{self.column}{level and ': '}{level}"
        return (
            f"{where}: {self.field}: {self.problem}" if self.field else f"{where}: {self.problem}"
        )


class DagErrors(Exception):
    def __init__(self, errors: list[DagError]) -> None:
        super().__init__(f"{len(errors)} errors")
        self.errors = sorted(dict.fromkeys(errors), key=lambda e: (e.line, e.column))


@dataclass(slots=True)
class Place:
    """Where a value stands, and the values inside it. A field is shown where its name stands."""

    line: int
    column: int
    inside: dict[str | int, Place] = field(default_factory=dict)
    # Whether the value could not be read: what follows from that is no error of its own.
    unread: bool = False
    # The text of a value that YAML takes for something other than text.
    written: str | None = None
    # A value that is text, character by character.
    text: TextPlace | None = None

    def nearest(self, path: Path) -> Place:
        """The place of the value at the path, or of what is left of the way to it."""
        place = self
        for step in path:
            if step not in place.inside:
                break
            place = place.inside[step]
        return place

    def is_unread(self, path: Path) -> bool:
        return self.unread or any(self.nearest(path[:n]).unread for n in range(1, len(path) + 1))


def error_at(
    root: Place, path: Path, problem: str, within: tuple[int, int] | None = None
) -> DagError:
    """`within` is a line and a column of the text that stands there."""
    place = root.nearest(path)
    line, column = place.line, place.column
    if within is not None and place.text is not None:
        line, column = place.text.place(*within)
    return DagError(line, column, spell(path), shown(problem, MAX_PROBLEM))


def invalid_dag(file: str, errors: list[DagError]) -> InvalidDag:
    lines = [error.at(file) for error in errors[:MAX_LISTED]]
    if len(errors) > MAX_LISTED:
        lines.append(f"and {len(errors) - MAX_LISTED:,} more")
    count = "1 error" if len(errors) == 1 else f"{len(errors):,} errors"
    return InvalidDag(f"{file} has {count}:\n" + "\n".join(lines), errors=lines)


def spell(path: Path) -> str:
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{shown(step)}"
    return text.removeprefix(".")


def shown(text: str, most: int = MAX_SHOWN) -> str:
    """What an author wrote, short and on one line."""
    short = text if len(text) <= most else f"{text[:most]}..."
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in short)
