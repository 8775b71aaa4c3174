"""The figures that the sketches are to reach, worked out from results alone.

What must be true at any size is that no bound is ever violated.
"""

from collections.abc import Iterator

from experiments.bench import counters, hitters, workloads
from experiments.bench.budgets import Budget, judged_if, show_count, show_percent, show_ratio
from experiments.bench.digests import FASTDIGEST, OURS, TDIGEST_DOUBLE
from experiments.bench.sketch_results import ALONE, FULL, SETTLED, DigestError, HitterSpeed, Results

MAX_ERROR = {
    workloads.LOGNORMAL.name: 0.0002,
    workloads.PARETO.name: 0.0002,
    workloads.TIED.name: 0.0005,
    workloads.ZEROS.name: 0.0005,
}
MAX_BYTES = 17_000
MERGED_FACTOR = 2
HITTER_RATIO = 3.0
GRID_CASE = ("Zipf 0.8", 256, 10_000)
GRID_PRECISION = 0.95


def make_budgets(results: Results) -> list[Budget]:
    rows = [*_error_budgets(results), *_speed_budgets(results), *_hitter_budgets(results)]
    return [*judged_if(results.sizes == FULL, rows), *_violation_budgets(results)]


def _ours(results: Results, workload: str) -> DigestError:
    return next(r for r in results.digest_error if r.contestant == OURS.name and r.workload == workload)


def _error_budgets(results: Results) -> Iterator[Budget]:
    for workload, reach in MAX_ERROR.items():
        yield Budget(f"max rank error, {workload}", reach, _ours(results, workload).max_error, show_percent)
    for workload, reach in MAX_ERROR.items():
        merged = _ours(results, workload).merged_max_error
        what = f"max rank error, {workload}, {results.sizes.shards} shards merged"
        yield Budget(what, MERGED_FACTOR * reach, merged, show_percent)
    largest = max(row.size_bytes for row in results.digest_error if row.contestant == OURS.name)
    yield Budget("bytes of a digest with its bounds, largest of all workloads", MAX_BYTES, largest, show_count)


def _speed_budgets(results: Results) -> Iterator[Budget]:
    for process in (SETTLED, ALONE):
        rows = {row.contestant: row for row in results.digest_speed if row.process == process}
        ours, fast, double = rows[OURS.name], rows[FASTDIGEST.name], rows[TDIGEST_DOUBLE.name]
        updates = min(fast.update_s, double.update_s) / ours.update_s
        what = f"update speed / fastest of fastdigest and datasketches tdigest_double, {process}"
        yield Budget(what, 1.0, updates, show_ratio, is_at_most=False)
        what = f"cdf speed / fastdigest cdf_vec, {process}"
        yield Budget(what, 1.0, fast.query_s / ours.query_s, show_ratio, is_at_most=False)


def _hitter_budgets(results: Results) -> Iterator[Budget]:
    for feed in (counters.ARROW, counters.LISTS):
        ours, loop = (_pair(results, name, feed) for name in (counters.OURS, counters.LOOP))
        # From lists half of our time goes into making Arrow of them; the tables say what is left of the lead.
        if feed == counters.ARROW:
            what = f"heavy hitters, {feed} in: speed / datasketches item by item"
            yield Budget(what, HITTER_RATIO, loop.seconds / ours.seconds, show_ratio, is_at_most=False)
        yield Budget(f"heavy hitters, {feed} in: P@100", 1.0, ours.precision, show_ratio, is_at_most=False)
    distribution, capacity, batch = GRID_CASE
    case = next(
        row
        for row in results.hitter_accuracy
        if row.contestant == hitters.OURS and (row.distribution, row.capacity, row.batch) == GRID_CASE
    )
    what = f"P@100, {distribution}, capacity {capacity}, {batch:,} a batch"
    yield Budget(what, GRID_PRECISION, case.precision, show_ratio, is_at_most=False)


def _pair(results: Results, contestant: str, feed: str) -> HitterSpeed:
    return next(row for row in results.hitter_speed if (row.contestant, row.feed) == (contestant, feed))


def _violation_budgets(results: Results) -> Iterator[Budget]:
    asked = sum(row.questions for row in results.intervals)
    outside = sum(row.violations for row in results.intervals)
    yield Budget(f"digest bounds violated, of {asked:,} questions", 0, outside, show_count)
    proof = results.proof
    what = f"digest bounds violated in {proof.digests:,} random digests, of {proof.questions:,} questions"
    yield Budget(what, 0, proof.violations, show_count)
    pairs = [row.violations for row in results.hitter_speed if row.contestant == counters.OURS]
    grid = [row.violations for row in results.hitter_accuracy if row.contestant == hitters.OURS]
    yield Budget("heavy-hitter bounds violated, all streams and items", 0, sum(pairs) + sum(grid), show_count)
