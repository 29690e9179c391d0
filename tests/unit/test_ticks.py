"""When a schedule ticks, around changes of the clock too, and what becomes of missed ticks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise, takewhile
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trace_platform.domain.cron import next_tick, overdue_at, ticks_after, ticks_until
from trace_platform.scheduler.ticks import Due, due_ticks, pause_s
from trace_platform.wire.sources import MAX_TICKS, Schedule

BERLIN, NEW_YORK = "Europe/Berlin", "America/New_York"


def moment(text: str, zone: str = "UTC", fold: int = 0) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold).astimezone(UTC)


def between(schedule: str, zone: str, first: str, last: str) -> list[str]:
    """The ticks of local days, as local times with their offset."""
    start, end = moment(first, zone), moment(last, zone)
    found = takewhile(lambda tick: tick < end, ticks_after(schedule, zone, start))
    return [tick.astimezone(ZoneInfo(zone)).strftime("%H:%M%z") for tick in found]


@pytest.mark.parametrize(
    ("zone", "day", "next_day", "expected"),
    [
        # 02:00 to 03:00 does not exist.
        (BERLIN, "2026-03-29", "2026-03-30", ["03:00+0200"]),
        (NEW_YORK, "2026-03-08", "2026-03-09", ["03:00-0400"]),
    ],
)
def test_a_time_in_the_skipped_hour_is_once_right_after(
    zone: str, day: str, next_day: str, expected: list[str]
) -> None:
    assert between("30 2 * * *", zone, day, next_day) == expected
    assert between("0,15,30 2 * * *", zone, day, next_day) == expected


@pytest.mark.parametrize(
    ("zone", "schedule", "day", "next_day", "expected"),
    [
        # 02:00 to 03:00 comes twice in Berlin, 01:00 to 02:00 in New York.
        (BERLIN, "30 2 * * *", "2026-10-25", "2026-10-26", ["02:30+0200"]),
        (NEW_YORK, "30 1 * * *", "2026-11-01", "2026-11-02", ["01:30-0400"]),
    ],
)
def test_a_time_in_the_repeated_hour_is_once(
    zone: str, schedule: str, day: str, next_day: str, expected: list[str]
) -> None:
    assert between(schedule, zone, day, next_day) == expected


@pytest.mark.parametrize(
    ("zone", "day", "next_day", "hours"),
    [
        (BERLIN, "2026-03-29", "2026-03-30", 23),
        (BERLIN, "2026-10-25", "2026-10-26", 25),
        (NEW_YORK, "2026-03-08", "2026-03-09", 23),
        (NEW_YORK, "2026-11-01", "2026-11-02", 25),
    ],
)
def test_an_interval_goes_on_evenly(zone: str, day: str, next_day: str, hours: int) -> None:
    start = moment(day, zone) - timedelta(seconds=1)
    end = moment(next_day, zone) - timedelta(seconds=1)
    found = list(takewhile(lambda tick: tick <= end, ticks_after("*/15 * * * *", zone, start)))
    assert len(found) == 4 * hours
    gaps = {late - early for early, late in pairwise(found)}
    assert gaps == {timedelta(minutes=15)}


def test_a_day_has_its_own_hours_in_its_own_zone() -> None:
    assert next_tick("0 3 * * *", BERLIN, moment("2026-01-15T12:00")) == moment("2026-01-16T02:00")
    assert next_tick("0 3 * * *", BERLIN, moment("2026-07-15T12:00")) == moment("2026-07-16T01:00")
    assert next_tick("0 3 * * *", "UTC", moment("2026-07-15T12:00")) == moment("2026-07-16T03:00")


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        # In the second of the two hours, half past two is over.
        (moment("2026-10-25T02:15", BERLIN, fold=1), moment("2026-10-26T02:30", BERLIN)),
        (moment("2026-10-25T02:45", BERLIN, fold=0), moment("2026-10-26T02:30", BERLIN)),
        (moment("2026-10-25T02:15", BERLIN, fold=0), moment("2026-10-25T02:30", BERLIN)),
    ],
)
def test_which_of_the_two_hours_it_is_matters(after: datetime, expected: datetime) -> None:
    assert next_tick("30 2 * * *", BERLIN, after) == expected


def test_the_newest_tick_is_found_from_within_the_repeated_hour() -> None:
    now = moment("2026-10-25T02:15", BERLIN, fold=1)
    assert next(ticks_until("30 2 * * *", BERLIN, now)) == moment("2026-10-25T02:30", BERLIN)


SCHEDULES = [
    "30 2 * * *",
    "0,30 1-3 * * *",
    "*/20 * * * *",
    "5 */2 * * *",
    "0 2,3 * * *",
    "7 * * * *",
]


@pytest.mark.xfail(strict=True, reason="cronsim leaves a tick out where clocks go back by half")
def test_a_clock_that_goes_back_by_half_an_hour_loses_no_tick() -> None:
    start = moment("2026-04-04T12:00")
    found = next_tick("5 */2 * * *", "Australia/Lord_Howe", start + timedelta(hours=2))
    assert found == moment("2026-04-04T15:35")


@settings(max_examples=200)
@given(
    schedule=st.sampled_from(SCHEDULES),
    zone=st.sampled_from(["UTC", BERLIN, NEW_YORK, "Asia/Kathmandu"]),
    day=st.sampled_from(
        ["2026-03-08", "2026-03-29", "2026-04-05", "2026-10-04", "2026-10-25", "2026-11-01"]
    ),
    offset_m=st.integers(0, 48 * 60),
    length_m=st.integers(0, 48 * 60),
)
def test_forwards_and_backwards_are_the_same_ticks(
    schedule: str, zone: str, day: str, offset_m: int, length_m: int
) -> None:
    start = moment(day) - timedelta(days=1) + timedelta(minutes=offset_m)
    end = start + timedelta(minutes=length_m)
    forwards = list(takewhile(lambda t: t <= end, ticks_after(schedule, zone, start)))
    backwards = list(takewhile(lambda t: t > start, ticks_until(schedule, zone, end)))
    assert forwards == backwards[::-1]
    assert sorted(set(forwards)) == forwards


def hourly(missed: str, last_tick: str = "2026-06-01T00:00", **fields: Any) -> Schedule:
    return Schedule(
        dag_name="d",
        job_name="j",
        missed=missed,  # type: ignore[arg-type]
        last_tick=moment(last_tick),
        **{"schedule": "0 * * * *", "timezone": "UTC", "on_hold": False} | fields,
    )


@pytest.mark.parametrize("missed", ["skip", "latest", "all"])
def test_a_tick_that_is_on_time_is_emitted_whatever_the_policy(missed: str) -> None:
    for seconds in (0, 1, 60):
        now = moment("2026-06-01T01:00") + timedelta(seconds=seconds)
        assert due_ticks(hourly(missed), now) == Due(
            [moment("2026-06-01T01:00")], moment("2026-06-01T01:00")
        )


@pytest.mark.parametrize("missed", ["skip", "latest", "all"])
def test_nothing_is_due_before_the_next_tick(missed: str) -> None:
    assert due_ticks(hourly(missed), moment("2026-06-01T00:59:59")) is None
    assert due_ticks(hourly(missed), moment("2026-06-01T00:00")) is None


def test_several_missed_ticks() -> None:
    now = moment("2026-06-01T03:30")
    ticks = [moment(f"2026-06-01T0{hour}:00") for hour in (1, 2, 3)]
    assert due_ticks(hourly("skip"), now) == Due([], ticks[-1])
    assert due_ticks(hourly("latest"), now) == Due(ticks[-1:], ticks[-1])
    assert due_ticks(hourly("all"), now) == Due(ticks, ticks[-1])


def test_of_several_missed_ticks_skip_emits_the_one_that_is_on_time() -> None:
    now = moment("2026-06-01T03:00:30")
    found = due_ticks(hourly("skip"), now)
    assert found == Due([moment("2026-06-01T03:00")], moment("2026-06-01T03:00"))


def test_of_very_many_missed_ticks_the_newest_thousand_are_emitted() -> None:
    now = moment("2026-06-10T00:00")
    found = due_ticks(hourly("all", "2026-01-01T00:00"), now)
    assert found is not None
    assert found.cut
    assert len(found.ticks) == MAX_TICKS
    assert found.ticks[-1] == found.done_until == now
    assert found.ticks == sorted(found.ticks)
    assert found.ticks[0] == now - timedelta(hours=MAX_TICKS - 1)


def test_exactly_a_thousand_are_not_cut() -> None:
    start = moment("2026-01-01T00:00")
    now = start + timedelta(hours=MAX_TICKS)
    found = due_ticks(hourly("all", "2026-01-01T00:00"), now)
    assert found is not None
    assert (len(found.ticks), found.cut) == (MAX_TICKS, False)
    assert found.ticks[0] == start + timedelta(hours=1)


def test_years_of_absence_cost_no_more_than_a_day() -> None:
    every_minute = hourly("latest", "1990-01-01T00:00", schedule="* * * * *")
    now = moment("2026-06-01T00:00:30")
    assert due_ticks(every_minute, now) == Due(
        [moment("2026-06-01T00:00")], moment("2026-06-01T00:00")
    )


def test_the_pause_ends_with_the_next_tick_of_any_schedule() -> None:
    now = moment("2026-06-01T00:59:59.4")
    assert pause_s([], now, 1.0) == 1.0
    assert pause_s([hourly("skip")], now, 1.0) == pytest.approx(0.6)
    assert pause_s([hourly("skip")], now - timedelta(minutes=1), 1.0) == 1.0


def test_a_schedule_is_overdue_when_two_ticks_are_missing() -> None:
    last = moment("2026-06-01T00:00")
    assert overdue_at("0 * * * *", "UTC", last, 60) == moment("2026-06-01T02:01")


def test_a_schedule_without_end_may_be_asked_for_as_many_as_one_likes() -> None:
    found = list(islice(ticks_after("0 0 29 2 *", "UTC", moment("2026-01-01T00:00")), 3))
    assert [tick.year for tick in found] == [2028, 2032, 2036]
