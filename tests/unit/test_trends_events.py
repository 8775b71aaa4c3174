"""Events of trends that cannot be: refused whole, with the value and where it stood."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hybrid.errors import AtOutOfRange, InvalidField
from hybrid.events import AHEAD_MS, MAX_PLAYER_CHARS
from hybrid.trends.events import MAX_COUNT, MAX_SUM, TrendBatch, check_events, check_item
from tests.engines import NOON_MS
from tests.trends_oracle import make_trend

TREND = make_trend()
LONG = "x" * (MAX_PLAYER_CHARS + 1)


def refusal(batch: TrendBatch) -> InvalidField:
    with pytest.raises(InvalidField) as caught:
        check_events(TREND, batch, NOON_MS)
    return caught.value


@pytest.mark.parametrize("bad", ["", ".", "..", LONG, "tab\there", "line\nfeed", "\x00", "\x7f", "\x85", "\ud800"])
def test_an_item_or_actor_that_cannot_be_is_quoted_with_its_index(bad: str) -> None:
    for field, batch in (
        ("item", TrendBatch(["a", "b", bad, "c", bad])),
        ("actor", TrendBatch(["a"] * 5, actors=["ann", None, bad, "bob", bad])),
    ):
        error = refusal(batch)
        assert (error.field, error.index) == (field, 2)
        assert repr(bad)[1:-1][:100] in str(error)


@pytest.mark.parametrize("bad", [5, 1.5, True, b"a", ["a"]])
def test_what_is_no_text_is_no_item(bad: Any) -> None:
    error = refusal(TrendBatch(["a", bad]))
    assert (error.field, error.index) == ("item", 1)
    assert repr(bad) in str(error)


@pytest.mark.parametrize("bad", [pa.array([1, 2]), pa.array([1.5]), pa.array([True]), pa.array([[1]])])
def test_an_arrow_array_of_something_else_is_no_column_of_items(bad: pa.Array) -> None:
    error = refusal(TrendBatch(bad))
    assert error.field == "item"
    assert str(bad.type) in str(error)


def test_an_arrow_array_of_broken_text_is_refused() -> None:
    offsets = pa.py_buffer(np.array([0, 1, 3], np.int64))
    broken = pa.LargeStringArray.from_buffers(2, offsets, pa.py_buffer(b"a\xff\xfe"))
    assert refusal(TrendBatch(broken)).field == "item"


@pytest.mark.parametrize("items", [["a", None], pa.array(["a", None]), pa.array(["a", None]).dictionary_encode()])
def test_an_item_is_needed_and_an_actor_is_not(items: Any) -> None:
    error = refusal(TrendBatch(items))
    assert (error.field, error.index) == ("item", 1)
    rows = check_events(TREND, TrendBatch(["a", "a"], actors=items), NOON_MS)
    assert dict(zip(rows.actors.to_pylist(), rows.counts.tolist(), strict=True)) == {"a": 1, None: 1}


@pytest.mark.parametrize("bad", [0, -1, MAX_COUNT + 1, 2**63, -(2**70), 1.5, True, "7", None])
def test_a_count_that_cannot_be_is_quoted_with_its_index(bad: Any) -> None:
    error = refusal(TrendBatch(["a", "b", "c"], [1, bad, bad]))
    assert (error.field, error.index) == ("count", 1)
    assert repr(bad) in str(error)


@pytest.mark.parametrize("bad", [-1, NOON_MS + AHEAD_MS + 1, 2**63, 1.5, False, None])
def test_a_time_that_cannot_be_is_quoted_with_its_index(bad: Any) -> None:
    error = refusal(TrendBatch(["a", "b", "c"], at_ms=[NOON_MS, bad, bad]))
    assert (error.field, error.index) == ("at", 1)
    assert repr(bad) in str(error)


def test_a_time_out_of_range_says_so() -> None:
    assert isinstance(refusal(TrendBatch(["a"], at_ms=[NOON_MS + AHEAD_MS + 1])), AtOutOfRange)
    check_events(TREND, TrendBatch(["a", "a"], at_ms=[0, NOON_MS + AHEAD_MS]), NOON_MS)


@pytest.mark.parametrize("kind", [np.float64, np.uint64, np.bool_])
def test_an_array_of_numbers_is_never_rounded_or_wrapped_into_counts(kind: type[np.generic]) -> None:
    numbers: Any = np.array([1, 2**63 + 5], np.uint64) if kind is np.uint64 else np.array([1.0, 2.5]).astype(kind)
    error = refusal(TrendBatch(["a", "b"], numbers))
    assert error.field == "count"
    assert str(2**63 + 5) in str(error) if kind is np.uint64 else True


def test_small_unsigned_and_empty_columns_are_numbers_like_any_other() -> None:
    small: Any = np.array([3, 4], np.uint8)
    assert check_events(TREND, TrendBatch(["a", "b"], small), NOON_MS).total == 7
    assert len(check_events(TREND, TrendBatch([], [], [], []), NOON_MS)) == 0


def test_columns_of_another_length_are_refused() -> None:
    assert refusal(TrendBatch(["a"], counts=[1, 2])).field == "count"
    assert refusal(TrendBatch(["a"], at_ms=[])).field == "at"
    assert refusal(TrendBatch(["a"], actors=["b", "c"])).field == "actor"


def test_a_request_sums_to_its_bound_and_not_beyond() -> None:
    n = MAX_SUM // MAX_COUNT
    assert check_events(TREND, TrendBatch(["a"] * n, [MAX_COUNT] * n), NOON_MS).total == MAX_SUM
    error = refusal(TrendBatch(["a"] * (n + 1), [MAX_COUNT] * n + [1]))
    assert error.field == "count"
    assert str(MAX_SUM + 1) in str(error)


def test_an_item_that_is_asked_for_is_refused_as_an_item() -> None:
    with pytest.raises(InvalidField, match=r"item is 1 to 128 characters .* not 'a\\nb'") as caught:
        check_item("a\nb")
    assert caught.value.field == "item"
    assert check_item("日本") == "日本"
