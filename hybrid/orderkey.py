"""Order keys: one double that sorts like (score, subscore, time), best first.

Positive doubles sort like their 64-bit patterns, so a key is packed as an integer and reinterpreted as a double:

    +-----------+------------+-----------+     score     distance from the best possible score, 0 = best
    |   score   | (subscore) |   time    |     subscore  the same for an optional second criterion
    +-----------+------------+-----------+     time      ticks since `time_from`, or until `time_to` if the latest wins

At most 62 bits. Ascending = best first; a ZSET breaks equal keys by player id, ascending. A board with scores 0..255
(8 bits) and whole seconds of one day (17 bits):

    encode(250, ticks=3)  ->  5 << 17 | 3  ->  + 2^52 + 2^62 - 2^25  ->  the double of that bit pattern

2^52 keeps clear of the denormals. 2^62 - 2^bits moves a short key to the top, where doubles lie just below 4: Redis
prints and parses every key, and does so several times as fast there as near 1e-308.

Everything takes ints, or int64 arrays, alike. Not handled: points and ticks outside the board's ranges; events.py has
refused them.
"""

import struct
from dataclasses import dataclass, field
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from hybrid.errors import InvalidBoard

Ints = NDArray[np.int64]
Keys = NDArray[np.float64]

KEY_BITS = 62
RESOLUTIONS_MS = (
    *(1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000),
    *(60_000, 300_000, 600_000, 1_800_000, 3_600_000, 21_600_000, 43_200_000, 86_400_000),
)


class Parts(NamedTuple):
    """What a key says: ints for one key, arrays for many."""

    points: Any
    subpoints: Any
    ticks: Any


@dataclass(frozen=True, slots=True)
class Axis:
    """Whole numbers from low to high, packed as the distance from the better end."""

    low: int
    high: int
    is_high_best: bool = False

    @property
    def bits(self) -> int:
        return (self.high - self.low).bit_length()

    def distance(self, value: Any) -> Any:
        return self.high - value if self.is_high_best else value - self.low

    def value(self, distance: Any) -> Any:
        """The inverse of `distance`: best end and distance give the value back."""
        return self.high - distance if self.is_high_best else self.low + distance


NOTHING = Axis(0, 0)


@dataclass(frozen=True, slots=True)
class OrderKey:
    """The codec of one board; an axis of no bits is not part of the key."""

    score: Axis
    subscore: Axis = NOTHING
    time: Axis = NOTHING
    bits: int = field(init=False)
    has_time: bool = field(init=False)
    _tie_bits: int = field(init=False)
    _base: int = field(init=False)

    def __post_init__(self) -> None:
        # Worked out once: every question needs them several times.
        tie_bits = self.subscore.bits + self.time.bits
        bits = self.score.bits + tie_bits
        base = (1 << 52) + (1 << KEY_BITS) - (1 << bits)
        for name, value in (("bits", bits), ("has_time", self.time.bits > 0), ("_tie_bits", tie_bits), ("_base", base)):
            object.__setattr__(self, name, value)

    @overload
    def encode(self, points: int, ticks: int = 0, subpoints: int = 0) -> float: ...
    @overload
    def encode(self, points: Ints, ticks: Ints | int = 0, subpoints: Ints | int = 0) -> Keys: ...
    def encode(self, points: Any, ticks: Any = 0, subpoints: Any = 0) -> Any:
        packed = self.score.distance(points)
        packed = packed << self.subscore.bits | self.subscore.distance(subpoints)
        packed = packed << self.time.bits | self.time.distance(ticks)
        return _as_double(packed + self._base)

    def decode(self, key: float | Keys) -> Parts:
        packed = _as_bits(key) - self._base
        ticks = packed & ((1 << self.time.bits) - 1)
        packed = packed >> self.time.bits
        subpoints = packed & ((1 << self.subscore.bits) - 1)
        points = packed >> self.subscore.bits
        return Parts(self.score.value(points), self.subscore.value(subpoints), self.time.value(ticks))

    def points(self, keys: Keys) -> Ints:
        """The scores of keys, in points."""
        distance = (keys.view(np.int64) - self._base) >> self._tie_bits
        points: Ints = self.score.value(distance)
        return points

    def split(self, keys: Keys) -> tuple[Ints, Ints]:
        """The distance from the best score, and what tells keys of one score apart."""
        packed: Ints = keys.view(np.int64) - self._base
        return packed >> self._tie_bits, packed & ((1 << self._tie_bits) - 1)

    def without_time(self, keys: Keys) -> Ints:
        """Integers that sort like score and subscore alone; no use for NaN."""
        bits: Ints = keys.view(np.int64)
        return bits >> self.time.bits

    @overload
    def best(self, points: int) -> float: ...
    @overload
    def best(self, points: Ints) -> Keys: ...
    def best(self, points: Any) -> Any:
        """The least key that this score can have: below it are exactly the keys of better scores."""
        return _as_double((self.score.distance(points) << self._tie_bits) + self._base)

    @overload
    def worst(self, points: int) -> float: ...
    @overload
    def worst(self, points: Ints) -> Keys: ...
    def worst(self, points: Any) -> Any:
        """The greatest key that this score can have: above it are exactly the keys of worse scores."""
        ties = (1 << self._tie_bits) - 1
        return _as_double((self.score.distance(points) << self._tie_bits) + ties + self._base)


def plan_resolution(score: Axis, subscore: Axis, span_ms: int, wanted_ms: int | None) -> int:
    """The wanted length of a tick if it fits beside the scores, else the finest that does."""
    left = KEY_BITS - score.bits - subscore.bits
    for resolution_ms in RESOLUTIONS_MS if wanted_ms is None else (wanted_ms,):
        if (span_ms // resolution_ms).bit_length() <= left:
            return resolution_ms
    tried_ms = wanted_ms or RESOLUTIONS_MS[-1]
    ticks = span_ms // tried_ms
    raise InvalidBoard(
        "score_max",
        f"the board does not fit: {score.bits} bits for scores ({score.low}..{score.high} points)"
        + (f" + {subscore.bits} for subscores ({subscore.low}..{subscore.high})" if subscore.bits else "")
        + f" + {ticks.bit_length()} for time ({ticks} ticks of {tried_ms} ms)"
        f" = {score.bits + subscore.bits + ticks.bit_length()}, and a key has {KEY_BITS}."
        " Narrow score_min..score_max, decimals or time_from..time_to, or take a coarser resolution"
        ' or tie_break "none"',
    )


def _as_double(bits: Any) -> Any:
    if isinstance(bits, int):
        return struct.unpack("<d", struct.pack("<q", bits))[0]
    return bits.view(np.float64)


def _as_bits(key: Any) -> Any:
    if isinstance(key, float):
        return struct.unpack("<q", struct.pack("<d", key))[0]
    return key.view(np.int64)
