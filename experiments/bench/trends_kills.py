"""Keeper and Redis killed under load: whatever was acknowledged is counted, and once.

Every request has a name and is sent until it is acknowledged; those who wait for Redis give up early, so that this
happens often. One request in ten is sent again although it was acknowledged, as by somebody who did not hear it. There
are fewer items than counters, so that every count is exact, and each item is held against what was acknowledged.
"""

import asyncio
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random

import numpy as np
import pyarrow as pa

from experiments.bench.servers import BenchServer, open_server
from experiments.bench.timing import now_s
from experiments.bench.trends_processes import LONGEST_S, keeping_apart, wait_until_counted
from experiments.bench.trends_results import Kills
from experiments.bench.trends_sizes import CAPACITY, PARTITIONS
from experiments.bench.trends_stages import WINDOW, Stage, slices
from experiments.bench.trends_truth import rows_of
from experiments.bench.workloads import zipf_stream
from hybrid.engine import Engine
from hybrid.errors import OutcomeUnknown, Overloaded, RedisUnavailable
from hybrid.link import Node, parse_url
from hybrid.trends.config import Trend, TrendConfig
from hybrid.trends.events import TrendBatch
from hybrid.trends.intake import IntakeSettings
from hybrid.trends.publishing import Row
from hybrid.trends.trends import Trends

_CONFIG = TrendConfig(capacity=2 * CAPACITY, partitions=PARTITIONS, windows=(WINDOW,))
_HASTY = IntakeSettings(timeout_s=0.1)
_PAUSE_S = 0.01  # of a sender after each request
_AGAIN = 0.1
_BODIES = 2_000  # different ones
_EXPONENT = 1.1


@dataclass(slots=True)
class Load:
    """Senders, and what was acknowledged to them so far."""

    trends: Trends
    trend: Trend
    bodies: list[pa.Array]
    dice: Random
    acknowledged: Counter[str] = field(default_factory=Counter)
    requests: int = 0
    retries: int = 0
    repeats: int = 0
    is_open: bool = True

    @asynccontextmanager
    async def sending(self, senders: int) -> AsyncIterator[None]:
        """Send until the end, and then wait until all of it is acknowledged."""
        async with asyncio.TaskGroup() as group:
            for sender in range(senders):
                group.create_task(self._send(sender))
            try:
                yield
            finally:
                self.is_open = False

    async def _send(self, sender: int) -> None:
        number = 0
        while self.is_open:
            items = self.bodies[self.dice.randrange(len(self.bodies))]
            name, number = f"{sender}-{number}", number + 1
            await self._send_until_certain(TrendBatch(items), name)
            self.requests += 1
            self.acknowledged.update(items.to_pylist())
            if self.dice.random() < _AGAIN:
                self.repeats += 1
                await self._send_until_certain(TrendBatch(items), name)
            await asyncio.sleep(_PAUSE_S)

    async def _send_until_certain(self, batch: TrendBatch, name: str) -> None:
        while True:
            try:
                await self.trends.submit(self.trend, batch, name)
                return
            except (OutcomeUnknown, Overloaded, RedisUnavailable):
                self.retries += 1
                await asyncio.sleep(_PAUSE_S)


async def measure_kills(stage: Stage) -> Kills:
    sizes, began_s = stage.sizes, now_s()
    async with (
        open_server(stage.job.data_dir, "always") as server,
        Engine(Node(parse_url(server.redis.url)), random=Random(stage.job.seed)) as engine,
    ):
        load = await _make_load(stage, engine)
        async with load.sending(sizes.senders):
            await _kill_all(stage, server, load.dice)
        events = load.acknowledged.total()
        async with keeping_apart(server.redis.url):
            counted = await wait_until_counted(load.trends, load.trend, events)
            top = await load.trends.top(load.trend, limit=load.trend.most_rows)
    lost, twice = compare(load.acknowledged, rows_of(top))
    return Kills(
        keeper_kills=sizes.keeper_kills,
        redis_kills=sizes.redis_kills,
        seconds=now_s() - began_s,
        requests=load.requests,
        retries=load.retries,
        repeats=load.repeats,
        events=events,
        counted=counted,
        lost=lost,
        twice=twice,
    )


def compare(acknowledged: Counter[str], rows: Sequence[Row]) -> tuple[int, int]:
    """Events that are surely missing, and events that are surely too many, item by item."""
    high, low = Counter({row.item: row.high for row in rows}), Counter({row.item: row.low for row in rows})
    return (acknowledged - high).total(), (low - acknowledged).total()


async def _make_load(stage: Stage, engine: Engine) -> Load:
    sizes, seed = stage.sizes, stage.job.seed
    hasty = Trends(
        engine.link, engine.schema, engine.boards, now_ms=engine.now_ms, random=engine.random, settings=_HASTY
    )
    trend, _ = await hasty.create("bench", _CONFIG)
    stream = zipf_stream(np.random.default_rng(seed), _BODIES * sizes.request_events, sizes.kill_items, _EXPONENT)
    return Load(hasty, trend, slices(stream.events, sizes.request_events), Random(seed))


async def _kill_all(stage: Stage, server: BenchServer, dice: Random) -> None:
    """One keeper after the other, each some time after it has begun, and now and then Redis meanwhile."""
    sizes = stage.sizes
    struck = set(dice.sample(range(sizes.keeper_kills), sizes.redis_kills))
    for number in stage.track(range(sizes.keeper_kills), "trends: kills"):
        async with keeping_apart(server.redis.url):
            if number in struck:
                await asyncio.sleep(dice.uniform(0, LONGEST_S))
                await _kill_redis(server, dice)
            await asyncio.sleep(dice.uniform(0, LONGEST_S))


async def _kill_redis(server: BenchServer, dice: Random) -> None:
    """Kill it, and start it again some time later."""
    os.kill(server.redis.pid, signal.SIGKILL)
    await asyncio.sleep(dice.uniform(0, LONGEST_S))
    while not await server.redis.revive():  # noqa: ASYNC110  # it may take a moment to die
        await asyncio.sleep(_PAUSE_S)
