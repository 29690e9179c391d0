"""Samples of failing rows without what tells about persons.

Masked before they are kept, and once more when they are shown: by then more may be said to be
personal. Whoever may see personal columns queries the rows themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from trace_platform.wire.check import MASKED, SampleRow

# By dataset, in lower case.
PersonalColumns = Mapping[UUID, frozenset[str]]

# Their samples have some of the columns only.
_PARTS = ("unique", "gaps")


def masked(
    kind: str, sample: Sequence[SampleRow], dataset_uuid: UUID, personal: PersonalColumns
) -> list[SampleRow]:
    hidden = hidden_columns(kind, sample, dataset_uuid, personal)
    return [
        {
            name: MASKED if name in hidden and value is not None else value
            for name, value in row.items()
        }
        for row in sample
    ]


def hidden_columns(
    kind: str, sample: Sequence[SampleRow], dataset_uuid: UUID, personal: PersonalColumns
) -> list[str]:
    """The columns whose values are not shown. A statement may call a personal column anything: then
    none is shown. Neither is one where something personal is no column of the whole rows."""
    names = list(dict.fromkeys(name for row in sample for name in row))
    own = personal.get(dataset_uuid, frozenset())
    lower = {name.lower() for name in names}
    unknown = kind not in _PARTS and not own <= lower
    if unknown or (kind == "sql" and any(personal.values())):
        return names
    return [name for name in names if name.lower() in own]
