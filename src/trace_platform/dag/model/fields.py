"""Field types that the parts of a DAG file share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    WithJsonSchema,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from trace_platform.domain import own_code

MAX_DESCRIPTION = 2_000
MAX_OUTPUTS = 64
MAX_DURATION_S = 366 * 86_400
DURATION_SCHEMA: dict[str, Any] = {
    "anyOf": [
        {"type": "string", "pattern": r"^[0-9]{1,9}(\.[0-9]{1,9})? ?[smhd]$"},
        {"type": "number", "exclusiveMinimum": 0, "maximum": MAX_DURATION_S},
    ],
    "examples": ["90s", "10m", "2h", "1d"],
}

_UNIT_S = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?) ?([smhd])")
# What people write instead, to say it in seconds in the answer.
_SPOKEN = re.compile(
    r"\s*([0-9]{1,6}(?:\.[0-9]{1,3})?)\s*"
    r"(?:(s|secs?|seconds?)|(m|mins?|minutes?)|(h|hrs?|hours?)|(d|days?))\s*",
    re.IGNORECASE,
)
_NAME = re.compile(r"[a-z][a-z0-9_]{0,127}")
# Its name, or a class in a file beside the DAG.
OPERATOR_PATTERN = rf"^([a-z][a-z0-9_]{{0,127}}|{own_code.PATTERN})$"

Path = tuple[str | int, ...]

# The type of an error whose value is not shown: it is secret, or does not help.
UNSHOWN = "unshown"
# The type of an error about a field that is missing because of another one.
NEEDED = "needed"
# The type of an error about a word that is none of the known ones.
UNKNOWN = "unknown"


def absent(value: Any) -> bool:
    """For `exclude_if`: a field that came later leaves the hashes of older files as they were."""
    return value is None


def empty(value: Any) -> bool:
    """For `exclude_if`, like `absent`, where nothing is an empty list."""
    return not value


def spoken_seconds(text: str) -> float | None:
    """The seconds that someone means by '10 minutes' or '10m'."""
    match = _SPOKEN.fullmatch(text)
    if match is None:
        return None
    unit = next(unit for unit, found in zip("smhd", match.groups()[1:], strict=True) if found)
    return float(match[1]) * _UNIT_S[unit]


def seconds(value: Any) -> Any:
    """A duration as seconds. Numbers, and what is no duration at all, are left to the field."""
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError("write a duration as 90s, 10m, 2h or 1d, or as a number of seconds")
    return float(match[1]) * _UNIT_S[match[2]]


def _number_of_seconds(value: Any) -> Any:
    meant = spoken_seconds(value) if isinstance(value, str) else None
    if meant is not None:
        raise ValueError(f"write a number of seconds, without a unit: {meant:g}")
    return _no_bool(value)


def _no_bool(value: Any) -> Any:
    # To Python `true` is the number 1; to the author it is a mistake.
    if isinstance(value, bool):
        raise ValueError("write a number")
    return value


def _secret_name(value: Any) -> Any:
    # Whoever writes a secret here shall not find it in a log.
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise PydanticCustomError(
            UNSHOWN,
            "name a secret here, never write its value: "
            "lower-case letters, digits and '_', starting with a letter",
        )
    return value


def distinct(values: Iterable[str], what: str) -> None:
    """Raise ValueError when one is there twice."""
    seen: set[str] = set()
    for value in values:
        if value in seen:
            raise ValueError(f"{what} '{value}' is there twice: leave one out")
        seen.add(value)


def raise_all(title: str, found: Iterable[tuple[Path, str | PydanticCustomError]]) -> None:
    """Raise one error for every problem, each at its own path; nothing when there is none."""
    details = [problem_at(path, said) for path, said in found]
    if details:
        raise ValidationError.from_exception_data(title, details)


def problem_at(path: Path, said: str | PydanticCustomError) -> InitErrorDetails:
    if isinstance(said, str):
        said = PydanticCustomError(UNSHOWN, "{said}", {"said": said})
    return InitErrorDetails(type=said, loc=path, input=None)


def needed(field: str, said: str) -> PydanticCustomError:
    return PydanticCustomError(NEEDED, "{said}", {"said": said, "field": field})


def unknown(
    said: str, given: str, known: Sequence[str], otherwise: str = ""
) -> PydanticCustomError:
    """What was meant is looked for when the error is shown: a hostile file has thousands."""
    facts = {"said": said, "given": given, "known": known, "otherwise": otherwise}
    return PydanticCustomError(UNKNOWN, "{said}", facts)


def again(error: ValidationError) -> list[InitErrorDetails]:
    """The errors that were found, to be raised together with others."""
    return [
        InitErrorDetails(
            type=PydanticCustomError(
                each["type"], "{said}", {"said": each["msg"]} | each.get("ctx", {})
            ),
            loc=each["loc"],
            input=each["input"],
        )
        for each in error.errors(include_url=False)
    ]


def output(value: Any) -> Any:
    """The name of an output, or its index."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError("name an output, or give its index, such as output: 0")
    if isinstance(value, int) and not 0 <= value < MAX_OUTPUTS:
        raise ValueError(f"an index is from 0 to {MAX_OUTPUTS - 1}")
    if isinstance(value, str) and not _NAME.fullmatch(value):
        raise ValueError("name an output: lower-case letters, digits and '_'")
    return value


def chosen(value: Any, choose: Callable[[Any], type[BaseModel]]) -> Any:
    """A mapping as the model that fits it: one clear error instead of one per model."""
    return choose(value).model_validate(value) if isinstance(value, dict) else value


class DagModel(BaseModel):
    """Base of all that stands in a DAG file: unknown fields are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=128)]
OperatorName = Annotated[str, Field(pattern=OPERATOR_PATTERN, max_length=256)]
SecretName = Annotated[
    str, Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=128), BeforeValidator(_secret_name)
]
Output = Annotated[int | str, BeforeValidator(output)]
ColumnName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=128)]
Text = Annotated[str, Field(max_length=MAX_DESCRIPTION)]
# Strict: neither `true` nor "5" is a count. It fits Postgres' integer.
Count = Annotated[int, Field(strict=True, ge=1, le=2**31 - 1)]
Attempts = Annotated[int, Field(ge=1, le=100), BeforeValidator(_no_bool)]
TimeoutSeconds = Annotated[float, Field(gt=0, le=86_400), BeforeValidator(_number_of_seconds)]
HeartbeatSeconds = Annotated[float, Field(ge=1, le=3_600), BeforeValidator(_number_of_seconds)]
# In seconds, however it was written.
Duration = Annotated[
    float,
    BeforeValidator(seconds),
    Field(gt=0, le=MAX_DURATION_S),
    WithJsonSchema(DURATION_SCHEMA),
]
