"""Boards: what they are made with, checked in full, and what follows from it.

`BoardConfig` is what a caller asks for; `Board` is one that exists: the same with an id of its own, the hash tags of
its shards and the secret that spreads its players over them. A board that was deleted and made again has another id,
and so never meets the old one's keys.
"""

import re
from decimal import Decimal
from functools import cached_property
from typing import Any, Literal

import msgspec

from hybrid.errors import InvalidBoard, InvalidField
from hybrid.orderkey import NOTHING, RESOLUTIONS_MS, Axis, OrderKey, plan_resolution
from hybrid.sharding import ShardHash
from hybrid.windows import KINDS, Window, parse_window

Strategy = Literal["best", "latest", "sum"]
Direction = Literal["high", "low"]
TieBreak = Literal["earliest", "latest", "none"]
Number = int | float | Decimal

NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
CHANGEABLE = ("top_n", "title", "retention_days")
MAX_SHARDS, MAX_TOP_N, MAX_DECIMALS = 256, 1_000_000, 15
MAX_EXACT = 2**53  # with decimals scores travel as doubles, which count no further
YEAR_2020_MS, YEAR_2050_MS = 1_577_836_800_000, 2_524_608_000_000
MAX_TIME_MS = 253_402_300_800_000  # year 10000


class Subscore(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A second criterion between score and time, such as "fewest moves"."""

    min: Number = 0
    max: Number = 65_535
    decimals: int = 0
    direction: Direction = "high"


class BoardConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a board is made with. `resolution_ms` None means the finest that fits."""

    top_n: int = 10_000
    shards: int = 8
    strategy: Strategy = "best"
    direction: Direction = "high"
    tie_break: TieBreak = "earliest"
    score_min: Number = 0
    score_max: Number = 2**31 - 1
    decimals: int = 0
    subscore: Subscore | None = None
    windows: tuple[str, ...] = ("alltime",)
    time_from_ms: int = YEAR_2020_MS
    time_to_ms: int = YEAR_2050_MS
    resolution_ms: int | None = None
    title: str = ""
    retention_days: int = 7


class Board(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A board that exists. `config` is complete: its resolution is the one in use."""

    name: str
    id: str
    tags: tuple[str, ...]
    secret: bytes
    created_ms: int
    config: BoardConfig

    @cached_property
    def key(self) -> OrderKey:
        """The codec of its order keys."""
        return make_order_key(self.config)

    @cached_property
    def score_unit(self) -> int:
        """Points in one whole score."""
        return int(10**self.config.decimals)

    @cached_property
    def shard_hash(self) -> ShardHash:
        """Which shard a player lives in, for ever."""
        return ShardHash(self.secret, len(self.tags))

    def __repr__(self) -> str:
        return f"Board(name={self.name!r}, id={self.id!r}, secret=<hidden>, {self.config})"

    def tick_of(self, at_ms: Any) -> Any:
        """The tick of a time, or of an array of times, as the order key has it: 0 where it keeps no time."""
        return (
            (at_ms - at_ms)
            if not self.key.has_time
            else (at_ms - self.config.time_from_ms) // (self.config.resolution_ms or 1)
        )

    def at_of(self, tick: Any) -> Any:
        """The time at which a tick begins."""
        return self.config.time_from_ms + tick * (self.config.resolution_ms or 1)

    def score_of(self, points: Any) -> Any:
        """The score that so many points are, or an array of them."""
        return points / self.score_unit if self.config.decimals else points

    def subscore_of(self, subpoints: Any) -> Any:
        """The subscore that so many points are, or an array of them."""
        decimals = self.config.subscore.decimals if self.config.subscore else 0
        return subpoints / 10**decimals if decimals else subpoints

    def window(self, text: str | None, now_ms: int) -> Window:
        """The window that a reader means: the first kind of the board when he says nothing, now or by name."""
        window = parse_window(self.config.windows[0] if text is None else text, now_ms)
        if window.kind not in self.config.windows:
            raise InvalidField("window", f"board {self.name!r} has {', '.join(self.config.windows)}, not {text!r}")
        return window


def check_name(name: str) -> str:
    if not isinstance(name, str) or not NAME.fullmatch(name) or name in (".", ".."):
        raise InvalidBoard("board", f"a board's name is 1 to 64 of A-Z a-z 0-9 _ . -, not {name!r}")
    return name


def complete(config: BoardConfig) -> BoardConfig:
    """The config with its resolution filled in, everything checked; a board that cannot be raises InvalidBoard."""
    _check_numbers(config)
    _check_choices(config)
    score, subscore = _axis(config), _axis(config.subscore) if config.subscore else NOTHING
    span_ms = 0 if config.tie_break == "none" else config.time_to_ms - config.time_from_ms
    resolution_ms = plan_resolution(score, subscore, span_ms, config.resolution_ms)
    return msgspec.structs.replace(config, resolution_ms=resolution_ms)


def make_order_key(config: BoardConfig) -> OrderKey:
    """The codec of a complete config."""
    last_tick = (config.time_to_ms - config.time_from_ms) // (config.resolution_ms or 1)
    time = NOTHING if config.tie_break == "none" else Axis(0, last_tick, config.tie_break == "latest")
    return OrderKey(_axis(config), _axis(config.subscore) if config.subscore else NOTHING, time)


def parse_points(score: Number, decimals: int) -> int | None:
    """The score in points, exactly, as its decimal text says; None when it has more decimals or is no number."""
    if isinstance(score, bool) or not isinstance(score, int | float | Decimal):
        return None
    exact = Decimal(repr(score)) if isinstance(score, float) else Decimal(score)
    if not exact.is_finite() or exact.adjusted() > 40:
        return None
    sign, digits, exponent = exact.as_tuple()
    shift = int(exponent) + decimals
    if shift < 0 and any(digits[shift:] if -shift < len(digits) else digits):
        return None
    whole = int("".join(map(str, digits)))
    points = int(whole * 10**shift) if shift >= 0 else int(whole // 10**-shift)
    return -points if sign else points


def show_number(value: object) -> str:
    """A value as a message quotes it; an int of thousands of digits cannot even be printed."""
    if isinstance(value, int) and abs(value) >= 10**60:
        return f"a number of {value.bit_length()} bits"
    return repr(value)[:100]


def differing_fields(first: BoardConfig, second: BoardConfig) -> list[str]:
    names = BoardConfig.__struct_fields__
    return [name for name in names if getattr(first, name) != getattr(second, name)]


def _axis(scores: "BoardConfig | Subscore") -> Axis:
    """The range of scores in points; refused when it is none."""
    is_board = isinstance(scores, BoardConfig)
    names = ("score_min", "score_max") if is_board else ("subscore.min", "subscore.max")
    ends = (scores.score_min, scores.score_max) if isinstance(scores, BoardConfig) else (scores.min, scores.max)
    if not 0 <= scores.decimals <= MAX_DECIMALS:
        raise InvalidBoard("decimals", f"decimals go from 0 to {MAX_DECIMALS}, not {scores.decimals}")
    points = [parse_points(end, scores.decimals) for end in ends]
    for name, end, whole in zip(names, ends, points, strict=True):
        if whole is None:
            raise InvalidBoard(
                name, f"{name} is a number with at most {scores.decimals} decimals, not {show_number(end)}"
            )
        if abs(whole) >= 2**62 + 1:
            raise InvalidBoard(name, f"{name} of {show_number(end)} is beyond 2^62 points")
        if scores.decimals and abs(whole) > MAX_EXACT:
            raise InvalidBoard(name, f"{name} of {end!r} is {whole} points; with decimals at most 2^53 are exact")
    low, high = points[0] or 0, points[1] or 0
    if low > high:
        raise InvalidBoard(names[0], f"{names[0]} {ends[0]!r} is above {names[1]} {ends[1]!r}")
    return Axis(low, high, scores.direction == "high")


def _check_numbers(config: BoardConfig) -> None:
    for field, low, high in (
        ("top_n", 1, MAX_TOP_N),
        ("shards", 1, MAX_SHARDS),
        ("retention_days", 1, 400),
        ("time_from_ms", 0, MAX_TIME_MS),
        ("time_to_ms", 0, MAX_TIME_MS),
    ):
        value = getattr(config, field)
        if not low <= value <= high:
            raise InvalidBoard(field, f"{field} goes from {low} to {high}, not {value}")
    if config.time_from_ms >= config.time_to_ms:
        raise InvalidBoard("time_from_ms", f"time_from_ms {config.time_from_ms} is not before {config.time_to_ms}")
    if config.resolution_ms is not None and not 1 <= config.resolution_ms <= RESOLUTIONS_MS[-1]:
        raise InvalidBoard("resolution_ms", f"resolution_ms goes from 1 to 86400000, not {config.resolution_ms}")


def _check_choices(config: BoardConfig) -> None:
    if not config.windows or len(set(config.windows)) < len(config.windows) or not set(config.windows) <= set(KINDS):
        raise InvalidBoard("windows", f"windows are distinct ones of {', '.join(KINDS)}, not {list(config.windows)}")
    if config.strategy == "latest" and config.tie_break == "none":
        raise InvalidBoard("tie_break", 'strategy "latest" needs the time in the key: tie_break "none" leaves it out')
    if config.subscore and config.strategy == "sum":
        raise InvalidBoard("subscore", 'strategy "sum" has no use for a subscore')
    if len(config.title) > 200:
        raise InvalidBoard("title", f"a title has at most 200 characters, not {len(config.title)}")
