"""Trends when processes are killed and frozen under load: nothing acknowledged is lost, nothing counted twice."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from unittest.mock import patch

import pytest

from hybrid.embedded import EmbeddedRedis
from hybrid.engine import make_link
from hybrid.errors import OutcomeUnknown, Overloaded, RedisUnavailable
from hybrid.trends import keeper as keeper_module
from hybrid.trends.config import TrendConfig
from hybrid.trends.keeper import TrendKeeper
from tests.engines import Clock
from tests.redis_cluster import eventually, kill
from tests.trends_oracle import Event
from tests.trends_world import World, keeping_at_once

CONFIG = TrendConfig(capacity=64, partitions=2)
WRITERS = 4


class Load:
    """Writers that send one named request after the other, each until it is acknowledged."""

    def __init__(self, world: World) -> None:
        self.world, self.acknowledged, self.sent_again, self.is_over = world, 0, 0, False

    async def write(self, writer: int) -> None:
        number = 0
        while not self.is_over:
            number += 1
            events = self.world.make_events(200 if number % 10 == 0 else 5)
            while not await self._is_taken(events, f"{writer} {number}"):
                self.sent_again += 1
            self.world.naive.add(events)
            self.acknowledged += 1
            await asyncio.sleep(0.005)

    async def _is_taken(self, events: list[Event], name: str) -> bool:
        try:
            await self.world.send(events, name)
        except (OutcomeUnknown, RedisUnavailable, Overloaded):
            await asyncio.sleep(0.02)
            return False
        if self.world.dice.random() < 0.1:  # as one does who did not get the answer
            self.sent_again += 1
            await self.world.send(events, name)
        return True

    async def goes_on(self, requests: int = 20) -> None:
        """Until so many more were acknowledged."""
        wanted = self.acknowledged + requests
        await eventually(lambda: _is(self.acknowledged >= wanted), within_s=30)


async def _is(what: bool) -> bool:
    return what


@asynccontextmanager
async def loaded_world(url: str, prefix: str) -> AsyncIterator[tuple[World, Load]]:
    """A trend under load; in the end, with the load over, all of it is compared with the oracle."""
    world = World(make_link(url), Clock(time.time_ns() // 1_000_000), prefix)
    await world.start(CONFIG)
    load = Load(world)
    writers = [asyncio.create_task(load.write(writer)) for writer in range(WRITERS)]
    try:
        yield world, load
    finally:
        load.is_over = True
        await asyncio.gather(*writers)
    world.clock.now_ms = time.time_ns() // 1_000_000
    await world.check()
    assert load.sent_again
    await world.link.close()


async def positions(world: World) -> list[bytes]:
    keys = [world.engine.schema.partition(tag).position for tag in world.trend.tags]
    return [(await world.link.run(key, [("HGET", key, "at")]))[0] for key in keys]


async def has_kept_more(world: World) -> None:
    """Until somebody wrote panes and positions of all partitions."""
    before = await positions(world)

    async def is_so() -> bool:
        return all(old != new for old, new in zip(before, await positions(world), strict=True))

    await eventually(is_so, within_s=30)


@contextmanager
def keeper_process(url: str, prefix: str, *, keep_s: float) -> Iterator[subprocess.Popen[bytes]]:
    command = (sys.executable, "-m", "tests.faults.trend_keeper", url, prefix, str(keep_s))
    with subprocess.Popen(command, cwd=Path(__file__).parents[2]) as process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)


def test_a_killed_redis_loses_no_event_and_counts_none_twice(tmp_path: Path) -> None:
    async def main() -> None:
        redis = EmbeddedRedis(tmp_path / "r", fsync="always")
        async with redis, loaded_world(redis.url, "k") as (world, load):
            engine = world.make_engine(make_link(redis.url))
            keeping = asyncio.create_task(TrendKeeper(engine.trends).run())
            try:
                for _ in range(10):
                    await load.goes_on()
                    await has_kept_more(world)
                    kill(redis)
                    await eventually(redis.revive, within_s=10)
            finally:
                keeping.cancel()
                await asyncio.gather(keeping, return_exceptions=True)
                await engine.link.close()

    with keeping_at_once(), patch.object(keeper_module, "TICK_S", 0.05), patch.object(keeper_module, "_LOOK_S", 0.02):
        asyncio.run(main())


@pytest.mark.slow
def test_a_keeper_that_is_killed_twenty_times_loses_no_event_and_counts_none_twice(tmp_path: Path) -> None:
    async def main() -> None:
        redis = EmbeddedRedis(tmp_path / "r", fsync="no")
        async with redis, loaded_world(redis.url, "k") as (world, load):
            for _ in range(20):
                with keeper_process(redis.url, "k", keep_s=0.05):
                    await has_kept_more(world)
                    await load.goes_on(world.dice.randint(1, 10))

    asyncio.run(main())


@pytest.mark.slow
def test_a_keeper_that_was_frozen_beyond_its_lease_overwrites_nothing_when_it_wakes_up(tmp_path: Path) -> None:
    async def main() -> None:
        redis = EmbeddedRedis(tmp_path / "r", fsync="no")
        async with redis, loaded_world(redis.url, "k") as (world, load):
            with (
                keeper_process(redis.url, "k", keep_s=0.3) as first,
                keeper_process(redis.url, "k", keep_s=0.3) as second,
            ):
                await has_kept_more(world)
                for frozen in (first, second) * 3:
                    os.kill(frozen.pid, signal.SIGSTOP)
                    await has_kept_more(world)  # by the other one, at the latest when the lease was over
                    await has_kept_more(world)
                    os.kill(frozen.pid, signal.SIGCONT)
                    await load.goes_on(30)
                    world.clock.now_ms = time.time_ns() // 1_000_000
                assert first.poll() is None
                assert second.poll() is None

    asyncio.run(main())
