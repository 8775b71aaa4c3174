"""Where a round of writes takes place: a server, who writes to it, and what everybody is sent.

The engine's record tells its top of every group; a second record without a top shows what that costs.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from random import Random
from typing import TypeVar

import numpy as np

from experiments.bench.batches import draw_players, make_batches
from experiments.bench.boards import measure_logs
from experiments.bench.flights import Flight, fly
from experiments.bench.parts import Job
from experiments.bench.raw import Pipes
from experiments.bench.record_results import SHARDS, Sizes, WriteSpeed
from experiments.bench.servers import BenchServer, open_server
from experiments.bench.timing import wall_clock_ms
from hybrid.config import Board, BoardConfig
from hybrid.engine import Engine
from hybrid.events import Batch
from hybrid.keys import Keys
from hybrid.link import Node, parse_url
from hybrid.log import LogEntry
from hybrid.record import Record, RecordSettings

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Stand:
    """`alone` is a record without a top. `board` is a `best` board with all scores in it, and `log_bytes` what an event
    of it takes in the log."""

    server: BenchServer
    engine: Engine
    alone: Record
    pipes: Pipes
    sizes: Sizes
    seed: int
    board: Board
    log_bytes: float

    def make_batches(self, *, has_ids: bool = False) -> list[Batch]:
        """The scores that every contestant is sent, in fresh objects."""
        numbers = draw_players(self.seed, self.sizes.players, self.sizes.scores)
        return make_batches(numbers, self.seed, self.sizes.batch, has_ids=has_ids)

    async def time(
        self, name: str, send: Callable[[T], Awaitable[R]], batches: Iterable[T], in_flight: int
    ) -> tuple[WriteSpeed, list[R]]:
        """How long it took to send everything, and the answers."""
        before_s = await self.server.processor_s()
        flight: Flight[R] = await fly(send, batches, in_flight)
        redis_s = await self.server.processor_s() - before_s
        row = WriteSpeed(name, in_flight, self.sizes.scores, flight.seconds, flight.python_s, redis_s, 0)
        return row, flight.answers

    async def count_missing(self, records: list[str]) -> int:
        """Players who have no record in these keys, though they should."""
        numbers = draw_players(self.seed, self.sizes.players, self.sizes.scores)
        stored: list[int] = await self.server.ask_all([("ZCARD", key) for key in records])
        return len(np.unique(numbers)) - sum(stored)


@asynccontextmanager
async def open_stand(sizes: Sizes, job: Job) -> AsyncIterator[Stand]:
    """A stand on a new server, warmed up: connections are open, and Redis knows the script."""
    async with (
        open_server(job.data_dir) as server,
        Engine(Node(parse_url(server.redis.url)), random=Random(job.seed)) as engine,
        Pipes(server.redis.url) as pipes,
    ):
        dice, settings = Random(job.seed), RecordSettings()
        alone = Record(engine.link, Keys(), now_ms=wall_clock_ms, random=dice, settings=settings, follow=_leave_alone)
        board, _ = await engine.boards.create("warm-up", BoardConfig(shards=SHARDS))
        cold = Stand(server, engine, alone, pipes, sizes, job.seed, board, 0.0)
        await fly(lambda batch: engine.record.submit(board, batch), cold.make_batches(), sizes.in_flight)
        yield replace(cold, log_bytes=await measure_logs(server, board) / sizes.scores)


async def _leave_alone(board: Board, shard: int, entry: LogEntry) -> None:
    """What a record without a top tells of its entries."""
