"""What a run found about the record, as tables."""

from collections.abc import Iterator

from experiments.bench import memory
from experiments.bench.budgets import show_count, show_ratio
from experiments.bench.record_budgets import find_bytes, rate_of, ratio_to_raw
from experiments.bench.record_results import Results
from experiments.bench.tables import Table


def write_table(results: Results, in_flight: int) -> Table:
    columns = ("what is written", "scores/s", "/ raw", "Python, us a score", "Redis, us a score", "cores busy")
    rows = [
        [
            row.contestant,
            show_count(rate_of(row)),
            show_ratio(ratio_to_raw(results, row)),
            _us(row.python_s / row.scores),
            _us(row.redis_s / row.scores),
            show_ratio((row.python_s + row.redis_s) / row.seconds),
        ]
        for row in results.writes
        if row.in_flight == in_flight
    ]
    return Table(f"Writes, {in_flight} batches in flight", columns, rows)


def submit_table(results: Results) -> Table:
    columns = (
        "callers",
        "scores a submit",
        "fsync",
        "submits/s",
        "scores/s",
        "p50, ms",
        "p99, ms",
        "scores a group",
        "scripts a group",
        "Python, us a score",
    )
    rows = [
        [
            show_count(row.callers),
            show_count(row.batch),
            row.fsync,
            show_count(row.submits / row.seconds),
            show_count(row.submits * row.batch / row.seconds),
            f"{1000 * row.p50_s:.2f}",
            f"{1000 * row.p99_s:.2f}",
            f"{row.submits * row.batch / row.groups:,.1f}",
            f"{row.scripts / row.groups:.1f}",
            _us(row.python_s / row.submits / row.batch),
        ]
        for row in results.submits
    ]
    return Table("Submits by fsync", columns, rows, labels=3)


def record_bytes_table(results: Results) -> Table:
    """Bytes a player in one window, by both scales."""
    columns = (
        "players",
        "filled",
        "records",
        "plain ZSETs",
        "ratio",
        "by used_memory: records",
        "plain ZSETs",
        "ratio",
    )
    rows = []
    for fill in _fills(results):
        ours, plain = (find_bytes(results, fill, kind) for kind in (memory.RECORDS, memory.PLAIN))
        cells = [show_count(ours.events), fill]
        for first, second in ((ours.usage_bytes, plain.usage_bytes), (ours.freed_bytes, plain.freed_bytes)):
            cells += [*(f"{size / ours.events:.1f}" for size in (first, second)), show_ratio(first / second)]
        rows.append(cells)
    return Table("Bytes a player, one window", columns, rows, labels=2)


def event_bytes_table(results: Results) -> Table:
    """Bytes an event of all that is not a record, by used_memory."""
    kinds = [kind for kind in memory.KINDS if kind != memory.RECORDS]
    columns = ("events", "filled", "events a group", *kinds)
    rows = []
    for fill in _fills(results):
        found = [find_bytes(results, fill, kind) for kind in kinds]
        events, groups = found[0].events, found[0].groups
        sizes = [f"{row.freed_bytes / events:.1f}" for row in found]
        rows.append([show_count(events), fill, f"{events / groups:,.1f}", *sizes])
    return Table("Bytes an event, beside the records, by used_memory", columns, rows, labels=2)


def all_tables(results: Results) -> Iterator[Table]:
    yield write_table(results, results.sizes.in_flight)
    yield write_table(results, results.sizes.few_in_flight)
    yield submit_table(results)
    yield record_bytes_table(results)
    yield event_bytes_table(results)


def _fills(results: Results) -> list[str]:
    return list(dict.fromkeys(row.fill for row in results.memory))


def _us(seconds: float) -> str:
    return f"{1e6 * seconds:.2f}"
