"""The naive oracle: sorted lists and Counters, no cleverness. It judges everything."""

from calendar import monthrange
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta

import numpy as np

from hybrid.config import BoardConfig
from sketches.values import Floats


def shares(values: Sequence[float], weights: Sequence[float], x: Floats) -> tuple[Floats, Floats]:
    """The true share of weight below each x, and up to it."""
    ordered = sorted(zip(values, weights, strict=True))
    points = np.array([value for value, _ in ordered])
    sums = np.concatenate(([0.0], np.cumsum([weight for _, weight in ordered])))
    return (
        sums[np.searchsorted(points, x, "left")] / sums[-1],
        sums[np.searchsorted(points, x, "right")] / sums[-1],
    )


def tallied(batches: Iterable[Iterable[tuple[str, int]]]) -> Counter[str]:
    """The true count of every item."""
    counts: Counter[str] = Counter()
    for batch in batches:
        for item, count in batch:
            counts[item] += count
    return +counts


@dataclass
class NaiveRow:
    """A record: points, and the time it was reached."""

    points: int
    subpoints: int
    at_ms: int


@dataclass
class NaiveEvent:
    player: str
    points: int
    at_ms: int
    id: str | None = None
    subpoints: int = 0


@dataclass
class NaiveBoard:
    """A board in dictionaries: one row at a time, one window at a time."""

    config: BoardConfig
    grace_ms: int = 3_600_000
    views: dict[str, dict[str, NaiveRow]] = field(default_factory=dict)
    tokens: set[tuple[str, str]] = field(default_factory=set)

    def submit(self, event: NaiveEvent, now_ms: int) -> tuple[str, int | None, int | None, tuple[str, ...]]:
        """(status, points now, points before, windows that were closed)."""
        windows = [self._window(kind, event.at_ms) for kind in self.config.windows]
        closed = tuple(name for name, end_ms in windows if end_ms is not None and now_ms >= end_ms + self.grace_ms)
        names = [name for name, _ in windows]
        first = self.views.get(names[0], {}).get(event.player) if names[0] not in closed else None
        before = first.points if first else None
        if event.id is not None and (event.player, event.id) in self.tokens:
            return "DUPLICATE", before, before, closed
        new_rows = {}
        for name in names:
            if name not in closed:
                new_rows[name] = self._apply(self.views.get(name, {}).get(event.player), event)
        low, high = int(self.config.score_min), int(self.config.score_max)
        if any(not low <= row.points <= high for row in new_rows.values()):
            return "REFUSED", before, before, closed
        for name, row in new_rows.items():
            self.views.setdefault(name, {})[event.player] = row
        if event.id is not None:
            self.tokens.add((event.player, event.id))
        if names[0] in closed:
            return "KEPT", None, None, closed
        now = new_rows[names[0]]
        return self._status(first, now), now.points, before, closed

    def remove(self, player: str) -> bool:
        removed = [view.pop(player, None) for view in self.views.values()]
        return any(row is not None for row in removed)

    def ranking(self, view: str) -> list[str]:
        """Players by score, subscore, time, id; best first."""
        return sorted(self.views.get(view, {}), key=lambda player: self._order(self.views[view][player], player))

    def tick(self, at_ms: int) -> int:
        return (at_ms - self.config.time_from_ms) // (self.config.resolution_ms or 1)

    def _order(self, row: NaiveRow, player: str) -> tuple[int, int, int, bytes]:
        sign = -1 if self.config.direction == "high" else 1
        sub_sign = -1 if self.config.subscore and self.config.subscore.direction == "high" else 1
        tick = {"earliest": 1, "latest": -1, "none": 0}[self.config.tie_break] * self.tick(row.at_ms)
        return sign * row.points, sub_sign * row.subpoints, tick, player.encode()

    def _apply(self, row: NaiveRow | None, event: NaiveEvent) -> NaiveRow:
        new = NaiveRow(event.points, event.subpoints, event.at_ms)
        if row is None:
            return new
        if self.config.strategy == "sum":
            return NaiveRow(row.points + event.points, 0, max(row.at_ms, event.at_ms))
        if self.config.strategy == "latest":
            return new if self.tick(event.at_ms) >= self.tick(row.at_ms) else row
        return new if self._order(new, "") < self._order(row, "") else row

    def _status(self, before: NaiveRow | None, now: NaiveRow) -> str:
        if before is None:
            return "ADDED"
        was, is_now = self._order(before, "")[:2], self._order(now, "")[:2]
        return "KEPT" if was == is_now else "IMPROVED" if is_now < was else "LOWERED"

    @staticmethod
    def _window(kind: str, at_ms: int) -> tuple[str, int | None]:
        """Name and end of the window, by the calendar module of the standard library."""
        day = date(1970, 1, 1) + timedelta(days=at_ms // 86_400_000)
        if kind == "alltime":
            return kind, None
        if kind == "daily":
            end, label = day + timedelta(days=1), day.isoformat()
        elif kind == "weekly":
            week = day.isocalendar()
            end, label = (
                date.fromisocalendar(week.year, week.week, 7) + timedelta(days=1),
                f"{week.year}-W{week.week:02}",
            )
        else:
            last = monthrange(day.year, day.month)[1]
            end, label = date(day.year, day.month, last) + timedelta(days=1), f"{day.year:04}-{day.month:02}"
        return f"{kind}:{label}", (end - date(1970, 1, 1)).days * 86_400_000
