"""The rules by which an event changes a record: best, latest, sum. Pure, and over whole columns.

    best     the better key stays: the better score, and of equal ones what the tie-break says
    latest   the newer event time wins; of equal ticks the one that arrives later
    sum      points add up, the time is the latest; an event that would take a total out of the board's range is
             refused, in every window

Keys are doubles (orderkey.py), NaN for "no record". Several events of one player take effect one after the other: they
are dealt to rounds, in each of which every player has one event at most.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hybrid.config import Board
from hybrid.orderkey import Ints, Keys

Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Changes:
    """Events as the rules take them, in order.

    `slots` says whose record an event is for, `tokens` which one is its token (a number, -1 for none), and `is_in` for
    each window (a row) whether the event counts there.
    """

    slots: Ints
    keys: Keys
    points: Ints
    ticks: Ints
    tokens: Ints
    is_in: Flags

    def at(self, events: Ints) -> "Changes":
        return Changes(
            self.slots[events],
            self.keys[events],
            self.points[events],
            self.ticks[events],
            self.tokens[events],
            self.is_in[:, events],
        )


@dataclass(frozen=True, slots=True)
class Effect:
    """What events did: the final key by window and player; the keys before and after by window and event."""

    final: Keys
    before: Keys
    after: Keys
    is_refused: Flags
    is_duplicate: Flags


def apply(board: Board, old: Keys, changes: Changes) -> Effect:
    """Let the events take effect on the old keys (a row a window, a column a player)."""
    final = old.copy()
    before = np.full(changes.is_in.shape, np.nan)
    after = np.full(changes.is_in.shape, np.nan)
    is_refused = np.zeros(len(changes.slots), bool)
    is_duplicate = np.zeros(len(changes.slots), bool)
    is_used = np.zeros(changes.tokens.max(initial=-1) + 2, bool)  # the last one is for no token
    for events in rounds(changes.slots):
        round_ = changes.at(events)
        current = final[:, round_.slots]
        result, is_bad = _RULES[board.config.strategy](board, current, round_)
        duplicate = is_used[round_.tokens] & (round_.tokens >= 0)
        refused = (is_bad & round_.is_in).any(axis=0) & ~duplicate
        result = np.where(round_.is_in & ~refused & ~duplicate, result, current)
        before[:, events], after[:, events] = current, result
        is_refused[events], is_duplicate[events] = refused, duplicate
        final[:, round_.slots] = result
        is_used[round_.tokens[~refused]] = True
    return Effect(final, before, after, is_refused, is_duplicate)


def rounds(slots: Ints) -> Iterator[Ints]:
    """Indexes of the first event of each player, then of the second, and so on."""
    left = np.arange(len(slots))
    first = np.empty(slots.max(initial=-1) + 1, np.int64)
    while left.size:
        whose = slots[left]
        first[whose[::-1]] = left[::-1]  # of several the last one stays
        is_first = first[whose] == left
        yield left[is_first]
        left = left[~is_first]


def _best(board: Board, current: Keys, changes: Changes) -> tuple[Keys, Flags]:  # noqa: ARG001  a rule like the others
    return np.fmin(current, changes.keys), np.zeros(current.shape, bool)


def _latest(board: Board, current: Keys, changes: Changes) -> tuple[Keys, Flags]:
    is_new = np.isnan(current)
    known = board.key.decode(np.where(is_new, changes.keys, current))
    wins = is_new | (changes.ticks >= known.ticks)
    return np.where(wins, changes.keys, current), np.zeros(current.shape, bool)


def _sum(board: Board, current: Keys, changes: Changes) -> tuple[Keys, Flags]:
    is_new = np.isnan(current)
    known = board.key.decode(np.where(is_new, changes.keys, current))
    totals = changes.points + np.where(is_new, 0, known.points)
    is_bad = (totals < board.key.score.low) | (totals > board.key.score.high)
    ticks = np.maximum(changes.ticks, known.ticks)
    return board.key.encode(np.where(is_bad, board.key.score.low, totals), ticks), is_bad


_RULES = {"best": _best, "latest": _latest, "sum": _sum}
