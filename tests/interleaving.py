"""A scheduler that decides, by seeded dice, whose call to Redis is carried out next, and which engine dies before it.

The real code runs on a real Redis, one call at a time: every call waits until the scheduler lets it through. So any
interleaving of engines at the level of single calls can come up, and a dead engine never gets its next call through.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from hiredis import pack_command
from redis.connection import UnixDomainSocketConnection
from redis.exceptions import ResponseError

from hybrid.link import TIMEOUT_S, Command, Link, Script, parse_url, raise_reply

MOST_CALLS = 5000  # a long run has some hundreds


class NeverEnds(AssertionError):
    """Calls and calls, and somebody still is not done."""


class BlockingLink:
    """A link that stands still until it is answered: of calls one at a time that is the fastest.

    And the event loop knows exactly when nobody can go on: nobody ever waits for a socket.
    """

    def __init__(self, url: str) -> None:
        kind: Any = UnixDomainSocketConnection  # redis-py has no types for it
        self._connection = kind(protocol=3, **parse_url(url))

    async def run(self, key: str, commands: Sequence[Command], *, timeout_s: float = TIMEOUT_S) -> list[Any]:  # noqa: ARG002
        await asyncio.sleep(0)  # whoever calls without end can be stopped here
        packed = [pack_command(tuple(command)) for command in commands]  # type: ignore[arg-type]  # as in link.py
        self._connection.send_packed_command(packed, check_health=False)
        return raise_reply([self._read() for _ in commands])

    async def close(self) -> None:
        self._connection.disconnect()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _read(self) -> Any:
        try:
            return self._connection.read_response(disconnect_on_error=False)
        except ResponseError as reply:
            return reply


@dataclass(eq=False)
class SteppedLink:
    """The link of one engine, over one that blocks: its calls wait for their turn, and none comes once it is dead."""

    link: Link
    scheduler: "Scheduler"
    is_dead: bool = False

    async def run(self, key: str, commands: Sequence[Command], *, timeout_s: float = TIMEOUT_S) -> list[Any]:
        await self.scheduler.wait_for_turn(self, key, commands)
        return await self.link.run(key, commands, timeout_s=timeout_s)

    async def close(self) -> None:
        """The link below is shared; whoever made it closes it."""


@dataclass(frozen=True, eq=False)
class Call:
    """A call that waits for its turn."""

    link: SteppedLink
    key: str
    commands: Sequence[Command]
    turn: asyncio.Future[None]

    def is_of(self, script: Script) -> bool:
        return script.sha in self.commands[0] or script.text in self.commands[0]


async def _nothing(_key: str) -> None:
    """What happens between calls unless something is wanted there."""


@dataclass(eq=False)
class Scheduler:
    """Carries out calls one by one, in an order of its own.

    `after_call` is awaited after each call, with the key it was for: there the world can be looked at, or change.
    """

    dice: random.Random
    death_rate: float = 0.0
    deaths: int = 0
    calls: int = 0
    after_call: Callable[[str], Awaitable[None]] = _nothing
    _waiting: list[Call] = field(default_factory=list)

    async def wait_for_turn(self, link: SteppedLink, key: str, commands: Sequence[Command]) -> None:
        if link.is_dead:
            raise asyncio.CancelledError
        call = Call(link, key, commands, asyncio.get_running_loop().create_future())
        self._waiting.append(call)
        await call.turn

    async def play(self, callers: Sequence[tuple[SteppedLink, Coroutine[Any, Any, Any]]]) -> None:
        """All callers at once until each has ended or died."""
        tasks = [asyncio.create_task(caller) for _, caller in callers]
        await _let_everybody_move()
        while self._waiting:
            call = self.dice.choice(self._waiting)
            if self.dice.random() < self.death_rate:
                await self.kill(call.link)
            else:
                await self.let_through(call)
        for task in tasks:
            if not task.cancelled():
                task.result()

    async def let_through(self, call: Call) -> None:
        """Carry out one call, and let everybody go on as far as that takes him."""
        self.calls += 1
        if self.calls > MOST_CALLS:
            raise NeverEnds(f"{MOST_CALLS} calls were not enough")
        self._waiting.remove(call)
        call.turn.set_result(None)
        await _let_everybody_move()
        await self.after_call(call.key)

    async def next_call(self, link: SteppedLink) -> Call | None:
        """The call of this engine that waits, None if there is none."""
        await _let_everybody_move()
        return next((call for call in self._waiting if call.link is link), None)

    async def kill(self, link: SteppedLink) -> None:
        """From here on the engine does nothing more."""
        self.deaths += 1
        link.is_dead = True
        for call in self._waiting:
            if call.link is link:
                call.turn.cancel()
        self._waiting = [call for call in self._waiting if call.link is not link]
        await _let_everybody_move()


@dataclass(eq=False)
class Actor:
    """One engine and what it does, call by call as the play has it."""

    link: SteppedLink
    task: asyncio.Task[Any]

    async def go_before(self, script: Script) -> None:
        """Until this script is what comes next."""
        while not (call := await self._next_call()).is_of(script):
            await self.link.scheduler.let_through(call)

    async def go_past(self, script: Script) -> None:
        await self.go_before(script)
        await self.link.scheduler.let_through(await self._next_call())

    async def finish(self) -> Any:
        while call := await self.link.scheduler.next_call(self.link):
            await self.link.scheduler.let_through(call)
        return await self.task

    async def die(self) -> None:
        await self.link.scheduler.kill(self.link)

    async def _next_call(self) -> Call:
        call = await self.link.scheduler.next_call(self.link)
        if call is None:
            raise LookupError("it has ended, and what was waited for never came")
        return call


async def _let_everybody_move() -> None:
    """Turns of the loop until nobody has anything left to do but wait for his turn."""
    loop = asyncio.get_running_loop()
    await asyncio.sleep(0)
    while loop._ready:  # type: ignore[attr-defined]  # noqa: ASYNC110  the loop has no other way to say so
        await asyncio.sleep(0)
