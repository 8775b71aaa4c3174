"""Where a peer does better than we do, found in the results rather than admitted from memory.

Not listed: what no figure shows, such as that ours needs numpy and Arrow.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter

from experiments.bench import counters, hitters
from experiments.bench.budgets import show_count, show_percent, show_ratio
from experiments.bench.digests import OURS
from experiments.bench.sketch_results import (
    SETTLED,
    DigestError,
    DigestSpeed,
    HitterAccuracy,
    HitterSpeed,
    Results,
)

Show = Callable[[float], str]


def find_losses(results: Results) -> list[str]:
    """One line for each comparison that we lose."""
    return [
        *_speed_losses(results.digest_speed),
        *_error_losses(results.digest_error),
        *_hitter_losses(results.hitter_speed),
        *_grid_losses(results.hitter_accuracy),
    ]


def _show_ms(seconds: float) -> str:
    return f"{1000 * seconds:.2f} ms"


_SPEED = {
    "update_s": "update",
    "first_query_s": "first query",
    "query_s": "later query",
    "merge_s": "merge",
}
_ERROR = {
    "max_error": "max rank error",
    "mean_error": "mean rank error",
    "merged_max_error": "max rank error after merging",
}


def _speed_losses(rows: Sequence[DigestSpeed]) -> Iterator[str]:
    for process, group in groupby(rows, key=attrgetter("process")):
        runs = list(group)
        for field, what in _SPEED.items():
            yield from _compare(f"{what}, {process}", runs, field, _show_ms)
        if process == SETTLED:
            yield from _compare("bytes of a digest", runs, "size_bytes", show_count)


def _error_losses(rows: Sequence[DigestError]) -> Iterator[str]:
    for workload, group in groupby(rows, key=attrgetter("workload")):
        runs = list(group)
        for field, what in _ERROR.items():
            yield from _compare(f"{what}, {workload}", runs, field, show_percent)


def _compare(what: str, rows: Sequence[DigestSpeed | DigestError], field: str, show: Show) -> Iterator[str]:
    """Our figure and the smaller ones, if there are any."""
    figure = attrgetter(field)
    ours = next(figure(row) for row in rows if row.contestant == OURS.name)
    better = sorted((row for row in rows if figure(row) < ours), key=figure)
    if better:
        peers = ", ".join(f"{show(figure(row))} ({row.contestant})" for row in better)
        yield f"{what}: {show(ours)} against {peers}"


def _hitter_losses(rows: Sequence[HitterSpeed]) -> Iterator[str]:
    for feed, group in groupby(rows, key=attrgetter("feed")):
        runs = {row.contestant: row for row in group}
        ours = runs.pop(counters.OURS)
        for name, peer in runs.items():
            if peer.seconds < ours.seconds:
                yield f"heavy hitters, {feed} in, speed: {name} is faster by {ours.seconds / peer.seconds:.2f}"
            if peer.summary_bytes < ours.summary_bytes:
                sizes = f"{show_count(ours.summary_bytes)} against {show_count(peer.summary_bytes)}"
                yield f"heavy hitters, {feed} in, bytes of the summary: {sizes} ({name})"


def _grid_losses(rows: Sequence[HitterAccuracy]) -> Iterator[str]:
    """Batches in which a summary of ours is worse than datasketches item by item."""
    cases = dict.fromkeys((row.distribution, row.capacity) for row in rows)
    for distribution, capacity in cases:
        runs = [row for row in rows if (row.distribution, row.capacity) == (distribution, capacity)]
        peer = next(row for row in runs if row.contestant != hitters.OURS)
        case = f"{distribution}, capacity {show_count(capacity)}"
        low = [row for row in runs if row.precision < peer.precision]
        high = [row for row in runs if row.relative_error > peer.relative_error]
        yield from _worse(f"P@100, {case}", low, peer, "precision", show_ratio)
        yield from _worse(f"relative error, {case}", high, peer, "relative_error", show_percent)


def _worse(what: str, rows: Sequence[HitterAccuracy], peer: HitterAccuracy, field: str, show: Show) -> Iterator[str]:
    figure = attrgetter(field)
    if rows:
        ours = ", ".join(f"{show(figure(row))} (batches of {show_count(row.batch)})" for row in rows)
        yield f"{what}: {ours} against {show(figure(peer))} ({peer.contestant})"
