"""What a default trend takes, at a steady pace: bytes that Redis appends, memory, and how long a question waits.

Events come as JSON, a hundred a request, from a process of its own; meanwhile somebody asks for the top of an hour, ten
times a second, over HTTP.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import aiohttp
import numpy as np

from experiments.bench.servers import BenchServer
from experiments.bench.service_processes import read_memory
from experiments.bench.timing import now_s
from experiments.bench.trends_processes import KEEPER, WORKER, find_process, sending_apart
from experiments.bench.trends_rates import Counting
from experiments.bench.trends_results import Pace
from experiments.bench.trends_sender import JSON
from experiments.bench.trends_sizes import K
from experiments.bench.trends_stages import WINDOW, Stage
from hybrid.trends.config import TrendConfig
from hybrid.trends.trends import Trends

_NAME = "bench-pace"
_ASK_S = 0.1


async def measure_pace(stage: Stage, server: BenchServer, trends: Trends, url: str) -> Pace:
    sizes = stage.sizes
    counting = Counting(trends, (await trends.create(_NAME, TrendConfig()))[0])
    events = round(sizes.pace * sizes.paced_s)
    numbers = (events, sizes.items, sizes.request_events, sizes.in_flight, sizes.pace, stage.job.seed)
    path = f"{url}/v1/trends/{_NAME}"
    async with sending_apart(f"{path}/events", JSON, *numbers) as sender, _asking(path) as latencies_s:
        before_bytes = await _aof_bytes(server)
        for _ in stage.track(range(1), "trends: a steady pace"):
            sent = await sender.send()
        after_bytes = await _aof_bytes(server)
        keeper_bytes, worker_bytes = (read_memory(find_process(module)) for module in (KEEPER, WORKER))
        await counting.reach(events)
    p50_s, p99_s = np.quantile(latencies_s, [0.5, 0.99]).tolist()
    return Pace(
        events=sent.accepted,
        seconds=sent.seconds,
        missing=sent.accepted - counting.total,
        aof_bytes=after_bytes - before_bytes,
        keeper_bytes=keeper_bytes,
        worker_bytes=worker_bytes,
        asked=len(latencies_s),
        p50_s=p50_s,
        p99_s=p99_s,
    )


@asynccontextmanager
async def _asking(path: str) -> AsyncIterator[list[float]]:
    """Somebody who asks again and again; how long he waited, but for the first time, when the keeper has to notice."""
    latencies_s: list[float] = []
    async with aiohttp.ClientSession() as session:
        await _ask(session, path)
        task = asyncio.create_task(_ask_on(session, path, latencies_s))
        try:
            yield latencies_s
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def _ask_on(session: aiohttp.ClientSession, path: str, latencies_s: list[float]) -> None:
    while True:
        latencies_s.append(await _ask(session, path))
        await asyncio.sleep(_ASK_S)


async def _ask(session: aiohttp.ClientSession, path: str) -> float:
    asked_s = now_s()
    async with session.get(f"{path}/top?window={WINDOW}&limit={K}") as answer:
        answer.raise_for_status()
        await answer.read()
    return now_s() - asked_s


async def _aof_bytes(server: BenchServer) -> int:
    return int((await server.info("persistence"))["aof_current_size"])
