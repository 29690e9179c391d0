"""Reading a DAG file: safe, bounded, and with a line for every error."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from trace_platform.domain.errors import InvalidDag
from trace_platform.wire.dag import Dag

MAX_BYTES = 1_000_000
MAX_DEPTH = 32
MAX_NODES = 100_000
MAX_NUMBER_BITS = 4_096

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_NO_DATABASE = "has a character that no database stores"

Path = tuple[str | int, ...]
Marks = dict[Path, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class DagError:
    """One thing that is wrong, where it is, and what would be right."""

    line: int
    column: int
    field: str
    problem: str

    def at(self, file: str) -> str:
        where = f"{file}:{self.line}:{self.column}"
        return (
            f"{where}: {self.field}: {self.problem}" if self.field else f"{where}: {self.problem}"
        )


class DagErrors(Exception):
    def __init__(self, errors: list[DagError]) -> None:
        super().__init__(f"{len(errors)} errors")
        self.errors = sorted(errors, key=lambda e: (e.line, e.column))


def read_dag(text: str) -> tuple[Dag, Marks]:
    """The DAG and where its fields stand. Raise DagErrors with everything that is wrong."""
    data, marks = _load(text)
    try:
        return Dag.model_validate(data), marks
    except ValidationError as error:
        raise DagErrors([_error(e, marks) for e in error.errors()]) from None


def invalid_dag(file: str, errors: list[DagError]) -> InvalidDag:
    lines = [error.at(file) for error in errors]
    count = "1 error" if len(lines) == 1 else f"{len(lines)} errors"
    return InvalidDag(f"{file} has {count}:\n" + "\n".join(lines), errors=lines)


def error_at(marks: Marks, path: Path, problem: str) -> DagError:
    line, column = _nearest(marks, path)
    return DagError(line, column, _spell(path), problem)


def _load(text: str) -> tuple[Any, Marks]:
    if len(text.encode("utf-8", "replace")) > MAX_BYTES:
        raise DagErrors([DagError(1, 1, "", f"the file is larger than {MAX_BYTES:,} bytes")])
    try:
        _check_bounds(text)
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        problem = f"not valid YAML: {error.problem or error.context}"
        raise DagErrors([DagError(line, column, "", problem)]) from None
    except yaml.YAMLError as error:
        raise DagErrors([DagError(1, 1, "", f"not valid YAML: {error}")]) from None
    if node is None:
        raise DagErrors([DagError(1, 1, "", "the file is empty")])
    marks: Marks = {}
    errors: list[DagError] = []
    data = _build(node, (), marks, errors, yaml.SafeLoader(""))
    if errors:
        raise DagErrors(errors)
    return data, marks


def _check_bounds(text: str) -> None:
    """Refuse what could blow up before a single node is built."""
    depth = 0
    for nodes, event in enumerate(yaml.parse(text, Loader=yaml.SafeLoader)):
        line, column = event.start_mark.line + 1, event.start_mark.column + 1
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise DagErrors([DagError(line, column, "", "anchors and aliases are not allowed")])
        tag = getattr(event, "tag", None)
        if tag is not None and tag != "!":
            raise DagErrors([DagError(line, column, "", f"the tag {tag} is not allowed")])
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            raise DagErrors([DagError(line, column, "", f"nested deeper than {MAX_DEPTH} levels")])
        if nodes > MAX_NODES:
            raise DagErrors([DagError(line, column, "", f"more than {MAX_NODES:,} values")])


def _build(
    node: yaml.Node, path: Path, marks: Marks, errors: list[DagError], loader: yaml.SafeLoader
) -> Any:
    marks[path] = (node.start_mark.line + 1, node.start_mark.column + 1)
    if isinstance(node, yaml.SequenceNode):
        return [_build(n, (*path, i), marks, errors, loader) for i, n in enumerate(node.value)]
    if isinstance(node, yaml.MappingNode):
        return _build_mapping(node, path, marks, errors, loader)
    try:
        return _storable(loader.construct_object(node))
    except (yaml.YAMLError, ValueError) as error:
        errors.append(error_at(marks, path, f"cannot be read: {error}"))
        return None


def _storable(value: Any) -> Any:
    """The value, when Postgres can hold it as JSON. Raise ValueError."""
    if isinstance(value, str) and _UNSTORABLE.search(value):
        raise ValueError(f"it {_NO_DATABASE}")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("a number must be finite")
    if isinstance(value, int) and value.bit_length() > MAX_NUMBER_BITS:
        raise ValueError(f"a number has at most {MAX_NUMBER_BITS:,} bits")
    return value


def _build_mapping(
    node: yaml.MappingNode,
    path: Path,
    marks: Marks,
    errors: list[DagError],
    loader: yaml.SafeLoader,
) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key_node, value_node in node.value:
        key = key_node.value if isinstance(key_node, yaml.ScalarNode) else "?"
        line, column = key_node.start_mark.line + 1, key_node.start_mark.column + 1
        if key in result:
            errors.append(DagError(line, column, _spell((*path, key)), "is given twice"))
        if _UNSTORABLE.search(key):
            errors.append(DagError(line, column, _spell(path), f"the key {key!r} {_NO_DATABASE}"))
        result[key] = _build(value_node, (*path, key), marks, errors, loader)
        # A field is best shown where its name stands.
        marks[(*path, key)] = (line, column)
    return result


def explain(error: Any, known: Iterable[str]) -> str:
    """What pydantic found, in words that tell the cure. `known` are the fields at that place."""
    if error["type"] == "extra_forbidden":
        return "unknown field" + _did_you_mean(str(error["loc"][-1]), sorted(known))
    if error["type"] == "missing":
        return f"the field '{error['loc'][-1]}' is missing"
    message: str = error["msg"].removeprefix("Value error, ")
    if error["type"] == "string_pattern_mismatch":
        message = "use lower-case letters, digits and '_', starting with a letter"
    found = error.get("input")
    if isinstance(found, str | int | float | bool) or found is None:
        message += f" (found {found!r})"
    return message


def _error(error: Any, marks: Marks) -> DagError:
    path: Path = tuple(p for p in error["loc"] if p not in ("JobOutputRef", "DatasetRef"))
    where = path[:-1] if error["type"] == "missing" else path
    return error_at(marks, where, explain(error, _fields_at(path[:-1])))


def _did_you_mean(given: str, known: list[str]) -> str:
    close = difflib.get_close_matches(given, known, n=1)
    if close:
        return f"; did you mean '{close[0]}'?"
    return f"; known here: {', '.join(known)}" if known else ""


def _fields_at(path: Path) -> list[str]:
    """The fields that the model at this path has."""
    from trace_platform.wire import dag as models

    model: type[BaseModel] = Dag
    steps: dict[tuple[type[BaseModel], str], type[BaseModel]] = {
        (Dag, "jobs"): models.Job,
        (Dag, "defaults"): models.Defaults,
        (Dag, "publish"): models.Publish,
        (models.Job, "inputs"): models.InputEdge,
        (models.Job, "source"): models.Source,
        (models.Job, "scaling"): models.Scaling,
        (models.Job, "backpressure"): models.Backpressure,
        (models.InputEdge, "from"): models.JobOutputRef,
        (models.Publish, "from"): models.JobOutputRef,
    }
    for step in path:
        model = steps.get((model, str(step)), model)
    return [field.alias or name for name, field in model.model_fields.items()]


def _nearest(marks: Marks, path: Path) -> tuple[int, int]:
    while path and path not in marks:
        path = path[:-1]
    return marks.get(path, (1, 1))


def _spell(path: Path) -> str:
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}"
    return text.removeprefix(".")
