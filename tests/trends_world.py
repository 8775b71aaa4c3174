"""One trend on a real Redis, what was sent to it, and keepers that come and go.

Whatever happens, somebody who begins at what is kept in Redis and folds the rest of the streams must find, at every
length of panes, counted + late + capped = sent, and in every pane that lives bounds around the exact counts.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from hybrid.engine import Engine
from hybrid.link import Link
from hybrid.trends import partition as partition_module
from hybrid.trends.config import Trend, TrendConfig
from hybrid.trends.intake import Taken
from hybrid.trends.keeper import TrendKeeper, TrendTick
from hybrid.trends.partition import Partition, Sums
from hybrid.trends.publishing import Order
from hybrid.trends.trends import Found, Top
from hybrid.trends.window import merge_panes
from tests.engines import Clock, fresh_prefix, make_engine
from tests.trends_oracle import Event, NaiveTrend, check_merged, make_batch


@dataclass
class Watched:
    """A keeper, and what it said at its last tick."""

    keeper: TrendKeeper
    ticks: list[TrendTick]

    @property
    def seen(self) -> int:
        """Events that it has in its panes."""
        return sum(total(tick.sums) for tick in self.ticks)


@dataclass
class World:
    """A trend, its oracle, and the engines around it."""

    link: Link
    clock: Clock = field(default_factory=Clock)
    prefix: str = field(default_factory=fresh_prefix)
    dice: random.Random = field(default_factory=lambda: random.Random(1))
    engine: Engine = field(init=False)
    trend: Trend = field(init=False)
    naive: NaiveTrend = field(init=False)

    async def start(self, config: TrendConfig | None = None) -> None:
        self.engine = self.make_engine()
        await self.engine.boards.open()
        self.trend, _ = await self.engine.trends.create("t", config or TrendConfig(capacity=16))
        self.naive = NaiveTrend(self.trend)

    def make_engine(self, link: Link | None = None) -> Engine:
        """One more engine on the same keys, with nonces of its own."""
        engine = make_engine(link or self.link, self.clock, prefix=self.prefix, seed=self.dice.getrandbits(60))
        engine.trends._fresh_s = 0.0  # what was read a moment ago is read again
        return engine

    def make_keeper(self, link: Link | None = None) -> Watched:
        ticks: list[TrendTick] = []

        def note(now: list[TrendTick]) -> None:
            ticks[:] = now

        return Watched(TrendKeeper(self.make_engine(link).trends, on_tick=note), ticks)

    def make_events(self, count: int = 8, *, items: int = 40, ago_ms: int = 0) -> list[Event]:
        """Events of few common and many rare items, some of the past and some ahead."""
        return [
            Event(
                f"item {min(self.dice.randrange(items), self.dice.randrange(items))}",
                self.dice.randint(1, 5),
                self.clock.now_ms - self.dice.choice([0, 0, 0, 4_000, 30_000, 200_000, -60_000]) - ago_ms,
            )
            for _ in range(count)
        ]

    async def submit(
        self, events: Sequence[Event], request: str | None = None, *, engine: Engine | None = None
    ) -> Taken:
        """Send events and have the oracle count them; whoever sends some again does so with `send`."""
        taken = await self.send(events, request, engine=engine)
        self.naive.add(events)
        return taken

    async def send(self, events: Sequence[Event], request: str | None = None, *, engine: Engine | None = None) -> Taken:
        return await (engine or self.engine).trends.submit(self.trend, make_batch(events), request)

    async def ask_top(self, watched: Watched, window: str = "1m", *, by: Order = "count", limit: int = 4) -> Top:
        """The answer to a question, with a keeper that sees to it."""
        await watched.keeper.tick()
        asked = asyncio.create_task(self.engine.trends.top(self.trend, window, by=by, limit=limit))
        await _tick_until(asked, watched)
        return await asked

    async def ask_item(self, watched: Watched, item: str, window: str = "1m") -> Found:
        await watched.keeper.tick()
        asked = asyncio.create_task(self.engine.trends.item(self.trend, item, window))
        await _tick_until(asked, watched)
        return await asked

    async def fold_all(self) -> Sequence[Partition]:
        """The partitions as they are kept, with the rest of their streams folded and nothing written."""
        partitions = await self.engine.trends.open_partitions(self.trend)
        for partition in partitions:
            while await partition.fold(self.clock.now_ms):
                pass
        return partitions

    async def check(self, *, is_capped: bool = False) -> None:
        """What everybody would find now, against the oracle."""
        partitions = await self.fold_all()
        for level in self.trend.levels:
            sums = [partition.sums[level.pane_ms] for partition in partitions]
            assert sum(map(total, sums)) == self.naive.events, (level, sums)
            assert is_capped or not any(each.capped for each in sums)
        if not is_capped:
            self.check_panes(partitions)

    def check_panes(self, partitions: Sequence[Partition]) -> None:
        """Every pane that lives, one by one and as windows."""
        for level in self.trend.levels:
            living = range(level.oldest(self.clock.now_ms), level.pane_of(self.clock.now_ms + 300_000) + 1)
            for numbers in (living, *([number] for number in living)):
                truths = self._deal(self.naive.counts(level.pane_ms, numbers))
                for partition, truth in zip(partitions, truths, strict=True):
                    panes = list(partition.panes(level.pane_ms, numbers).values())
                    check_merged(merge_panes(panes, self.trend.config.capacity), truth)

    def _deal(self, truth: Counter[str]) -> list[Counter[str]]:
        dealt: list[Counter[str]] = [Counter() for _ in self.trend.tags]
        for item, count in truth.items():
            dealt[self.trend.item_hash.of(item.encode())][item] = count
        return dealt


def total(sums: Sums) -> int:
    return sums.counted + sums.late + sums.capped


@contextmanager
def keeping_at_once() -> Iterator[None]:
    """Keepers write at every tick, not every ten seconds."""
    with patch.object(partition_module, "KEEP_S", 0.0):
        yield


async def _tick_until(asked: asyncio.Task[Any], watched: Watched) -> None:
    while not asked.done():
        await watched.keeper.tick()
        await asyncio.sleep(0.01)


def play(link: Link, scene: Callable[[World], Coroutine[Any, Any, None]], config: TrendConfig) -> None:
    """A scene with a trend of its own; the link is closed in the end."""

    async def main() -> None:
        world = World(link)
        await world.start(config)
        try:
            await scene(world)
        finally:
            await link.close()

    asyncio.run(main())
