"""How scores are spread: quantiles and bins, with intervals.

    quantile   the least score that is proved to get a newcomer a percentile of 100 q; on a board where low scores are
               better, the highest. Scores are those that can be reached: of the board's range and decimals
    bins       how many players have a score from here to there

All from the served view. Where the top has everybody, from its rows, and then exact.
"""

import asyncio
from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from hybrid.config import Board
from hybrid.errors import InvalidField
from hybrid.orderkey import Ints
from hybrid.past import PastWindows
from hybrid.samples import make_samples
from hybrid.seek import Seeker
from hybrid.tail import Tail
from hybrid.view import Counts, View

MOST_BINS = 1000
SCALES = ("linear", "log")


class Quantile(msgspec.Struct, frozen=True):
    """`score` is proved to reach percentile 100 q; `low` might, and nothing less does. None: no score does."""

    q: float
    score: int | float | None
    low: int | float | None
    high: int | float | None


class Bin(msgspec.Struct, frozen=True):
    """Players with a score of `start` or more and less than `end`; in the last bin up to `end` itself."""

    start: int | float
    end: int | float
    count: int
    low: int
    high: int


class Distribution:
    """Quantiles and bins of all boards behind one link."""

    def __init__(self, tail: Tail, seek: Seeker, past: PastWindows, *, now_ms: Callable[[], int]) -> None:
        self._tail = tail
        self._seek = seek
        self._past = past
        self._now_ms = now_ms

    async def quantiles(self, board: Board, shares: Sequence[float], *, window: str | None = None) -> list[Quantile]:
        """The score that a percentile takes, for each share q from 0 to 1."""
        for share in shares:
            if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
                raise InvalidField("q", f"q goes from 0 to 1, not {share!r}")
        view = await self._view(board, window)
        return [_quantile(board, view, float(share)) for share in shares]

    async def bins(
        self, board: Board, bins: int = 50, *, scale: str = "linear", window: str | None = None
    ) -> list[Bin]:
        """The players in bins of equal width, or of equal ratio; at most one for each score."""
        if not 1 <= bins <= MOST_BINS:
            raise InvalidField("bins", f"bins go from 1 to {MOST_BINS}, not {bins}")
        if scale not in SCALES:
            raise InvalidField("scale", f"scale is {' or '.join(SCALES)}, not {scale!r}")
        view = await self._view(board, window)
        if not view.players:
            return []
        edges = _edges(*_ends(board, view), bins, scale)
        return _bins(board, view, edges)

    async def _view(self, board: Board, window: str | None) -> View:
        found = board.window(window, self._now_ms())
        past = await self._past.find(board, found)
        if past is not None:
            return past.view(board)
        served = await self._tail.served(board, found.name)
        if served.top is not None and served.top.has_all:
            rows = [place async for place in self._seek.rows(board, found.name)]
            keys, names = np.array([row.key for row in rows]), [row.player for row in rows]
            samples = make_samples(keys, names, last=f"{served.top.seq}-0", as_of_ms=self._now_ms())
            return View.of_samples([samples], board.key)
        if served.view is not None:
            return served.view
        # Nobody has sampled it yet: whoever comes first does.
        shards = range(len(board.tags))
        samples_of = await asyncio.gather(*(self._tail.sample(board, shard, found.name) for shard in shards))
        return View.of_samples([samples for samples in samples_of if samples is not None], board.key)


def _worse(board: Board, view: View, distance: Ints) -> tuple[Ints, Ints]:
    """How many players are worse than scores at these distances from the best: at least and at most."""
    up_to = view.up_to(board.key.worst(board.key.score.value(distance)))
    return view.players - up_to.high, view.players - up_to.low


def _quantile(board: Board, view: View, share: float) -> Quantile:
    if not view.players:
        return Quantile(share, None, None, None)
    axis = board.key.score
    found = []
    for end in (0, 1):  # what is proved, then what might be
        # The farther from the best score, the fewer are worse: the last distance with enough of them, by bisection.
        near, far = -1, axis.high - axis.low
        while near < far:
            middle = (near + far + 1) // 2
            worse = _worse(board, view, np.array([middle]))[end][0]
            near, far = (middle, far) if worse / view.players >= share else (near, middle - 1)
        found.append(None if near < 0 else board.score_of(axis.value(near)))
    proved, possible = found
    low, high = (possible, proved) if axis.is_high_best else (proved, possible)
    return Quantile(share, proved, low, high)


def _ends(board: Board, view: View) -> tuple[int, int]:
    """The least and the greatest score that anybody has, in points."""
    axis = board.key.score
    ends = []
    for wanted in (1, view.players):
        near, far = 0, axis.high - axis.low
        while near < far:
            middle = (near + far) // 2
            up_to = view.up_to(board.key.worst(np.array([axis.value(middle)])))
            is_enough = (up_to.high if wanted == 1 else up_to.low)[0] >= wanted
            near, far = (near, middle) if is_enough else (middle + 1, far)
        ends.append(int(axis.value(near)))
    return min(ends), max(ends)


def _edges(low: int, high: int, bins: int, scale: str) -> Ints:
    """Edges of bins in whole points, from the least to the greatest score; equal ones are one."""
    steps = range(1, bins)
    if scale == "linear" or low == high:
        inner = [low + (high - low) * step // bins for step in steps]
    elif low > 0:
        inner = [round(low * (high / low) ** (step / bins)) for step in steps]
    else:  # zero and less have no logarithm: the distances from the least score have
        inner = [low + round((high - low) ** (step / bins)) for step in steps]
    return np.unique(np.array([low, *inner, high], np.int64))


def _bins(board: Board, view: View, edges: Ints) -> list[Bin]:
    if len(edges) == 1:
        edges = np.repeat(edges, 2)
    counts = _reached(board, view, edges)
    estimate = np.rint(counts.estimate).astype(np.int64)
    low = np.clip(np.diff(counts.low) - (counts.high - counts.low)[:-1], 0, None)
    high = counts.high[1:] - counts.low[:-1]
    rows = zip(
        edges[:-1].tolist(), edges[1:].tolist(), np.diff(estimate).tolist(), low.tolist(), high.tolist(), strict=True
    )
    return [Bin(board.score_of(start), board.score_of(end), *rest) for start, end, *rest in rows]


def _reached(board: Board, view: View, edges: Ints) -> Counts:
    """How many players have less than each edge, and in the end all of them."""
    n, key = view.players, board.key
    if key.score.is_high_best:
        up_to = view.up_to(key.worst(edges))  # this much or more
        less = Counts(n - up_to.high, n - up_to.estimate, n - up_to.low)
    else:
        less = view.before(key.best(edges))
    columns = [np.append(column[:-1], n) for column in less]
    return Counts(columns[0], columns[1], columns[2])
