"""What failed checks keep from jobs, as sentences with a cure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from trace_platform.dispatcher.datasets.survey_datasets import JobKey
from trace_platform.domain.errors import HeldByCheck
from trace_platform.domain.figures import count, duration
from trace_platform.state.checks import StandingCheck
from trace_platform.wire.why import Reason

# Of the partitions of a dataset.
_SHOWN = 3


def by_reader(standing: Iterable[StandingCheck]) -> Mapping[JobKey, Sequence[StandingCheck]]:
    found: dict[JobKey, list[StandingCheck]] = defaultdict(list)
    for row in standing:
        found[row.dag_name, row.job_name].append(row)
    return found


def withheld_reasons(reader: str, withheld: Sequence[StandingCheck]) -> Iterator[Reason]:
    """One for each dataset; the oldest first."""
    by_dataset: dict[str, list[StandingCheck]] = defaultdict(list)
    for row in withheld:
        by_dataset[row.dataset].append(row)
    for dataset, rows in by_dataset.items():
        parts = ", ".join(row.partition_key for row in rows[:_SHOWN])
        more = f" and {len(rows) - _SHOWN:,} more" if len(rows) > _SHOWN else ""
        names = ", ".join(sorted({name for row in rows for name in row.checks}))
        what = count(len(rows), "partition")
        yield Reason(
            code=HeldByCheck.code,
            text=f"{reader} is kept from {what} of {dataset} ({parts}{more}) for"
            f" {duration(rows[0].age_s)}: {names} failed",
            cure=f"trace checks show {dataset} --failed; it goes on by itself when they are"
            " written again and pass",
        )
