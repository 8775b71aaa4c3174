"""Served answers against exact ones: what an audit compares, and what it allows.

A change of a board moves a rank by at most one, and `seq` counts changes. So between an answer with seq s and an exact
one with seq e, ranks may differ by |e - s|, no more; a percentile by twice that many players, because the number of
players may change as well. A player whose own record changed in between is not compared: his place is another.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from toptail import RankStanding, Standing

ROUNDING = 1e-9  # doubles of percentiles; a millionth of what one player of a billion is


@dataclass(frozen=True, slots=True)
class Comparison:
    """One player: the answer as it is served, and the exact one a moment later."""

    player: str
    served: Standing
    exact: RankStanding

    @property
    def changes(self) -> int:
        """How many changes may lie between the two."""
        return abs(self.exact.seq - self.served.seq)

    @property
    def error(self) -> float:
        return abs(self.served.percentile - self.exact.percentile)

    @property
    def width(self) -> float:
        low, high = self._percentiles()
        return high - low

    @property
    def is_covered(self) -> bool:
        """Whether the interval, as it stands, contains the exact percentile."""
        low, high = self._percentiles()
        return low - ROUNDING <= self.exact.percentile <= high + ROUNDING

    @property
    def is_leader(self) -> bool:
        return isinstance(self.served, RankStanding)

    @property
    def is_estimate(self) -> bool:
        """Whether there is an interval to test. A board that is asked for the first time is counted at once."""
        low, high = self._ranks()
        return low < high

    @property
    def decile(self) -> int:
        """Which tenth of the board the player is in, 0 is the best."""
        return min((self.exact.rank - 1) * 10 // max(self.exact.players, 1), 9)

    def violations(self) -> list[str]:
        """What cannot be, even with everything that changed in between."""
        served, exact = self.served, self.exact
        slack = 200 * self.changes / max(min(served.players, exact.players) - 1, 1) + ROUNDING
        rank_low, rank_high = self._ranks()
        low, high = self._percentiles()
        rules = (
            (
                rank_low - self.changes <= exact.rank <= rank_high + self.changes,
                f"rank {exact.rank} not in {rank_low}..{rank_high}",
            ),
            (low - slack <= exact.percentile <= high + slack, f"percentile {exact.percentile} not in {low}..{high}"),
            (
                low <= served.percentile <= high,
                f"percentile {served.percentile} outside its own interval {low}..{high}",
            ),
            (abs(served.players - exact.players) <= self.changes, f"{served.players} players, not {exact.players}"),
            (
                self.changes > 0 or served.top_percent >= exact.top_percent,
                f"top {served.top_percent} % claims more than {exact.top_percent} %",
            ),
        )
        return [message for is_kept, message in rules if not is_kept]

    def _ranks(self) -> tuple[int, int]:
        served = self.served
        return (served.rank, served.rank) if isinstance(served, RankStanding) else (served.rank_low, served.rank_high)

    def _percentiles(self) -> tuple[float, float]:
        served = self.served
        if isinstance(served, RankStanding):
            return served.percentile, served.percentile
        return served.percentile_low, served.percentile_high


@dataclass(frozen=True, slots=True)
class Line:
    """Comparisons summed up. Coverage and widths are of the estimates alone, None where there are none."""

    label: str
    samples: int
    leaders: int
    estimates: int
    mean_error: float
    max_error: float
    coverage: float | None
    mean_width: float | None
    max_width: float | None


def compare(
    players: Sequence[str], served: Sequence[Standing | None], exact: Sequence[Standing | None]
) -> list[Comparison]:
    """The players that can be compared: who has both answers, of one and the same record."""
    return [
        Comparison(player, first, second)
        for player, first, second in zip(players, served, exact, strict=True)
        if first is not None and isinstance(second, RankStanding) and _record(first) == _record(second)
    ]


def summarise(comparisons: Iterable[Comparison]) -> list[Line]:
    """A line for each tenth of the board that has samples, and one for all."""
    everyone = list(comparisons)
    tenths = [[row for row in everyone if row.decile == tenth] for tenth in range(10)]
    lines = [_sum_up(f"{tenth * 10}-{tenth * 10 + 10} %", rows) for tenth, rows in enumerate(tenths) if rows]
    return [*lines, _sum_up("all", everyone)] if everyone else []


def _sum_up(label: str, rows: Sequence[Comparison]) -> Line:
    errors, estimates = [row.error for row in rows], [row for row in rows if row.is_estimate]
    n = len(estimates)
    return Line(
        label,
        len(rows),
        sum(row.is_leader for row in rows),
        n,
        sum(errors) / len(rows),
        max(errors),
        sum(row.is_covered for row in estimates) / n if n else None,
        sum(row.width for row in estimates) / n if n else None,
        max((row.width for row in estimates), default=None),
    )


def _record(row: Standing) -> tuple[object, ...]:
    return row.window, row.score, row.subscore, row.at
