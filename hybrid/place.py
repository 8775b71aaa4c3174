"""One place in Redis that is written to by scripts: its clock, and writes that happen once or not at all.

A write is one script under a nonce. When its answer is lost, the same script is sent again, on a fresh connection: the
script finds the nonce, writes nothing and says that it is done. So a write is repeated until it is answered, or until
its deadline has passed. The script checks the deadline too, by Redis' own clock: what was still in a socket when we
gave up does not happen later.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from hybrid.errors import HybridError, OutcomeUnknown, ReadOnly, RedisUnavailable
from hybrid.link import PAUSE_S, Argument, Command, Link, Script
from hybrid.reading import ATTEMPT_S, ask_all

Reply = list[bytes]


class Place:
    """Where scripts write: `key` is one of its slot, `gone` makes the error for a place that is no longer there."""

    def __init__(self, link: Link, key: str, gone: Callable[[], HybridError]) -> None:
        self.link = link
        self._key = key
        self._gone = gone
        self._offset_ms: float | None = None

    async def now_ms(self, deadline_s: float) -> int:
        """Redis' clock, asked once and then kept by ours, which only ever runs forwards."""
        loop = asyncio.get_running_loop()
        if self._offset_ms is None:
            ((seconds, micros),) = await self.ask([("TIME",)], deadline_s)
            self._offset_ms = int(seconds) * 1000 + int(micros) / 1000 - loop.time() * 1000
        return int(loop.time() * 1000 + self._offset_ms)

    async def write(self, script: Script, keys: Sequence[str], args: Sequence[Argument], deadline_s: float) -> Reply:
        """What the script replied; "done" for an earlier attempt whose reply was lost.

        args[0] and args[1] are an id, which says whether it is gone, and the nonce; the deadline goes before them.
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
            if reply[0] == b"gone":
                raise self._gone()
            if reply[0] != b"late":
                return reply
            self._offset_ms = None
        if is_lost:
            raise OutcomeUnknown("Redis did not answer before the deadline; the write may have happened")
        raise RedisUnavailable("Redis could not be reached before the deadline; nothing was written")

    async def _attempt(self, script: Script, keys: Sequence[str], args: Sequence[Argument], deadline_s: float) -> Reply:
        now_ms = await self.now_ms(deadline_s)
        left_s = max(deadline_s - asyncio.get_running_loop().time(), 0.0)
        deadline_ms, timeout_s = now_ms + int(left_s * 1000), min(left_s, ATTEMPT_S)
        reply: Reply = await script.run(self.link, keys, [deadline_ms, *args], timeout_s=timeout_s)
        return reply

    async def ask(self, commands: Sequence[Command], deadline_s: float) -> list[Any]:
        """Replies to commands that only read, asked again until the deadline."""
        left_s = deadline_s - asyncio.get_running_loop().time()
        return await ask_all(self.link, [(self._key, command) for command in commands], timeout_s=left_s)
