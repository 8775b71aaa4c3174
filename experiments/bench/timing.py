"""The only clock of the benchmark.

Contestants take turns: one round runs each of them once, and of all rounds the best counts. A neighbour that takes the
processor for a moment then disturbs one round of everybody rather than all rounds of one. The garbage collector rests
while the clock runs, as in `timeit`.

How long numpy code takes also depends on the heap. glibc gives large freed blocks back to the system, and new ones are
paid for in page faults, until the process has once freed a block of many megabytes; from then on it keeps them.
`settle_heap` brings that about, so that figures do not depend on what ran before.
"""

import gc
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from time import perf_counter
from typing import Generic, NamedTuple, TypeVar

import numpy as np

K = TypeVar("K")
T = TypeVar("T")


class Timed(NamedTuple, Generic[T]):
    """The shortest time of several runs, and what that run returned."""

    seconds: float
    result: T


def best_of(repeats: int, tasks: Mapping[K, Callable[[], T]]) -> dict[K, Timed[T]]:
    """Each task's best time in `repeats` rounds."""
    best: dict[K, Timed[T]] = {}
    for _ in range(repeats):
        for name, task in tasks.items():
            timed = _time(task)
            if name not in best or timed.seconds < best[name].seconds:
                best[name] = timed
    return best


def settle_heap() -> None:
    """Free one block of 24 MB (glibc raises its limits to what was freed, up to 32 MB)."""
    block = np.empty(3_000_000)
    del block


def today() -> str:
    return datetime.now(UTC).date().isoformat()


def _time(task: Callable[[], T]) -> Timed[T]:
    gc.collect()
    gc.disable()
    try:
        start = perf_counter()
        result = task()
        return Timed(perf_counter() - start, result)
    finally:
        gc.enable()
