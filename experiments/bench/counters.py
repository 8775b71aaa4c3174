"""The heavy-hitter sketches that compete: a summary of the heaviest items and a Count-Min beside it.

Ours counts a batch once and feeds both sketches with the tally. datasketches takes one string a call; its loops run in
C (`map` into an empty deque), which is faster than a `for` statement. An expert may also count a batch first and hand
over each distinct item with its count; those rows are there too. What arrives as Arrow must become Python strings for
datasketches, what arrives as lists must become Arrow for us: both under the clock.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import datasketches
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sketches import CountMin, SpaceSaving, tally
from sketches.values import Ints

CAPACITY, WIDTH, DEPTH = 4096, 32_768, 5
LG_CAPACITY = 12  # a map of 4,096 slots: at most 3,072 items, for three quarters of the slots may be used
LISTS, ARROW = "lists", "Arrow"
ALL_TRACKED = datasketches.frequent_items_error_type.NO_FALSE_NEGATIVES


class Summary(NamedTuple):
    """What a summary of heavy items answers, ours or a peer's, in one form."""

    top: Callable[[int], list[str]]
    estimate: Callable[[list[str]], Ints]
    bounds: Callable[[list[str]], tuple[Ints, Ints]]
    floor: int
    guaranteed: Callable[[int], int] | None
    size_bytes: int


class Pair(NamedTuple):
    """A summary and a Count-Min of the same stream."""

    summary: Any
    count_min: Any


@dataclass(frozen=True)
class Contestant:
    """One way to feed a pair; it takes batches of `feed` and nothing else."""

    name: str
    feed: str
    run: Callable[[Sequence[Any]], Pair]


OURS = "toptail"
LOOP = "datasketches, item by item"
COUNTED = "datasketches, counted first"


def make_contestants(key: bytes) -> tuple[Contestant, ...]:
    def ours(batches: Sequence[Any]) -> Pair:
        pair = Pair(SpaceSaving(CAPACITY), CountMin(WIDTH, DEPTH, key=key))
        for batch in batches:
            counted = tally(batch)
            pair.summary.update(counted)
            pair.count_min.update(counted)
        return pair

    return (
        Contestant(OURS, LISTS, ours),
        Contestant(LOOP, LISTS, _loop),
        Contestant(COUNTED, LISTS, lambda batches: _counted(map(_count_list, batches))),
        Contestant(OURS, ARROW, ours),
        Contestant(LOOP, ARROW, lambda batches: _loop(batch.to_pylist() for batch in batches)),
        Contestant(COUNTED, ARROW, lambda batches: _counted(map(_count_arrow, batches))),
    )


def _peers() -> Pair:
    return Pair(datasketches.frequent_strings_sketch(LG_CAPACITY), datasketches.count_min_sketch(DEPTH, WIDTH))


def _loop(batches: Iterable[list[str]]) -> Pair:
    pair = _peers()
    for batch in batches:
        exhaust(map(pair.summary.update, batch))
        exhaust(map(pair.count_min.update, batch))
    return pair


def _counted(batches: Iterable[tuple[Iterable[str], Iterable[int]]]) -> Pair:
    pair = _peers()
    for items, counts in batches:
        exhaust(map(pair.summary.update, items, counts))
        exhaust(map(pair.count_min.update, items, map(float, counts)))  # ints would be tried as another overload first
    return pair


def _count_list(batch: list[str]) -> tuple[Iterable[str], Iterable[int]]:
    counter = Counter(batch)
    return counter.keys(), counter.values()


def _count_arrow(batch: pa.LargeStringArray) -> tuple[Iterable[str], Iterable[int]]:
    table = pc.value_counts(batch)
    return table.field(0).to_pylist(), table.field(1).to_numpy().tolist()


def exhaust(calls: Iterable[Any]) -> None:
    deque(calls, maxlen=0)


def read_summary(summary: Any) -> Summary:
    return _read_ours(summary) if isinstance(summary, SpaceSaving) else _read_peer(summary)


def read_estimates(count_min: Any, items: list[str]) -> tuple[Ints, int]:
    """Estimates of a Count-Min, and its size in bytes."""
    if isinstance(count_min, CountMin):
        return count_min.estimate(items), len(count_min.to_bytes())
    return np.array(list(map(count_min.get_estimate, items))).astype(np.int64), len(count_min.serialize())


def _read_ours(summary: SpaceSaving) -> Summary:
    return Summary(
        top=lambda k: [heavy.item for heavy in summary.top(k)],
        estimate=lambda items: summary.bounds(items)[1],
        bounds=summary.bounds,
        floor=summary.floor,
        guaranteed=lambda k: sum(summary.guaranteed(k)),
        size_bytes=len(summary.to_bytes()),
    )


def _read_peer(summary: Any) -> Summary:
    def top(k: int) -> list[str]:
        rows = sorted(summary.get_frequent_items(ALL_TRACKED), key=lambda row: (-row[1], row[0]))
        return [row[0] for row in rows[:k]]

    def each(function: Callable[[str], int], items: list[str]) -> Ints:
        return np.array(list(map(function, items)), np.int64)

    return Summary(
        top=top,
        estimate=lambda items: each(summary.get_estimate, items),
        bounds=lambda items: (each(summary.get_lower_bound, items), each(summary.get_upper_bound, items)),
        floor=summary.get_upper_bound("an item that never occurred"),
        guaranteed=None,
        size_bytes=len(summary.serialize()),
    )
