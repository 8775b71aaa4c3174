"""One shard of a board in Redis: its keys, its clock, and writes that happen once or not at all.

A write is one script under a nonce. When its answer is lost, the same script is sent again, on a fresh connection: the
script finds the nonce and writes nothing, and what the first one did is read from the log. So a write is repeated
until it is answered, or until its deadline has passed. The script checks the deadline too, by Redis' own clock: what
was still in a socket when we gave up does not happen later.
"""

import asyncio
from collections.abc import Sequence
from importlib.resources import files

from hybrid.config import Board
from hybrid.errors import BoardNotFound, OutcomeUnknown, ReadOnly, RedisUnavailable
from hybrid.keys import Keys, ShardKeys
from hybrid.link import Argument, Link, Script
from hybrid.log import LogEntry, parse_entry

WRITE = Script(files("hybrid").joinpath("lua/write.lua").read_text())
REMOVE = Script(files("hybrid").joinpath("lua/remove.lua").read_text())

_ATTEMPT_S = 1.0  # how long one attempt waits for its answer
_PAUSE_S = 0.02
_PAGE = 200  # log entries looked at in one call

Reply = list[bytes]


class Shard:
    """Where one shard of a board is written."""

    def __init__(self, link: Link, schema: Keys, board: Board, number: int) -> None:
        self.link = link
        self.board = board
        self.keys: ShardKeys = schema.shard(board.tags[number])
        self._offset_ms: float | None = None

    async def now_ms(self) -> int:
        """Redis' clock, asked once and then kept by ours, which only ever runs forwards."""
        loop = asyncio.get_running_loop()
        if self._offset_ms is None:
            ((seconds, micros),) = await self.link.run(self.keys.meta, [("TIME",)])
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
                reply = await self._attempt(script, keys, args, left_s)
            except (OutcomeUnknown, RedisUnavailable) as error:
                if isinstance(error, ReadOnly) and not is_lost:
                    raise
                is_lost = is_lost or isinstance(error, OutcomeUnknown)
                await asyncio.sleep(min(_PAUSE_S, left_s))
                continue
            if isinstance(reply, LogEntry) or reply[0] != b"late":
                return reply
            self._offset_ms = None
        if is_lost:
            raise OutcomeUnknown("Redis did not answer before the deadline; the write may have happened")
        raise RedisUnavailable("Redis could not be reached before the deadline; nothing was written")

    async def _attempt(
        self, script: Script, keys: Sequence[str], args: Sequence[Argument], left_s: float
    ) -> Reply | LogEntry:
        deadline_ms = await self.now_ms() + int(left_s * 1000)
        timeout_s = min(left_s, _ATTEMPT_S)
        reply: Reply = await script.run(self.link, keys, [deadline_ms, *args], timeout_s=timeout_s)
        if reply[0] == b"gone":
            raise BoardNotFound(f"board {self.board.name!r} was deleted")
        return await self._entry_of(int(args[1])) if reply[0] == b"done" else reply

    async def _entry_of(self, nonce: int) -> LogEntry:
        """The entry that was written under this nonce; it cannot be far from the end."""
        last = "+"
        while True:
            (page,) = await self.link.run(self.keys.meta, [("XREVRANGE", self.keys.log, last, "-", "COUNT", _PAGE)])
            for reply in page:
                if reply[0].endswith(b"-%d" % nonce):
                    return parse_entry(reply)
            if len(page) < _PAGE:
                raise OutcomeUnknown("written, but the log entry that says what it did is gone")
            last = "(" + page[-1][0].decode()
