"""Where trends are measured: an hour that passes as fast as it can be counted.

Everything is real but the time: intake, streams, keeper and publishing on a Redis of its own. What happens within a
tick comes in at once; then the keeper does what it does each second, and the clock moves on. The hour begins where a
pane does, and the last tick is within its last pane: then the window holds all of it.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random

import pyarrow as pa

from experiments.bench.parts import Job
from experiments.bench.progress import Track
from experiments.bench.servers import open_server
from experiments.bench.trends_sizes import FAST, FULL, Sizes
from hybrid.engine import Engine
from hybrid.link import Node, parse_url
from hybrid.trends.config import Trend, TrendConfig
from hybrid.trends.events import TrendBatch
from hybrid.trends.keeper import TrendKeeper
from hybrid.trends.trends import Found, Top, Trends

WINDOW = "1h"

_HOUR_MS = 3_600_000
_BEGIN_MS = 595_000 * _HOUR_MS  # in 2037


@dataclass(frozen=True, slots=True)
class Stage:
    """What all that is measured has in common."""

    job: Job
    sizes: Sizes
    track: Track


def make_stage(job: Job, track: Track) -> Stage:
    return Stage(job, FAST if job.is_fast else FULL, track)


@dataclass(slots=True)
class Clock:
    """A clock that stands still until it is set."""

    now_ms: int = _BEGIN_MS

    def __call__(self) -> int:
        return self.now_ms


@dataclass(frozen=True, slots=True)
class Hour:
    """A trend whose hour has begun."""

    stage: Stage
    engine: Engine
    trend: Trend
    keeper: TrendKeeper
    clock: Clock

    @property
    def trends(self) -> Trends:
        return self.engine.trends

    async def play(self, requests: Sequence[TrendBatch], name: str) -> int:
        """Send the requests, spread evenly over the hour; returns how many events were acknowledged."""
        ticks, accepted = self.stage.sizes.ticks, 0
        for tick in self.stage.track(range(ticks), f"trends: an hour, {name}"):
            self.clock.now_ms = _BEGIN_MS + _HOUR_MS * tick // ticks
            due = requests[len(requests) * tick // ticks : len(requests) * (tick + 1) // ticks]
            taken = await asyncio.gather(*(self.trends.submit(self.trend, request) for request in due))
            accepted += sum(each.accepted for each in taken)
            await self.keeper.tick()
        return accepted

    async def top(self, limit: int) -> Top:
        """The first items of the window, which the keeper publishes for whoever asks."""
        asked = asyncio.create_task(self.trends.top(self.trend, WINDOW, limit=limit))
        await self._publish(asked)
        return asked.result()

    async def look_up(self, items: Iterable[str]) -> list[Found]:
        """What is said of these items, one by one."""
        asked = asyncio.create_task(self._find_all(items))
        await self._publish(asked)
        return asked.result()

    async def _find_all(self, items: Iterable[str]) -> list[Found]:
        return [await self.trends.item(self.trend, item, WINDOW) for item in items]

    async def _publish(self, asked: "asyncio.Task[list[Found]] | asyncio.Task[Top]") -> None:
        while not asked.done():
            await self.keeper.tick()
            await asyncio.wait([asked], timeout=0.1)


@asynccontextmanager
async def open_hour(stage: Stage, config: TrendConfig) -> AsyncIterator[Hour]:
    clock = Clock()
    async with (
        open_server(stage.job.data_dir) as server,
        Engine(Node(parse_url(server.redis.url)), now_ms=clock, random=Random(stage.job.seed)) as engine,
    ):
        trend, _ = await engine.trends.create("bench", config)
        yield Hour(stage, engine, trend, TrendKeeper(engine.trends), clock)


def slices(events: pa.Array, size: int) -> list[pa.Array]:
    """Events in pieces, as requests have them."""
    return [events.slice(at, size) for at in range(0, len(events), size)]
