"""What a run found about trends, as tables."""

from collections.abc import Iterator
from statistics import median

from experiments.bench.budgets import show_count, show_percent, show_ratio
from experiments.bench.tables import Table
from experiments.bench.trends_budgets import acknowledged_rate, counted_rate, growth_of
from experiments.bench.trends_rates import OVER_ARROW, OVER_JSON, SKETCHES
from experiments.bench.trends_results import Results
from experiments.bench.trends_sizes import K

_HOUR_S = 3_600


def rate_table(results: Results) -> Table:
    columns = (
        "way",
        "events a request",
        "rounds",
        "acknowledged, events/s",
        "counted, events/s",
        "/ sketches",
        "refused",
        "keeper, MB",
        "/ after a quarter",
    )
    sizes = results.sizes
    bulks = {SKETCHES: sizes.sketch_batch, OVER_ARROW: sizes.arrow_events, OVER_JSON: sizes.json_events}
    return Table("Events over HTTP", columns, [_rate_row(results, way, bulk) for way, bulk in bulks.items()])


def _rate_row(results: Results, way: str, bulk: int) -> list[str]:
    rounds = [row for row in results.rounds if row.way == way]
    rate, is_kept = counted_rate(results, way), way != SKETCHES
    return [
        way,
        show_count(bulk),
        show_count(len(rounds)),
        show_count(acknowledged_rate(results, way)) if is_kept else "-",
        show_count(rate),
        show_ratio(rate / counted_rate(results, SKETCHES)),
        show_count(sum(row.refused for row in rounds)) if is_kept else "-",
        _mb(median(row.end_bytes for row in rounds)) if is_kept else "-",
        show_ratio(growth_of(results, way)) if is_kept else "-",
    ]


def pace_table(results: Results) -> Table:
    pace = results.pace
    columns = (
        "events/s",
        "append-only file, MB an hour",
        "bytes an event",
        "keeper, MB",
        "worker, MB",
        "top, p50, ms",
        "top, p99, ms",
    )
    row = [
        show_count(pace.events / pace.seconds),
        _mb(pace.aof_bytes * _HOUR_S / pace.seconds),
        f"{pace.aof_bytes / pace.events:.1f}",
        _mb(pace.keeper_bytes),
        _mb(pace.worker_bytes),
        _ms(pace.p50_s),
        _ms(pace.p99_s),
    ]
    return Table("A default trend at a steady pace", columns, [row], labels=0)


def hour_table(results: Results) -> Table:
    columns = (
        "events",
        f"P@{K}",
        "held against bounds",
        "outside",
        "median interval",
        f"guaranteed of {K}",
        "not so",
        "floor",
        "floor / total",
        "played in, s",
    )
    rows = [
        [
            row.shape,
            show_percent(row.precision),
            show_count(row.rows + row.looked_up),
            show_count(row.violations),
            show_percent(row.interval),
            show_count(row.guaranteed),
            show_count(row.untrue),
            show_count(row.floor),
            show_percent(row.floor / row.events),
            show_count(row.seconds),
        ]
        for row in results.hours
    ]
    return Table("An hour of events", columns, rows)


def answer_table(results: Results) -> Table:
    columns = ("events", "from memory, p50, ms", "p99, ms", "read again, p50, ms", "p99, ms")
    rows = [[row.shape, *map(_ms, (row.p50_s, row.p99_s, row.read_p50_s, row.read_p99_s))] for row in results.hours]
    return Table(f"The top {K} of an hour, one caller", columns, rows)


def kill_table(results: Results) -> Table:
    kills = results.kills
    figures = {
        "keepers killed": kills.keeper_kills,
        "Redis killed": kills.redis_kills,
        "seconds": kills.seconds,
        "requests": kills.requests,
        "unsure, sent again": kills.retries,
        "acknowledged, sent again": kills.repeats,
        "events": kills.events,
        "counted": kills.counted,
        "lost": kills.lost,
        "twice": kills.twice,
    }
    return Table("Killed under load", list(figures), [list(map(show_count, figures.values()))], labels=0)


def fed_table(results: Results) -> Table:
    columns = ("counted is", "keepers killed", "scores/s", "total, log", "total, trend", "rows", "outside bounds")
    rows = [
        [
            row.count,
            show_count(row.kills),
            show_count(row.scores / row.seconds),
            *map(show_count, (row.logged, row.counted, row.rows, row.violations)),
        ]
        for row in results.fed
    ]
    return Table("Fed by a board", columns, rows)


def fairness_table(results: Results) -> Table:
    columns = ("cap", "events", "of one actor", "capped", f"his items in the top {K}", f"P@{K} of the others")
    rows = [
        [
            "none" if row.actor_cap is None else show_count(row.actor_cap),
            *map(show_count, (row.events, row.from_one, row.capped, row.intruders)),
            show_percent(row.precision),
        ]
        for row in results.fairness
    ]
    return Table("One actor among many", columns, rows)


def all_tables(results: Results) -> Iterator[Table]:
    yield rate_table(results)
    yield pace_table(results)
    yield hour_table(results)
    yield answer_table(results)
    yield kill_table(results)
    yield fed_table(results)
    yield fairness_table(results)


def _mb(size_bytes: float) -> str:
    return f"{size_bytes / 1e6:,.0f}"


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.2f}"
