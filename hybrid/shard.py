"""One shard of a board in Redis: its keys, its clock, and writes that happen once or not at all.

A write is one script under a nonce. When its answer is lost, the same script is sent again, on a fresh connection: the
script finds the nonce and writes nothing, and what the first one did is read from the log. So a write is repeated
until it is answered, or until its deadline has passed. The script checks the deadline too, by Redis' own clock: what
was still in a socket when we gave up does not happen later.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from redis.exceptions import ResponseError

from hybrid.config import Board
from hybrid.errors import BoardNotFound, EntryLost, HybridError, OutcomeUnknown, ReadOnly, RedisUnavailable
from hybrid.keys import Keys, ShardKeys
from hybrid.link import PAUSE_S, TIMEOUT_S, Argument, Command, Link, Script
from hybrid.log import LogEntry, parse_entry
from hybrid.reading import ATTEMPT_S, ask_all

_PAGE = 256  # log entries looked at in one call, at most

Reply = list[bytes]
Follow = Callable[[Board, int, LogEntry], Awaitable[None]]


class Shard:
    """Where one shard of a board is written."""

    def __init__(self, link: Link, schema: Keys, board: Board, number: int) -> None:
        self.link = link
        self.board = board
        self.number = number
        self.keys: ShardKeys = schema.shard(board.tags[number])
        self._offset_ms: float | None = None

    async def now_ms(self, deadline_s: float) -> int:
        """Redis' clock, asked once and then kept by ours, which only ever runs forwards."""
        loop = asyncio.get_running_loop()
        if self._offset_ms is None:
            ((seconds, micros),) = await self.ask([("TIME",)], deadline_s)
            self._offset_ms = int(seconds) * 1000 + int(micros) / 1000 - loop.time() * 1000
        return int(loop.time() * 1000 + self._offset_ms)

    async def commit(
        self, script: Script, keys: Sequence[str], args: Sequence[Argument], deadline_s: float
    ) -> Reply | LogEntry:
        """What the script replied, or the log entry of an earlier attempt whose reply was lost.

        args[0] and args[1] are the board's id and the nonce; the deadline goes before them.
        """
        loop = asyncio.get_running_loop()
        is_lost = False
        while (left_s := deadline_s - loop.time()) > 0:
            try:
                reply = await self._attempt(script, keys, args, deadline_s)
            except (OutcomeUnknown, RedisUnavailable) as error:
                if isinstance(error, ReadOnly) and not is_lost:
                    raise
                is_lost = is_lost or isinstance(error, OutcomeUnknown)
                await asyncio.sleep(min(PAUSE_S, left_s))
                continue
            if isinstance(reply, LogEntry) or reply[0] != b"late":
                return reply
            self._offset_ms = None
        if is_lost:
            raise OutcomeUnknown("Redis did not answer before the deadline; the write may have happened")
        raise RedisUnavailable("Redis could not be reached before the deadline; nothing was written")

    async def _attempt(
        self, script: Script, keys: Sequence[str], args: Sequence[Argument], deadline_s: float
    ) -> Reply | LogEntry:
        now_ms = await self.now_ms(deadline_s)
        left_s = max(deadline_s - asyncio.get_running_loop().time(), 0.0)
        deadline_ms, timeout_s = now_ms + int(left_s * 1000), min(left_s, ATTEMPT_S)
        reply: Reply = await script.run(self.link, keys, [deadline_ms, *args], timeout_s=timeout_s)
        if reply[0] == b"gone":
            raise BoardNotFound(f"board {self.board.name!r} was deleted")
        return await self.entry_of(int(args[1]), timeout_s=timeout_s) if reply[0] == b"done" else reply

    async def ask(self, commands: Sequence[Command], deadline_s: float) -> list[Any]:
        """Replies to commands that only read, asked again until the deadline."""
        left_s = deadline_s - asyncio.get_running_loop().time()
        return await ask_all(self.link, [(self.keys.meta, command) for command in commands], timeout_s=left_s)

    async def windows(self, deadline_s: float) -> list[str]:
        """The windows that the shard has records of, or had."""
        (fields,) = await self.ask([("HKEYS", self.keys.meta)], deadline_s)
        if b"id" not in fields:
            raise BoardNotFound(f"board {self.board.name!r} was deleted")
        return sorted(field[2:].decode() for field in fields if field.startswith(b"v:"))

    async def follow(self, follow: Follow, entry: LogEntry, deadline_s: float) -> None:
        """See that the top includes what was written; until it does nobody may say that nothing happened.

        An entry is applied once only, so what was not answered is tried again.
        """
        loop = asyncio.get_running_loop()
        while True:
            try:
                await follow(self.board, self.number, entry)
                return
            except (HybridError, ResponseError) as error:
                is_passing = isinstance(error, OutcomeUnknown | RedisUnavailable) and not isinstance(error, EntryLost)
                if not is_passing or loop.time() + PAUSE_S >= deadline_s:
                    raise OutcomeUnknown(f"written, but not yet included in the top: {error}") from error
                await asyncio.sleep(PAUSE_S)

    async def entry_of(self, nonce: int, *, timeout_s: float = TIMEOUT_S) -> LogEntry:
        """The entry that was written under this nonce; it cannot be far from the end, and entries can be large."""
        last, count = "+", 4
        while True:
            command = ("XREVRANGE", self.keys.log, last, "-", "COUNT", count)
            (page,) = await self.link.run(self.keys.meta, [command], timeout_s=timeout_s)
            for reply in page:
                if reply[0].endswith(b"-%d" % nonce):
                    return parse_entry(reply)
            if len(page) < count:
                raise OutcomeUnknown("written, but the log entry that says what it did is gone")
            last, count = "(" + page[-1][0].decode(), min(2 * count, _PAGE)
