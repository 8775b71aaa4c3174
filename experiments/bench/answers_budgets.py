"""The figures that answers are to reach, worked out from results alone.

What must be true at any size: every interval and every rank is, no row that stays is skipped or repeated, and everybody
who is asked for is answered.
"""

from collections.abc import Iterator

from experiments.bench import answers_loads as loads
from experiments.bench.answers_lookups import OURS, REDIS_PY
from experiments.bench.answers_results import Audit, Load, Lookups, Results
from experiments.bench.answers_sizes import FULL, PACE
from experiments.bench.budgets import Budget, judged_if, show_count, show_percent, show_ratio

WIDTH = 0.001
MEAN_ERROR = 0.00005
AGE_S = 1.0
GROWTH = 2.0
SAMPLING_SHARE = 0.05
FLATNESS = 1.25
LOOKUP_RATIO = 10.0
PACE_KEPT = 0.95


def make_budgets(results: Results) -> list[Budget]:
    rows = [*_audit_budgets(results), *_keeper_budgets(results), *_lookup_budgets(results), _pace_budget(results)]
    return [*judged_if(results.sizes == FULL, rows), *_truth_budgets(results)]


def find_lookups(results: Results, contestant: str, is_written: bool) -> Lookups:
    return next(row for row in results.lookups if (row.contestant, row.is_written) == (contestant, is_written))


def find_load(results: Results, name: str) -> Load:
    return next(row for row in results.loads if row.name == name)


def rate_of(row: Lookups) -> float:
    """Players looked up a second."""
    return row.calls * row.batch / row.seconds


def ratio_to(results: Results, row: Lookups, contestant: str = REDIS_PY) -> float:
    """Its rate, as a multiple of another's under the same conditions."""
    return rate_of(row) / rate_of(find_lookups(results, contestant, row.is_written))


def growth_of(results: Results) -> float:
    """How much longer the refresh of a shard takes on the largest board than on the smallest."""
    return results.refreshes[-1].median_s / results.refreshes[0].median_s


def redis_share(row: Load) -> float:
    """The share of one processor that Redis is busy."""
    return row.redis_s / row.seconds


def sampling_share(results: Results) -> float:
    """By how much a keeper makes Redis busier, as a share of its time."""
    kept, unkept = (find_load(results, name) for name in (loads.KEPT, loads.UNKEPT))
    return redis_share(kept) - redis_share(unkept)


def violations_of(audit: Audit) -> int:
    return audit.rank_violations + audit.percentile_violations + audit.leader_violations


def _audit_budgets(results: Results) -> Iterator[Budget]:
    audits = results.audits
    width = max(audit.percentile_width for audit in audits)
    yield Budget("widest interval of a percentile, all audits", WIDTH, width, show_percent)
    width = max(audit.rank_width for audit in audits)
    yield Budget("widest interval of a rank / players, all audits", WIDTH, width, show_percent)
    error = max(audit.mean_error for audit in audits if not audit.is_written)
    yield Budget("mean error of a percentile at rest, worst shape", MEAN_ERROR, error, show_percent)
    age_s = max(audit.p99_age_s for audit in audits if audit.is_written)
    yield Budget(f"age of an answer under {PACE:,.0f} scores/s, p99, worst shape", AGE_S, age_s, _show_s)


def _keeper_budgets(results: Results) -> Iterator[Budget]:
    first, last = results.refreshes[0].players, results.refreshes[-1].players
    what = f"refresh of a shard, board of {last:,} / of {first:,} players"
    yield Budget(what, GROWTH, growth_of(results), show_ratio)
    what = "Redis' time for sampling, four windows under writes"
    yield Budget(what, SAMPLING_SHARE, sampling_share(results), show_percent)
    alone, both = (find_load(results, name) for name in (loads.BUSY_ALONE, loads.BUSY_AND_IDLE))
    beside = f"{both.busy} busy boards, beside {both.idle:,} idle ones / alone"
    yield Budget(f"Redis' time, {beside}", FLATNESS, redis_share(both) / redis_share(alone), show_ratio)
    keeper = (both.keeper_s / both.seconds) / (alone.keeper_s / alone.seconds)
    yield Budget(f"keeper's time, {beside}", FLATNESS, keeper, show_ratio)


def _lookup_budgets(results: Results) -> Iterator[Budget]:
    for is_written, when in ((False, "at rest"), (True, "under writes")):
        ours = find_lookups(results, OURS, is_written)
        what = f"standings/s, {ours.callers:,} callers / a redis-py pipeline each, {when}"
        yield Budget(what, LOOKUP_RATIO, ratio_to(results, ours), show_ratio, is_at_most=False)


def _pace_budget(results: Results) -> Budget:
    """Figures under writes mean nothing if the writes do not keep up."""
    rates = [audit.scores / audit.seconds for audit in results.audits if audit.is_written]
    rates += [row.scores / row.seconds for row in results.loads]
    rates.append(results.walk.scores / results.walk.seconds)
    rates += [row.scores / row.seconds for row in results.lookups if row.is_written]
    return Budget("slowest of the paced writers, scores/s", PACE_KEPT * PACE, min(rates), show_count, is_at_most=False)


def _truth_budgets(results: Results) -> Iterator[Budget]:
    violations, walk = sum(map(violations_of, results.audits)), results.walk
    yield Budget("intervals and ranks that were not true, all audits", 0, violations, show_count)
    yield Budget("rows skipped or repeated that did not move", 0, walk.skipped + walk.repeated, show_count)
    unanswered = sum(row.missing for row in results.lookups) + abs(results.export.missing)
    yield Budget("players asked for and not answered, rows not exported", 0, unanswered, show_count)


def _show_s(seconds: float) -> str:
    return f"{seconds:.2f} s"
