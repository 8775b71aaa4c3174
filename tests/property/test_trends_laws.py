"""Laws of trends before anything is estimated: time cut into panes, events summed up and packed, surges."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from hybrid.trends.events import Rows, Strings, TrendBatch, check_events, deal, pack_rows, sum_rows, unpack_rows
from hybrid.trends.ladder import HISTORY, SPANS, Span, make_levels
from hybrid.trends.surge import LEAST_COUNT, find_surges
from tests.engines import NOON_MS
from tests.trends_oracle import Event, make_batch, make_trend, rows_of

TIMES = st.integers(0, 2**45)
SPAN = st.sampled_from(list(SPANS.values()))
WINDOWS = st.lists(st.sampled_from(list(SPANS)), min_size=1, max_size=3, unique=True).map(tuple)

NAMES = st.one_of(
    st.sampled_from(["a", "b", "c", "é", "日本", "😀", "{e}", "a b"]),
    st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1, max_size=128).filter(
        lambda text: text not in (".", "..")
    ),
)
EVENT = st.builds(
    Event,
    NAMES,
    st.one_of(st.integers(1, 5), st.integers(1, 1_000_000)),
    st.integers(NOON_MS - 100_000, NOON_MS + 300_000),
    st.none() | st.sampled_from(["ann", "bob", "é"]),
)
EVENTS = st.lists(EVENT, max_size=40)


# The ladder


@given(SPAN, TIMES, st.integers(0, 2 * 86_400_000))
def test_a_time_of_a_window_lies_in_exactly_one_of_its_panes_and_any_other_in_none(
    span: Span, now_ms: int, ago_ms: int
) -> None:
    at_ms, panes = now_ms - ago_ms, span.panes_at(now_ms)
    lies_in = [number for number in panes if number * span.pane_ms <= at_ms < (number + 1) * span.pane_ms]
    assert len(lies_in) == (at_ms >= panes.start * span.pane_ms)
    assert panes.stop * span.pane_ms > now_ms >= (panes.stop - 1) * span.pane_ms  # the last one is open


@given(SPAN, TIMES)
def test_history_ends_before_its_window_begins_and_leaves_out_less_than_one_pane(span: Span, now_ms: int) -> None:
    history, start_ms = span.history_at(now_ms), span.panes_at(now_ms).start * span.pane_ms
    assert len(history) == HISTORY
    assert 0 <= start_ms - history.stop * span.history_ms < span.history_ms


@given(WINDOWS, TIMES)
def test_every_pane_of_a_window_and_of_its_history_is_kept(windows: tuple[str, ...], now_ms: int) -> None:
    levels = {level.pane_ms: level for level in make_levels(windows)}
    for span in (SPANS[name] for name in windows):
        assert span.panes_at(now_ms).start >= levels[span.pane_ms].oldest(now_ms)
        assert span.history_at(now_ms).start >= levels[span.history_ms].oldest(now_ms)


@given(WINDOWS, TIMES, st.integers(0, 100), st.integers(0, 86_400_000))
def test_what_is_late_stays_late_and_is_late_exactly_when_its_pane_has_ended(
    windows: tuple[str, ...], now_ms: int, panes_ago: int, later_ms: int
) -> None:
    for level in make_levels(windows):
        number = level.pane_of(now_ms) - panes_ago
        is_late = number < level.oldest(now_ms)
        assert is_late == (level.end_ms(number) <= now_ms)
        assert not is_late or number < level.oldest(now_ms + later_ms)


@given(WINDOWS, TIMES)
def test_the_bucket_of_a_time_lies_in_the_same_pane_of_every_length(windows: tuple[str, ...], at_ms: int) -> None:
    trend = make_trend(windows=windows)
    for level in trend.levels:
        assert level.pane_of(at_ms // trend.bucket_ms * trend.bucket_ms) == level.pane_of(at_ms)


# Events


def naive_sums(events: Sequence[Event], bucket_ms: int) -> Counter[tuple[int, str, str | None]]:
    sums: Counter[tuple[int, str, str | None]] = Counter()
    for event in events:
        sums[event.at_ms // bucket_ms, event.item, event.actor] += event.count
    return sums


def sums_of(rows: Rows) -> Counter[tuple[int, str, str | None]]:
    """The rows as they are: none may be there twice."""
    keys = list(zip(rows.buckets.tolist(), rows.items.to_pylist(), rows.actors.to_pylist(), strict=True))
    assert len(set(keys)) == len(keys)
    return Counter(dict(zip(keys, rows.counts.tolist(), strict=True)))


@given(EVENTS, st.lists(st.integers(0, 40), max_size=5))
def test_any_cut_into_requests_sums_up_to_the_same_rows(events: list[Event], cuts: list[int]) -> None:
    trend = make_trend()
    ends = [0, *sorted(cuts), len(events)]
    pieces = [rows_of(trend, events[start:end]) for start, end in pairwise(ends)]
    whole = sum_rows(pieces)
    assert sums_of(whole) == naive_sums(events, trend.bucket_ms)
    assert whole.total == sum(event.count for event in events)


@given(EVENTS)
def test_an_entry_reads_back_as_the_rows_that_were_packed(events: list[Event]) -> None:
    rows = rows_of(make_trend(), events)
    assert unpack_rows(pack_rows(rows)).table.equals(rows.table)


@given(EVENTS, st.integers(1, 5))
def test_every_row_goes_to_the_one_partition_of_its_item(events: list[Event], partitions: int) -> None:
    trend = make_trend(partitions=partitions)
    rows = rows_of(trend, events)
    parts = deal(trend, rows)
    assert sums_of(sum_rows(list(parts.values()))) == sums_of(rows)
    for number, part in parts.items():
        assert {trend.item_hash.of(item.encode()) for item in part.items.to_pylist()} <= {number}


@given(st.lists(NAMES, min_size=1, max_size=40), st.integers(0, 40))
def test_items_count_the_same_in_any_arrow_form(items: list[str], cut: int) -> None:
    trend = make_trend()
    forms: list[Strings] = [
        items,
        pa.array(items),
        pa.array(items, pa.large_string()),
        pa.array(items, pa.string_view()),
        pa.array(items).dictionary_encode(),
        pa.chunked_array([pa.array(items[:cut], pa.string()), pa.array(items[cut:], pa.string())]),
        pa.chunked_array([pa.array(part, pa.string()).dictionary_encode() for part in (items[:cut], items[cut:])]),
        pa.array(["left out", *items])[1:],
    ]
    want = {(NOON_MS // trend.bucket_ms, item, None): count for item, count in Counter(items).items()}
    for form in forms:
        assert sums_of(check_events(trend, TrendBatch(form), NOON_MS)) == want
        assert sums_of(check_events(trend, TrendBatch(form, np.ones(len(items), np.int64)), NOON_MS)) == want


@given(EVENTS)
def test_what_is_left_out_is_one_now_and_nobody(events: list[Event]) -> None:
    trend, batch = make_trend(), make_batch(events)
    plain = [event._replace(count=1, at_ms=NOON_MS, actor=None) for event in events]
    assert sums_of(check_events(trend, TrendBatch(batch.items), NOON_MS)) == naive_sums(plain, trend.bucket_ms)


# Surges

HISTORIES = st.integers(3, 24).flatmap(
    lambda n: st.lists(st.lists(st.integers(0, 1000), min_size=n, max_size=n), min_size=1, max_size=20)
)


@given(st.lists(st.lists(st.integers(0, 100), min_size=3, max_size=3), max_size=2), st.integers(0, 10_000))
def test_nothing_is_a_surge_before_three_windows_are_there(history: list[list[int]], count: int) -> None:
    counts = np.array(history, np.int64).reshape(len(history), 3)
    surge = find_surges(np.full(3, count), 3 * count, counts, counts.sum(axis=1))
    assert np.isnan(surge.z).all()
    assert np.isnan(surge.expected).all()


@given(HISTORIES, st.integers(1, 10_000))
def test_traffic_that_grows_for_all_alike_is_no_surge_of_any(history: list[list[int]], factor: int) -> None:
    counts = np.array(history, np.int64).T
    now = counts.sum(axis=0) * factor
    surge = find_surges(now, int(now.sum()), counts, counts.sum(axis=1))
    assert not (surge.z > 1e-6).any()
    assert np.isnan(surge.z[now < LEAST_COUNT]).all()


@given(st.integers(20, 1000), st.integers(3, 24), st.integers(10, 100))
def test_a_burst_among_steady_items_is_the_highest_surge(count: int, windows: int, factor: int) -> None:
    history = np.full((windows, 50), count)
    now = history[0].copy()
    now[17] *= factor
    surge = find_surges(now, int(now.sum()), history, history.sum(axis=1))
    assert surge.z.argmax() == 17
    assert surge.z[17] > 5
    assert (np.delete(surge.z, 17) < 1).all()
