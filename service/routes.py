"""The routes: one table of method, path, handler and types. The router and /openapi.json are both made of it.

A handler gets a `Call` (query and body are parsed, the caller may do this) and returns an answer of the wire.
"""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal

from aiohttp import web

from hybrid.config import Board
from hybrid.trends.config import Trend
from service.state import State

PARAMETER = re.compile(r"\{(\w+)(?::[^{}]*)?\}")

Role = Literal["read", "write", "admin"]


@dataclass(slots=True)
class Call:
    """One request on its way through a handler. `may` says what else the caller may do, with what it names beside."""

    request: web.Request
    state: State
    query: Any
    may: Callable[[Role, str], bool]

    @property
    def path(self) -> dict[str, str]:
        return dict(self.request.match_info)

    async def board(self) -> Board:
        return await self.state.boards.get(self.request.match_info["board"])

    async def trend(self) -> Trend:
        return await self.state.trends.get(self.request.match_info["trend"])


Handler = Callable[[Call], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Route:
    """One thing that can be asked. `role` None needs no key; `is_cached` answers carry an ETag.

    `answers` are what is returned with which status; `query` and `body` are wire types, or None. A body that may be of
    one of several types is a tuple of them; `line` is the type of a line, where bodies may be lines.
    """

    method: str
    path: str
    handler: Handler
    summary: str
    role: Role | None
    answers: dict[int, Any]
    query: Any = None
    body: Any = None
    body_types: tuple[str, ...] = ()
    answer_types: tuple[str, ...] = ("application/json",)
    is_cached: bool = False
    line: Any = None

    @property
    def bodies(self) -> tuple[Any, ...]:
        return self.body if isinstance(self.body, tuple) else () if self.body is None else (self.body,)

    @property
    def plain_path(self) -> str:
        """The path with its parameters as OpenAPI writes them, without their patterns."""
        return PARAMETER.sub(r"{\1}", self.path)

    @property
    def subject(self) -> str:
        """What it is about: boards, scores, standings ..., after the module of its handler."""
        module = self.handler.__module__.rpartition(".")[2]
        return module.replace("_routes", "s") if module.endswith("_routes") else "service"

    @property
    def name(self) -> str:
        return f"{self.method} {self.plain_path}"
