"""What all handlers of one process share: the engine, boards that were looked up lately, and how busy it is."""

import asyncio
from dataclasses import dataclass, field

from aiohttp import web

from hybrid.config import Board
from hybrid.engine import Engine
from service.limits import Limits
from service.metrics import Metrics
from service.settings import Settings
from toptail.wire import Ack

FRESH_S = 1.0  # how long a board is believed to be as it was read


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
    _boards: dict[str, tuple[Board, float]] = field(default_factory=dict)

    async def board(self, name: str) -> Board:
        """The board of this name, as it was a second ago at most."""
        now_s = asyncio.get_running_loop().time()
        known = self._boards.get(name)
        if known is not None and now_s < known[1]:
            return known[0]
        board = await self.engine.boards.describe(name)
        if len(self._boards) >= 10_000:
            self._boards.clear()
        self._boards[name] = (board, now_s + FRESH_S)
        return board

    def forget(self, name: str) -> None:
        """A board that was changed or deleted is looked up again."""
        self._boards.pop(name, None)


STATE = web.AppKey("state", State)
