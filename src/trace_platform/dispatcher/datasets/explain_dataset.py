"""Whether a dataset is up to date, and because of what not: up to the first cause."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from trace_platform.dispatcher.datasets.judge_datasets import judge_datasets, max_age_of
from trace_platform.dispatcher.datasets.survey_datasets import dataset_label, survey_datasets
from trace_platform.dispatcher.health.standing_alerts import KnownWrong
from trace_platform.domain.figures import duration
from trace_platform.drivers.postgres.queries import Tx
from trace_platform.state.registry import DatasetNow
from trace_platform.wire.dataset import DatasetReason, DatasetState, DatasetWhy

# More would be a page of the same: the first are the causes.
_SHOWN = 50


async def explain_dataset(
    tx: Tx, org_id: UUID, dataset_uuid: UUID, wrong: KnownWrong
) -> DatasetWhy:
    survey = await survey_datasets(tx, org_id)
    row = survey.datasets[dataset_uuid]
    judged = await judge_datasets(tx, org_id, survey, [dataset_uuid], wrong, messages=True)
    state, reasons = judged.state(dataset_uuid), judged.reasons(dataset_uuid)[:_SHOWN]
    own = f"{row.dag_name}.{row.job_name}"
    if state == "fresh":
        reasons.insert(0, _fresh(row, own))
    return DatasetWhy(
        dataset=dataset_label(row),
        dataset_uuid=dataset_uuid,
        dataset_version=row.dataset_version,
        producer=own,
        state=state,
        answer=answer_of(row, state, reasons),
        reasons=reasons,
        age_s=row.age_s,
        max_age_s=max_age_of(row),
    )


def answer_of(row: DatasetNow, state: DatasetState, reasons: Sequence[DatasetReason]) -> str:
    """One sentence: the state, and the first cause of it."""
    label = dataset_label(row)
    if state == "fresh":
        return _said_fresh(row)
    return f"{label} is {state}: {reasons[0].text}"


def _said_fresh(row: DatasetNow) -> str:
    label = dataset_label(row)
    if row.age_s is None:
        return f"{label} is fresh: there was nothing to make it of yet"
    newest = f"its newest update is {duration(row.age_s)} old"
    return f"{label} is fresh: everything that it comes from is worked through; {newest}"


def _fresh(row: DatasetNow, own: str) -> DatasetReason:
    return DatasetReason(
        code="fresh" if row.age_s is not None else "no_events",
        text=_said_fresh(row),
        cure=f"trace why {own}" if row.age_s is None else None,
        level="fresh",
        at=own,
        steps=0,
    )
