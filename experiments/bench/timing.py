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
from time import perf_counter, process_time, time_ns
from typing import Generic, NamedTuple, Self, TypeVar

import numpy as np

K = TypeVar("K")
T = TypeVar("T")


class Timed(NamedTuple, Generic[T]):
    """The shortest time of several runs, and what that run returned."""

    seconds: float
    result: T


class Stopwatch:
    """Seconds that a block took, and the processor seconds of this process among them.

    with Stopwatch() as watch: ...
    watch.seconds, watch.processor_s
    """

    seconds = 0.0
    processor_s = 0.0

    def __enter__(self) -> Self:
        gc.collect()
        gc.disable()
        self._start_s, self._processor_start_s = perf_counter(), process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = perf_counter() - self._start_s
        self.processor_s = process_time() - self._processor_start_s
        gc.enable()


def now_s() -> float:
    """For latencies: seconds since some moment."""
    return perf_counter()


def wall_clock_ms() -> int:
    """For the record, which asks what time it is."""
    return time_ns() // 1_000_000


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
    with Stopwatch() as watch:
        result = task()
    return Timed(watch.seconds, result)
