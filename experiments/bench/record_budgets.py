"""The figures that the record is to reach, worked out from results alone.

What must be true at any size is that everything submitted was acknowledged and is there.
"""

from collections.abc import Iterator

from experiments.bench import memory, writes
from experiments.bench.budgets import Budget, judged_if, show_count, show_ratio
from experiments.bench.record_results import FULL, KeyBytes, Results, WriteSpeed

RATIOS = {writes.BEST: 0.5, writes.BEST_IDS: 0.3, writes.ALONE: 0.6, writes.ALONE_IDS: 0.35}
WINDOWS_RATE = 50_000
MEMORY_RATIO = 1.1


def make_budgets(results: Results) -> list[Budget]:
    rows = [*_speed_budgets(results), *_memory_budgets(results)]
    return [*judged_if(results.sizes == FULL, rows), _missing_budget(results)]


def find_write(results: Results, contestant: str, in_flight: int) -> WriteSpeed:
    return next(row for row in results.writes if (row.contestant, row.in_flight) == (contestant, in_flight))


def find_bytes(results: Results, fill: str, kind: str) -> KeyBytes:
    return next(row for row in results.memory if (row.fill, row.kind) == (fill, kind))


def rate_of(row: WriteSpeed) -> float:
    """Scores a second."""
    return row.scores / row.seconds


def ratio_to_raw(results: Results, row: WriteSpeed, raw: writes.Raw = writes.RAW) -> float:
    """Its rate, as a share of that of raw commands with as many batches in flight."""
    return rate_of(row) / rate_of(find_write(results, raw.name, row.in_flight))


def _speed_budgets(results: Results) -> Iterator[Budget]:
    for contestant, reach in RATIOS.items():
        row = find_write(results, contestant.name, results.sizes.in_flight)
        what = f"write speed, {contestant.name} / raw ZADD + XADD"
        yield Budget(what, reach, ratio_to_raw(results, row), show_ratio, is_at_most=False)
    windows = find_write(results, writes.WINDOWS.name, results.sizes.in_flight)
    what = f"write speed, {windows.contestant}, scores/s"
    yield Budget(what, WINDOWS_RATE, rate_of(windows), show_count, is_at_most=False)


def _memory_budgets(results: Results) -> Iterator[Budget]:
    ours = find_bytes(results, memory.MANY, memory.RECORDS)
    plain = find_bytes(results, memory.MANY, memory.PLAIN)
    what = "bytes of {:,} players in one window / plain ZSETs, by {}"
    yield Budget(
        what.format(ours.events, "MEMORY USAGE"), MEMORY_RATIO, ours.usage_bytes / plain.usage_bytes, show_ratio
    )
    yield Budget(
        what.format(ours.events, "used_memory"), MEMORY_RATIO, ours.freed_bytes / plain.freed_bytes, show_ratio
    )


def _missing_budget(results: Results) -> Budget:
    missing = sum(abs(row.missing) for row in results.writes) + sum(abs(row.missing) for row in results.submits)
    return Budget("scores not acknowledged or not stored, all runs", 0, missing, show_count)
