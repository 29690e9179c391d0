"""What makes a source job emit: somebody, a worker that never ends, a clock, or a call."""

from __future__ import annotations

import zoneinfo
from datetime import UTC, datetime
from functools import lru_cache
from typing import Annotated, Any, Literal

from cronsim import CronSim, CronSimError
from pydantic import BaseModel, ConfigDict, Field, field_validator

from trace_platform.dag.model.fields import DagModel, SecretName, unknown

MAX_SCHEDULE = 200
_SHAPE = "minute hour day month weekday, such as '0 3 * * *' for 03:00 every day"
# What other schedulers know by a word.
_WORDS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}


class ManualSource(DagModel):
    """Emits with `trace sources trigger`."""

    kind: Literal["manual"] = Field(
        description="The source emits when somebody runs `trace sources trigger`."
    )


class AlwaysOnSource(DagModel):
    """Runs without end on a worker and emits as it finds something."""

    kind: Literal["always_on"] = Field(
        description="The source runs on a worker without end, and emits what its operator finds."
    )


class CronSource(DagModel):
    """Emits at the times of a schedule."""

    kind: Literal["cron"] = Field(description="The source emits a tick at the times of a schedule.")
    schedule: str = Field(
        max_length=MAX_SCHEDULE, description=f"Five fields: {_SHAPE}.", examples=["0 3 * * *"]
    )
    timezone: str = Field(
        default="UTC",
        max_length=64,
        examples=["UTC", "Europe/Berlin"],
        description="IANA name of the time zone of the schedule.",
    )
    missed: Literal["skip", "latest", "all"] = Field(
        default="latest",
        description="What is emitted of ticks that passed while nothing ran: none, the "
        "latest, or all of them.",
    )

    @field_validator("schedule")
    @classmethod
    def _runs(cls, value: str) -> str:
        fields = value.split()
        if problem := _schedule_problem(fields):
            raise ValueError(problem)
        return " ".join(fields)

    @field_validator("timezone")
    @classmethod
    def _exists(cls, value: str) -> str:
        if value not in zones():
            otherwise = "; use an IANA name, such as Europe/Berlin"
            raise unknown("there is no such time zone", value, sorted(zones()), otherwise)
        return value


class WebhookSource(DagModel):
    """Emits when it is called over HTTP with a signature."""

    kind: Literal["webhook"] = Field(
        description="The source emits when it is called over HTTP with a signature."
    )
    secret: SecretName = Field(description="Name of the secret that signs the calls.")


SOURCES: dict[str, type[BaseModel]] = {
    "manual": ManualSource,
    "always_on": AlwaysOnSource,
    "cron": CronSource,
    "webhook": WebhookSource,
}
Source = Annotated[
    ManualSource | AlwaysOnSource | CronSource | WebhookSource, Field(discriminator="kind")
]


class _Unknown(DagModel):
    """A source of no known kind: only its kind is worth an error."""

    model_config = ConfigDict(extra="ignore")
    kind: Literal["manual", "always_on", "cron", "webhook"]


def source_model(value: Any) -> type[BaseModel]:
    kind = value.get("kind") if isinstance(value, dict) else None
    return SOURCES.get(kind, _Unknown) if isinstance(kind, str) else _Unknown


@lru_cache(maxsize=1)
def zones() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones())


def _schedule_problem(fields: list[str]) -> str | None:
    if len(fields) == 1 and fields[0].lower() in _WORDS:
        return f"write it as five fields: '{_WORDS[fields[0].lower()]}'"
    if len(fields) == 6:
        return f"has 6 fields: leave the seconds out; {_SHAPE}"
    if len(fields) != 5:
        count = "1 field" if len(fields) == 1 else f"{len(fields)} fields"
        return f"has {count} and needs 5: {_SHAPE}"
    try:
        CronSim(" ".join(fields), datetime(2000, 1, 1, tzinfo=UTC))
    except (CronSimError, ValueError, AssertionError) as error:
        wrong = str(error).removeprefix("Bad ")
        said = f"the {wrong} cannot be right" if str(error).startswith("Bad ") else "is no schedule"
        return f"{said}; {_SHAPE}"
    return None
