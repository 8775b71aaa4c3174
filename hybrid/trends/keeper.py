"""The keeper of trends: folds what came in, and publishes the windows that somebody asks for, once a second.

A tick sums up everything that came in since the last one, however many requests that was: the sketches are the better
for it. Every step is safe whoever does it (partition.py); who is no longer the one who keeps house forgets what he has
in memory.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
from redis.exceptions import ResponseError

from hybrid.errors import BoardNotFound, HybridError
from hybrid.link import Command
from hybrid.reading import ask_all
from hybrid.trends.config import Trend
from hybrid.trends.partition import Partition, Sums
from hybrid.trends.publishing import make_board, make_whole
from hybrid.trends.trends import ALL, TOP, WATCHED_MS, Trends

log = logging.getLogger(__name__)

TICK_S = 1.0
_LOOK_S = 0.1  # between looks for somebody who is the first to ask
_MOST_BATCHES = 64  # that are folded before others get their turn
_IDLE_MS = 300_000  # what was neither fed nor watched for so long is let go from memory
_PUBLISHED_MS = 600_000  # how long a window stays when nobody asks for it any more
_PAGE = 1_000

_FAILURES = (HybridError, ResponseError)


class TrendTick(NamedTuple):
    """How one trend stands after a tick: what became of all its events, and the floor of its first window."""

    trend: str
    sums: Sums
    floor: int


class Watch(NamedTuple):
    """What somebody asks for: a window of a trend in one form."""

    trend_id: str
    window: str
    form: str


@dataclass(slots=True)
class _Kept:
    """A trend that the keeper counts; `marks` tell how far each partition had come when it was folded, all of it."""

    trend: Trend
    partitions: Sequence[Partition]
    marks: dict[int, bytes | None] = field(default_factory=dict)
    used_ms: int = 0


class TrendKeeper:
    """Counts all trends behind one door. `has_lease` says whether this is the one who keeps house."""

    def __init__(
        self,
        trends: Trends,
        *,
        has_lease: Callable[[], bool] = lambda: True,
        on_tick: Callable[[list[TrendTick]], None] = lambda _: None,
    ) -> None:
        self._trends, self._has_lease, self._on_tick = trends, has_lease, on_tick
        self._kept: dict[str, _Kept] = {}
        self._watches: set[Watch] = set()
        self._orphans: set[str] = set()  # trends whose board is gone
        self._folded_ms = 0

    async def run(self) -> None:
        """Count until cancelled."""
        loop, next_s = asyncio.get_running_loop(), 0.0
        try:
            while True:
                try:
                    if not self._has_lease():
                        self._kept.clear()
                    elif loop.time() >= next_s:
                        next_s = loop.time() + TICK_S
                        await self.tick()
                    else:
                        await self._greet()
                except _FAILURES as error:
                    log.warning("keeper of trends could not finish a tick: %s", error)
                await asyncio.sleep(_LOOK_S)
        finally:
            if self._has_lease():
                await self.close()

    async def tick(self) -> None:
        """Fold what came in, keep what is due, publish what is watched."""
        kept = await self._open()
        self._folded_ms = self._trends.now_ms()
        marks = await self._marks(kept)
        self._watches = await self._read_watches()
        for each in kept:
            for number, partition in enumerate(each.partitions):
                try:
                    await self._fold(each, number, partition, marks[each.trend.id][number])
                except _FAILURES as error:
                    each.marks.pop(number, None)
                    log.warning("partition %d of trend %s: %s", number, each.trend.name, error)
        await self._publish(self._watches)
        self._on_tick([_describe(each, self._folded_ms) for each in kept])

    async def close(self) -> None:
        """Keep whatever was folded, so that the next one need not fold it again."""
        for each in self._kept.values():
            for partition in each.partitions:
                try:
                    if partition.is_open:
                        await partition.keep(self._trends.now_ms(), is_due=True)
                except _FAILURES as error:
                    log.warning("a partition of trend %s was not kept: %s", each.trend.name, error)
        self._kept.clear()

    async def _open(self) -> list[_Kept]:
        """All trends that there are."""
        trends: list[Trend] = []
        while page := await self._trends.list(limit=_PAGE, after=trends[-1].name if trends else ""):
            trends += page
        kept = {}
        for trend in trends:
            try:
                kept[trend.id] = self._kept.get(trend.id) or _Kept(trend, await self._trends.open_partitions(trend))
            except BoardNotFound as error:
                if trend.id not in self._orphans:
                    log.warning("trend %s is counted no longer: %s", trend.name, error)
                self._orphans.add(trend.id)
        self._kept = kept
        return list(kept.values())

    async def _marks(self, kept: list[_Kept]) -> dict[str, list[bytes | None]]:
        """For each partition what tells whether something came in, asked in one go."""
        schema = self._trends.schema
        questions: list[tuple[str, Command]] = []
        for each in kept:
            fed = [(schema.shard(tag).meta, "last") for tag in each.trend.feed]
            own = [(schema.partition(tag).meta, "seq") for tag in each.trend.tags]
            questions += [(key, ("HGET", key, name)) for key, name in fed or own]
        found = iter(await ask_all(self._trends.link, questions))
        return {each.trend.id: [next(found) for _ in each.partitions] for each in kept}

    async def _fold(self, each: _Kept, number: int, partition: Partition, mark: bytes | None) -> None:
        if number in each.marks and each.marks[number] == mark:
            if await self._rest(each, partition):
                return
            del each.marks[number]
        each.used_ms = now_ms = self._folded_ms
        for _ in range(_MOST_BATCHES):
            has_more = await partition.fold(now_ms)
            await partition.keep(now_ms)
            if not has_more and partition.is_open:
                each.marks[number] = mark
                break

    async def _rest(self, each: _Kept, partition: Partition) -> bool:
        """Nothing came in: keep what is due. False if somebody else has kept something: then all is to be looked at."""
        if not partition.is_open:
            return True  # it was let go when everything was kept
        is_idle = self._folded_ms - each.used_ms > _IDLE_MS
        await partition.keep(self._folded_ms, is_due=is_idle)
        is_ours = partition.is_open
        if is_idle:
            partition.forget()
        return is_ours

    async def _greet(self) -> None:
        """Publish for those who are the first to ask, before the next tick."""
        new = await self._read_watches() - self._watches
        self._watches |= new
        await self._publish(new)

    async def _read_watches(self) -> set[Watch]:
        key, long_ago_ms = self._trends.schema.watched, self._trends.now_ms() - WATCHED_MS
        commands: list[Command] = [("ZREMRANGEBYSCORE", key, "-inf", f"({long_ago_ms}"), ("ZRANGE", key, 0, -1)]
        _, members = await self._trends.link.run(key, commands)
        return {Watch(*member.decode().split(" ")) for member in members}

    async def _publish(self, watches: Collection[Watch]) -> None:
        for watch in sorted(watches):
            each = self._kept.get(watch.trend_id)
            if each is None or watch.window not in each.trend.config.windows:
                continue
            if len(each.marks) < len(each.partitions):
                continue  # some of it could not be folded: what was published before at least says how old it is
            each.used_ms = self._folded_ms
            for partition in each.partitions:
                await partition.open()
            await self._publish_one(each, watch)

    async def _publish_one(self, each: _Kept, watch: Watch) -> None:
        trend, span, keys = each.trend, each.trend.span(watch.window), self._trends.schema.trend(watch.trend_id)
        if watch.form == TOP:
            hidden = await self._trends.hidden(trend)
            key, board = keys.top(watch.window), make_board(trend, span, each.partitions, hidden, self._folded_ms)
            published = msgspec.msgpack.encode(board)
        elif watch.form == ALL:
            key, whole = keys.all(watch.window), make_whole(trend, span, each.partitions, self._folded_ms)
            published = msgspec.msgpack.encode(whole)
        else:
            return
        await self._trends.link.run(key, [("SET", key, published, "PX", _PUBLISHED_MS)])


def _describe(each: _Kept, now_ms: int) -> TrendTick:
    sums = [partition.sums.get(each.trend.bucket_ms, Sums()) for partition in each.partitions]
    total = Sums(*(sum(getattr(one, name) for one in sums) for name in Sums.__struct_fields__))
    span = each.trend.span(None)
    floors = [
        sum(pane.heavy.floor for pane in partition.panes(span.pane_ms, span.panes_at(now_ms)).values())
        for partition in each.partitions
    ]
    return TrendTick(each.trend.name, total, max(floors))
