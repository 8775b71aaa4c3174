"""Crowds: a board and who plays on it; filled through the record like any board, and written to at a steady pace."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import numpy as np

from experiments.bench.answers_shapes import Shape
from experiments.bench.answers_sizes import SHARDS, WRITE_BATCH, WRITE_PAUSE_S
from experiments.bench.answers_stands import Stand
from experiments.bench.batches import name_of
from experiments.bench.flights import fly
from experiments.bench.timing import now_s, wall_clock_ms
from hybrid.config import Board, BoardConfig
from hybrid.engine import Engine
from hybrid.events import Batch
from hybrid.windows import ALLTIME
from sketches.values import Ints

_BATCH, _IN_FLIGHT = 1_000, 32
_SPREAD_MS = 30 * 86_400_000
_SETTLE_S = 300.0


@dataclass(frozen=True, slots=True)
class Crowd:
    """Players number 0 up to `players`, with scores of one shape."""

    engine: Engine
    board: Board
    shape: Shape
    players: int
    rng: np.random.Generator

    def draw(self, n: int) -> list[str]:
        """n players, drawn uniformly, in fresh objects."""
        return [name_of(number) for number in self.rng.integers(0, self.players, n).tolist()]

    def make_batch(self, numbers: Ints, *, is_spread: bool = False) -> Batch:
        """A score for each of these players, from now or from any time of the last month."""
        n = len(numbers)
        ages_ms = self.rng.integers(0, _SPREAD_MS, n) if is_spread else None
        at_ms = None if ages_ms is None else (wall_clock_ms() - ages_ms).tolist()
        names = [name_of(number) for number in numbers.tolist()]
        return Batch(names, self.shape.draw(self.rng, n).tolist(), at_ms=at_ms)

    async def fill(self, updates: int = 0, *, is_spread: bool = False) -> None:
        """A score for everybody, and then so many updates a player on average."""
        await self._submit(self.rng.permutation(self.players), is_spread)
        await self._submit(self.rng.integers(0, self.players, updates * self.players), is_spread)

    async def settle(self, window: str = ALLTIME) -> None:
        """Wait until everything that was written is in the samples and in the top that answers are made from."""
        nobody = np.empty(0)
        async with asyncio.timeout(_SETTLE_S):
            while True:
                served = await self.engine.tail.served(self.board, window)
                counted = await self.engine.seek.count(self.board, window, nobody, [])
                if served.view and served.top and served.view.seq == served.top.seq == counted.seq:
                    return
                await asyncio.sleep(0.02)

    async def wait_for_samples(self, since_ms: int) -> None:
        """Wait until all shards of all windows were sampled since then; they must be written meanwhile."""
        async with asyncio.timeout(_SETTLE_S):
            for kind in self.board.config.windows:
                while await self._sampled_ms(self.board.window(kind, wall_clock_ms()).name) < since_ms:  # noqa: ASYNC110
                    await asyncio.sleep(0.02)

    async def _sampled_ms(self, window: str) -> int:
        view = (await self.engine.tail.served(self.board, window)).view
        return view.as_of_ms if view else -1

    async def _submit(self, numbers: Ints, is_spread: bool) -> None:
        parts = (numbers[at : at + _BATCH] for at in range(0, len(numbers), _BATCH))
        batches = (self.make_batch(part, is_spread=is_spread) for part in parts)
        await fly(lambda batch: self.engine.record.submit(self.board, batch), batches, _IN_FLIGHT)


async def make_crowd(stand: Stand, shape: Shape, players: int, *, name: str = "bench", **options: Any) -> Crowd:
    """A new board, with nobody on it yet."""
    board, _ = await stand.engine.boards.create(name, BoardConfig(shards=SHARDS, **options))
    return Crowd(stand.engine, board, shape, players, np.random.default_rng([stand.seed, *name.encode()]))


@dataclass(slots=True)
class Writer:
    """Scores written so far, and since when."""

    began_s: float
    scores: int = 0
    is_open: bool = True


@asynccontextmanager
async def writing(crowds: Sequence[Crowd], *, every: int = 1) -> AsyncIterator[Writer]:
    """Write scores to these boards in turn, at a steady pace, to one player in `every`; nothing to no boards."""
    writer = Writer(now_s())
    task = asyncio.create_task(_write(writer, cycle(crowds), every))
    try:
        yield writer
    finally:
        writer.is_open = False
        await task


async def _write(writer: Writer, crowds: Iterator[Crowd], every: int) -> None:
    """Submits are sent when they are due, whether or not those before are answered; what is late is caught up with."""

    async def submit(crowd: Crowd) -> None:
        numbers = crowd.rng.integers(0, crowd.players // every, WRITE_BATCH) * every
        outcomes = await crowd.engine.record.submit(crowd.board, crowd.make_batch(numbers))
        writer.scores += outcomes.accepted

    due_s = now_s()
    async with asyncio.TaskGroup() as group:
        for crowd in crowds:
            if not writer.is_open:
                return
            group.create_task(submit(crowd))
            due_s += WRITE_PAUSE_S
            await asyncio.sleep(max(due_s - now_s(), 0))
