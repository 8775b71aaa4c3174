"""Where players of a naive board stand, by counting; and whether an answer is true of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import floor, log10

from hybrid.config import Board
from hybrid.standing import Estimate, Exact, Standing
from tests.oracle import NaiveBoard


@dataclass(frozen=True)
class NaiveStanding:
    """The truth about one player."""

    unique: int
    competition: int
    dense: int
    worse: int
    players: int

    @property
    def percentile(self) -> float:
        return 100.0 if self.players == 1 else 100 * self.worse / (self.players - 1)

    def rank(self, ranking: str) -> int:
        return int(getattr(self, ranking))


def naive_standings(board: NaiveBoard, view: str) -> dict[str, NaiveStanding]:
    """The truth about all players of a view."""
    ranking = board.ranking(view)
    points = [board.views[view][player].points for player in ranking]
    scores = sorted(set(points), reverse=board.config.direction == "high")
    return {
        player: NaiveStanding(
            unique=place + 1,
            competition=points.index(points[place]) + 1,
            dense=scores.index(points[place]) + 1,
            worse=sum(scores.index(other) > scores.index(points[place]) for other in points),
            players=len(ranking),
        )
        for place, player in enumerate(ranking)
    }


def naive_newcomer(board: NaiveBoard, view: str, points: int) -> NaiveStanding:
    """Where a newcomer would stand, last among equals."""
    sign = -1 if board.config.direction == "high" else 1
    others = [sign * row.points for row in board.views.get(view, {}).values()]
    better = sum(other < sign * points for other in others)
    equal = sum(other == sign * points for other in others)
    distinct = len({other for other in others if other < sign * points})
    return NaiveStanding(better + equal + 1, better + 1, distinct + 1, len(others) - better - equal, len(others) + 1)


def check(board: Board, got: Standing, truth: NaiveStanding, *, ranking: str = "unique", allowed: int = 0) -> None:
    """An answer is true, and exact where it should be, when the truth may have moved by so many events since."""
    is_leader = truth.unique <= board.config.top_n
    if not allowed:
        assert got.players == truth.players, (got, truth)
        assert isinstance(got, Exact) or not is_leader, (got, truth)
    if isinstance(got, Exact):
        assert abs(got.rank - truth.rank(ranking)) <= allowed, (got, truth)
        assert abs(got.percentile - truth.percentile) <= 1e-9 + 200 * allowed / truth.players, (got, truth)
    if isinstance(got, Estimate):
        slack = 1e-9 + 200 * allowed / truth.players
        assert got.rank_low - allowed <= truth.rank(ranking) <= got.rank_high + allowed, (got, truth)
        assert got.percentile_low - slack <= truth.percentile <= got.percentile_high + slack, (got, truth)
        assert got.percentile_low <= got.percentile <= got.percentile_high, got
    assert got.percentile + got.top_percent >= 100 - 1e-9, got
    if not allowed:
        at_least = truth.players - truth.worse
        assert got.top_percent >= 100 * at_least / truth.players - 1e-12, (got, truth)
        if isinstance(got, Exact):
            assert got.top_percent == naive_top_percent(at_least, truth.players), (got, truth)


def naive_top_percent(at_least: int, players: int) -> float:
    """Two significant digits, rounded up."""
    exact = 100 * at_least / players
    digits = max(1 - floor(log10(exact)), 0)
    scale = int(10**digits)
    return -(-100 * at_least * scale // players) / scale


def check_order(answers: Sequence[Standing]) -> None:
    """Of answers in order of rank: a better score never stands worse, and equal scores have one percentile."""
    for better, worse in pairwise(answers):
        assert better.percentile >= worse.percentile, (better, worse)
        if better.score == worse.score:
            assert better.percentile == worse.percentile, (better, worse)
        assert better.top_percent <= worse.top_percent, (better, worse)


def naive_quantile(board: NaiveBoard, view: str, share: float) -> int | None:
    """The least score (where low is best, the highest) that so many are worse than; None if there is none."""
    sign = 1 if board.config.direction == "high" else -1
    others = sorted(sign * row.points for row in board.views.get(view, {}).values())
    ends = sorted((sign * int(board.config.score_min), sign * int(board.config.score_max)))
    if share <= 0:
        return sign * ends[0]
    needed = next(count for count in range(1, len(others) + 1) if count / len(others) >= share)
    reached = others[needed - 1] + 1
    return sign * reached if reached <= ends[1] else None
