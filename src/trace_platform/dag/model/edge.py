"""What a job reads: an output of a job, or a published dataset, and which of its rows."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError, WithJsonSchema, field_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from trace_platform.dag.model.fields import DagModel, Name, Output, absent, chosen
from trace_platform.wire import where as filters
from trace_platform.wire.where_text import WrongText, parse_where

_JOB_AND_OUTPUT = re.compile(r"([a-z][a-z0-9_]{0,40})(?:\.([a-z0-9_]{1,40}))?")


# Kept as the mapping, in its normal form, however it was written.
Where = Annotated[
    dict[str, Any],
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "object", "additionalProperties": True},
                {"type": "string", "minLength": 1},
            ],
            "examples": [{"severity": "critical"}, "severity = 'critical'"],
        }
    ),
]


class JobOutputRef(DagModel):
    """An output of a job of this DAG."""

    job: Name = Field(description="Name of a job of this DAG.")
    output: Output = Field(
        default=0,
        description="The job's output, by name or by position from 0; the first unless given.",
    )


class DatasetRef(DagModel):
    """A published dataset, of this DAG or of one that was deployed before."""

    dataset: Name = Field(
        description="The name under which the dataset is published, by this DAG or by one "
        "that was deployed before."
    )


def input_names(source: JobOutputRef | DatasetRef) -> list[str]:
    """What a transform may call it, from the file alone: the dataset, or the output and its job."""
    if isinstance(source, DatasetRef):
        return [source.dataset]
    named = [source.output] if isinstance(source.output, str) else []
    return list(dict.fromkeys([*named, source.job]))


def ref_model(value: Any) -> type[BaseModel]:
    return DatasetRef if isinstance(value, dict) and "dataset" in value else JobOutputRef


def ref_example(value: Any) -> str:
    """What someone means who writes `job` or `job.output` where a mapping belongs."""
    match = _JOB_AND_OUTPUT.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return "from: { job: NAME, output: NAME }"
    return f"from: {{ job: {match[1]}{', output: ' + match[2] if match[2] else ''} }}"


class InputEdge(DagModel):
    """What wakes the job or is only read by it, and which rows of it the job reads."""

    source: JobOutputRef | DatasetRef = Field(
        alias="from",
        description="What the job reads: an output of a job of this DAG, or a published dataset.",
    )
    where: Where | None = Field(
        default=None,
        exclude_if=absent,
        description="Conditions on columns, as a mapping or in SQL. The job reads the rows "
        "for which all of them hold; all rows unless given.",
    )
    trigger: bool = Field(
        default=True,
        strict=True,
        exclude_if=lambda value: value is True,
        description="Whether an update of the input makes a task. With false the job only "
        "reads it, when another input wakes the job.",
    )

    @field_validator("source", mode="before")
    @classmethod
    def _which(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            raise ValueError(f"write it as a mapping: {ref_example(value)}")
        return chosen(value, ref_model)

    @field_validator("where", mode="before")
    @classmethod
    def _filter(cls, value: Any) -> Any:
        if value is None or value == {}:
            return None
        if isinstance(value, str):
            value = _parsed(value)
        found = [_filter_error(path, said, value) for path, said in filters.problems(value)]
        if found:
            raise ValidationError.from_exception_data("where", found)
        return filters.normalised(value)


def _parsed(text: str) -> dict[str, Any]:
    try:
        return parse_where(text)
    except WrongText as wrong:
        error = _filter_error(wrong.path, wrong.said, text, text[: wrong.at])
        raise ValidationError.from_exception_data("where", [error]) from None


def _filter_error(
    path: filters.Path, said: str, where: Any, before: str | None = None
) -> InitErrorDetails:
    """`before`: what of a text is right."""
    facts = {"said": said} if before is None else {"said": said, "before": before}
    kind = PydanticCustomError("where", "{said}", facts)
    return InitErrorDetails(type=kind, loc=path, input=[where])
