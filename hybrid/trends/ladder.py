"""The ladder: time cut into panes of four lengths, each of which makes one window, and the history of a shorter one.

    window   made of panes     compared with the panes before it (surge)
    1m       12 of 5 s         24 of 1 min
    1h       60 of 1 min       24 of 1 h
    1d       24 of 1 h         24 of 1 day

An event is counted in one pane of each length: those of a window are always of one kind, and a late event is in all of
them that are still there. The last pane of a window is the open one, so the window reaches to now and begins where its
first pane did.

A pane is named by its number: the time at which it begins, divided by its length.
"""

from dataclasses import dataclass

HISTORY = 24  # windows before the one that is asked for, with which it is compared
LEAST_HISTORY = 3  # of them that must be there


@dataclass(frozen=True, slots=True)
class Level:
    """Panes of one length; `kept` of them, the open one included, are alive at any time."""

    pane_ms: int
    kept: int

    def pane_of(self, at_ms: int) -> int:
        return at_ms // self.pane_ms

    def end_ms(self, number: int) -> int:
        """Until when a pane is kept."""
        return (number + self.kept) * self.pane_ms

    def oldest(self, now_ms: int) -> int:
        """The oldest pane that is still kept."""
        return self.pane_of(now_ms) - self.kept + 1


@dataclass(frozen=True, slots=True)
class Span:
    """A window: so many panes of this length, and the length of those that are its history."""

    name: str
    pane_ms: int
    panes: int
    history_ms: int

    def panes_at(self, now_ms: int) -> range:
        """The panes that it is made of, the open one last."""
        last = now_ms // self.pane_ms
        return range(last - self.panes + 1, last + 1)

    def history_at(self, now_ms: int) -> range:
        """The panes that were over when it began."""
        end = self.panes_at(now_ms).start * self.pane_ms // self.history_ms
        return range(end - HISTORY, end)


SPANS = {
    span.name: span
    for span in (
        Span("1m", 5_000, 12, 60_000),
        Span("1h", 60_000, 60, 3_600_000),
        Span("1d", 3_600_000, 24, 86_400_000),
    )
}


def make_levels(windows: tuple[str, ...]) -> tuple[Level, ...]:
    """The lengths of panes that these windows need, the shortest first."""
    kept: dict[int, int] = {}
    for span in (SPANS[name] for name in windows):
        # History ends before the window begins, which may be as much as the window and a pane ago.
        behind = HISTORY + -(-span.panes * span.pane_ms // span.history_ms) + 1
        kept[span.pane_ms] = max(kept.get(span.pane_ms, 0), span.panes)
        kept[span.history_ms] = max(kept.get(span.history_ms, 0), behind)
    return tuple(Level(pane_ms, kept[pane_ms]) for pane_ms in sorted(kept))
