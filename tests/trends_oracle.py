"""The naive oracle of trends: a Counter for every pane, and what must be true of bounds around it."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa

from hybrid.trends.config import Trend, TrendConfig
from hybrid.trends.events import Rows, TrendBatch, check_events
from hybrid.trends.pane import Pane, PaneBatch
from hybrid.trends.window import Merged
from tests.engines import NOON_MS

KEY = b"0123456789abcdef"


class Event(NamedTuple):
    """One event as it is sent."""

    item: str
    count: int = 1  # type: ignore[assignment]  # hides tuple.count
    at_ms: int = NOON_MS
    actor: str | None = None


@dataclass
class NaiveTrend:
    """How often each item occurred in each pane of each length, one event after the other."""

    trend: Trend
    panes: defaultdict[tuple[int, int], Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    events: int = 0

    def add(self, events: Iterable[Event]) -> None:
        for event in events:
            self.events += event.count
            for level in self.trend.levels:
                self.panes[level.pane_ms, event.at_ms // level.pane_ms][event.item] += event.count

    def counts(self, pane_ms: int, numbers: Iterable[int]) -> Counter[str]:
        """The true count of every item in these panes."""
        found: Counter[str] = Counter()
        for number in numbers:
            found += self.panes[pane_ms, number]
        return found


def make_trend(*, partitions: int = 1, windows: tuple[str, ...] = ("1m",), **config: int) -> Trend:
    """A trend without a Redis; capacities are free, so that panes are full at once."""
    return Trend(
        name="t",
        id="t",
        tags=tuple(f"t/{number}" for number in range(partitions)),
        secret=KEY,
        created_ms=NOON_MS,
        config=TrendConfig(partitions=partitions, windows=windows, **config),  # type: ignore[arg-type]
    )


def make_batch(events: Sequence[Event]) -> TrendBatch:
    return TrendBatch(
        [event.item for event in events],
        [event.count for event in events],
        [event.at_ms for event in events],
        [event.actor for event in events],
    )


def rows_of(trend: Trend, events: Sequence[Event], now_ms: int = NOON_MS) -> Rows:
    return check_events(trend, make_batch(events), now_ms)


def fill_pane(trend: Trend, batches: Iterable[Sequence[Event]], pane: Pane | None = None) -> Pane:
    """A pane that absorbed these batches one after the other."""
    filled = pane or Pane(trend)
    for batch in batches:
        rows = rows_of(trend, batch)
        filled.absorb(PaneBatch(trend, rows, rows.counts))
    return filled


def texts(items: Iterable[str]) -> pa.LargeStringArray:
    return pa.array(list(items), pa.large_string())


def check_merged(merged: Merged, truth: Counter[str]) -> None:
    """Bounds contain the truth, and nobody who is not listed is above the floor."""
    listed = merged.items.to_pylist()
    assert len(set(listed)) == len(listed)
    assert merged.total == truth.total()
    for item, low, high in zip(listed, merged.low.tolist(), merged.high.tolist(), strict=True):
        assert low <= truth[item] <= high, (item, low, truth[item], high)
    above = {item: count for item, count in truth.items() if item not in listed and count > merged.floor}
    assert not above, (above, merged.floor)
