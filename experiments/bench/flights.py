"""Many callers at once: each sends one thing after the other, and how long each took is noted."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from experiments.bench.timing import Stopwatch, now_s

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Flight(Generic[R]):
    """What was answered, and how long it took: altogether, of this process' processor time, and each."""

    answers: list[R]
    seconds: float
    python_s: float
    latencies_s: list[float]


async def fly(send: Callable[[T], Awaitable[R]], items: Iterable[T], callers: int) -> Flight[R]:
    """Send all items, at most `callers` at a time."""
    waiting = iter(items)
    answers: list[R] = []
    latencies_s: list[float] = []

    async def call() -> None:
        for item in waiting:
            sent_s = now_s()
            answers.append(await send(item))
            latencies_s.append(now_s() - sent_s)

    with Stopwatch() as watch:
        await asyncio.gather(*(call() for _ in range(callers)))
    return Flight(answers, watch.seconds, watch.processor_s, latencies_s)


def run(main: Coroutine[Any, Any, R]) -> R:
    """Run it in the event loop that the service uses: uvloop, where that is installed."""
    try:
        from uvloop import new_event_loop
    except ImportError:
        return asyncio.run(main)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(main)
