"""The served view of a window: how many players stand before a place, as an interval that is proved.

Each shard knows some places exactly (samples.py). For any place x, a key or a key and a player, there are before it

    at least   rank + 1   of the last sample before x, since it and all before it are before x
    at most    rank       of the first sample at x or after, since it and all after it are not

Both are staircases over the same places. Those of all shards are added up: one staircase of lows, one of highs, never
compressed again, so an answer is two binary searches and as sharp as the samples. Between two samples the *estimate*
is straight in the score, and among players of one score in what breaks their tie; it is kept inside the proof.

The view is true for the state in which each shard is as of its own sample; `as_of_ms` is the oldest of these, and `seq`
the number of events that they include. It can also be made of a t-digest, whose cells prove the same with wider gaps:
that is what is left of a window long past.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from hybrid.orderkey import Ints, Keys, OrderKey
from hybrid.samples import Samples
from sketches import TDigest
from sketches.values import Floats

COMPRESSION = 200  # of a kept digest: 6 KB
_EXACT = 2**53
_TIE_STEPS = 65
_FIRST, _LAST = b"", b"\xff"  # before and after all players: ids are not empty, and in UTF-8


class Bounds(NamedTuple):
    """How many players: at least and at most."""

    low: Ints
    high: Ints


class Counts(NamedTuple):
    """How many players: at least, at a guess, at most."""

    low: Ints
    estimate: Floats
    high: Ints

    @property
    def bounds(self) -> Bounds:
        return Bounds(self.low, self.high)


@dataclass(frozen=True, slots=True)
class _Steps:
    """A staircase over places in order: `heights[i]` up to place i, and `heights[i + 1]` after it.

    `names` are the players of the places; a place that is nobody's has one before or after all players.
    """

    keys: Keys
    heights: Ints
    names: list[bytes]

    def at(self, x: Keys) -> Ints:
        """The height at keys: before all places that have them."""
        return self.heights[self.keys.searchsorted(x, "left")]

    def at_places(self, x: Keys, players: Sequence[bytes]) -> Ints:
        """The height at places: among places of one key the player decides."""
        first, end = self.keys.searchsorted(x, "left"), self.keys.searchsorted(x, "right")
        for row in np.flatnonzero(first < end).tolist():
            first[row] = bisect_left(self.names, players[row], first[row], end[row])
        return self.heights[first]


@dataclass(frozen=True, slots=True)
class _Line:
    """Keys as numbers in which players are spread evenly: whole for the score, and a fraction for the tie.

    Ties are broken by times, which fill a small part of their range; the fraction is a time's share among all samples.
    """

    key: OrderKey
    ties: Floats
    shares: Floats

    @classmethod
    def of_keys(cls, keys: Keys, key: OrderKey) -> Self:
        shares = np.linspace(0, 1, _TIE_STEPS)
        return cls(key, np.quantile(key.split(keys)[1], shares) if keys.size else shares, shares)

    def at(self, keys: Keys) -> Floats:
        distance, ties = self.key.split(keys)
        return distance + np.interp(ties, self.ties, self.shares)


@dataclass(frozen=True, slots=True)
class View:
    """All shards of a window, as they were sampled."""

    players: int
    seq: int
    as_of_ms: int
    _low: _Steps
    _high: _Steps
    _line: "_Line"
    _pins: Floats
    _guess: Floats

    @classmethod
    def of_samples(cls, shards: Sequence[Samples], key: OrderKey) -> Self:
        """The union of all shards' steps."""
        line = _Line.of_keys(np.concatenate([shard.keys for shard in shards]), key)
        pins, guess = _guess_of([_pins_of(shard) for shard in shards if shard.players], line)
        return cls(
            sum(shard.players for shard in shards),
            sum(shard.seq for shard in shards),
            min((shard.as_of_ms for shard in shards), default=0),
            _add_up([_low_steps(shard) for shard in shards]),
            _add_up([_high_steps(shard) for shard in shards]),
            line,
            pins,
            guess,
        )

    @classmethod
    def of_digest(cls, digest: TDigest, key: OrderKey, *, seq: int, as_of_ms: int) -> Self:
        """What a digest of points still proves: a cell's players lie between its ends."""
        cells, is_high = digest.centroids, key.score.is_high_best
        best, worst = (cells.hi, cells.lo) if is_high else (cells.lo, cells.hi)
        weight = np.rint(cells.weight).astype(np.int64)
        # Below 2^53 points are whole doubles; above, they were rounded, and the ends move out by one step.
        ends = key.worst(_points(worst, key, -1 if is_high else 1))
        begins = key.best(_points(best, key, 1 if is_high else -1))
        middle = key.best(_points(cells.mean, key, 0))
        order = np.argsort(middle, kind="stable")
        before = np.cumsum(weight[order]) - weight[order]
        players = int(weight.sum())
        line = _Line.of_keys(middle, key)
        pins, guess = _guess_of([(middle[order], before + weight[order] / 2)] if players else [], line)
        return cls(players, seq, as_of_ms, _climb(ends, weight), _climb(begins, weight), line, pins, guess)

    def before(self, x: Keys) -> Counts:
        """How many players have a key below each x."""
        low, high = self._low.at(x), self._high.at(x)
        guess = np.interp(self._line.at(x), self._pins, self._guess) if self._pins.size else np.zeros(len(x))
        return Counts(low, np.minimum(np.maximum(guess, low), high), high)

    def ahead(self, x: Keys, players: Sequence[bytes]) -> Bounds:
        """How many players stand before each place."""
        return Bounds(self._low.at_places(x, players), self._high.at_places(x, players))

    def up_to(self, x: Keys) -> Counts:
        """How many players have a key of x or below."""
        return self.before(np.nextafter(x, np.inf))


def digest_of(shards: Sequence[Samples], key: OrderKey) -> TDigest:
    """The t-digest of all players' points: a few KB that merge with others, for plots, other regions and history."""
    whole = TDigest(COMPRESSION)
    for shard in shards:
        if shard.players:
            points = np.asarray(key.decode(shard.keys).points, np.float64)
            ranks = shard.ranks
            if key.score.is_high_best:
                points, ranks = points[::-1], shard.players - 1 - ranks[::-1]
            whole.merge(TDigest.from_rank_samples(points, ranks, shard.players, compression=COMPRESSION))
    return whole


def _low_steps(shard: Samples) -> _Steps:
    """After each place that is known: at least so many are before."""
    at = np.concatenate((shard.keys, np.nextafter(shard.bounds, 0)))
    known = np.concatenate((shard.ranks + 1, shard.counts))
    names = [*shard.names, *[_LAST] * len(shard.bounds)]
    order = np.argsort(at, kind="stable")
    heights = np.concatenate(([0], np.maximum.accumulate(known[order])))
    return _Steps(at[order], heights, [names[row] for row in order.tolist()])


def _high_steps(shard: Samples) -> _Steps:
    """Up to each place that is known: at most so many are before."""
    # Bounds come first: what is counted below a key is counted before the first player who has it.
    at = np.concatenate((shard.bounds, shard.keys))
    known = np.concatenate((shard.counts, shard.ranks))
    names = [*[_FIRST] * len(shard.bounds), *shard.names]
    order = np.argsort(at, kind="stable")
    heights = np.minimum.accumulate(np.append(known[order], shard.players)[::-1])[::-1]
    return _Steps(at[order], heights, [names[row] for row in order.tolist()])


def _add_up(staircases: Sequence[_Steps]) -> _Steps:
    """The sum of staircases: where any of them climbs, it climbs as much."""
    keys = np.concatenate([steps.keys for steps in staircases])
    climbs = np.concatenate([np.diff(steps.heights) for steps in staircases])
    start = sum(int(steps.heights[0]) for steps in staircases)
    names = [name for steps in staircases for name in steps.names]
    order = np.argsort(keys, kind="stable")
    _order_ties(keys, names, order)
    heights = np.concatenate(([start], start + np.cumsum(climbs[order])))
    return _Steps(keys[order], heights, [names[row] for row in order.tolist()])


def _order_ties(keys: Keys, names: Sequence[bytes], order: Ints) -> None:
    """Put places of one key in the order of their players; there are few, unless a board has few scores and no time."""
    is_tied = np.concatenate(([False], np.diff(keys[order]) == 0, [False]))
    starts, ends = np.flatnonzero(~is_tied[:-1] & is_tied[1:]), np.flatnonzero(is_tied[:-1] & ~is_tied[1:]) + 1
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        order[start:end] = sorted(order[start:end].tolist(), key=names.__getitem__)


def _climb(keys: Keys, weight: Ints) -> _Steps:
    order = np.argsort(keys, kind="stable")
    return _Steps(keys[order], np.concatenate(([0], np.cumsum(weight[order]))), [_LAST] * len(keys))


def _pins_of(shard: Samples) -> tuple[Keys, Floats]:
    """Keys below which the number of players is known exactly, in order: where the estimate is pinned."""
    at = np.concatenate((shard.keys, shard.bounds, [np.nextafter(shard.keys[-1], np.inf)]))
    known = np.concatenate((shard.ranks, shard.counts, [shard.players]))
    order = np.lexsort((known, at))
    # Of samples that share a key only the first says how many are below it.
    at, first = np.unique(at[order], return_index=True)
    return at, known[order][first].astype(np.float64)


def _guess_of(shards: Sequence[tuple[Keys, Floats]], line: _Line) -> tuple[Floats, Floats]:
    """The sum of the shards' straight lines, at every pin of any of them."""
    if not shards:
        return np.empty(0), np.empty(0)
    lines = [(line.at(at), known) for at, known in shards]
    pins = np.unique(np.concatenate([at for at, _ in lines]))
    return pins, sum((np.interp(pins, at, known) for at, known in lines), np.zeros(len(pins)))


def _points(values: Floats, key: OrderKey, outwards: int) -> Ints:
    """Whole points of a digest's values, kept in range."""
    moved = np.where(np.abs(values) < _EXACT, values, np.nextafter(values, outwards * np.inf)) if outwards else values
    return np.array([min(max(int(value), key.score.low), key.score.high) for value in moved.tolist()], np.int64)
