"""What can be said of a DAG that has mistakes: the rest of it is checked all the same."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from trace_platform.dag.model.dag import (
    MAX_JOBS,
    Dag,
    DatasetRef,
    Defaults,
    InputEdge,
    Job,
    Publish,
)
from trace_platform.dag.model.fields import Path
from trace_platform.dag.model.limits import Backpressure, Scaling
from trace_platform.dag.model.source import source_model
from trace_platform.dag.read.errors import DagError, Place

_PARTS: dict[str, type[BaseModel]] = {"scaling": Scaling, "backpressure": Backpressure}
_NO_EDGE = InputEdge.model_construct(source=DatasetRef.model_construct(dataset=""))
_WORDS = ("name", "runtime", "operator", "update_strategy", "execution_strategy")


@dataclass(frozen=True, slots=True)
class Draft:
    """A DAG, and what is wrong with it so far."""

    dag: Dag
    root: Place
    errors: list[DagError]
    # Fields that are known to be wrong: what follows from them is no error of its own.
    wrong: frozenset[Path]

    def doubts(self, path: Path) -> bool:
        return self.root.is_unread(path) or any(
            path[:length] in self.wrong for length in range(1, len(path) + 1)
        )

    def doubts_inputs(self, job: Path) -> bool:
        """Whether it is not known what the job reads, since some of that is wrong."""
        return any(each[: len(job) + 1] == (*job, "inputs") for each in self.wrong)


def salvaged(data: Any, wrong: Iterable[Path]) -> Dag:
    """What is right in it. Jobs keep their places; one that has no name is called ''."""
    fields = data if isinstance(data, dict) else {}
    jobs, publish = fields.get("jobs"), fields.get("publish")
    wrong_in: dict[str | int, set[str | int]] = {}
    for path in wrong:
        if path[0] == "jobs" and len(path) > 2:
            wrong_in.setdefault(path[1], set()).add(path[2])
    return Dag.model_construct(
        name="",
        defaults=_made(Defaults, fields.get("defaults")) or Defaults(),
        jobs=[
            _job(job, wrong_in.get(index, set()))
            for index, job in enumerate(jobs[:MAX_JOBS] if isinstance(jobs, list) else [])
        ],
        publish={
            name: made
            for name, each in (publish if isinstance(publish, dict) else {}).items()
            if (made := _made(Publish, each))
        },
    )


def _job(given: Any, wrong: set[str | int]) -> Job:
    whole = _made(Job, given)
    if whole is not None:
        return whole
    if not isinstance(given, dict):
        return Job.model_construct(name="", activation="source", outputs=[])
    right = {field: value for field, value in given.items() if field not in wrong}
    kept: dict[str, Any] = {
        field: value for field in _WORDS if isinstance(value := right.get(field), str)
    }
    kept |= {field: made for field in _PARTS if (made := _made(_PARTS[field], right.get(field)))}
    if isinstance(right.get("config"), dict):
        kept["config"] = right["config"]
    if isinstance(right.get("source"), dict):
        kept["source"] = _made(source_model(right["source"]), right["source"])
    if isinstance(given.get("inputs"), list):
        kept["inputs"] = [_made(InputEdge, edge) or _NO_EDGE for edge in given["inputs"]]
    activation = right.get("activation", "reactive")
    return Job.model_construct(
        **{"name": "", "activation": activation, "outputs": _outputs(given, wrong)} | kept
    )


def _outputs(given: dict[str, Any], wrong: set[str | int]) -> list[str]:
    """None when they cannot be told: then nobody can name a wrong one."""
    if "outputs" in wrong:
        return []
    found = given.get("outputs") or 1
    return [f"output_{n}" for n in range(found)] if isinstance(found, int) else found


Model = TypeVar("Model", bound=BaseModel)


def _made(model: type[Model], given: Any) -> Model | None:
    try:
        return model.model_validate(given)
    except ValidationError:
        return None
