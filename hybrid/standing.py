"""Standings: where players stand, exactly or within a proved interval, in columns and row by row.

    percentile    SQL's PERCENT_RANK x 100: the share of the *other* players who are strictly worse. Ties share it; a
                  lone player has 100
    top_percent   100 x the players who are at least as good, oneself included / all, from the worse end of what is
                  known, rounded up to two digits: it never claims too much

An `Exact` standing has a rank; an `Estimate` has intervals instead. Two players, 120 and 95 points: the first has rank
1, percentile 100, top_percent 50; the second rank 2, percentile 0, top_percent 100.

Everybody in a view is counted once. Who asks may have been in it with an older record of his own, on either side of
where he is now: so every interval of a player is one player wider than that of a newcomer.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from hybrid.config import Board
from hybrid.errors import InvalidField
from hybrid.orderkey import Ints, Keys
from hybrid.view import Bounds, Counts, View
from sketches.values import Floats

Bools = NDArray[np.bool_]

RANKINGS = ("unique", "competition", "dense")


class Exact(msgspec.Struct, frozen=True, gc=False):
    """Where a player stands, exactly."""

    player: str | None
    score: int | float
    subscore: int | float | None
    at_ms: int | None
    window: str
    rank: int
    percentile: float
    top_percent: float
    players: int
    as_of_ms: int
    seq: int


class Estimate(msgspec.Struct, frozen=True, gc=False):
    """Where a player stands, within a proved interval."""

    player: str | None
    score: int | float
    subscore: int | float | None
    at_ms: int | None
    window: str
    percentile: float
    percentile_low: float
    percentile_high: float
    rank_low: int
    rank_high: int
    top_percent: float
    players: int
    as_of_ms: int
    seq: int


Standing = Exact | Estimate


@dataclass(frozen=True, slots=True)
class Moment:
    """What an answer is true of: so many players, at this time, after so many events."""

    players: int
    as_of_ms: int
    seq: int


class Places(NamedTuple):
    """Where rows stand among others: what of each is known, in columns."""

    percentile: Floats
    percentile_low: Floats
    percentile_high: Floats
    rank_low: Ints
    rank_high: Ints
    top_percent: Floats


@dataclass(slots=True)
class Rows:
    """Standings in columns, one row for each player who was asked for, in that order.

    A row without a record has the key NaN. Where `is_exact`, the rank is `rank_low`.
    """

    board: Board
    window: str
    names: Sequence[str | None]
    keys: Keys
    is_exact: Bools
    places: Places
    moment: tuple[Ints, Ints, Ints]

    @classmethod
    def unknown(cls, board: Board, window: str, names: Sequence[str | None], keys: Keys) -> "Rows":
        """Rows of which nothing is known yet but their keys."""
        n = len(keys)
        floats, ints = (np.zeros((4, n)), np.zeros((5, n), np.int64))
        places = Places(floats[0], floats[1], floats[2], ints[0], ints[1], floats[3])
        return cls(board, window, names, keys, np.zeros(n, bool), places, (ints[2], ints[3], ints[4]))

    def settle(self, rows: Ints, places: Places, moment: Moment, is_exact: Bools | bool) -> None:
        """Write down what was found of some rows."""
        for column, found in zip(self.places, places, strict=True):
            column[rows] = found
        for column, value in zip(self.moment, (moment.players, moment.as_of_ms, moment.seq), strict=True):
            column[rows] = value
        self.is_exact[rows] = is_exact

    def __len__(self) -> int:
        return len(self.keys)

    def __iter__(self) -> Iterator[Standing | None]:
        """Row by row, None for those without a record."""
        parts, nothing = self.board.key.decode(self.keys), [None] * len(self)
        columns = (
            self.names,
            self.board.score_of(parts.points).tolist(),
            self.board.subscore_of(parts.subpoints).tolist() if self.board.config.subscore else nothing,
            self.board.at_of(parts.ticks).tolist() if self.board.key.has_time else nothing,
            np.isnan(self.keys).tolist(),
            self.is_exact.tolist(),
            *(column.tolist() for column in (*self.places, *self.moment)),
        )
        return map(self._row, *columns)

    def _row(
        self, name: Any, score: Any, subscore: Any, at_ms: Any, is_absent: bool, is_exact: bool, *rest: Any
    ) -> Standing | None:
        if is_absent:
            return None
        if name is None:  # a newcomer has a score and nothing else
            subscore = at_ms = None
        percentile, low, high, rank_low, rank_high, top_percent, *moment = rest
        if is_exact:
            return Exact(name, score, subscore, at_ms, self.window, rank_low, percentile, top_percent, *moment)
        return Estimate(
            name, score, subscore, at_ms, self.window, percentile, low, high, rank_low, rank_high, top_percent, *moment
        )


def exact_places(ranks: Ints, up_to: Ints, players: int) -> Places:
    """Of players whose rank is known, and how many have their score or a better one, themselves included."""
    worse = np.maximum(players - up_to, 0)
    percentile = 100 * worse / (players - 1) if players > 1 else np.full(len(ranks), 100.0)
    return Places(percentile, percentile, percentile, ranks, ranks, render_top_percent(players - worse, players))


def estimated_places(
    view: View, position: Bounds, up_to: Counts, *, own: int, ahead: int = 0, not_worse: Ints | int = 0
) -> Places:
    """Of players (own = 1) or newcomers (own = 0) of whom the view says so much.

    `position` counts those before them in the ranking that was asked for, `up_to` those of their score or better. So
    many are known to be `ahead` of all of them in that ranking, and so many to have no worse score than each.
    """
    n, others = view.players, max(view.players - own, 1)
    rank_low = np.maximum(position.low - own, ahead) + 1
    worse_high = np.minimum(n - up_to.low, np.maximum(others - not_worse, 0))
    worse_low = np.minimum(np.maximum(n - up_to.high - own, 0), worse_high)
    low = 100 * worse_low / n
    high = np.maximum(np.minimum(100 * worse_high / others, 100.0), low)
    percentile = np.minimum(np.maximum(100 * (n - up_to.estimate) / others, low), high)
    all_players = n + 1 - own
    at_least = np.minimum(n - worse_low + 1 - own, all_players)
    return Places(
        percentile,
        low,
        high,
        rank_low,
        np.maximum(position.high + 1, rank_low),
        render_top_percent(at_least, all_players),
    )


def render_top_percent(at_least: Ints, players: int) -> Floats:
    """100 x at_least / players, rounded up to two digits; in whole numbers, so that 13 % stays 13 %."""
    at_least = np.maximum(at_least, 1)
    scale = _SCALES[np.searchsorted(_DECADES, 100 * at_least / players, "right")]
    rounded: Floats = -(-100 * at_least * scale // players) / scale
    return rounded


# 10 % and more have no digit after the point, 1 % and more have one, ...
_DECADES = 10.0 ** np.arange(-13, 2)
_SCALES = 10 ** np.arange(15, -1, -1, dtype=np.int64)


def parse_ranking(ranking: str) -> str:
    if ranking not in RANKINGS:
        raise InvalidField("ranking", f"ranking is {', '.join(RANKINGS)}, not {ranking!r}")
    return ranking
