"""A scheduler that decides, by seeded dice, whose call to Redis is carried out next, and which engine dies before it.

The real code runs on a real Redis, one call at a time: every call waits until the scheduler lets it through. So any
interleaving of engines at the level of single calls can come up, and a dead engine never gets its next call through.
"""

import asyncio
import random
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from hybrid.link import TIMEOUT_S, Command, Link


@dataclass(eq=False)
class SteppedLink:
    """The link of one engine: its calls wait for their turn, and none comes back once it is dead."""

    link: Link
    scheduler: "Scheduler"
    is_dead: bool = False

    async def run(self, key: str, commands: Sequence[Command], *, timeout_s: float = TIMEOUT_S) -> list[Any]:
        await self.scheduler.wait_for_turn(self)
        try:
            return await self.link.run(key, commands, timeout_s=timeout_s)
        finally:
            self.scheduler.is_idle.set()

    async def close(self) -> None:
        """The link below is shared; whoever made it closes it."""


@dataclass(eq=False)
class Scheduler:
    """Carries out calls one by one, in an order of its own."""

    dice: random.Random
    death_rate: float = 0.0
    deaths: int = 0
    is_idle: asyncio.Event = field(default_factory=asyncio.Event)
    _waiting: list[tuple[SteppedLink, asyncio.Future[None]]] = field(default_factory=list)

    async def wait_for_turn(self, link: SteppedLink) -> None:
        if link.is_dead:
            raise asyncio.CancelledError
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((link, future))
        await future

    async def play(self, callers: Sequence[tuple[SteppedLink, Coroutine[Any, Any, Any]]]) -> list[bool]:
        """All callers at once until each has ended or died; says of each whether it ended."""
        tasks = [(link, asyncio.create_task(caller)) for link, caller in callers]
        while any(not task.done() for _, task in tasks):
            await _let_everybody_move()
            if not self._waiting:
                break
            link, future = self._waiting.pop(self.dice.randrange(len(self._waiting)))
            if self.dice.random() < self.death_rate:
                self.deaths += 1
                future.cancel()
                self._kill(link)
                continue
            self.is_idle.clear()
            future.set_result(None)
            await self.is_idle.wait()
        await _let_everybody_move()
        ended = [task.done() and not task.cancelled() for _, task in tasks]
        for _, task in tasks:
            if not task.done():
                task.cancel()
            elif not task.cancelled():
                task.result()
        return ended

    def _kill(self, link: SteppedLink) -> None:
        link.is_dead = True
        for other, future in self._waiting:
            if other is link:
                future.cancel()
        self._waiting = [(other, future) for other, future in self._waiting if other is not link]


async def _let_everybody_move() -> None:
    """Turns of the loop enough for replies to pass through lanes, futures and tasks to whoever waits for them."""
    for _ in range(12):
        await asyncio.sleep(0)
