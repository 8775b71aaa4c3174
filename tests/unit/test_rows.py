"""Rows of files: what becomes a score exactly as it is written, and what does not."""

import math
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.rows import BadRow, Columns, Row, make_row


def score_of(value: Any) -> Any:
    row = make_row(7, {"player": "ann", "score": value}, Columns())
    return row.score["score"] if isinstance(row, Row) else row


@pytest.mark.parametrize(
    ("text", "score"),
    [("5", 5), (" 5 ", 5), ("+5", 5), ("-5.50", -5.5), ("1e3", 1000), (".5", 0.5), ("5.", 5), ("0.1", 0.1)],
)
def test_text_is_the_number_that_it_says(text: str, score: float) -> None:
    assert score_of(text) == score
    assert type(score_of(text)) is (int if score == int(score) else float)


@pytest.mark.parametrize(
    "value",
    [
        *("", " ", "x", "1_000", "1,000", "0x10", "nan", "inf", "1e999", "\u0661", "--1", "1e", "9223372036854775808"),
        *(None, True, math.nan, math.inf, 2**63, [1], {}, Decimal("NaN"), Decimal("Infinity"), b"5"),
    ],
)
def test_what_is_no_number_is_bad_and_quoted(value: Any) -> None:
    found = score_of(value)
    assert isinstance(found, BadRow)
    assert found.line == 7
    assert str(value) in found.message


@pytest.mark.parametrize("text", ["12345678901234567.5", "0.1000000000000000055511151231257827"])
def test_digits_that_a_double_would_lose_are_refused(text: str) -> None:
    found = score_of(text)
    assert isinstance(found, BadRow)
    assert "digits" in found.message


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e18, max_value=1e18))
def test_every_double_comes_through_its_text(value: float) -> None:
    for found in (score_of(repr(value)), score_of(Decimal(repr(value)))):
        assert Decimal(repr(found)) == Decimal(repr(value))


@given(st.integers(-(2**63) + 1, 2**63 - 1))
def test_every_whole_number_comes_through_its_text(value: int) -> None:
    assert score_of(str(value)) == score_of(value) == value
    assert type(score_of(str(value))) is int


@pytest.mark.parametrize("player", ["", None, 1.5, "\udcff", True, ["ann"]])
def test_a_player_is_text(player: Any) -> None:
    assert isinstance(make_row(1, {"player": player, "score": 1}, Columns()), BadRow)


def test_other_parts_are_taken_where_they_are() -> None:
    values = {"player": 42, "score": 1, "subscore": "3", "at": "1794916800000", "tag": "x", "event": 9, "other": 0}
    row = make_row(1, values, Columns(id="event"))
    assert isinstance(row, Row)
    assert row.score == {"player": "42", "score": 1, "subscore": 3, "at": 1_794_916_800_000, "tag": "x", "id": "9"}
    empty = make_row(1, {"player": "a", "score": 1, "subscore": "", "at": None, "tag": ""}, Columns())
    assert isinstance(empty, Row)
    assert empty.score == {"player": "a", "score": 1}


@pytest.mark.parametrize(
    ("at", "sent"),
    [
        (datetime(2026, 11, 17, 12), "2026-11-17T12:00:00+00:00"),  # as Parquet has it
        (datetime(2026, 11, 17, 12, tzinfo=UTC), "2026-11-17T12:00:00+00:00"),
        ("2026-11-17T12:00:00Z", "2026-11-17T12:00:00Z"),
        (5, 5),
    ],
)
def test_times_are_sent_as_the_wire_takes_them(at: Any, sent: Any) -> None:
    row = make_row(1, {"player": "a", "score": 1, "at": at}, Columns())
    assert isinstance(row, Row)
    assert row.score["at"] == sent


def test_a_time_that_is_none_is_bad() -> None:
    assert isinstance(make_row(1, {"player": "a", "score": 1, "at": 1.5}, Columns()), BadRow)
