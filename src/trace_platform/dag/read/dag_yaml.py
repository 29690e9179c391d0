"""Reading a DAG file: safe, bounded, and with a line for every error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, ValidationError

from trace_platform.dag.model import dag as models
from trace_platform.dag.model.checks import check_model
from trace_platform.dag.model.dag import Dag
from trace_platform.dag.model.edge import ref_model
from trace_platform.dag.model.fields import NEEDED, Path
from trace_platform.dag.model.source import source_model
from trace_platform.dag.read.draft import Draft, salvaged
from trace_platform.dag.read.errors import (
    MAX_LISTED,
    MAX_PROBLEM,
    DagError,
    DagErrors,
    Place,
    error_at,
    invalid_dag,
    shown,
    spell,
)
from trace_platform.dag.read.explain import explain, without_echoes
from trace_platform.dag.read.load import Loaded, load
from trace_platform.wire.check_spec import CheckModel

__all__ = [
    "DagError",
    "DagErrors",
    "Draft",
    "Path",
    "Place",
    "error_at",
    "explain",
    "invalid_dag",
    "read_dag",
    "read_draft",
]

# The model of a field, by the model that has it. Some depend on what the author wrote.
_Step = Callable[[Any], type[BaseModel]]
_STEPS: dict[tuple[type[BaseModel], str], _Step] = {
    (Dag, "jobs"): lambda _: models.Job,
    (Dag, "defaults"): lambda _: models.Defaults,
    (Dag, "publish"): lambda _: models.Publish,
    (models.Job, "inputs"): lambda _: models.InputEdge,
    (models.Job, "source"): source_model,
    (models.Job, "bootstrap"): lambda _: models.Bootstrap,
    (models.Job, "udf"): lambda _: models.Udf,
    (models.Job, "scaling"): lambda _: models.Scaling,
    (models.Job, "checks"): lambda _: CheckModel,
    (models.Job, "backpressure"): lambda _: models.Backpressure,
    (models.InputEdge, "from"): ref_model,
    (models.Publish, "from"): lambda _: models.JobOutputRef,
    (models.Publish, "schema"): lambda _: models.Column,
}


def read_dag(text: str) -> tuple[Dag, Place]:
    """The DAG and where its fields stand. Raise DagErrors with everything that is wrong."""
    draft = read_draft(text)
    if draft.errors:
        raise DagErrors(draft.errors)
    return draft.dag, draft.root


def read_draft(text: str) -> Draft:
    """The DAG with what is wrong in it. Raise DagErrors for what leaves nothing to read, and for
    more errors than anyone would."""
    loaded = load(text)
    try:
        dag = Dag.model_validate(loaded.data)
    except ValidationError as error:
        found = error.errors(include_url=False)
        for each in found:
            each["loc"] = _path(each["loc"])
        wrong = frozenset(each["loc"] for each in found if each["loc"] and each["type"] != NEEDED)
        errors = [*loaded.errors, *_explained(without_echoes(found), loaded)]
        if len(errors) > MAX_LISTED:
            raise DagErrors(errors) from None
        return Draft(salvaged(loaded.data, wrong), loaded.root, errors, wrong)
    return Draft(dag, loaded.root, loaded.errors, frozenset())


def _path(loc: tuple[str | int, ...]) -> Path:
    # pydantic says of a wrong key that it is one.
    return loc[:-1] if loc and loc[-1] == "[key]" else loc


def _explained(found: list[Any], loaded: Loaded) -> list[DagError]:
    """In the order of the file. Those that are not listed are only counted."""
    root = loaded.root
    placed = sorted(
        ((root.nearest(each["loc"]), each) for each in found if not root.is_unread(each["loc"])),
        key=lambda pair: (pair[0].line, pair[0].column),
    )
    return [
        _error(each, place, loaded)
        if number < MAX_LISTED
        else DagError(place.line, place.column, str(number), "not listed")
        for number, (place, each) in enumerate(placed)
    ]


def _error(error: Any, place: Place, loaded: Loaded) -> DagError:
    path: Path = error["loc"]
    said = explain(error, _fields_at(path[:-1], loaded.data), path=path, written=place.written)
    where = path[:-1] if error["type"] == "missing" else path
    line, column = _within(error, place) or (place.line, place.column)
    return DagError(line, column, spell(where), shown(said, MAX_PROBLEM))


def _within(error: Any, place: Place) -> tuple[int, int] | None:
    """Where in a text it is, for an error that says what stands before it."""
    before = error.get("ctx", {}).get("before")
    if before is None or place.text is None:
        return None
    return place.text.place(before.count("\n") + 1, len(before) - before.rfind("\n"))


def _fields_at(path: Path, data: Any) -> list[str]:
    """The fields that the model at this path has."""
    model: type[BaseModel] = Dag
    for step in path:
        data = _inside(data, step)
        if choose := _STEPS.get((model, str(step))):
            model = choose(data)
        elif model is CheckModel and isinstance(step, int):
            model = check_model(data)
    return [field.alias or name for name, field in model.model_fields.items()]


def _inside(data: Any, step: str | int) -> Any:
    if isinstance(data, list) and isinstance(step, int) and step < len(data):
        return data[step]
    return data.get(step) if isinstance(data, dict) else None
