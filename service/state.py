"""What all handlers of one process share: the engine, what was looked up lately, and how busy it is."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from aiohttp import web

from hybrid.config import Board
from hybrid.engine import Engine
from hybrid.trends.config import Trend
from service.limits import Limits
from service.metrics import Metrics
from service.settings import Settings
from toptail.wire import Ack

FRESH_S = 1.0  # how long a board or trend is believed to be as it was read
MOST_KNOWN = 10_000

Thing = TypeVar("Thing")


class Lately(Generic[Thing]):
    """Boards or trends by name, as they were a second ago at most."""

    def __init__(self, find: Callable[[str], Awaitable[Thing]]) -> None:
        self._find = find
        self._known: dict[str, tuple[Thing, float]] = {}

    async def get(self, name: str) -> Thing:
        now_s = asyncio.get_running_loop().time()
        known = self._known.get(name)
        if known is not None and now_s < known[1]:
            return known[0]
        found = await self._find(name)
        if len(self._known) >= MOST_KNOWN:
            self._known.clear()
        self._known[name] = (found, now_s + FRESH_S)
        return found

    def forget(self, name: str) -> None:
        """What was changed or deleted is looked up again."""
        self._known.pop(name, None)


@dataclass(slots=True)
class State:
    """One process' share of the service. `refusal` says why nothing can be served; None when it can."""

    engine: Engine
    settings: Settings
    ack: Ack = "unknown"
    in_flight: int = 0
    is_stopping: bool = False
    refusal: str | None = None
    limits: Limits | None = None
    metrics: Metrics = field(default_factory=Metrics)
    boards: Lately[Board] = field(init=False)
    trends: Lately[Trend] = field(init=False)

    def __post_init__(self) -> None:
        self.boards = Lately(self.engine.boards.describe)
        self.trends = Lately(self.engine.trends.describe)


STATE = web.AppKey("state", State)
