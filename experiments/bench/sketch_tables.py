"""What a run found about the sketches, as tables."""

from collections.abc import Callable, Iterator

from experiments.bench import counters
from experiments.bench.budgets import show_count, show_percent, show_ratio
from experiments.bench.sketch_results import ALONE, SETTLED, DigestError, Results
from experiments.bench.tables import Table
from experiments.bench.workloads import WORKLOADS


def speed_table(results: Results, process: str) -> Table:
    sizes = results.sizes
    columns = (
        "digest",
        f"update, {sizes.values:,} values, ms",
        f"first query, {sizes.queries:,} points, ms",
        "later query, ms",
        f"merge {sizes.shards} shards, ms",
        "bytes",
    )
    rows = [
        [
            row.contestant if row.values == sizes.values else f"{row.contestant}, scaled from {row.values:,} values",
            *(_ms(seconds) for seconds in (row.update_s, row.first_query_s, row.query_s, row.merge_s)),
            show_count(row.size_bytes),
        ]
        for row in results.digest_speed
        if row.process == process
    ]
    return Table(f"Speed of digests, {process}", columns, rows)


def max_error_table(results: Results) -> Table:
    return _error_table(results, "Max rank error, %", lambda row: (row.max_error, row.rule))


def mean_error_table(results: Results) -> Table:
    return _error_table(results, "Mean rank error, %", lambda row: (row.mean_error, row.rule))


def merged_error_table(results: Results) -> Table:
    caption = f"Max rank error after merging {results.sizes.shards} shards, %"
    return _error_table(results, caption, lambda row: (row.merged_max_error, row.merged_rule))


def _error_table(results: Results, caption: str, pick: Callable[[DigestError], tuple[float, str]]) -> Table:
    """One row a digest, one column a workload; where values repeat, the convention it was judged by."""
    tied = {workload.name for workload in WORKLOADS if not workload.is_continuous}
    cells: dict[str, dict[str, str]] = {}
    for row in results.digest_error:
        error, rule = pick(row)
        note = f" {rule}" if row.workload in tied else ""
        cells.setdefault(row.contestant, {})[row.workload] = f"{100 * error:.4f}{note}"
    names = [workload.name for workload in WORKLOADS]
    rows = [[contestant, *(found.get(name, "-") for name in names)] for contestant, found in cells.items()]
    return Table(caption, ("digest", *names), rows)


def interval_table(results: Results) -> Table:
    columns = ("workload", "max width", "mean width", "merged: max", "merged: mean", "questions", "truth outside")
    rows = [
        [
            row.workload,
            *map(show_percent, (row.max_width, row.mean_width, row.merged_max_width, row.merged_mean_width)),
            show_count(row.questions),
            show_count(row.violations),
        ]
        for row in results.intervals
    ]
    return Table("Proved intervals of TDigest(500)", columns, rows)


def hitter_speed_table(results: Results) -> Table:
    columns = (
        "sketches",
        "input",
        "M events/s",
        "ours is faster by",
        "P@100",
        "relative error",
        "of Count-Min",
        "violations",
        "summary bytes",
        "Count-Min bytes",
    )
    ours = {row.feed: row.seconds for row in results.hitter_speed if row.contestant == counters.OURS}
    rows = [
        [
            row.contestant,
            row.feed,
            f"{results.sizes.events / row.seconds / 1e6:.2f}",
            f"{show_ratio(row.seconds / ours[row.feed])}",
            show_ratio(row.precision),
            show_percent(row.relative_error),
            show_percent(row.count_min_error),
            show_count(row.violations),
            show_count(row.summary_bytes),
            show_count(row.count_min_bytes),
        ]
        for row in results.hitter_speed
    ]
    return Table("Heavy hitters, Zipf 1.1", columns, rows, labels=2)


def hitter_accuracy_table(results: Results) -> Table:
    columns = (
        "items",
        "capacity",
        "summary",
        "batch",
        "P@100",
        "relative error",
        "floor / total",
        "guaranteed",
        "violations",
    )
    rows = [
        [
            row.distribution,
            show_count(row.capacity),
            row.contestant,
            show_count(row.batch),
            show_ratio(row.precision),
            show_percent(row.relative_error),
            show_percent(row.floor_share),
            "-" if row.guaranteed is None else show_count(row.guaranteed),
            show_count(row.violations),
        ]
        for row in results.hitter_accuracy
    ]
    return Table("Heavy hitters by distribution, capacity and batch size", columns, rows, labels=3)


def all_tables(results: Results) -> Iterator[Table]:
    yield speed_table(results, SETTLED)
    yield speed_table(results, ALONE)
    yield max_error_table(results)
    yield mean_error_table(results)
    yield merged_error_table(results)
    yield interval_table(results)
    yield hitter_speed_table(results)
    yield hitter_accuracy_table(results)


def _ms(seconds: float) -> str:
    ms = 1000 * seconds
    return f"{ms:,.0f}" if ms >= 1000 else f"{ms:.2f}"
