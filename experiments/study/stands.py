"""A real board on a Redis of its own, filled with scores through the record and sampled by a keeper."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

from experiments.bench.answers_stands import keeping
from experiments.bench.flights import fly
from experiments.bench.servers import BenchServer, open_server
from experiments.study.workloads import Scores
from hybrid.config import Board, BoardConfig
from hybrid.engine import Engine
from hybrid.events import Batch
from hybrid.keeper import KeeperSettings
from hybrid.link import Node, parse_url
from hybrid.standing import Rows
from hybrid.windows import ALLTIME
from sketches.values import Ints

SETTLE_S = 60.0
NAME_BYTES = 12

_BATCH, _IN_FLIGHT, _ASKED = 1_000, 32, 5_000
_EAGER = KeeperSettings(pause_s=0.02, share=1.0)


@dataclass(frozen=True, slots=True)
class Stand:
    """A server of its own, and an engine."""

    server: BenchServer
    engine: Engine

    async def fill(self, name: str, config: BoardConfig, scores: Scores, name_bytes: int = NAME_BYTES) -> Board:
        """A board on which each of these scores is a player's."""
        board, _ = await self.engine.boards.create(name, config)
        values: list[Any] = scores.values.tolist() if scores.decimals else scores.points.tolist()
        parts = range(0, len(values), _BATCH)
        batches = (
            Batch(names_of(range(at, min(at + _BATCH, len(values))), name_bytes), values[at : at + _BATCH])
            for at in parts
        )
        await fly(lambda batch: self.engine.record.submit(board, batch), batches, _IN_FLIGHT)
        return board

    async def settle(self, board: Board) -> None:
        """Wait until answers come from samples of everything that was written, or from a top that has everybody."""
        async with keeping(self.engine, _EAGER), asyncio.timeout(SETTLE_S):
            while True:
                served = await self.engine.tail.served(board, ALLTIME)
                counted = await self.engine.seek.count(board, ALLTIME, np.empty(0), [])
                top, view = served.top, served.view
                if top and top.seq == counted.seq and (top.has_all or (view and view.seq == counted.seq)):
                    return
                await asyncio.sleep(0.02)

    async def ask(self, board: Board, players: Ints, name_bytes: int = NAME_BYTES) -> list[Rows]:
        """What is served of these players, in as many parts as questions."""
        parts = np.array_split(players, max(-(-len(players) // _ASKED), 1))
        names = [names_of(part.tolist(), name_bytes) for part in parts]
        return [await self.engine.standings.of_players(board, each) for each in names]


@asynccontextmanager
async def open_stand(seed: int) -> AsyncIterator[Stand]:
    """A stand on a server that is gone afterwards."""
    async with open_server(None, fsync="no") as server, join_server(server, seed) as stand:
        yield stand


@asynccontextmanager
async def join_server(server: BenchServer, seed: int) -> AsyncIterator[Stand]:
    """A stand on a server that others use as well."""
    async with Engine(Node(parse_url(server.redis.url)), random=Random(seed)) as engine:
        yield Stand(server, engine)


def names_of(numbers: Sequence[int], name_bytes: int = NAME_BYTES) -> list[str]:
    """Players by number, in names of one length."""
    return [f"p{number:0{name_bytes - 1}d}" for number in numbers]
