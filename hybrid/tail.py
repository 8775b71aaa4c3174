"""The tail: samples of every shard, published by the keeper and read by whoever answers.

    sample   one shard of a window is sampled and published, in one script (lua/sample.lua)
    served   what answers are made from: the view of all shards, and down to where the top can be trusted. Looked at
             again every quarter of a second; a shard whose samples have not changed is not loaded again

Whoever reads a window says so in Redis, and the keeper samples what was asked for within the last minute. A window
that nobody reads costs nothing.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hybrid.config import Board
from hybrid.keys import Keys
from hybrid.link import Argument, Command, Link
from hybrid.log import render_keys
from hybrid.orderkey import Keys as OrderKeys
from hybrid.samples import (
    PARTS,
    SLOPE,
    Samples,
    heavy_bounds,
    is_missing,
    make_samples,
    parse_samples,
    score_bounds,
)
from hybrid.scripts import SAMPLE
from hybrid.top import Leaders, Top
from hybrid.view import View

WANTED_MS = 60_000  # how long after it was asked for a window is sampled
HEAD_BYTES = 63  # of published samples: enough for the id of a log entry

_SAY_AGAIN_MS = 15_000
_MOST_VIEWS = 256  # kept in memory; about 1 MB each


@dataclass(frozen=True, slots=True)
class Served:
    """What answers are made from: `view` is None while there are no samples, `top` while nothing is proved."""

    view: View | None
    top: Leaders | None
    shards: tuple[Samples | None, ...]
    loaded_s: float


class Tail:
    """The samples of all boards behind one link."""

    def __init__(self, link: Link, schema: Keys, top: Top, *, now_ms: Callable[[], int], fresh_s: float) -> None:
        self._link = link
        self._schema = schema
        self._top = top
        self._now_ms = now_ms
        self._fresh_s = fresh_s
        self._served: OrderedDict[tuple[str, str], Served] = OrderedDict()
        self._loading: dict[tuple[str, str], asyncio.Task[Served]] = {}
        self._said_ms: dict[tuple[str, str], int] = {}
        self._bounds: dict[tuple[str, str], OrderKeys] = {}

    async def served(self, board: Board, window: str) -> Served:
        """What answers of this window are made from; a moment old at most."""
        name = (board.id, window)
        served = self._served.get(name)
        age_s = asyncio.get_running_loop().time() - served.loaded_s if served else 0.0
        if served and age_s < self._fresh_s:
            self._served.move_to_end(name)
            return served
        task = self._loading.get(name)
        if task is None:
            task = self._loading[name] = asyncio.create_task(self._load(board, window, served))
            task.add_done_callback(lambda done: self._loaded(name, done))
        # Nobody waits for a look that is only a little late.
        return served if served and age_s < 2 * self._fresh_s else await asyncio.shield(task)

    async def sample(self, board: Board, shard: int, window: str) -> Samples | None:
        """Sample a shard and publish that; None if it has no such window."""
        name = (board.tags[shard], window)
        bounds = self._bounds.get(name, np.empty(0))
        for _ in range(2):
            text = await self._run_sampler(board, shard, window, bounds)
            if text is None:
                self._bounds.pop(name, None)
                return None
            samples = parse_samples(text)
            bounds = self._bounds[name] = heavy_bounds(samples, board.key)
            if not is_missing(samples, board.key):
                break
        return samples

    def forget(self, board: Board) -> None:
        """A deleted board is served no more."""
        for name in [name for name in self._served if name[0] == board.id]:
            del self._served[name]
        for name in [name for name in self._bounds if name[0] in board.tags]:
            del self._bounds[name]

    async def _run_sampler(self, board: Board, shard: int, window: str, bounds: OrderKeys) -> bytes | None:
        keys = self._schema.shard(board.tags[shard])
        floor = self._top.known_floor(board, window)
        if np.isfinite(floor.key):
            points = board.key.decode(np.array([floor.key])).points
            bounds = np.union1d(bounds, score_bounds(points, board.key))
        args: list[Argument] = [board.id, window, PARTS, SLOPE, *render_keys(bounds)]
        reply = await SAMPLE.run(self._link, [keys.meta, keys.record(window), keys.samples(window)], args)
        return reply if isinstance(reply, bytes) else None

    async def _load(self, board: Board, window: str, before: Served | None) -> Served:
        loaded_s = asyncio.get_running_loop().time()
        known = before.shards if before else (None,) * len(board.tags)
        await self._say_wanted(board, window)
        top = await self._top.leaders(board, window, [], np.empty(0))
        shards = await asyncio.gather(
            *(self._load_shard(tag, window, samples) for tag, samples in zip(board.tags, known, strict=True))
        )
        view = before.view if before else None
        if before is None or any(new is not old for new, old in zip(shards, known, strict=True)):
            here = [samples for samples in shards if samples is not None]
            view = View.of_samples(here, board.key) if len(here) == len(shards) else None
        return Served(view, top, tuple(shards), loaded_s)

    async def _load_shard(self, tag: str, window: str, known: Samples | None) -> Samples | None:
        """The samples of a shard, the ones already known if they are still the published ones."""
        keys = self._schema.shard(tag)
        commands: list[Command] = [
            ("GETRANGE", keys.samples(window), 0, HEAD_BYTES),
            ("EXISTS", keys.record(window)),
            ("HGET", keys.meta, "last"),
        ]
        head, has_records, last = await self._link.run(keys.meta, commands)
        if not has_records:
            is_same = known is not None and known.players == 0 and known.last.encode() == last
            return (
                known if is_same else make_samples(np.empty(0), last=(last or b"0-0").decode(), as_of_ms=self._now_ms())
            )
        if not head:
            return None
        if known is not None and head.split(b" ", 1)[0] == known.last.encode():
            return known
        (text,) = await self._link.run(keys.meta, [("GET", keys.samples(window))])
        return parse_samples(text) if text else None

    def _loaded(self, name: tuple[str, str], task: asyncio.Task[Served]) -> None:
        del self._loading[name]
        if task.cancelled() or task.exception() is not None:
            return  # whoever waits for it is told; whoever comes next tries again
        self._served[name] = task.result()
        self._served.move_to_end(name)
        while len(self._served) > _MOST_VIEWS:
            self._served.popitem(last=False)

    async def _say_wanted(self, board: Board, window: str) -> None:
        name, now_ms = (board.id, window), self._now_ms()
        if now_ms - self._said_ms.get(name, 0) < _SAY_AGAIN_MS:
            return
        key = self._schema.wanted
        await self._link.run(key, [("ZADD", key, now_ms, f"{board.id} {board.name} {window}")])
        self._said_ms[name] = now_ms
