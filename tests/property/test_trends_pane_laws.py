"""Laws of panes and of what is merged from them: bounds contain the truth, whatever came in which batches."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import cast
from unittest.mock import AsyncMock, create_autospec

from hypothesis import given
from hypothesis import strategies as st

from hybrid.trends.config import Trend
from hybrid.trends.ladder import SPANS
from hybrid.trends.pane import Pane, count_visitors
from hybrid.trends.partition import Partition
from hybrid.trends.publishing import Board, bounds_in, make_board, make_whole, order_rows
from hybrid.trends.trends import Top, Trends
from hybrid.trends.window import bounds_of, merge_panes
from tests.engines import NOON_MS
from tests.trends_oracle import Event, NaiveTrend, check_merged, fill_pane, make_trend, rows_of, texts

ITEMS = [f"item {number}" for number in range(16)]
ACTORS = [f"actor {number}" for number in range(6)]
EVENT = st.builds(
    Event, st.sampled_from(ITEMS), st.integers(1, 60), st.just(NOON_MS), st.none() | st.sampled_from(ACTORS)
)
BATCHES = st.lists(st.lists(EVENT, max_size=16), max_size=6)
PANES = st.lists(st.lists(st.lists(EVENT, max_size=16), max_size=2), min_size=1, max_size=5)
CAPACITIES = st.integers(1, 20)


def counted(batches: Iterable[Iterable[Event]]) -> Counter[str]:
    return Counter({item: count for item, count in _sums(batches).items() if count})


def _sums(batches: Iterable[Iterable[Event]]) -> Counter[str]:
    sums: Counter[str] = Counter()
    for batch in batches:
        for event in batch:
            sums[event.item] += event.count
    return sums


# One pane


@given(BATCHES, CAPACITIES)
def test_the_bounds_of_a_pane_contain_the_count_of_any_item_tracked_or_not(
    batches: list[list[Event]], capacity: int
) -> None:
    pane, truth = fill_pane(make_trend(capacity=capacity), batches), counted(batches)
    asked = [*ITEMS, "never seen"]
    bounds = bounds_of([pane], texts(asked))
    for item, low, high in zip(asked, bounds.low[0], bounds.high[0], strict=True):
        assert low <= truth[item] <= high
    assert pane.total == truth.total()


@given(BATCHES, BATCHES, CAPACITIES, st.integers(1, 100))
def test_a_pane_that_was_kept_goes_on_as_if_it_had_stayed_in_memory(
    before: list[list[Event]], after: list[list[Event]], capacity: int, cap: int
) -> None:
    trend = make_trend(capacity=capacity)
    stayed = fill_pane(trend, before)
    named = rows_of(trend, [event for batch in before for event in batch if event.actor is not None])
    stayed.cap(named.actors, named.counts, cap)
    stayed.late, stayed.capped = 7, 11
    kept = Pane.from_bytes(trend, stayed.to_bytes())
    assert kept.to_bytes() == stayed.to_bytes()
    assert (kept.late, kept.capped) == (7, 11)
    fill_pane(trend, after, stayed)
    fill_pane(trend, after, kept)
    assert kept.cap(named.actors, named.counts, cap).tolist() == stayed.cap(named.actors, named.counts, cap).tolist()
    assert kept.heavy.to_bytes() == stayed.heavy.to_bytes()
    assert kept.cells.to_bytes() == stayed.cells.to_bytes()
    assert kept.visitors.keys() == stayed.visitors.keys()
    for item in stayed.visitors:
        assert count_visitors([kept], item) == count_visitors([stayed], item)


@given(BATCHES, st.integers(1, 200))
def test_no_actor_who_is_tracked_adds_more_than_the_cap_and_what_is_refused_is_all_the_rest(
    batches: list[list[Event]], cap: int
) -> None:
    trend = make_trend(capacity=len(ACTORS))
    pane, sent, allowed = Pane(trend), Counter[str](), Counter[str]()
    for batch in batches:
        rows = rows_of(trend, [event for event in batch if event.actor is not None])
        share = pane.cap(rows.actors, rows.counts, cap)
        assert ((share >= 0) & (share <= rows.counts)).all()
        for actor, asked, got in zip(rows.actors.to_pylist(), rows.counts.tolist(), share.tolist(), strict=True):
            sent[actor] += asked
            allowed[actor] += got
    assert {actor: min(count, cap) for actor, count in sent.items()} == {actor: allowed[actor] for actor in sent}


@given(BATCHES, st.integers(1, 3), st.integers(1, 200))
def test_nobody_is_capped_before_he_has_sent_as_much(batches: list[list[Event]], capacity: int, cap: int) -> None:
    trend = make_trend(capacity=capacity)  # far fewer than there are actors
    pane, sent, allowed = Pane(trend), Counter[str](), Counter[str]()
    for batch in batches:
        rows = rows_of(trend, [event for event in batch if event.actor is not None])
        share = pane.cap(rows.actors, rows.counts, cap)
        for actor, asked, got in zip(rows.actors.to_pylist(), rows.counts.tolist(), share.tolist(), strict=True):
            sent[actor] += asked
            allowed[actor] += got
    for actor, count in sent.items():
        assert min(count, cap) <= allowed[actor] <= count


def test_a_cap_is_shared_out_exactly_where_products_pass_64_bits() -> None:
    trend = make_trend(capacity=16)
    rows = rows_of(trend, [Event(item, 1_000_000, NOON_MS, "bot") for item in ITEMS])
    counts = rows.counts * 10**11
    allowed = Pane(trend).cap(rows.actors, counts, 2**31)
    assert int(allowed.sum()) == 2**31
    assert ((allowed >= 0) & (allowed <= counts)).all()


@given(BATCHES, CAPACITIES)
def test_the_actors_of_a_heavy_item_lie_within_their_bounds(batches: list[list[Event]], capacity: int) -> None:
    pane = fill_pane(make_trend(capacity=capacity), batches)
    actors: dict[str, set[str]] = defaultdict(set)
    for batch in batches:
        for event in batch:
            actors[event.item] |= {event.actor} - {None}  # type: ignore[arg-type]
    heavy = pane.heavy.counters().items
    bounds = bounds_of([pane], heavy)
    for item, low, high in zip(heavy.to_pylist(), bounds.low[0], bounds.high[0], strict=True):
        found = count_visitors([pane], item)
        if found is None:
            assert len(actors[item]) <= high - low
        else:
            assert found[0] <= len(actors[item]) <= found[2] + (high - low)


# Windows


@given(PANES, CAPACITIES, st.integers(1, 20))
def test_a_window_contains_the_truth_and_its_floor_is_above_whatever_it_does_not_list(
    panes: list[list[list[Event]]], capacity: int, most: int
) -> None:
    trend = make_trend(capacity=capacity)
    merged = merge_panes([fill_pane(trend, batches) for batches in panes], most)
    assert len(merged.items) <= most
    check_merged(merged, counted(batch for batches in panes for batch in batches))


def test_an_item_that_is_second_in_every_pane_is_first_in_the_window() -> None:
    trend = make_trend(capacity=16)
    panes = []
    for number in range(12):
        crowd = [Event(f"one of many {number} {other}", 1) for other in range(500)]
        panes.append(fill_pane(trend, [[Event(f"first {number}", 100), Event("second", 99), *crowd]]))
    merged = merge_panes(panes, 16)
    assert merged.items[int(merged.high.argmax())].as_py() == "second"
    assert merged.low.max() == 12 * 99


class NaivePartition:
    """Panes that were filled by hand, where the keeper has those of a partition."""

    def __init__(self, panes: dict[tuple[int, int], Pane]) -> None:
        self._panes = panes

    def panes(self, pane_ms: int, numbers: Iterable[int]) -> dict[int, Pane]:
        return {number: self._panes[pane_ms, number] for number in numbers if (pane_ms, number) in self._panes}


def partitions_of(trend: Trend, events: Sequence[Event]) -> list[Partition]:
    """The events in the shortest panes of their partitions, in batches of twenty."""
    filled: list[dict[tuple[int, int], Pane]] = [{} for _ in trend.tags]
    for start in range(0, len(events), 20):
        groups: dict[tuple[int, int], list[Event]] = defaultdict(list)
        for event in events[start : start + 20]:
            groups[trend.item_hash.of(event.item.encode()), event.at_ms // trend.bucket_ms].append(event)
        for (partition, number), batch in groups.items():
            pane = filled[partition].setdefault((trend.bucket_ms, number), Pane(trend))
            fill_pane(trend, [batch], pane)
    return [cast("Partition", NaivePartition(panes)) for panes in filled]


def ask_top(trend: Trend, board: Board, hidden: set[str], limit: int) -> Top:
    """What Trends.top makes of a published board."""
    trends = create_autospec(Trends, instance=True)
    trends._ask = AsyncMock(return_value=(board, hidden))
    return asyncio.run(Trends.top(trends, trend, limit=limit))


SPREAD_EVENTS = st.lists(
    st.builds(
        Event,
        st.sampled_from(ITEMS),
        st.integers(1, 30),
        st.integers(0, 3).map(lambda panes: NOON_MS - panes * 15_000),
        st.none() | st.sampled_from(ACTORS),
    ),
    max_size=40,
)
HIDDEN = st.sets(st.sampled_from(ITEMS), max_size=4)


@given(SPREAD_EVENTS, st.integers(1, 3), st.integers(4, 16), HIDDEN, HIDDEN, st.integers(1, 4))
def test_what_is_guaranteed_is_truly_among_the_first(
    events: list[Event], partitions: int, capacity: int, hidden: set[str], hidden_since: set[str], limit: int
) -> None:
    trend = make_trend(partitions=partitions, capacity=capacity)
    board = make_board(trend, SPANS["1m"], partitions_of(trend, events), hidden, NOON_MS)
    limit = min(limit, trend.most_rows)
    top = ask_top(trend, board, hidden | hidden_since, limit)
    truth = counted([events])
    visible = {item: count for item, count in truth.items() if item not in hidden | hidden_since}
    assert len(top.rows) <= limit
    assert not {shown.row.item for shown in top.rows} & (hidden | hidden_since)
    for shown in top.rows:
        assert shown.row.low <= truth[shown.row.item] <= shown.row.high
        better = sum(count > truth[shown.row.item] for count in visible.values())
        assert not shown.is_guaranteed or better < limit, (shown, visible)


@given(SPREAD_EVENTS, st.integers(1, 3), st.integers(4, 16))
def test_any_item_that_is_asked_for_lies_within_its_bounds(events: list[Event], partitions: int, capacity: int) -> None:
    trend = make_trend(partitions=partitions, capacity=capacity)
    whole = make_whole(trend, SPANS["1m"], partitions_of(trend, events), NOON_MS)
    truth = counted([events])
    assert whole.head.total == truth.total()
    for item in [*ITEMS, "never seen"]:
        low, high = bounds_in(trend, whole, item)
        assert low <= truth[item] <= high


@given(SPREAD_EVENTS)
def test_with_room_for_all_a_board_is_exact_and_all_of_it_is_guaranteed(events: list[Event]) -> None:
    trend = make_trend(capacity=64, partitions=2)
    board = make_board(trend, SPANS["1m"], partitions_of(trend, events), set(), NOON_MS)
    naive = NaiveTrend(trend)
    naive.add(events)
    truth = naive.counts(5_000, SPANS["1m"].panes_at(NOON_MS))
    ordered = sorted(truth.items(), key=lambda pair: (-pair[1], pair[0]))
    rows = order_rows(board.rows, "count")
    assert [(row.item, row.low, row.high) for row in rows] == [(item, count, count) for item, count in ordered]
    assert all(shown.is_guaranteed for shown in ask_top(trend, board, set(), 16).rows)
    for row in rows:
        known = {event.actor for event in events if event.item == row.item and event.actor is not None}
        if known:
            assert (row.actors_low, round(row.actors or 0)) == (len(known), len(known))
        else:
            assert row.actors is None


def test_hiding_an_item_does_not_make_the_next_one_look_sure() -> None:
    trend = make_trend(capacity=4)  # a board of one row, and one more to compare with
    crowd = [Event(f"one of many {number}") for number in range(200)]
    first = [Event("first", 100), Event("third", 8), Event("w", 6), Event("x", 5), Event("y", 5), *crowd]
    panes = {(5_000, NOON_MS // 5_000): fill_pane(trend, [first, [Event("second", 5)]])}
    partition = cast("Partition", NaivePartition(panes))
    board = make_board(trend, SPANS["1m"], [partition], set(), NOON_MS)
    assert [(row.item, row.low, row.high) for row in board.rows] == [("first", 100, 100), ("second", 5, 10)]
    (shown,) = ask_top(trend, board, {"first"}, 1).rows
    assert shown.row.item == "second"
    assert not shown.is_guaranteed  # "third" has 8


def test_an_item_that_no_pane_tracks_may_be_ahead_of_one_that_looks_sure() -> None:
    trend = make_trend(capacity=1)
    panes = [fill_pane(trend, [[Event("a", 12), Event("b", 10)]]), fill_pane(trend, [[Event("c", 4), Event("b", 3)]])]
    by_number = {(5_000, NOON_MS // 5_000 - number): pane for number, pane in enumerate(panes)}
    board = make_board(trend, SPANS["1m"], [cast("Partition", NaivePartition(by_number))], set(), NOON_MS)
    (shown,) = ask_top(trend, board, set(), 1).rows
    assert (shown.row.item, shown.row.low) == ("a", 12)
    assert not shown.is_guaranteed  # "b" has 13


def test_without_the_largest_candidate_left_out_the_floor_would_be_too_low() -> None:
    trend = make_trend(capacity=16)
    panes = [fill_pane(trend, [[Event(item, 10 + number) for number, item in enumerate(ITEMS)]]) for _ in range(3)]
    merged = merge_panes(panes, 4)
    assert merged.floor == 3 * (10 + len(ITEMS) - 5)  # that of the fifth, which is tracked everywhere
    assert all(pane.heavy.floor == 0 for pane in panes)
    check_merged(merged, counted([[Event(item, 3 * (10 + number)) for number, item in enumerate(ITEMS)]]))


def test_an_empty_window_has_nothing_and_says_so() -> None:
    trend = make_trend(partitions=2)
    nobody = partitions_of(trend, [])
    board = make_board(trend, SPANS["1m"], nobody, set(), NOON_MS)
    assert (board.head.total, board.head.floor, board.rows) == (0, 0, [])
    whole = make_whole(trend, SPANS["1m"], nobody, NOON_MS)
    assert bounds_in(trend, whole, "anything") == (0, 0)
