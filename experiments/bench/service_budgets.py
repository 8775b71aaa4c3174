"""The figures that the service is to reach, worked out from results alone.

What must be true at any size: every request is answered, and every score that was sent is there.
"""

from collections.abc import Iterable, Iterator, Sequence
from statistics import median
from typing import NamedTuple

from experiments.bench.answers_budgets import PACE_KEPT
from experiments.bench.answers_sizes import PACE
from experiments.bench.budgets import Budget, judged_if, show_count, show_ratio
from experiments.bench.service_peer import BARE, NAIVE
from experiments.bench.service_results import Results, Round
from experiments.bench.service_sizes import FULL
from experiments.bench.service_standings import BATCHED, OURS
from experiments.bench.service_writes import IN_PROCESS, WAYS

BARE_SHARE = 0.7
NAIVE_RATIO = 2.5
BATCHED_RATE = 200_000
GROWTH = 1.3
BULK_SHARE = 0.5


class Median(NamedTuple):
    """Several rounds of the same: the median of each figure; `rate` is of players or scores, `rates` has all."""

    rate: float
    p50_s: float
    p99_s: float
    rates: Sequence[float]


def make_budgets(results: Results) -> list[Budget]:
    rows = [*_standing_budgets(results), *_board_budgets(results), *_bulk_budgets(results), _pace_budget(results)]
    return [*judged_if(results.sizes == FULL, rows), *_truth_budgets(results)]


def median_of(rounds: Iterable[Round]) -> Median:
    rows = list(rounds)
    rates = [row.requests * row.batch / row.seconds for row in rows]
    return Median(median(rates), median(row.p50_s for row in rows), median(row.p99_s for row in rows), rates)


def standing_of(results: Results, who: str, is_written: bool) -> Median:
    return median_of(row for row in results.standings if (row.who, row.is_written) == (who, is_written))


def boards_of(results: Results) -> dict[int, Median]:
    """The boards by their players, the smallest first."""
    sizes = sorted({row.players for row in results.boards})
    return {size: median_of(row for row in results.boards if row.players == size) for size in sizes}


def ratio_to(results: Results, who: str, other: str, is_written: bool) -> float:
    """The rate of one, as a multiple of another's under the same conditions."""
    return standing_of(results, who, is_written).rate / standing_of(results, other, is_written).rate


def bulk_rate(results: Results, way: str) -> float:
    """Scores a second."""
    return median(row.scores / row.seconds for row in results.bulks if row.way == way)


def bulk_share(results: Results, way: str) -> float:
    """The rate over HTTP as a share of the rate without it."""
    return bulk_rate(results, way) / bulk_rate(results, IN_PROCESS)


def _standing_budgets(results: Results) -> Iterator[Budget]:
    for is_written, when in ((False, "at rest"), (True, "under writes")):
        for other, reach in ((BARE, BARE_SHARE), (NAIVE, NAIVE_RATIO)):
            ratio = ratio_to(results, OURS, other, is_written)
            what = f"one standing, requests/s / {other} handler, {when}"
            yield Budget(what, reach, ratio, show_ratio, is_at_most=False)
        rate = standing_of(results, BATCHED, is_written).rate
        yield Budget(f"standings in batches, players/s, {when}", BATCHED_RATE, rate, show_count, is_at_most=False)


def _board_budgets(results: Results) -> Iterator[Budget]:
    boards = boards_of(results)
    first, *larger = boards.values()
    what = f"one standing under writes, slowest board / that of {min(boards):,} players"
    yield Budget(f"{what}, p50", GROWTH, max(row.p50_s for row in larger) / first.p50_s, show_ratio)
    yield Budget(f"{what}, p99", GROWTH, max(row.p99_s for row in larger) / first.p99_s, show_ratio)


def _bulk_budgets(results: Results) -> Iterator[Budget]:
    for way in WAYS:
        if way != IN_PROCESS:
            what = f"bulk submits, {way}, scores/s / {IN_PROCESS}"
            yield Budget(what, BULK_SHARE, bulk_share(results, way), show_ratio, is_at_most=False)


def _pace_budget(results: Results) -> Budget:
    """Figures under writes mean nothing if the writes do not keep up."""
    rates = [row.scores_s for row in (*results.standings, *results.boards) if row.is_written]
    return Budget("slowest of the paced writers, scores/s", PACE_KEPT * PACE, min(rates), show_count, is_at_most=False)


def _truth_budgets(results: Results) -> Iterator[Budget]:
    failed = sum(row.failed for row in (*results.standings, *results.boards, *results.submits))
    yield Budget("requests not answered with 2xx", 0, failed, show_count)
    missing = sum(abs(row.missing) for row in results.bulks) + abs(results.load.missing)
    yield Budget("scores sent and not there", 0, missing, show_count)
