"""Windows by event time: names, ends, and the corners of the calendar."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hybrid.errors import InvalidField
from hybrid.windows import KINDS, parse_window, window_at
from tests.oracle import NaiveBoard


def ms(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("at", "daily", "weekly", "monthly"),
    [
        ("2026-11-17T00:00:00", "daily:2026-11-17", "weekly:2026-W47", "monthly:2026-11"),
        ("2026-11-17T23:59:59.999", "daily:2026-11-17", "weekly:2026-W47", "monthly:2026-11"),
        ("2027-01-01T00:00:00", "daily:2027-01-01", "weekly:2026-W53", "monthly:2027-01"),
        ("2027-01-04T00:00:00", "daily:2027-01-04", "weekly:2027-W01", "monthly:2027-01"),
        ("2024-12-30T12:00:00", "daily:2024-12-30", "weekly:2025-W01", "monthly:2024-12"),
        ("2024-02-29T12:00:00", "daily:2024-02-29", "weekly:2024-W09", "monthly:2024-02"),
    ],
)
def test_weeks_are_iso_weeks_also_at_new_year(at: str, daily: str, weekly: str, monthly: str) -> None:
    names = [window_at(kind, ms(at)).name for kind in ("daily", "weekly", "monthly")]
    assert names == [daily, weekly, monthly]


@given(st.sampled_from(KINDS), st.integers(0, ms("2100-01-01T00:00:00")))
def test_every_time_lies_in_its_window_and_windows_have_no_gaps(kind: str, at_ms: int) -> None:
    window = window_at(kind, at_ms)
    assert (window.name, window.end_ms) == NaiveBoard._window(kind, at_ms)
    assert parse_window(window.name, now_ms=0) == window
    if window.end_ms is not None:
        assert window.start_ms <= at_ms < window.end_ms
        assert window_at(kind, window.end_ms).start_ms == window.end_ms


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hourly",
        "daily:",
        "daily:2026-11-7",
        "daily:2026-02-30",
        "weekly:2026-W54",
        "weekly:2026-47",
        "monthly:2026-13",
        "alltime:1",
        "daily:2026-11-17 ",
        "monthly:2026-1",
        "daily:2026-11-17:x",
        "DAILY",
        "weekly:2025-W53",
    ],
)
def test_a_window_that_does_not_exist_is_refused_and_quoted(text: str) -> None:
    with pytest.raises(InvalidField, match="not ") as error:
        parse_window(text, now_ms=0)
    assert repr(text) in str(error.value)


def test_a_kind_alone_means_the_window_of_now() -> None:
    assert parse_window("weekly", ms("2026-11-17T12:00:00")).name == "weekly:2026-W47"


def test_a_window_closes_after_its_grace_and_is_kept_as_long_again() -> None:
    window = window_at("monthly", ms("2026-11-17T12:00:00"))
    end = ms("2026-12-01T00:00:00")
    assert not window.is_closed(end + 999, grace_ms=1000)
    assert window.is_closed(end + 1000, grace_ms=1000)
    assert window.kept_until_ms(1000, least_ms=7) == end + 1000 + (end - ms("2026-11-01T00:00:00"))
    assert window_at("alltime", 0).kept_until_ms(1000, 7) is None
