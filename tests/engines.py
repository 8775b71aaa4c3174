"""Engines for tests: on the embedded Redis, on a cluster, on fakeredis; and links that lose what they carry."""

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import fakeredis
from redis.exceptions import ResponseError

from hybrid.engine import FRESH_S, Engine
from hybrid.errors import OutcomeUnknown, RedisUnavailable
from hybrid.link import TIMEOUT_S, Command, Link
from hybrid.record import RecordSettings

_numbers = itertools.count()

NOON_MS = 2_142_072_000_000  # 2037-11-17 12:00 UTC, a Tuesday; Redis expires by its own clock


@dataclass
class Clock:
    """A clock that stands still until it is set."""

    now_ms: int = NOON_MS

    def __call__(self) -> int:
        return self.now_ms


class FakeLink:
    """fakeredis behind the interface of a link: fast, without a server, and never the proof."""

    def __init__(self) -> None:
        self._client = fakeredis.FakeAsyncRedis(protocol=3)
        self._client.response_callbacks.clear()

    async def run(self, key: str, commands: Sequence[Command], *, timeout_s: float = TIMEOUT_S) -> list[Any]:  # noqa: ARG002
        replies = []
        for command in commands:
            replies.append(await self._client.execute_command(*command))  # type: ignore[no-untyped-call]
        return replies

    async def close(self) -> None:
        await self._client.aclose()


@dataclass
class LossyLink:
    """Loses scripts on their way, as told: before they arrive ("lost") or their answers ("applied")."""

    link: Link
    losses: list[str] = field(default_factory=list)
    lost: int = 0

    async def run(self, key: str, commands: Sequence[Command], *, timeout_s: float = TIMEOUT_S) -> list[Any]:
        loss = self.losses.pop(0) if self.losses and str(commands[0][0]).startswith("EVAL") else "none"
        self.lost += loss != "none"
        if loss == "unavailable":
            raise RedisUnavailable("lost on purpose")
        if loss == "lost":
            raise OutcomeUnknown("lost on purpose")
        try:
            replies = await self.link.run(key, commands, timeout_s=timeout_s)
        except ResponseError:
            self.losses[:0] = [loss] * (loss != "none")  # NOSCRIPT: the loss is for the script itself
            raise
        if loss == "applied":
            raise OutcomeUnknown("answer lost on purpose")
        return replies

    async def close(self) -> None:
        await self.link.close()


def make_engine(
    link: Link,
    clock: Clock | None = None,
    *,
    prefix: str | None = None,
    seed: int = 0,
    fresh_s: float = FRESH_S,
    is_silent: bool = False,
) -> Engine:
    """An engine with keys of its own, a clock that stands still and dice that are known."""
    return Engine(
        link,
        prefix=prefix or fresh_prefix(),
        now_ms=clock or Clock(),
        random=random.Random(seed),
        settings=RecordSettings(timeout_s=3.0),
        fresh_s=fresh_s,
        is_silent=is_silent,
    )


def fresh_prefix() -> str:
    return f"t{next(_numbers)}"
