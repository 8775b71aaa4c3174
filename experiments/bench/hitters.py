"""Speed and accuracy of the heavy-hitter sketches on streams of strings.

Precision tolerates ties: an item of the answer is right if it occurred at least as often as the true number 100. The
relative error is the mean of |estimate - truth| / truth over the true top 100. Bounds are checked for every distinct
item of the stream, tracked or not.
"""

from collections.abc import Sequence
from itertools import product
from typing import Any

import datasketches
import numpy as np

from experiments.bench.counters import (
    ARROW,
    LISTS,
    Contestant,
    Pair,
    Summary,
    exhaust,
    make_contestants,
    read_estimates,
    read_summary,
)
from experiments.bench.progress import Track
from experiments.bench.sketch_results import HitterAccuracy, HitterSpeed, Sizes
from experiments.bench.timing import Timed, best_of
from experiments.bench.workloads import Stream, zipf_stream
from sketches import SpaceSaving
from sketches.values import Ints

K = 100
EXPONENTS = {"Zipf 0.8": 0.8, "Zipf 1.1": 1.1, "Zipf 1.3": 1.3, "uniform": 0.0}
CAPACITIES = {256: 9, 1024: 11}  # and the least lg of a datasketches map that holds as many items or more
BATCHES = (100, 1_000, 10_000, 65_536)
OURS, PEER = "toptail SpaceSaving", "datasketches frequent_strings"


def measure_hitter_speed(sizes: Sizes, seed: int, track: Track) -> list[HitterSpeed]:
    rng = np.random.default_rng(seed)
    stream = zipf_stream(rng, sizes.events, sizes.items, EXPONENTS["Zipf 1.1"])
    batches = {LISTS: _list_batches(stream, sizes.batch), ARROW: _arrow_batches(stream, sizes.batch)}
    contestants = make_contestants(rng.bytes(16))
    best: dict[Contestant, Timed[Pair]] = {}
    for _ in track(range(sizes.event_repeats), "heavy hitters: speed"):
        for contestant, timed in best_of(1, {c: _task(c, batches[c.feed]) for c in contestants}).items():
            if contestant not in best or timed.seconds < best[contestant].seconds:
                best[contestant] = timed
    return [_judge_pair(contestant, best[contestant], stream) for contestant in contestants]


def _task(contestant: Contestant, batches: Sequence[Any]) -> Any:
    return lambda: contestant.run(batches)


def _arrow_batches(stream: Stream, size: int) -> list[Any]:
    return [stream.events.slice(at, size) for at in range(0, len(stream.events), size)]


def _list_batches(stream: Stream, size: int) -> list[list[str]]:
    """Every event its own string object, as parsing makes them."""
    return [batch.to_pylist() for batch in _arrow_batches(stream, size)]


def _judge_pair(contestant: Contestant, timed: Timed[Pair], stream: Stream) -> HitterSpeed:
    summary = read_summary(timed.result.summary)
    names, truth = stream.occurred()
    items = names.to_pylist()
    estimates, count_min_bytes = read_estimates(timed.result.count_min, items)
    heaviest = stream.heaviest(K)
    return HitterSpeed(
        contestant=contestant.name,
        feed=contestant.feed,
        seconds=timed.seconds,
        precision=precision(summary.top(K), stream),
        relative_error=_relative_error(summary.estimate(heaviest), stream.truth_of(heaviest)),
        count_min_error=_relative_error(read_estimates(timed.result.count_min, heaviest)[0], stream.truth_of(heaviest)),
        checked=len(items),
        violations=_violations(summary, items, truth) + int((estimates < truth).sum()),
        summary_bytes=summary.size_bytes,
        count_min_bytes=count_min_bytes,
    )


def precision(found: list[str], stream: Stream) -> float:
    """The share of the k places that went to an item at least as frequent as the true number k."""
    least = np.sort(stream.truth)[-K]
    return float((stream.truth_of(found) >= least).sum()) / K if found else 0.0


def _relative_error(estimates: Ints, truth: Ints) -> float:
    return float((np.abs(estimates - truth) / truth).mean())


def _violations(summary: Summary, items: list[str], truth: Ints) -> int:
    low, high = summary.bounds(items)
    return int(((truth < low) | (truth > high)).sum())


def measure_hitter_accuracy(sizes: Sizes, seed: int, track: Track) -> list[HitterAccuracy]:
    rows: list[HitterAccuracy] = []
    for distribution in track(tuple(EXPONENTS), "heavy hitters: accuracy"):
        stream = zipf_stream(np.random.default_rng(seed), sizes.grid_events, sizes.items, EXPONENTS[distribution])
        for capacity, batch in product(CAPACITIES, BATCHES):
            summary = SpaceSaving(capacity)
            for part in _arrow_batches(stream, batch):
                summary.update(part)
            rows.append(_judge(OURS, read_summary(summary), stream, distribution, capacity, batch))
        for capacity, lg in CAPACITIES.items():
            peer = datasketches.frequent_strings_sketch(lg)
            exhaust(map(peer.update, stream.events.to_pylist()))
            rows.append(_judge(f"{PEER}({lg})", read_summary(peer), stream, distribution, capacity, 1))
    return rows


def _judge(
    contestant: str, summary: Summary, stream: Stream, distribution: str, capacity: int, batch: int
) -> HitterAccuracy:
    heaviest = stream.heaviest(K)
    names, truth = stream.occurred()
    return HitterAccuracy(
        contestant=contestant,
        distribution=distribution,
        capacity=capacity,
        batch=batch,
        precision=precision(summary.top(K), stream),
        relative_error=_relative_error(summary.estimate(heaviest), stream.truth_of(heaviest)),
        floor_share=summary.floor / len(stream.events),
        guaranteed=summary.guaranteed(K) if summary.guaranteed else None,
        violations=_violations(summary, names.to_pylist(), truth),
    )
