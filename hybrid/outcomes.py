"""Outcomes: what became of each event of a batch, in columns and row by row."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from hybrid.config import Board
from hybrid.orderkey import Keys

Codes = NDArray[np.int8]


class Status(IntEnum):
    """What an event did to the player's score in the board's first window."""

    ADDED = 0
    IMPROVED = 1
    LOWERED = 2
    KEPT = 3
    DUPLICATE = 4
    REFUSED = 5
    UNKNOWN = 6


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one event. `score` is the player's score now, None if there is none or nobody knows."""

    status: Status
    score: int | float | None
    previous: int | float | None
    closed: tuple[str, ...]


@dataclass(slots=True)
class Outcomes:
    """One row for each event of a batch, in its order.

    `after` and `before` are order keys, NaN for no record; `closed` names the windows that an event came too late for.
    `error` is why rows are unknown, where some are.
    """

    board: Board
    codes: Codes
    before: Keys
    after: Keys
    closed: dict[int, tuple[str, ...]] = field(default_factory=dict)
    error: Exception | None = None

    @classmethod
    def unknown(cls, board: Board, n: int, error: Exception | None = None) -> "Outcomes":
        """n events of which nothing is known yet, or ever."""
        return cls(board, np.full(n, Status.UNKNOWN, np.int8), np.full(n, np.nan), np.full(n, np.nan), error=error)

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, index: int) -> Outcome:
        (score,), (previous,) = self.scores(self.after[[index]]), self.scores(self.before[[index]])
        return Outcome(Status(int(self.codes[index])), score, previous, self.closed.get(index, ()))

    def __iter__(self) -> Iterator[Outcome]:
        rows = zip(self.codes.tolist(), self.scores(self.after), self.scores(self.before), strict=True)
        for index, (code, score, previous) in enumerate(rows):
            yield Outcome(Status(code), score, previous, self.closed.get(index, ()))

    def scores(self, keys: Keys) -> list[int | float | None]:
        """The scores of `before` or of `after`, row by row."""
        scores: list[int | float | None] = self.board.score_of(self.board.key.points(keys)).tolist()
        for row in np.flatnonzero(np.isnan(keys)).tolist():
            scores[row] = None
        return scores

    @property
    def accepted(self) -> int:
        """How many events were taken in by this call."""
        return int(np.count_nonzero(self.codes <= Status.KEPT))

    @property
    def is_certain(self) -> bool:
        return not (self.codes == Status.UNKNOWN).any()


def compare(board: Board, before: Keys, after: Keys) -> Codes:
    """The status of events that took effect, by score and subscore; time alone changes nothing."""
    codes = np.full(len(before), Status.KEPT, np.int8)
    is_there = ~np.isnan(after)
    had = is_there & ~np.isnan(before)
    codes[is_there & np.isnan(before)] = Status.ADDED
    was, now = board.key.without_time(before[had]), board.key.without_time(after[had])
    codes[had] = np.where(now < was, Status.IMPROVED, np.where(now > was, Status.LOWERED, Status.KEPT))
    return codes
