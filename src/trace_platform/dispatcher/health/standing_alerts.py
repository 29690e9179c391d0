"""Critical alerts that stand: nobody has acknowledged them, and what they tell of is not over."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

import structlog

from trace_platform.data import alerts_read
from trace_platform.data.alerts_read import StandingAlert
from trace_platform.domain.errors import Unavailable
from trace_platform.drivers.postgres.database import Database
from trace_platform.state import partitions

log = structlog.get_logger()

# By dataset: what says that rows of it are wrong.
KnownWrong = Mapping[UUID, Sequence[StandingAlert]]


async def standing_alerts(data: Database) -> list[StandingAlert]:
    """The newest first. Raise Unavailable when Postgres data does not answer."""
    async with data.transaction() as tx:
        return await alerts_read.critical_standing(tx)


async def known_wrong(data: Database) -> KnownWrong:
    """Nothing is known while Postgres data does not answer: `trace health` fires then."""
    try:
        return by_dataset(await standing_alerts(data))
    except Unavailable as error:
        log.warning("alerts_not_read", reason=error.message)
        return {}


def by_dataset(alerts: Iterable[StandingAlert]) -> KnownWrong:
    found: dict[UUID, list[StandingAlert]] = defaultdict(list)
    for alert in alerts:
        if alert.dataset_uuid is not None and _says_wrong(alert):
            found[alert.dataset_uuid].append(alert)
    return dict(found)


def of_version(wrong: KnownWrong, dataset_uuid: UUID, version: UUID) -> list[StandingAlert]:
    """What is said of that generation. An alert that names none is of all of them."""
    return [
        alert
        for alert in wrong.get(dataset_uuid, ())
        if alert.facts.get("dataset_version") in (None, str(version))
    ]


def _says_wrong(alert: StandingAlert) -> bool:
    """Other critical alerts are about nodes and sources, or about what was put right."""
    return alert.code == "integrity_mismatch" or bool(alert.facts.get("deeper_than_known"))


async def end_repaired_alerts(state: Database, data: Database) -> int:
    """What was found wrong in files is over when they gave way to newer ones, or are gone."""
    alerts = [a for a in await standing_alerts(data) if a.facts.get("location")]
    if not alerts:
        return 0
    async with state.transaction() as tx:
        read = await partitions.still_current(tx, {a.facts["location"] for a in alerts})
    over = [a.alert_id for a in alerts if a.facts["location"] not in read]
    async with data.transaction() as tx:
        return await alerts_read.end_alerts(tx, over)
