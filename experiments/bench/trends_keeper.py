"""A keeper of trends by itself: `python -m experiments.bench.trends_keeper URL`.

It does what the service's keeper does, only more often, so that whoever kills it meets it at every step: it ticks
without a pause, and every few ticks it writes what it has, forgets it and loads it again. It says a line when it has
begun, and ends when stdin does, if it is not killed before.
"""

import asyncio
import logging
import sys
from contextlib import suppress
from itertools import count

from redis.exceptions import ResponseError

from experiments.bench.flights import run
from hybrid.engine import Engine, make_link
from hybrid.errors import HybridError
from hybrid.trends.keeper import TrendKeeper

_TICKS = 3  # from one write to the next
_PAUSE_S = 0.01


async def keep(url: str) -> None:
    async with Engine(make_link(url)) as engine:
        task = asyncio.create_task(_tick(TrendKeeper(engine.trends)))
        await asyncio.to_thread(sys.stdin.read)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _tick(keeper: TrendKeeper) -> None:
    for number in count():
        with suppress(HybridError, ResponseError):  # Redis is killed as well
            await keeper.tick()
            if number % _TICKS == 0:
                await keeper.close()
        if number == 0:
            sys.stdout.write("begun\n")
            sys.stdout.flush()
        await asyncio.sleep(_PAUSE_S)


if __name__ == "__main__":
    logging.disable()  # that Redis is gone, again and again
    run(keep(*sys.argv[1:]))
