"""One shard of a board in Redis: its keys, and writes to it, each with the log entry that says what it did."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from redis.exceptions import ResponseError

from hybrid.config import Board
from hybrid.errors import BoardNotFound, EntryLost, HybridError, OutcomeUnknown, RedisUnavailable
from hybrid.keys import Keys, ShardKeys
from hybrid.link import PAUSE_S, TIMEOUT_S, Argument, Link, Script
from hybrid.log import LogEntry, parse_entry
from hybrid.place import Place, Reply
from hybrid.reading import ATTEMPT_S

_PAGE = 256  # log entries looked at in one call, at most

Follow = Callable[[Board, int, LogEntry], Awaitable[None]]


class Shard(Place):
    """Where one shard of a board is written."""

    def __init__(self, link: Link, schema: Keys, board: Board, number: int) -> None:
        self.board = board
        self.number = number
        self.keys: ShardKeys = schema.shard(board.tags[number])
        super().__init__(link, self.keys.meta, lambda: BoardNotFound(f"board {board.name!r} was deleted"))

    async def commit(
        self, script: Script, keys: Sequence[str], args: Sequence[Argument], deadline_s: float
    ) -> Reply | LogEntry:
        """What the script replied, or the log entry of an earlier attempt whose reply was lost."""
        reply = await self.write(script, keys, args, deadline_s)
        return await self._find_entry(int(args[1]), deadline_s) if reply[0] == b"done" else reply

    async def _find_entry(self, nonce: int, deadline_s: float) -> LogEntry:
        loop = asyncio.get_running_loop()
        while True:
            try:
                return await self.entry_of(nonce, timeout_s=ATTEMPT_S)
            except (OutcomeUnknown, RedisUnavailable) as error:
                if loop.time() + PAUSE_S >= deadline_s:
                    raise OutcomeUnknown(f"written, but what it did could not be read: {error}") from error
                await asyncio.sleep(PAUSE_S)

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
