"""The keeper: whatever has to be done now and then, and by nobody in particular.

    tick    what was asked for within the last minute: shards that changed are sampled, oldest first, within a share of
            Redis' time; tops that are short are refilled, that fell behind are helped, that lost their way are reset
    round   every ten minutes, all boards: windows that are over are written down, and later their records let go;
            what deleted boards left behind is removed

Every step is safe whoever does it and however late: samples are taken and published in one script, a refill or a reset
is ended by the one who began last, a window is written down only over what was read before. The lease spares double
work, nothing else. A board that nobody asks for costs nothing between rounds.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from redis.exceptions import ResponseError

from hybrid.config import Board
from hybrid.engine import Engine
from hybrid.errors import HybridError
from hybrid.link import Command, Script
from hybrid.tail import HEAD_BYTES, WANTED_MS
from hybrid.windows import DAY_MS, parse_window

log = logging.getLogger(__name__)

_PAGE = 100
_LEASE = Script("""
local owner = redis.call('GET', KEYS[1])
if owner and owner ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
""")
_RELEASE = Script("""
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return 1
""")


@dataclass(frozen=True, slots=True)
class KeeperSettings:
    """How often the keeper looks, and what it may take."""

    pause_s: float = 0.05  # between ticks: how old samples get at least
    share: float = 0.05  # of Redis' time that sampling may take; beyond it samples get older
    round_s: float = 600.0  # between rounds over all boards
    lease_s: float = 5.0  # after which another keeper takes over


class Tick(NamedTuple):
    """What a tick did: shards sampled, and how long ago the one that has waited longest was."""

    sampled: int
    oldest_s: float


class _Slice(NamedTuple):
    """One shard of one window."""

    board: Board
    shard: int
    window: str

    @property
    def name(self) -> str:
        return f"{self.board.tags[self.shard]} {self.window}"


class _Budget:
    """A share of Redis' time; what is not used within a second is lost.

    A call takes as long as the quickest of the last ones: the others waited in a queue. (A script cannot say how long
    it took: Redis stops the clock for it.)
    """

    def __init__(self, share: float) -> None:
        self._share = share
        self._took_s: deque[float] = deque(maxlen=64)
        self._left_s = 0.0
        self._at_s: float | None = None

    def allows(self, now_s: float) -> bool:
        """Whether there is time left for a call."""
        if self._at_s is not None:
            self._left_s = min(self._left_s + (now_s - self._at_s) * self._share, self._share)
        self._at_s = now_s
        return self._left_s >= 0

    def spend(self, took_s: float) -> None:
        self._took_s.append(took_s)
        self._left_s -= min(self._took_s)


class Keeper:
    """Keeps house for all boards behind an engine."""

    def __init__(
        self,
        engine: Engine,
        settings: KeeperSettings | None = None,
        *,
        on_tick: Callable[[Tick], None] = lambda _: None,
    ) -> None:
        self._engine = engine
        self._settings = settings or KeeperSettings()
        self._on_tick = on_tick
        self._owner = f"{engine.random.getrandbits(64):x}"
        self._budget = _Budget(self._settings.share)
        self._sampled_s: dict[str, float] = {}
        self.is_keeping = False  # whether this is the one who keeps house

    async def run(self) -> None:
        """Keep house until cancelled."""
        loop, next_round_s = asyncio.get_running_loop(), 0.0
        try:
            while True:
                try:
                    self.is_keeping = await self._has_lease()
                    if self.is_keeping:
                        await self.tick()
                        if loop.time() >= next_round_s:
                            await self.round()
                            next_round_s = loop.time() + self._settings.round_s
                except (HybridError, ResponseError) as error:
                    log.warning("keeper could not finish a tick: %s", error)
                await asyncio.sleep(self._settings.pause_s)
        finally:
            with suppress(HybridError):  # the next one need not wait for the lease to end
                await _RELEASE.run(self._engine.link, [self._engine.schema.keeper], [self._owner])

    async def tick(self) -> int:
        """Look after everything that was asked for lately; returns how many shards were sampled."""
        tick = await self._tick()
        self._on_tick(tick)
        return tick.sampled

    async def _tick(self) -> Tick:
        stale: list[_Slice] = []
        for board, windows in await self.wanted():
            await self._engine.top.tend(board, windows)
            stale += await self._stale(board, windows)
        sampled = 0
        loop = asyncio.get_running_loop()
        for part in sorted(stale, key=lambda part: self._sampled_s.get(part.name, 0.0)):
            if not self._budget.allows(loop.time()):
                break
            began_s = self._sampled_s[part.name] = loop.time()
            await self._engine.tail.sample(part.board, part.shard, part.window)
            self._budget.spend(loop.time() - began_s)
            sampled += 1
        names = {part.name for part in stale}
        self._sampled_s = {name: at_s for name, at_s in self._sampled_s.items() if name in names}
        now_s = loop.time()
        return Tick(sampled, now_s - min(self._sampled_s.values(), default=now_s))

    async def round(self) -> None:
        """Go through all boards: write down windows that are over, let old ones go, remove what was deleted."""
        await self._engine.boards.sweep()
        await self._engine.trends.sweep()
        after = ""
        while page := await self._engine.boards.list(limit=_PAGE, after=after):
            for board in page:
                await self._close_windows(board)
            after = page[-1].name

    async def _close_windows(self, board: Board) -> None:
        now_ms, grace_ms = self._engine.now_ms(), self._engine.grace_ms
        keys = self._engine.schema.board(board.id)
        (fields,) = await self._engine.link.run(keys.state, [("HKEYS", keys.state)])
        (written,) = await self._engine.link.run(keys.past, [("HKEYS", keys.past)])
        for name in sorted(field[2:].decode() for field in fields if field.startswith(b"w:")):
            window = parse_window(name, now_ms)
            kept_until_ms = window.kept_until_ms(grace_ms, board.config.retention_days * DAY_MS)
            if kept_until_ms is not None and now_ms >= kept_until_ms:
                await self._engine.past.retire(board, name)
            elif window.is_closed(now_ms, grace_ms) and name.encode() not in written:
                await self._engine.past.write_down(board, name, is_whole=True)

    async def wanted(self) -> list[tuple[Board, list[str]]]:
        """What was asked for within the last minute."""
        key, long_ago_ms = self._engine.schema.wanted, self._engine.now_ms() - WANTED_MS
        commands: list[Command] = [
            ("ZREMRANGEBYSCORE", key, "-inf", f"({long_ago_ms}"),
            ("ZRANGE", key, 0, -1),
        ]
        _, members = await self._engine.link.run(key, commands)
        asked = [tuple(member.decode().split(" ")) for member in members]
        boards = await self._engine.boards.find([name for _, name, _ in asked])
        wanted: dict[str, tuple[Board, list[str]]] = {}
        for board_id, name, window in asked:
            board = boards.get(name)
            if board is not None and board.id == board_id:  # else it was deleted
                wanted.setdefault(board_id, (board, []))[1].append(window)
        return list(wanted.values())

    async def _stale(self, board: Board, windows: Sequence[str]) -> list[_Slice]:
        """Shards that changed since they were sampled, of windows that the top alone cannot answer."""
        tops = [await self._engine.top.leaders(board, window, [], np.empty(0)) for window in windows]
        windows = [window for window, top in zip(windows, tops, strict=True) if top is None or not top.has_all]
        if not windows:
            return []
        stale = await asyncio.gather(*(self._stale_windows(board, shard, windows) for shard in range(len(board.tags))))
        return [part for parts in stale for part in parts]

    async def _stale_windows(self, board: Board, shard: int, windows: Sequence[str]) -> list[_Slice]:
        keys = self._engine.schema.shard(board.tags[shard])
        commands: list[Command] = [("HGET", keys.meta, "last")]
        for window in windows:
            commands += [("EXISTS", keys.record(window)), ("GETRANGE", keys.samples(window), 0, HEAD_BYTES)]
        last, *found = await self._engine.link.run(keys.meta, commands)
        return [
            _Slice(board, shard, window)
            for window, has_records, head in zip(windows, found[::2], found[1::2], strict=True)
            if has_records and head.split(b" ", 1)[0] != last
        ]

    async def _has_lease(self) -> bool:
        key, lease_ms = self._engine.schema.keeper, int(self._settings.lease_s * 1000)
        return bool(await _LEASE.run(self._engine.link, [key], [self._owner, lease_ms]))
