"""Windows: which slice of time an event counts for.

    alltime                      the board since it was made
    daily    daily:2026-11-17    00:00 to 24:00 UTC
    weekly   weekly:2026-W47     Monday to Sunday, ISO 8601: the year is the week's, not the calendar's
    monthly  monthly:2026-11

A *kind* ("daily") is what a board is made with; a *window* ("daily:2026-11-17") is one of them and names its keys. The
event's own time decides, never the clock of the server that takes it in.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from hybrid.errors import InvalidField

DAY_MS = 86_400_000
KINDS = ("alltime", "daily", "weekly", "monthly")
ALLTIME = "alltime"


@dataclass(frozen=True, slots=True)
class Window:
    """One named window; `end_ms` is None for one that never ends."""

    name: str
    start_ms: int
    end_ms: int | None

    @property
    def kind(self) -> str:
        return self.name.partition(":")[0]

    def is_closed(self, now_ms: int, grace_ms: int) -> bool:
        """Whether late events come too late: its end and the grace after it have passed."""
        return self.end_ms is not None and now_ms >= self.end_ms + grace_ms

    def kept_until_ms(self, grace_ms: int, least_ms: int) -> int | None:
        """How long it stays whole: once more its own length after closing, and at least `least_ms`."""
        if self.end_ms is None:
            return None
        return self.end_ms + grace_ms + max(self.end_ms - self.start_ms, least_ms)


def window_at(kind: str, at_ms: int) -> Window:
    """The window of this kind in which the time lies."""
    return _window_of_day(kind, at_ms // DAY_MS)


def parse_window(text: str, now_ms: int) -> Window:
    """The window that a kind means now, or that a name like daily:2026-11-17 names."""
    kind, colon, label = text.partition(":")
    if kind in KINDS and not colon:
        return window_at(kind, now_ms)
    try:
        window = window_at(kind, _label_start_ms(kind, label))
    except (ValueError, OverflowError):
        window = None
    # Spelled in exactly one way, so that one window never has two names.
    if window is None or window.name != text:
        raise InvalidField(
            "window", f"window is {', '.join(KINDS)} or one of them by name, such as daily:2026-11-17, not {text!r}"
        )
    return window


@lru_cache(maxsize=4096)
def _window_of_day(kind: str, day: int) -> Window:
    if kind == ALLTIME:
        return Window(ALLTIME, 0, None)
    date = datetime.fromtimestamp(day * 86_400, UTC)
    if kind == "daily":
        start, end, label = date, date + timedelta(days=1), f"{date:%Y-%m-%d}"
    elif kind == "weekly":
        start = date - timedelta(days=date.weekday())
        year, week, _ = date.isocalendar()
        end, label = start + timedelta(days=7), f"{year:04d}-W{week:02d}"
    else:
        start = date.replace(day=1)
        end, label = (start + timedelta(days=32)).replace(day=1), f"{date:%Y-%m}"
    return Window(f"{kind}:{label}", _ms(start), _ms(end))


def _label_start_ms(kind: str, label: str) -> int:
    if kind == "daily":
        return _ms(datetime.strptime(label, "%Y-%m-%d").replace(tzinfo=UTC))
    if kind == "weekly":
        return _ms(datetime.strptime(f"{label}-1", "%G-W%V-%u").replace(tzinfo=UTC))
    if kind == "monthly":
        return _ms(datetime.strptime(label, "%Y-%m").replace(tzinfo=UTC))
    raise ValueError(kind)


def _ms(time: datetime) -> int:
    return round(time.timestamp()) * 1000
