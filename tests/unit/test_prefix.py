"""Where things lie is read back as what it was written for, and nothing else is."""

from __future__ import annotations

import hashlib
from uuid import UUID

import pytest

from tests.support.corpus import corpus
from trace_platform.domain.prefix import (
    PLACES,
    BatchPlace,
    DeliveryPlace,
    LogPlace,
    Place,
    TaskPlace,
    attempt_of,
    attempt_prefix,
    delivery_prefix,
    generation_prefix,
    log_uri,
    place_of,
    scratch_prefix,
)

ORG, DATASET, VERSION, TASK = (UUID(int=n * 2**100 + n) for n in range(10, 14))
DIGEST = hashlib.sha256(b"msg_1").hexdigest()
GENERATION = generation_prefix("trace-data", ORG, DATASET, VERSION)

WRITTEN: list[tuple[str, str, Place]] = [
    (
        attempt_prefix("trace-data", ORG, DATASET, VERSION, TASK, 12) + "rows_0_9.parquet",
        "12/rows_0_9.parquet",
        TaskPlace("trace-data", ORG, DATASET, VERSION, TASK),
    ),
    (
        delivery_prefix("trace-data", ORG, DATASET, VERSION, "msg_1") + "rows.parquet",
        "rows.parquet",
        DeliveryPlace("trace-data", ORG, DATASET, VERSION, DIGEST),
    ),
    (
        log_uri("trace-data", ORG, TASK, 12),
        "12.jsonl",
        LogPlace("trace-data", ORG, TASK),
    ),
    (
        scratch_prefix("trace-scratch", DATASET, TASK, 12) + "batch",
        "12/batch",
        BatchPlace("trace-scratch", DATASET, TASK),
    ),
]


def test_every_kind_of_place_is_written_here() -> None:
    assert {type(place) for _, _, place in WRITTEN} == set(PLACES)


@pytest.mark.parametrize(("uri", "name", "place"), WRITTEN)
def test_what_is_written_is_read_back(uri: str, name: str, place: Place) -> None:
    assert place_of(uri.removesuffix(name)) == place
    assert attempt_of(place, name) == (None if isinstance(place, DeliveryPlace) else 12)


@corpus(
    "uri",
    [
        "s3://trace-data/org/",
        GENERATION,
        f"{GENERATION}{TASK}",
        f"{GENERATION}{TASK}/1/",
        f"{GENERATION}{str(TASK).upper()}/",
        f"{GENERATION}notes/",
        f"{GENERATION}hooks/",
        f"{GENERATION}hooks/notes/",
        f"{GENERATION}hooks/{DIGEST}/more/",
        f"s3://Trace/org/{ORG}/logs/{TASK}/",
        f"s3://trace-data/org/{ORG}/logs/{TASK}/\n",
        f"s3://trace-data/org/{ORG}/buffers/{DATASET}/{TASK}/",
        f"x-s3://trace-data/buffers/{DATASET}/{TASK}/",
    ],
)
def test_nothing_else_is_a_place(uri: str) -> None:
    assert place_of(uri) is None


@corpus("name", ["0/a", "01/a", "-1/a", "1", "a/1/b", "1a/b", ".1.jsonl.f3", ""])
@corpus("place", [place for _, _, place in WRITTEN])
def test_what_is_no_attempts_is_no_attempts(place: Place, name: str) -> None:
    assert attempt_of(place, name) is None


def test_a_log_is_no_attempts_folder_and_a_folder_no_log() -> None:
    task, _, log, batch = (place for _, _, place in WRITTEN)
    assert [attempt_of(place, "1.jsonl") for place in (task, log, batch)] == [None, 1, None]
    assert [attempt_of(place, "1/a") for place in (task, log, batch)] == [1, None, 1]
