"""One column has one type, whichever version wrote its files and whatever it called the type."""

from __future__ import annotations

import pytest

from tests.support.corpus import corpus
from trace_platform.domain.errors import IncompatibleSchema
from trace_platform.wire.manifest import ManifestColumn
from trace_platform.wire.merge_columns import merge_columns

ALIKE = {
    # What an older version said, what this one says, and what the generation then has.
    "moments were INT96": ("timestamp[ns]", "timestamp[us, tz=UTC]", "timestamp[us, tz=UTC]"),
    "moments within": (
        "list<element: struct<at: timestamp[ns]>>",
        "list<element: struct<at: timestamp[us, tz=UTC]>>",
        "list<element: struct<at: timestamp[us, tz=UTC]>>",
    ),
    "as it was given": ("timestamp[s]", "timestamp[ms]", "timestamp[ms]"),
    "as it was given, of the day": ("time32[s]", "time32[ms]", "time32[ms]"),
    "names within a list": (
        "list<l: list<l: timestamp[ns]>>",
        "list<element: list<element: timestamp[ns]>>",
        "list<element: list<element: timestamp[ns]>>",
    ),
    "null within a list": (
        "list<element: string not null>",
        "list<element: string>",
        "list<element: string>",
    ),
    "null within a struct": (
        "struct<sum: string, count: int64 not null>",
        "struct<sum: string, count: int64>",
        "struct<sum: string, count: int64>",
    ),
    "names within a map": (
        "map<string, int32>",
        "map<string, int32 ('entries')>",
        "map<string, int32>",
    ),
}


def column(kind: str) -> ManifestColumn:
    return ManifestColumn(name="c", type=kind, nullable=True)


@corpus("case", ALIKE)
def test_commits_of_an_older_and_a_newer_version_are_of_one_generation(case: str) -> None:
    older, newer, both = ALIKE[case]
    assert merge_columns([column(older)], [column(newer)]) == [column(both)]
    assert merge_columns([column(newer)], [column(older)]) == [column(both)]
    assert merge_columns([column(older)], [column(older)]) == [column(older)]


def test_a_moment_and_a_time_without_a_zone_stay_two_types() -> None:
    for other in ("timestamp[us]", "timestamp[ms]", "list<element: timestamp[us, tz=UTC]>"):
        with pytest.raises(IncompatibleSchema):
            merge_columns([column("timestamp[us, tz=UTC]")], [column(other)])
