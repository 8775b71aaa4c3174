"""Speed and size of the quantile digests, on lognormal values.

Measured twice: each digest alone in a new process, and all of them in turn in one process with a settled heap. The
difference is the memory (timing.py), not the work.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, TypeVar

import numpy as np

from experiments.bench.digests import CONTESTANTS, Contestant, cut_batches, make_shards
from experiments.bench.progress import Track
from experiments.bench.sketch_results import ALONE, SETTLED, DigestSpeed, Sizes
from experiments.bench.timing import best_of, settle_heap
from experiments.bench.workloads import LOGNORMAL
from sketches.values import Floats

T = TypeVar("T")


def measure_speed(sizes: Sizes, seed: int, track: Track) -> list[DigestSpeed]:
    quick = [contestant for contestant in CONTESTANTS if contestant.thin == 1]
    slow = [contestant for contestant in CONTESTANTS if contestant.thin > 1]
    rows = []
    settle_heap()
    for group, repeats in track([(quick, sizes.repeats), (slow, 1)], "digests: speed"):
        rows += _race(group, sizes, seed, SETTLED, repeats)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1) as processes:
        for contestant in track(quick, "digests: speed, a process each"):
            rows.append(processes.submit(_race_alone, contestant.name, sizes, seed).result())
    return rows


def _race_alone(name: str, sizes: Sizes, seed: int) -> DigestSpeed:
    contestant = next(contestant for contestant in CONTESTANTS if contestant.name == name)
    return _race([contestant], sizes, seed, ALONE, sizes.repeats)[0]


def _race(group: Sequence[Contestant], sizes: Sizes, seed: int, process: str, repeats: int) -> list[DigestSpeed]:
    values, points = _sample(sizes, seed)
    fed = {c: cut_batches(c, values[:: c.thin], sizes.batch) for c in group}
    asked = {c: c.take(points[:: c.thin]) for c in group}
    built = best_of(repeats, {c: _task(c.build, fed[c]) for c in group})
    saved = {c: c.reload(built[c].result) for c in group}
    unasked = {c: [c.reload(built[c].result)[0] for _ in range(repeats)] for c in group}
    first = best_of(repeats, {c: _task_on_next(c.ranks, unasked[c], asked[c]) for c in group})
    later = best_of(repeats, {c: _task(c.ranks, saved[c][0], asked[c]) for c in group})
    shards = {c: make_shards(c, values[:: c.thin], sizes.shards) for c in group}
    merged = best_of(repeats, {c: _task(c.merge, shards[c]) for c in group})
    return [
        DigestSpeed(
            contestant=c.name,
            process=process,
            values=len(values[:: c.thin]),
            update_s=built[c].seconds * c.thin,
            first_query_s=first[c].seconds * c.thin,
            query_s=later[c].seconds * c.thin,
            merge_s=merged[c].seconds,  # depends on the shards' centroids, hardly on the number of values
            size_bytes=saved[c][1],
        )
        for c in group
    ]


def _sample(sizes: Sizes, seed: int) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    values = LOGNORMAL.make(rng, sizes.values)
    return values, rng.choice(values, sizes.queries)


def _task(function: Callable[..., T], *arguments: Any) -> Callable[[], T]:
    return lambda: function(*arguments)


def _task_on_next(function: Callable[[Any, Any], T], unasked: list[Any], argument: Any) -> Callable[[], T]:
    """A task that takes another digest every time, so that nothing can be remembered."""
    return lambda: function(unasked.pop(), argument)
