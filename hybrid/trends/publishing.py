"""A window as the keeper leaves it for the workers: written by one, read by all, at most a second old.

Two forms, each made only while somebody asks for it:

    Board   the items that a board may show, by count, by surge and by actors
    Whole   what can be said of any item: all merged ones, and a Count-Min of the window for the rest
"""

import heapq
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Literal

import msgspec
import numpy as np

from hybrid.orderkey import Ints
from hybrid.trends.config import DEPTH, Trend
from hybrid.trends.ladder import Span
from hybrid.trends.pane import Pane, count_visitors, width_of
from hybrid.trends.partition import Partition
from hybrid.trends.surge import Surge, find_surges
from hybrid.trends.window import Merged, bounds_of, merge_panes
from sketches import CountMin

Order = Literal["count", "surge", "actors"]


class Row(msgspec.Struct, array_like=True, frozen=True):
    """An item of a window. What is not known is None: actors of events that named none, a surge without history."""

    item: str
    low: int
    high: int
    expected: float | None = None
    z: float | None = None
    actors_low: int | None = None
    actors: float | None = None
    actors_high: float | None = None


class Head(msgspec.Struct, array_like=True, frozen=True):
    """What is true of a window altogether; `floor` is the most that an item which is not among the merged ones has."""

    from_ms: int
    as_of_ms: int
    total: int
    floor: int
    late: int
    capped: int


class Board(msgspec.Struct, array_like=True, frozen=True):
    """The rows that a board of any order may show, by count."""

    head: Head
    rows: list[Row]


class Slice(msgspec.Struct, array_like=True, frozen=True):
    """What one partition knows of its items."""

    bounds: dict[str, tuple[int, int]]
    floor: int
    cells: bytes


class Whole(msgspec.Struct, array_like=True, frozen=True):
    """A window for questions about any item."""

    head: Head
    slices: list[Slice]


def make_board(trend: Trend, span: Span, partitions: Sequence[Partition], hidden: set[str], now_ms: int) -> Board:
    """The rows of a window: as many as a board may show by each order, and one more to compare with."""
    parts = [_Part(trend, span, partition, now_ms) for partition in partitions]
    head = _make_head(span, [part.merged for part in parts], now_ms)
    low, high = (np.concatenate([getattr(part.merged, name) for part in parts]) for name in ("low", "high"))
    surge = _find_surges(trend, span, parts, low, head.total, now_ms)
    columns = (low.tolist(), high.tolist(), surge.expected.tolist(), surge.z.tolist())
    items = [item for part in parts for item in part.merged.items.to_pylist()]
    panes = [part.panes for part in parts for _ in range(len(part.merged.items))]
    rows, seen_in = [], {}
    for item, seen, least, most, expected, z in zip(items, panes, *columns, strict=True):
        if item not in hidden:
            rows.append(Row(item, least, most, _known(expected), _known(z)))
            seen_in[item] = seen
    shown = trend.most_rows + 1
    chosen = {row.item: row for by in ("count", "surge") for row in order_rows(rows, by)[:shown]}
    chosen |= {row.item: row for row in _with_actors(order_rows(rows, "count"), seen_in, shown, chosen.keys())}
    return Board(head, order_rows(list(chosen.values()), "count"))


def make_whole(trend: Trend, span: Span, partitions: Sequence[Partition], now_ms: int) -> Whole:
    slices, merged = [], []
    for partition in partitions:
        panes = list(partition.panes(span.pane_ms, span.panes_at(now_ms)).values())
        part = merge_panes(panes, trend.config.capacity)
        cells = CountMin(width_of(trend.config.capacity), DEPTH, key=trend.secret)
        cells.merge(*(pane.cells for pane in panes))
        pairs = zip(part.items.to_pylist(), part.low.tolist(), part.high.tolist(), strict=True)
        slices.append(Slice({item: (low, high) for item, low, high in pairs}, part.floor, cells.to_bytes()))
        merged.append(part)
    return Whole(_make_head(span, merged, now_ms), slices)


def order_rows(rows: Iterable[Row], by: Order) -> list[Row]:
    """The rows in this order, without those that it says nothing of; of equals the smaller item first."""
    of = _ORDERS[by]
    return sorted((row for row in rows if of(row) is not None), key=lambda row: (-(of(row) or 0), row.item))


def bounds_in(trend: Trend, whole: Whole, item: str) -> tuple[int, int]:
    """The least and the greatest count of any item."""
    part = whole.slices[trend.item_hash.of(item.encode())]
    if item in part.bounds:
        return part.bounds[item]
    estimate = CountMin.from_bytes(part.cells, key=trend.secret).estimate([item])
    return 0, min(int(estimate[0]), part.floor)


class _Part:
    """One partition's share of a window, and of its history."""

    def __init__(self, trend: Trend, span: Span, partition: Partition, now_ms: int) -> None:
        self.panes = list(partition.panes(span.pane_ms, span.panes_at(now_ms)).values())
        self.merged = merge_panes(self.panes, trend.config.capacity)
        self.history = partition.panes(span.history_ms, span.history_at(now_ms))

    def counts_in(self, numbers: Sequence[int]) -> Ints:
        """The greatest counts of its items in the panes of these numbers, a row each."""
        found = [self.history.get(number) for number in numbers]
        counts = np.zeros((len(numbers), len(self.merged.items)), np.int64)
        is_there = [pane is not None for pane in found]
        counts[is_there] = bounds_of([pane for pane in found if pane is not None], self.merged.items).high
        return counts

    def total_in(self, number: int) -> int:
        return self.history[number].total if number in self.history else 0


def _make_head(span: Span, parts: Sequence[Merged], now_ms: int) -> Head:
    return Head(
        from_ms=span.panes_at(now_ms).start * span.pane_ms,
        as_of_ms=now_ms,
        total=sum(part.total for part in parts),
        floor=max(part.floor for part in parts),
        late=sum(part.late for part in parts),
        capped=sum(part.capped for part in parts),
    )


def _find_surges(trend: Trend, span: Span, parts: Sequence[_Part], low: Ints, total: int, now_ms: int) -> Surge:
    """Against the windows before, as far as the trend was there already, or has heard of them since."""
    numbers = [
        number
        for number in span.history_at(now_ms)
        if number * span.history_ms >= trend.created_ms or any(number in part.history for part in parts)
    ]
    totals = np.array([sum(part.total_in(number) for part in parts) for number in numbers], np.int64)
    history = np.concatenate([part.counts_in(numbers) for part in parts], axis=1)
    return find_surges(low, total, history, totals)


def _with_actors(
    rows: Sequence[Row], panes: Mapping[str, list[Pane]], most: int, others: Collection[str]
) -> Iterator[Row]:
    """The rows of most actors, and these others, with their actors.

    Nobody has more actors than it was counted: by count, the search ends where even that is below what was found.
    """
    best: list[float] = []
    for row in rows:
        is_open = len(best) < most or row.high > best[0]
        if not is_open and row.item not in others:
            continue
        found = count_visitors(panes[row.item], row.item)
        if found is None:
            continue
        low, about, high = found
        heapq.heappush(best, about)
        if len(best) > most:
            heapq.heappop(best)
        unseen = row.high - row.low  # of these events nobody knows who did them
        yield msgspec.structs.replace(row, actors_low=low, actors=about, actors_high=high + unseen)


def _known(number: float) -> float | None:
    return None if math.isnan(number) else number


_ORDERS: dict[Order, Callable[[Row], float | None]] = {
    "count": lambda row: row.high,
    "surge": lambda row: row.z,
    "actors": lambda row: row.actors,
}
