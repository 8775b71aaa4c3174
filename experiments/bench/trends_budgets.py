"""The figures that trends are to reach, worked out from results alone.

What must be true at any size: every event is counted once, no bound is wrong, and what is guaranteed is so.
"""

from collections.abc import Iterator
from statistics import median

from experiments.bench.budgets import Budget, judged_if, show_count, show_percent, show_ratio
from experiments.bench.trends_rates import OVER_ARROW, OVER_JSON, SKETCHES
from experiments.bench.trends_results import Fairness, Results
from experiments.bench.trends_sizes import FULL, K

SKETCH_SHARE = 0.5
JSON_RATE = 300_000
GROWTH = 1.2
PRECISION = 0.98
INTERVAL = 0.01
GUARANTEED = 90


def make_budgets(results: Results) -> list[Budget]:
    rows = [*_rate_budgets(results), *_hour_budgets(results), *_fairness_budgets(results)]
    return [*judged_if(results.sizes == FULL, rows), *_truth_budgets(results)]


def counted_rate(results: Results, way: str) -> float:
    """Events a second, until they were counted."""
    return median(row.events / row.counted_s for row in results.rounds if row.way == way)


def acknowledged_rate(results: Results, way: str) -> float:
    """Events a second, until they were acknowledged."""
    return median(row.events / row.acknowledged_s for row in results.rounds if row.way == way)


def growth_of(results: Results, way: str) -> float:
    """The keeper's memory at the end, as a multiple of that after a quarter of the events; in the worst round."""
    return max(row.end_bytes / row.quarter_bytes for row in results.rounds if row.way == way)


def capped_of(results: Results) -> Fairness:
    return next(row for row in results.fairness if row.actor_cap is not None)


def _rate_budgets(results: Results) -> Iterator[Budget]:
    share = counted_rate(results, OVER_ARROW) / counted_rate(results, SKETCHES)
    what = f"{OVER_ARROW}, events/s until counted / {SKETCHES}"
    yield Budget(what, SKETCH_SHARE, share, show_ratio, is_at_most=False)
    rate = counted_rate(results, OVER_JSON)
    yield Budget(f"{OVER_JSON}, events/s until counted", JSON_RATE, rate, show_count, is_at_most=False)
    for way in (OVER_ARROW, OVER_JSON):
        what = f"{way}, keeper's memory at the end / after a quarter"
        yield Budget(what, GROWTH, growth_of(results, way), show_ratio)


def _hour_budgets(results: Results) -> Iterator[Budget]:
    for row in results.hours:
        yield Budget(f"P@{K}, {row.shape}", PRECISION, row.precision, show_percent, is_at_most=False)
        yield Budget(f"median interval of the top {K} / count, {row.shape}", INTERVAL, row.interval, show_percent)
        what = f"guaranteed of the top {K}, {row.shape}"
        yield Budget(what, GUARANTEED, row.guaranteed, show_count, is_at_most=False)


def _fairness_budgets(results: Results) -> Iterator[Budget]:
    row = capped_of(results)
    yield Budget(f"items of one actor in the top {K}, capped", 0, row.intruders, show_count)
    yield Budget(f"P@{K} of the others' items, capped", PRECISION, row.precision, show_percent, is_at_most=False)


def _truth_budgets(results: Results) -> Iterator[Budget]:
    kills = results.kills
    what = "events acknowledged and not in the total, or the other way round"
    yield Budget(what, 0, sum(map(abs, _missing(results))), show_count)
    yield Budget("killed: events acknowledged and lost", 0, kills.lost, show_count)
    yield Budget("killed: events counted twice", 0, kills.twice, show_count)
    apart = sum(abs(row.logged - row.counted) for row in results.fed)
    yield Budget("fed by a board: totals beside the log's, difference", 0, apart, show_count)
    yield Budget("counts outside their bounds", 0, sum(_violations(results)), show_count)
    yield Budget(f"guaranteed, and not in the top {K}", 0, sum(row.untrue for row in results.hours), show_count)


def _missing(results: Results) -> Iterator[int]:
    yield from (row.missing for row in results.rounds)
    yield results.pace.missing
    yield from (row.missing for row in results.hours)
    yield results.kills.events - results.kills.counted
    yield from (row.missing for row in results.fairness)


def _violations(results: Results) -> Iterator[int]:
    yield from (row.violations for row in results.hours)
    yield from (row.violations for row in results.fed)
    yield from (row.violations for row in results.fairness)
