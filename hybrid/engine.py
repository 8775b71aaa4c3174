"""The engine: all boards behind one Redis, opened and closed as one thing.

    async with Engine(make_link("unix:///var/lib/toptail/redis.sock")) as engine:
        board, _ = await engine.boards.create("game1", BoardConfig())
        outcomes = await engine.record.submit(board, Batch(["ann", "bob"], [120, 95]))

Clock and randomness are arguments; the defaults are those of the machine.
"""

import random
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from hybrid.boards import Boards
from hybrid.cluster import SCHEME, parse_cluster_url
from hybrid.keys import Keys
from hybrid.link import Link, Node, parse_url
from hybrid.record import Record, RecordSettings
from hybrid.seek import Seeker
from hybrid.top import Top


class Engine:
    """Boards and records over one link, which it closes."""

    def __init__(
        self,
        link: Link,
        *,
        prefix: str = "tt",
        now_ms: Callable[[], int] | None = None,
        random: random.Random | None = None,
        settings: RecordSettings | None = None,
    ) -> None:
        schema = Keys(prefix)
        clock, dice = now_ms or _wall_clock_ms, random or _system_random()
        self.link = link
        self.seek = Seeker(link, schema)
        self.top = Top(link, schema, random=dice)
        self.record = Record(
            link, schema, now_ms=clock, random=dice, settings=settings or RecordSettings(), follow=self.top.follow
        )
        self.boards = Boards(link, schema, now_ms=clock, random=dice, on_delete=self.record.forget)

    async def __aenter__(self) -> Self:
        try:
            await self.boards.open()
        except BaseException:
            await self.link.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.link.close()


def make_link(url: str) -> Link:
    """The link to redis://, rediss://, unix:// or redis+cluster://."""
    return parse_cluster_url(url) if url.startswith(SCHEME) else Node(parse_url(url))


def _wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


def _system_random() -> random.Random:
    return random.SystemRandom()
