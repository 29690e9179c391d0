"""What an operator's class says of itself: the parts of its contract that it leaves out have
defaults, those that are wrong are named."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import to_jsonable_python

from trace_platform.domain.errors import InvalidConfig
from trace_platform.operators.accepts import UNDECLARED, Accepts, Updates
from trace_platform.operators.contract import OperatorConfig, Writes
from trace_platform.operators.statement import SparkProgram, Statement
from trace_platform.wire.manifest import ManifestColumn


class _Said(BaseModel):
    model_config = ConfigDict(frozen=True)


class OperatorFacts(_Said):
    """For people and editors."""

    name: str
    # Trace itself, a package with its version, or a file beside a DAG.
    origin: str
    summary: str
    accepts: Accepts
    # None: those that woke it.
    emits: Updates | None
    # None: as many as the job names.
    outputs: tuple[str, ...] | None
    # The JSON Schema of its config.
    config: dict[str, Any]


class Judged(_Said):
    """An operator with a job's config, as far as a check of the DAG needs it."""

    accepts: Accepts = UNDECLARED
    emits: Updates | None = None
    outputs: tuple[str, ...] | None = None
    # What becomes of its outputs (contract.py).
    commits_ticks: bool = False
    has_rows: bool = True
    keeps_columns: bool = False
    writes: Writes | None = None
    # What the config says of SQL, and of the columns of each output.
    statements: tuple[Statement, ...] = ()
    program: SparkProgram | None = None
    columns: tuple[tuple[ManifestColumn, ...], ...] | None = None
    # By output and column: what of input 0 it is computed from.
    made_of: tuple[dict[str, list[str]], ...] | None = None
    # Of the config, as pydantic tells them, each with the fields that are `known` at its place.
    config_errors: list[dict[str, Any]] = []


def config_model(operator: type) -> type[OperatorConfig]:
    model: type[OperatorConfig] = getattr(operator, "Config", OperatorConfig)
    return model


def facts_of(operator: type, name: str, origin: str) -> OperatorFacts:
    return OperatorFacts(
        name=name,
        origin=origin,
        summary=_summary(operator),
        accepts=getattr(operator, "accepts", UNDECLARED),
        emits=getattr(operator, "emits", None),
        outputs=getattr(operator, "output_names", None),
        config=config_model(operator).model_json_schema(),
    )


def judge(operator: type, config: dict[str, Any]) -> Judged:
    """As the config says where it decides; what is wrong with the config is told."""
    model = config_model(operator)
    judged = Judged(
        accepts=getattr(operator, "accepts", UNDECLARED),
        emits=getattr(operator, "emits", None),
        outputs=getattr(operator, "output_names", None),
        commits_ticks=getattr(operator, "commits_ticks", False),
        has_rows=getattr(operator, "has_rows", True),
        keeps_columns=getattr(operator, "keeps_columns", False),
        writes=getattr(operator, "writes", None),
    )
    try:
        made = model.model_validate(config)
    except ValidationError as error:
        found = error.errors(include_url=False)
        placed = [each | {"known": _fields_beside(model, each["loc"])} for each in found]
        told = to_jsonable_python(placed, fallback=str, inf_nan_mode="strings")
        return judged.model_copy(update={"config_errors": told})
    outputs, accepts, columns = made.outputs(), made.accepts(), made.columns()
    made_of = made.made_of()
    emits = made.emits()
    return judged.model_copy(
        update={
            "outputs": judged.outputs if outputs is None else outputs,
            "accepts": judged.accepts if accepts is None else accepts,
            "emits": judged.emits if emits is None else emits,
            "statements": made.statements(),
            "program": made.program(),
            "columns": None if columns is None else tuple(map(tuple, columns)),
            "made_of": None if made_of is None else tuple(map(_as_lists, made_of)),
        }
    )


def _fields_beside(model: type[BaseModel], place: Sequence[str | int]) -> list[str]:
    """The fields of the part of a config in which this place is."""
    models = [model]
    for step in place[:-1]:
        fields = (each.model_fields.get(str(step)) for each in models)
        inner = [each for field in fields if field for each in _models_of(field.annotation)]
        # What is no field is a number in a list, or which one of several kinds it was read as.
        models = inner or models
    return [field.alias or name for each in models for name, field in each.model_fields.items()]


def _models_of(kind: Any) -> Iterator[type[BaseModel]]:
    if inspect.isclass(kind) and issubclass(kind, BaseModel):
        yield kind
    for each in get_args(kind):
        yield from _models_of(each)


def _as_lists(made_of: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    return {column: list(origins) for column, origins in made_of.items()}


def refuse_half_made(operator: type, name: str) -> None:
    """Raise InvalidConfig when a class is no operator: which part is wrong, and what is right."""
    for is_right, said in _RULES:
        if not is_right(operator):
            raise InvalidConfig(f"{name} is no operator: {said}")


def _takes_a_task(operator: type) -> bool:
    run = inspect.getattr_static(operator, "run", None)
    if not inspect.isfunction(run):
        return False
    needed = [p for p in inspect.signature(run).parameters.values() if p.default is p.empty]
    return len(needed) == 2


def _is_made_of_nothing(operator: type) -> bool:
    made = inspect.signature(operator)
    return all(
        p.default is not p.empty or p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        for p in made.parameters.values()
    )


def _names_outputs(operator: type) -> bool:
    names = getattr(operator, "output_names", None)
    if names is None:
        return True
    return isinstance(names, tuple) and all(isinstance(name, str) for name in names)


def _emits_updates(operator: type) -> bool:
    emits = getattr(operator, "emits", None)
    return emits is None or (
        isinstance(emits, frozenset) and emits <= {"range", "partition", "tick"}
    )


_RULES: tuple[tuple[Callable[[type], bool], str], ...] = (
    (_takes_a_task, "it needs def run(self, task), which returns a Result"),
    (_is_made_of_nothing, "it is made without arguments, and its __init__ wants some"),
    (
        lambda o: isinstance(config_model(o), type) and issubclass(config_model(o), OperatorConfig),
        "its Config has to be a class of its own below OperatorConfig",
    ),
    (_names_outputs, 'output_names has to be None or a tuple of names, such as ("blocks",)'),
    (
        lambda o: isinstance(getattr(o, "accepts", UNDECLARED), Accepts),
        "accepts has to be one of trace_platform.operators.accepts, such as ONE_RANGE",
    ),
    (_emits_updates, "emits has to be None or one of trace_platform.operators.accepts: RANGE"),
)


def _summary(operator: type) -> str:
    """The first paragraph of what its class says, or else its module."""
    own = operator.__dict__.get("__doc__")
    module = inspect.getmodule(operator)
    text = inspect.cleandoc(own or (module.__doc__ if module else None) or "")
    first = " ".join(text.partition("\n\n")[0].split())
    # Modules here begin with the operator's own name.
    return first.partition("`: ")[2] or first if first.startswith("`") else first
