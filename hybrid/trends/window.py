"""Panes merged to a window: every item with the least and the most that it can have occurred. Pure.

Pane by pane an item occurred at most as often as Space-Saving and Count-Min both allow, and at least as often as
Space-Saving is sure of; over the panes these add up. Merging the panes' heaps alone would lose what is second in every
one of them, so whatever is heavy in any pane is a candidate, the likeliest are looked up in all panes, and the rest
only makes the floor: no item that is not among the merged ones can have occurred more often.

Partitions hold different items: their windows are put side by side, never merged.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from hybrid.orderkey import Ints
from hybrid.trends.pane import Pane


@dataclass(frozen=True, slots=True)
class Bounds:
    """For each item its least and greatest count in each pane: a row a pane."""

    low: Ints
    high: Ints


@dataclass(frozen=True, slots=True)
class Merged:
    """One partition's window. Any item that is not among `items` occurred at most `floor` times."""

    items: pa.LargeStringArray
    low: Ints
    high: Ints
    floor: int
    total: int
    late: int
    capped: int


def merge_panes(panes: Sequence[Pane], most: int) -> Merged:
    """The window of these panes, with at most so many items."""
    items, outside = _candidates(panes, most)
    bounds = bounds_of(panes, items)
    return Merged(
        items,
        bounds.low.sum(axis=0),
        bounds.high.sum(axis=0),
        outside,
        sum(pane.total for pane in panes),
        sum(pane.late for pane in panes),
        sum(pane.capped for pane in panes),
    )


def bounds_of(panes: Sequence[Pane], items: pa.LargeStringArray) -> Bounds:
    """What each pane says of these items."""
    low = np.zeros((len(panes), len(items)), np.int64)
    high = np.zeros((len(panes), len(items)), np.int64)
    places = panes[0].cells.places(items) if panes else []  # all panes of a trend share key and shape
    for number, pane in enumerate(panes):
        low[number], heavy = pane.heavy.bounds(items)
        np.minimum(heavy, pane.cells.estimate_at(places), out=high[number])
    return Bounds(low, high)


def _candidates(panes: Sequence[Pane], most: int) -> tuple[pa.LargeStringArray, int]:
    """The likeliest items, and the most that any other one can have occurred."""
    counters = [pane.heavy.counters() for pane in panes]
    floor = sum(pane.heavy.floor for pane in panes)
    if not any(len(each.items) for each in counters):
        return pa.array([], pa.large_string()), floor
    coded = pa.concat_arrays([each.items for each in counters]).dictionary_encode()
    above = np.concatenate([each.counts - pane.heavy.floor for each, pane in zip(counters, panes, strict=True)])
    highest = np.full(len(coded.dictionary), floor)
    np.add.at(highest, coded.indices.to_numpy(), above)
    if len(highest) <= most:
        return coded.dictionary, floor
    order = np.argsort(-highest, kind="stable")
    return coded.dictionary.take(pa.array(order[:most])), max(floor, int(highest[order[most]]))
