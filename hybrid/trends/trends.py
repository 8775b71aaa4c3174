"""Trends behind one door: made and found, fed, asked.

    trend, _ = await trends.create("clicks", TrendConfig())
    await trends.submit(trend, TrendBatch(["a", "b", "a"]))
    board = await trends.top(trend, "1h", by="count", limit=10)

Whoever asks reads what the keeper has merged. The first one to ask in a while waits until the keeper has seen that
somebody does.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from hybrid.boards import Boards
from hybrid.errors import BoardNotFound, Conflict, InvalidField, RedisUnavailable, TrendNotFound
from hybrid.keys import Keys, make_tags
from hybrid.link import Command, Link
from hybrid.reading import ask_all
from hybrid.registry import Registry, make_id
from hybrid.trends.config import Trend, TrendConfig, check_config, check_trend_name
from hybrid.trends.events import TrendBatch, check_item
from hybrid.trends.intake import Intake, IntakeSettings, Taken
from hybrid.trends.ladder import Span
from hybrid.trends.partition import Kept, Partition, Sums
from hybrid.trends.publishing import Board, Head, Order, Row, Whole, bounds_in, order_rows
from hybrid.trends.sources import START, BoardLog, OwnStream, Source

WATCHED_MS = 60_000  # for so long after a question the keeper publishes the window
FRESH_S = 0.25  # how old may be what a worker has, before it reads again
OLD_MS = 2_500  # what is older was left over from when somebody asked last
PATIENCE_S = 3.0  # how long a question waits for the keeper
MAX_HIDDEN = 10_000
_POLL_S = 0.05
TOP, ALL = "top", "all"

Form = TypeVar("Form", Board, Whole)


class TopRow(NamedTuple):
    """A row of an answer; `is_guaranteed`: it is surely among the first `limit`, whatever the errors hide."""

    row: Row
    is_guaranteed: bool


class Top(NamedTuple):
    """A board: the window, and its rows in the order that was asked for."""

    head: Head
    rows: list[TopRow]


class Found(NamedTuple):
    """What a window says of one item."""

    head: Head
    item: str
    low: int
    high: int


class Trends:
    """All trends under one prefix."""

    def __init__(
        self,
        link: Link,
        schema: Keys,
        boards: Boards,
        *,
        now_ms: Callable[[], int],
        random: random.Random,
        settings: IntakeSettings | None = None,
        fresh_s: float = FRESH_S,
    ) -> None:
        self.link, self.schema, self.now_ms = link, schema, now_ms
        self._boards, self._random, self._fresh_s = boards, random, fresh_s
        self._intake = Intake(link, schema, now_ms=now_ms, random=random, settings=settings or IntakeSettings())
        self._registry = Registry(
            link,
            schema.trends,
            Trend,
            now_ms=now_ms,
            not_found=lambda name: TrendNotFound(f"there is no trend {name!r}"),
            make_keys=self._make_keys,
            remove_keys=self._remove_keys,
        )
        self._read: dict[str, tuple[float, asyncio.Task[tuple[Board | Whole, set[str]]]]] = {}

    async def create(self, name: str, config: TrendConfig) -> tuple[Trend, bool]:
        """The trend of this name and config, and whether it is new; one that differs raises Conflict."""
        wanted = check_config(config)
        existing = (await self._registry.find([check_trend_name(name)])).get(name)
        if existing is None:
            trend = await self._make(name, wanted)
            if await self._registry.add(trend):
                return trend, True
            existing = await self.describe(name)
        fields = [
            each for each in TrendConfig.__struct_fields__ if getattr(existing.config, each) != getattr(wanted, each)
        ]
        if fields:
            raise Conflict(f"trend {name!r} exists with other {', '.join(fields)}", fields)
        return existing, False

    async def describe(self, name: str) -> Trend:
        return await self._registry.get(check_trend_name(name))

    async def list(self, prefix: str = "", *, limit: int = 100, after: str = "") -> list[Trend]:
        """Trends by name: at most `limit` that begin with the prefix and come after a name, for pages."""
        return await self._registry.list(prefix, limit=limit, after=after)

    async def delete(self, name: str) -> None:
        """Remove a trend: at once for everybody who asks or feeds it, and then its keys."""
        trend = await self._registry.delete(check_trend_name(name))
        self._intake.forget(trend)
        await self.sweep()

    async def sweep(self) -> int:
        """Remove the keys of trends that were deleted; returns how many that were."""
        return await self._registry.sweep()

    async def submit(self, trend: Trend, batch: TrendBatch, request: str | None = None) -> Taken:
        """Take in events; `request` names them, so that they may be sent again and still count once."""
        return await self._intake.submit(trend, batch, request)

    async def backlog(self, trend: Trend) -> int:
        """Rows that are yet to be counted, in the partition that is furthest behind."""
        return await self._intake.backlog(trend)

    async def sums(self, trend: Trend) -> Sums:
        """What became of all events that were counted and kept so far, by the shortest panes."""
        questions = [
            (key, ("HGET", key, "kept")) for key in (self.schema.partition(tag).position for tag in trend.tags)
        ]
        found = [msgspec.json.decode(kept, type=Kept) for kept in await ask_all(self.link, questions) if kept]
        sums = [kept.sums[trend.bucket_ms] for kept in found if trend.bucket_ms in kept.sums]
        return Sums(*(sum(getattr(each, name) for each in sums) for name in Sums.__struct_fields__))

    async def top(self, trend: Trend, window: str | None = None, *, by: Order = "count", limit: int = 10) -> Top:
        """The first items of a window."""
        if not 1 <= limit <= trend.most_rows:
            raise InvalidField("limit", f"limit goes from 1 to {trend.most_rows}, a quarter of capacity, not {limit}")
        board, hidden = await self._ask(trend, trend.span(window), TOP, Board)
        visible = [row for row in board.rows if row.item not in hidden]
        # What was hidden since the board was made still counts as a rival: the one behind it may not be on the board.
        rival = max(board.head.floor, board.rows[limit].high if len(board.rows) > limit else 0)
        surely = {row.item for row in order_rows(visible, "count")[:limit] if row.low >= rival}
        return Top(board.head, [TopRow(row, row.item in surely) for row in order_rows(visible, by)[:limit]])

    async def item(self, trend: Trend, item: str, window: str | None = None) -> Found:
        """At least and at most how often any item occurred in a window."""
        check_item(item)
        whole, _ = await self._ask(trend, trend.span(window), ALL, Whole)
        return Found(whole.head, item, *bounds_in(trend, whole, item))

    async def hide(self, trend: Trend, item: str) -> None:
        """Keep an item off the board."""
        check_item(item)
        key = self.schema.trend(trend.id).hidden
        (count,) = await self.link.run(key, [("SCARD", key)])
        if int(count) >= MAX_HIDDEN:
            raise InvalidField(
                "item", f"{count} items are hidden already, and at most {MAX_HIDDEN} can be: not {item!r}"
            )
        await self.link.run(key, [("SADD", key, item)])
        self._forget(trend)

    async def show(self, trend: Trend, item: str) -> bool:
        """Let an item be seen again; False if it was not hidden."""
        key = self.schema.trend(trend.id).hidden
        (removed,) = await self.link.run(key, [("SREM", key, check_item(item))])
        self._forget(trend)
        return bool(removed)

    async def hidden(self, trend: Trend) -> set[str]:
        key = self.schema.trend(trend.id).hidden
        (members,) = await ask_all(self.link, [(key, ("SMEMBERS", key))])
        return {member.decode() for member in members}

    async def open_partitions(self, trend: Trend) -> Sequence[Partition]:
        """The partitions of a trend, for the keeper."""
        sources = await self._sources(trend)
        return [
            Partition(self.link, self.schema.partition(tag), trend, source)
            for tag, source in zip(trend.tags, sources, strict=True)
        ]

    async def _sources(self, trend: Trend) -> Sequence[Source]:
        source = trend.config.source
        if source is None:
            return [OwnStream(self.link, self.schema.partition(tag)) for tag in trend.tags]
        board = (await self._boards.find([source.board])).get(source.board)
        if board is None or board.tags != trend.feed:
            raise BoardNotFound(f"board {source.board!r}, which fed trend {trend.name!r}, was deleted")
        return [BoardLog(self.link, self.schema, trend, board, tag, source.count) for tag in trend.feed]

    async def _make(self, name: str, config: TrendConfig) -> Trend:
        trend_id, secret = make_id(self._random), self._random.randbytes(16)
        feed: tuple[str, ...] = ()
        if config.source is not None:
            board = await self._boards.describe(config.source.board)
            feed, secret = board.tags, board.secret  # its players are dealt to partitions as they are to shards
        return Trend(
            name=name,
            id=trend_id,
            tags=make_tags(trend_id, len(feed) or config.partitions),
            secret=secret,
            created_ms=self.now_ms(),
            config=config,
            feed=feed,
        )

    async def _make_keys(self, trend: Trend) -> None:
        logs = [self.schema.shard(tag).meta for tag in trend.feed]
        begins = [last.decode() for last in await ask_all(self.link, [(key, ("HGET", key, "last")) for key in logs])]
        for tag, at in zip(trend.tags, begins or [START] * len(trend.tags), strict=True):
            keys = self.schema.partition(tag)
            commands: list[Command] = [
                ("HSET", keys.meta, "id", trend.id, "seq", 0, "events", 0),
                ("HSETNX", keys.position, "at", at),
            ]
            await self.link.run(keys.meta, commands)

    async def _remove_keys(self, trend: Trend) -> None:
        """First the ids, and with them everybody who writes; then the rest."""
        for tag in trend.tags:
            meta = self.schema.partition(tag).meta
            await self.link.run(meta, [("HDEL", meta, "id")])
        for tag in trend.tags:
            keys = self.schema.partition(tag)
            (kept,) = await self.link.run(keys.meta, [("HGET", keys.position, "kept")])
            panes = msgspec.json.decode(kept, type=Kept).panes if kept else []
            names = [keys.stream, keys.position, *(keys.pane(*name) for name in panes), keys.meta]
            await self.link.run(keys.meta, [("UNLINK", *names)])  # tokens expire by themselves
        own = self.schema.trend(trend.id)
        published = [name(window) for window in trend.config.windows for name in (own.top, own.all)]
        await self.link.run(own.hidden, [("UNLINK", own.hidden, *published)])

    async def _ask(self, trend: Trend, span: Span, form: str, kind: type[Form]) -> tuple[Form, set[str]]:
        """The window as published, read by one for all who ask within a moment; and what is hidden."""
        key, now_s = f"{trend.id} {span.name} {form}", asyncio.get_running_loop().time()
        read_s, task = self._read.get(key, (0.0, None))
        if task is None or now_s - read_s >= self._fresh_s or (task.done() and task.exception() is not None):
            task = asyncio.create_task(self._read_window(trend, span, form, kind))
            self._read[key] = now_s, task
        found, hidden = await asyncio.shield(task)
        if not isinstance(found, kind):
            raise TypeError(f"{key} is no {kind.__name__}")
        return found, hidden

    async def _read_window(
        self, trend: Trend, span: Span, form: str, kind: type[Form]
    ) -> tuple[Board | Whole, set[str]]:
        own, watched = self.schema.trend(trend.id), self.schema.watched
        blob_key = own.top(span.name) if form == TOP else own.all(span.name)
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + PATIENCE_S
        while True:
            member = f"{trend.id} {span.name} {form}"
            now_ms = self.now_ms()
            blob, members, _ = await ask_all(
                self.link,
                [
                    (own.hidden, ("GET", blob_key)),
                    (own.hidden, ("SMEMBERS", own.hidden)),
                    (watched, ("ZADD", watched, now_ms, member)),
                ],
            )
            hidden = {item.decode() for item in members}
            found = None if blob is None else msgspec.msgpack.decode(blob, type=kind)
            is_late = loop.time() >= deadline_s
            if found is not None and (is_late or now_ms - found.head.as_of_ms <= OLD_MS):
                return found, hidden
            if is_late:
                raise RedisUnavailable(f"trend {trend.name!r} is not being counted: no keeper is at work")
            await asyncio.sleep(_POLL_S)

    def _forget(self, trend: Trend) -> None:
        self._read = {key: read for key, read in self._read.items() if not key.startswith(trend.id)}
