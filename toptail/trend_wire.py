"""The words on the wire about trends; everything else about the wire is in wire.py."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from toptail.wire import Answer, Label, Name, Request, Time

TrendWindow = Literal["1m", "1h", "1d"]
TrendOrder = Literal["count", "surge", "actors"]
Counted = Literal["submissions", "changes", "gain"]

Item = Annotated[str, Meta(min_length=1, max_length=128)]


class TrendSource(Request):
    """A board whose log feeds the trend: its players' scores, how often their records changed, or by how much."""

    board: Name
    count: Counted = "submissions"


class TrendSpec(Request):
    """What a trend is made with."""

    capacity: Annotated[int, Meta(ge=16, le=65_536, description="Counters of a pane; a top shows a quarter")] = 1024
    windows: Annotated[tuple[TrendWindow, ...], Meta(min_length=1)] = ("1m", "1h", "1d")
    partitions: Annotated[int, Meta(ge=1, le=64)] = 1
    source: TrendSource | None = None
    actor_cap: Annotated[int, Meta(ge=1, le=2**31, description="The most that one actor adds to a pane")] | None = None
    title: Annotated[str, Meta(max_length=200)] = ""


class TrendConfig(Answer):
    """A trend as it was made, complete."""

    capacity: int
    windows: list[str]
    partitions: int
    title: str
    source: TrendSource | UnsetType = UNSET
    actor_cap: int | UnsetType = UNSET


class TrendHead(Answer):
    """A trend in a list."""

    trend: str
    created: datetime
    config: TrendConfig


class EventSums(Answer):
    """What became of events: counted, too old for any pane, or beyond what their actor may add."""

    counted: int
    late: int
    capped: int


class TrendInfo(Answer):
    """Everything about a trend. `events` are those that were kept, every ten seconds; `backlog` rows are yet to be."""

    trend: str
    created: datetime
    config: TrendConfig
    events: EventSums
    backlog: int
    as_of: datetime


class TrendList(Answer):
    """Trends by name; `next_cursor` is absent on the last page."""

    trends: list[TrendHead]
    next_cursor: str | UnsetType = UNSET


class Event(Request):
    """An item that occurred, once unless `count` says how often; `actor` is who did it."""

    item: Item
    count: Annotated[int, Meta(ge=1, le=1_000_000)] = 1
    at: Time | UnsetType = UNSET
    actor: Label | UnsetType = UNSET


AnyEvent = Item | Event


class Events(Request):
    """Many events, taken as a whole or not at all; an item alone occurred once, now."""

    events: list[AnyEvent]


class EventsTaken(Answer):
    """How many events are counted, and how many are too old for that."""

    accepted: int
    late: int


class Surge(Answer):
    """How often one would expect an item, and by how many deviations it is beyond; null where it is too rare to say."""

    expected: float
    z: float | None


class TrendItem(Answer):
    """An item of a board: it occurred `low` to `high` times, and `count` is `high`.

    `guaranteed` items are surely among the first, whatever the bounds hide. `surge` is null where there is no history;
    the actors are absent where the events named none.
    """

    item: str
    count: int
    low: int
    high: int
    guaranteed: bool
    surge: Surge | None
    actors: float | UnsetType = UNSET
    actors_low: int | UnsetType = UNSET
    actors_high: float | UnsetType = UNSET


class TrendTop(Answer, rename={"start": "from", "end": "to"}):
    """The first items of a window; an item that is not among the counted ones occurred at most `floor` times."""

    items: list[TrendItem]
    window: str
    total: int
    floor: int
    late: int
    capped: int
    start: datetime
    end: datetime
    as_of: datetime


class ItemCount(Answer, rename={"start": "from", "end": "to"}):
    """How often any item occurred in a window: `low` to `high` times of `total`; `count` is `high`."""

    item: str
    count: int
    low: int
    high: int
    window: str
    total: int
    start: datetime
    end: datetime
    as_of: datetime
