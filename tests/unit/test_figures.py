from __future__ import annotations

from tests.support.corpus import corpus
from trace_platform.domain.figures import count, duration, size


@corpus(
    ("seconds", "said"),
    [
        (-3, "0.0 s"),
        (0.04, "0.0 s"),
        (12.34, "12.3 s"),
        (59.94, "59.9 s"),
        (59.96, "59.9 s"),
        (60, "1m 0s"),
        (89.99, "1m 29s"),
        (312.9, "5m 12s"),
        (3_600, "1h 0m"),
        (86_400 * 3 + 3_600 * 4 + 59, "3d 4h"),
        (86_400 * 1_000, "1000d 0h"),
    ],
)
def test_a_duration_is_its_two_largest_units(seconds: float, said: str) -> None:
    assert duration(seconds) == said


@corpus(
    ("n_bytes", "said"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1_500, "1.5 kB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),
        (88_100_000, "88.1 MB"),
        (5e15, "5,000.0 TB"),
    ],
)
def test_a_size_has_the_unit_that_leaves_few_digits(n_bytes: float, said: str) -> None:
    assert size(n_bytes) == said


def test_one_of_a_thing_is_singular() -> None:
    assert [count(n, "task") for n in (0, 1, 1_200)] == ["0 tasks", "1 task", "1,200 tasks"]
