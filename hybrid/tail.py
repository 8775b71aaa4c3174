"""The tail: samples of every shard, published by the keeper and read by whoever answers.

    sample   one shard of a window is sampled and published, in one script (lua/sample.lua)
    served   what answers are made from: the view of all shards, and down to where the top can be trusted. Looked at
             again every tenth of a second; a shard whose samples have not changed is not loaded again

Whoever reads a window says so in Redis, and the keeper samples what was asked for within the last minute. A window
that nobody reads costs nothing.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from hybrid.config import Board
from hybrid.keys import Keys
from hybrid.link import Argument, Link
from hybrid.orderkey import Keys as OrderKeys
from hybrid.orderkey import OrderKey
from hybrid.reading import Question, ask_all, run_all
from hybrid.samples import (
    PARTS,
    SLOPE,
    STEEP,
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
    _up_to: dict[float, int | None] = field(default_factory=dict)

    def up_to(self, floor: float, key: OrderKey) -> int | None:
        """How many have the score of a floor or a better one, None if the samples do not say; worked out once."""
        if floor not in self._up_to and self.view is not None:
            counts = self.view.up_to(key.worst(key.points(np.array([floor]))))
            self._up_to[floor] = int(counts.low[0]) if counts.low[0] == counts.high[0] else None
        return self._up_to.get(floor)


class Tail:
    """The samples of all boards behind one link."""

    def __init__(
        self,
        link: Link,
        schema: Keys,
        top: Top,
        *,
        now_ms: Callable[[], int],
        fresh_s: float,
        is_silent: bool = False,
    ) -> None:
        self._link = link
        self._schema = schema
        self._top = top
        self._now_ms = now_ms
        self._fresh_s = fresh_s
        self._is_silent = is_silent
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
        first = 0.0  # nobody's key
        if np.isfinite(floor.key):
            first = floor.key
            points = board.key.decode(np.array([first])).points
            bounds = np.union1d(bounds, score_bounds(points, board.key))
        args: list[Argument] = [board.id, window, PARTS, SLOPE, STEEP, first, *bounds.tolist()]
        # It writes, and may be asked again all the same: whatever it publishes is true.
        calls = [([keys.meta, keys.record(window), keys.samples(window)], args)]
        (reply,) = await run_all(self._link, SAMPLE, calls)
        return reply if isinstance(reply, bytes) else None

    async def _load(self, board: Board, window: str, before: Served | None) -> Served:
        loaded_s = asyncio.get_running_loop().time()
        known = before.shards if before else (None,) * len(board.tags)
        await self._say_wanted(board, window)
        top = await self._top.leaders(board, window, [], np.empty(0))
        shards = await self._load_shards(board, window, known)
        view = before.view if before else None
        if before is None or any(new is not old for new, old in zip(shards, known, strict=True)):
            here = [samples for samples in shards if samples is not None]
            view = View.of_samples(here, board.key) if len(here) == len(shards) else None
        return Served(view, top, tuple(shards), loaded_s)

    async def _load_shards(self, board: Board, window: str, known: Sequence[Samples | None]) -> list[Samples | None]:
        """The samples of all shards; those already known where they are still the published ones."""
        shards = [self._schema.shard(tag) for tag in board.tags]
        questions: list[Question] = []
        for keys in shards:
            questions.append((keys.meta, ("GETRANGE", keys.samples(window), 0, HEAD_BYTES)))
            questions.append((keys.meta, ("EXISTS", keys.record(window))))
            questions.append((keys.meta, ("HGET", keys.meta, "last")))
        replies = await ask_all(self._link, questions)
        found = list(map(self._keep, known, replies[::3], replies[1::3], replies[2::3]))
        fresh = [place for place, samples in enumerate(found) if samples is None and replies[3 * place]]
        texts = await ask_all(self._link, [(shards[p].meta, ("GET", shards[p].samples(window))) for p in fresh])
        for place, text in zip(fresh, texts, strict=True):
            found[place] = parse_samples(text) if text else None
        return found

    def _keep(self, known: Samples | None, head: bytes, has_records: bool, last: bytes | None) -> Samples | None:
        """Samples that need not be loaded: the known ones if nothing is newer, or none of nobody."""
        now = head.split(b" ", 1)[0] if has_records else last or b"0-0"
        if known is not None and known.last.encode() == now and bool(known.players) == bool(has_records):
            return known
        return None if has_records else make_samples(np.empty(0), [], last=now.decode(), as_of_ms=self._now_ms())

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
        if self._is_silent or now_ms - self._said_ms.get(name, 0) < _SAY_AGAIN_MS:
            return
        key = self._schema.wanted
        await ask_all(self._link, [(key, ("ZADD", key, now_ms, f"{board.id} {board.name} {window}"))])
        self._said_ms[name] = now_ms
