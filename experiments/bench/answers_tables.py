"""What a run found about answers, as tables."""

from collections.abc import Iterator

from experiments.bench.answers_budgets import rate_of, ratio_to, redis_share, violations_of
from experiments.bench.answers_lookups import LINK
from experiments.bench.answers_results import Results
from experiments.bench.budgets import show_count, show_percent, show_ratio
from experiments.bench.tables import Table


def audit_table(results: Results) -> Table:
    columns = (
        "scores",
        "meanwhile",
        "compared",
        "leaders",
        "not true",
        "widest percentile",
        "widest rank",
        "mean error",
        "max error",
        "changes between",
    )
    rows = [
        [
            audit.shape,
            _when(audit.is_written),
            show_count(audit.compared),
            show_count(audit.leaders),
            show_count(violations_of(audit)),
            *map(show_percent, (audit.percentile_width, audit.rank_width, audit.mean_error, audit.max_error)),
            show_count(audit.allowed),
        ]
        for audit in results.audits
    ]
    return Table("Audit", columns, rows, labels=2)


def age_table(results: Results) -> Table:
    columns = ("scores", "scores/s", "p50, s", "p99, s", "max, s")
    rows = [
        [
            audit.shape,
            show_count(audit.scores / audit.seconds),
            *(f"{age_s:.2f}" for age_s in (audit.p50_age_s, audit.p99_age_s, audit.max_age_s)),
        ]
        for audit in results.audits
        if audit.is_written
    ]
    return Table("Age of answers under writes", columns, rows)


def refresh_table(results: Results) -> Table:
    columns = ("players", "a shard, ms", "of it Redis, ms", "/ smallest", "bytes a shard", "view of all, ms")
    smallest_s = results.refreshes[0].median_s
    rows = [
        [
            show_count(row.players),
            _ms(row.median_s),
            _ms(row.redis_s),
            show_ratio(row.median_s / smallest_s),
            show_count(row.published_bytes),
            _ms(row.view_s),
        ]
        for row in results.refreshes
    ]
    return Table("Refresh of a shard", columns, rows)


def load_table(results: Results) -> Table:
    columns = ("boards", "busy", "idle", "scores/s", "Redis busy", "keeper busy", "age p50, s", "age p99, s")
    rows = [
        [
            row.name,
            show_count(row.busy),
            show_count(row.idle),
            show_count(row.scores / row.seconds),
            show_percent(redis_share(row)),
            show_percent(row.keeper_s / row.seconds),
            f"{row.p50_age_s:.2f}",
            f"{row.p99_age_s:.2f}",
        ]
        for row in results.loads
    ]
    return Table("Keeping house", columns, rows)


def lookup_table(results: Results) -> Table:
    columns = (
        "who",
        "meanwhile",
        "callers",
        "players a call",
        "players/s",
        "/ redis-py",
        "/ our link",
        "p50, ms",
        "p99, ms",
        "Python, us a player",
        "Redis, us a player",
    )
    rows = [
        [
            row.contestant,
            _when(row.is_written),
            show_count(row.callers),
            show_count(row.batch),
            show_count(rate_of(row)),
            show_ratio(ratio_to(results, row)),
            show_ratio(ratio_to(results, row, LINK)),
            _ms(row.p50_s),
            _ms(row.p99_s),
            *(f"{1e6 * taken_s / row.calls / row.batch:.2f}" for taken_s in (row.python_s, row.redis_s)),
        ]
        for row in results.lookups
    ]
    return Table("Lookups", columns, rows, labels=2)


def rows_table(results: Results) -> Table:
    walk, export = results.walk, results.export
    columns = ("way", "meanwhile", "rows", "rows/s", "skipped", "repeated", "peak memory, MB")
    rows = [
        [
            f"pages of {results.sizes.page_rows:,}",
            _when(True),
            show_count(walk.rows),
            show_count(walk.rows / walk.seconds),
            show_count(walk.skipped),
            show_count(walk.repeated),
            "-",
        ],
        [
            "export",
            _when(False),
            show_count(export.rows),
            show_count(export.rows / export.seconds),
            show_count(export.missing),
            "-",
            f"{export.peak_bytes / 1e6:.1f}",
        ],
    ]
    return Table("All rows", columns, rows, labels=2)


def latency_table(results: Results) -> Table:
    rows = [[row.what, _ms(row.p50_s), _ms(row.p99_s)] for row in results.latencies]
    return Table("One caller, at rest", ("question", "p50, ms", "p99, ms"), rows)


def all_tables(results: Results) -> Iterator[Table]:
    yield audit_table(results)
    yield age_table(results)
    yield refresh_table(results)
    yield load_table(results)
    yield lookup_table(results)
    yield rows_table(results)
    yield latency_table(results)


def _when(is_written: bool) -> str:
    return "written" if is_written else "at rest"


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.2f}"
