"""Trends: what they are made with, checked, and one that exists."""

from functools import cached_property
from typing import Literal

import msgspec

from hybrid.config import NAME
from hybrid.errors import InvalidField
from hybrid.sharding import ShardHash
from hybrid.trends.ladder import SPANS, Level, Span, make_levels

Counted = Literal["submissions", "changes", "gain"]

MAX_CAPACITY, MAX_PARTITIONS, MAX_CAP = 65_536, 64, 2**31
ROWS_SHARE = 4  # a board shows at most capacity / 4 items: Space-Saving finds a top k with several times k counters
DEPTH, WIDTH_SHARE = 4, 4  # of the Count-Min of a pane: rows, and cells a row for each counter


class Source(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A board whose log feeds the trend, and what is counted of each player.

    submissions   scores that were taken, better or not
    changes       how often his record changed in the board's first window
    gain          by how many points it became better there
    """

    board: str
    count: Counted = "submissions"


class TrendConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a trend is made with. `actor_cap`: the most that one actor may add to a pane, None for no limit."""

    capacity: int = 1024
    windows: tuple[str, ...] = ("1m", "1h", "1d")
    partitions: int = 1
    source: Source | None = None
    actor_cap: int | None = None
    title: str = ""


class Trend(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A trend that exists. `feed` are the hash tags of the shards that feed it, if a board does.

    `secret` keys the hashes: which partition an item is counted in, its cells there, and who an actor is.
    """

    name: str
    id: str
    tags: tuple[str, ...]
    secret: bytes
    created_ms: int
    config: TrendConfig
    feed: tuple[str, ...] = ()

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        return make_levels(self.config.windows)

    @cached_property
    def bucket_ms(self) -> int:
        """How fine the time of an event is kept: its shortest pane."""
        return self.levels[0].pane_ms

    @cached_property
    def item_hash(self) -> ShardHash:
        """Which partition an item is counted in."""
        return ShardHash(self.secret, len(self.tags))

    @property
    def most_rows(self) -> int:
        """The most items that its board shows."""
        return max(self.config.capacity // ROWS_SHARE, 1)

    def span(self, window: str | None) -> Span:
        """The window that a reader means: the first one when he says nothing."""
        name = self.config.windows[0] if window is None else window
        if name not in self.config.windows:
            raise InvalidField("window", f"trend {self.name!r} has {', '.join(self.config.windows)}, not {window!r}")
        return SPANS[name]

    def __repr__(self) -> str:
        return f"Trend(name={self.name!r}, id={self.id!r}, secret=<hidden>, {self.config})"


def check_trend_name(name: str) -> str:
    if not isinstance(name, str) or not NAME.fullmatch(name) or name in (".", ".."):
        raise InvalidField("trend", f"a trend's name is 1 to 64 of A-Z a-z 0-9 _ . -, not {name!r}")
    return name


def check_config(config: TrendConfig) -> TrendConfig:
    """The config, unless no trend can be made like that."""
    for field, value, low, high in (
        ("capacity", config.capacity, 16, MAX_CAPACITY),
        ("partitions", config.partitions, 1, MAX_PARTITIONS),
        ("actor_cap", 1 if config.actor_cap is None else config.actor_cap, 1, MAX_CAP),
    ):
        if not low <= value <= high:
            raise InvalidField(field, f"{field} goes from {low} to {high}, not {value}")
    if not config.windows or len(set(config.windows)) < len(config.windows) or not set(config.windows) <= set(SPANS):
        raise InvalidField("windows", f"windows are distinct ones of {', '.join(SPANS)}, not {list(config.windows)}")
    if len(config.title) > 200:
        raise InvalidField("title", f"a title has at most 200 characters, not {len(config.title)}")
    if config.source is not None and config.partitions != 1:
        raise InvalidField("partitions", "a trend that a board feeds has a partition a shard: leave partitions out")
    if config.source is not None and config.actor_cap is not None:
        raise InvalidField("actor_cap", "a trend that a board feeds has no actors to cap")
    return config
