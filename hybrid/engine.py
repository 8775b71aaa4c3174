"""The engine: all boards and trends behind one Redis, opened and closed as one thing.

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
from hybrid.config import Board
from hybrid.distribution import Distribution
from hybrid.events import check_player
from hybrid.keys import Keys
from hybrid.link import Link, Node, parse_url
from hybrid.pages import Pages
from hybrid.past import PastWindows
from hybrid.record import Record, RecordSettings
from hybrid.seek import Seeker
from hybrid.standings import Standings
from hybrid.tail import Tail
from hybrid.top import Top
from hybrid.trends.intake import IntakeSettings
from hybrid.trends.trends import Trends

FRESH_S = 0.05  # how old may be what answers are made from, before it is looked at again


class Engine:
    """Boards, records, answers and trends over one link, which it closes."""

    def __init__(
        self,
        link: Link,
        *,
        prefix: str = "tt",
        now_ms: Callable[[], int] | None = None,
        random: random.Random | None = None,
        settings: RecordSettings | None = None,
        fresh_s: float = FRESH_S,
        is_silent: bool = False,  # reads without saying so: what only such an engine reads is not sampled for it
    ) -> None:
        settings = settings or RecordSettings()
        schema, clock, dice = Keys(prefix), now_ms or _wall_clock_ms, random or _system_random()
        self.link, self.schema, self.now_ms, self.random = link, schema, clock, dice
        self.grace_ms = settings.grace_ms
        self.seek = Seeker(link, schema)
        self.top = Top(link, schema, random=dice)
        self.tail = Tail(link, schema, self.top, now_ms=clock, fresh_s=fresh_s, is_silent=is_silent)
        self.record = Record(link, schema, now_ms=clock, random=dice, settings=settings, follow=self.top.follow)
        self.boards = Boards(link, schema, now_ms=clock, random=dice, on_delete=self._forget)
        self.past = PastWindows(link, schema, self.seek, self.tail, now_ms=clock, grace_ms=settings.grace_ms)
        self.standings = Standings(self.record, self.top, self.tail, self.seek, self.past, now_ms=clock)
        self.distribution = Distribution(self.tail, self.seek, self.past, now_ms=clock)
        self.pages = Pages(self.record, self.seek, self.past, now_ms=clock)
        intake = IntakeSettings(timeout_s=settings.timeout_s)
        self.trends = Trends(link, schema, self.boards, now_ms=clock, random=dice, settings=intake)

    async def remove_player(self, board: Board, player: str) -> bool:
        """Remove a player from every window, those long past included; False if he was nowhere."""
        was_recorded = await self.record.remove(board, player)
        return await self.past.remove(board, check_player(player)) or was_recorded

    def _forget(self, board: Board) -> None:
        for part in (self.record, self.top, self.tail):
            part.forget(board)

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
