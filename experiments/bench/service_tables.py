"""What a run found about the service, as tables."""

from collections.abc import Iterator

from experiments.bench.budgets import show_count, show_ratio
from experiments.bench.service_budgets import Median, boards_of, bulk_rate, bulk_share, median_of, ratio_to, standing_of
from experiments.bench.service_peer import BARE, NAIVE
from experiments.bench.service_results import Results
from experiments.bench.service_standings import BATCHED, OURS, TWO
from experiments.bench.service_writes import WAYS
from experiments.bench.tables import Table


def standing_table(results: Results) -> Table:
    columns = ("who", "meanwhile", "requests/s", "least - most", "/ bare", "/ naive", "p50, ms", "p99, ms")
    rows = [
        [
            who,
            _when(is_written),
            *_rates(standing_of(results, who, is_written)),
            show_ratio(ratio_to(results, who, BARE, is_written)),
            show_ratio(ratio_to(results, who, NAIVE, is_written)),
            *_latencies(standing_of(results, who, is_written)),
        ]
        for is_written in (False, True)
        for who in (OURS, BARE, NAIVE, TWO)
    ]
    return Table("One standing a request", columns, rows, labels=2)


def batch_table(results: Results) -> Table:
    columns = ("meanwhile", "players/s", "least - most", "p50, ms", "p99, ms")
    rows = [[_when(is_written), *_show(standing_of(results, BATCHED, is_written))] for is_written in (False, True)]
    return Table("A batch of standings a request", columns, rows)


def board_table(results: Results) -> Table:
    columns = ("players", "requests/s", "least - most", "p50, ms", "p99, ms", "p50 / smallest", "p99 / smallest")
    boards = boards_of(results)
    first = boards[min(boards)]
    rows = [
        [
            show_count(players),
            *_show(row),
            show_ratio(row.p50_s / first.p50_s),
            show_ratio(row.p99_s / first.p99_s),
        ]
        for players, row in boards.items()
    ]
    return Table("One standing under writes, boards of all sizes", columns, rows)


def bulk_table(results: Results) -> Table:
    columns = ("way", "scores/s", "/ in process")
    rows = [[way, show_count(bulk_rate(results, way)), show_ratio(bulk_share(results, way))] for way in WAYS]
    return Table("Bulk submits", columns, rows)


def submit_table(results: Results) -> Table:
    columns = ("connections", "requests/s", "least - most", "p50, ms", "p99, ms")
    row = [show_count(results.submits[0].connections), *_show(median_of(results.submits))]
    return Table("Single submits, on disk when answered", columns, [row])


def load_table(results: Results) -> Table:
    load = results.load
    columns = ("rows", "file, MB", "seconds", "rows/s", "peak memory, MB")
    row = [
        show_count(load.rows),
        f"{load.file_bytes / 1e6:.1f}",
        f"{load.seconds:.1f}",
        show_count(load.rows / load.seconds),
        f"{load.peak_bytes / 1e6:.0f}",
    ]
    return Table("toptail load", columns, [row])


def all_tables(results: Results) -> Iterator[Table]:
    yield standing_table(results)
    yield batch_table(results)
    yield board_table(results)
    yield bulk_table(results)
    yield submit_table(results)
    yield load_table(results)


def _show(row: Median) -> list[str]:
    return [*_rates(row), *_latencies(row)]


def _rates(row: Median) -> list[str]:
    return [show_count(row.rate), f"{show_count(min(row.rates))} - {show_count(max(row.rates))}"]


def _latencies(row: Median) -> list[str]:
    return [f"{1000 * seconds:.2f}" for seconds in (row.p50_s, row.p99_s)]


def _when(is_written: bool) -> str:
    return "written" if is_written else "at rest"
