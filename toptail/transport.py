"""Requests to the service: sent, sent again while that may help, within one deadline.

Every request of the API may be sent twice: reads change nothing, boards and players are made and removed once, and a
score carries an id that counts once, as do the events of one request. So whatever passes by itself is tried again:
broken connections, 429, 503. Waits double from 50 ms to 2 s, with dice in them so that many clients do not come back at
once; Retry-After is honoured.

An error says what became of *all* attempts: when the last one found nobody but an earlier one was left without an
answer, the earlier one is raised, because a write may have happened.

Not handled: aiohttp itself repeats a GET, PUT or DELETE once when the connection breaks, and does not say so. A removal
whose first answer was lost that way may end in NotFound, though it was this call that removed.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar
from urllib.parse import quote, urlencode, urlsplit

import aiohttp

from toptail.errors import (
    Internal,
    InvalidField,
    NoAnswer,
    NotFound,
    OutcomeUnknown,
    ToptailError,
    TryLater,
    Unavailable,
    Unreachable,
    parse_error,
)

JSON, NDJSON = "application/json", "application/x-ndjson"

PASSING = (Unreachable, NoAnswer, TryLater, Unavailable, OutcomeUnknown)
DOUBTFUL = (NoAnswer, OutcomeUnknown, Internal)
HARMLESS = (Unreachable, TryLater, Unavailable)

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 2.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Request:
    """One request; values of the query that are None are left out."""

    method: str
    path: str
    query: Mapping[str, str | int | float | bool | None] = field(default_factory=dict)
    body: bytes | None = None
    content_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Reply:
    """The body of an answer, and what earlier attempts knew of the results."""

    body: bytes
    doubts: list[OutcomeUnknown]


class Transport:
    """The way to one service, over a session that belongs to someone else."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        base_url: str,
        key: str | None,
        *,
        timeout_s: float,
        attempt_s: float,
        dice: Callable[[], float] = random.random,
    ) -> None:
        self._session = session
        self._base_url = base_url
        self._headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._timeout_s, self._attempt_s = timeout_s, attempt_s
        self._dice = dice

    async def send(self, request: Request) -> Reply:
        """The answer to a request, of whichever attempt got one."""

        async def attempt(until_s: float) -> bytes:
            async with self._open(request, until_s) as response:
                return await response.read()

        doubts: list[OutcomeUnknown] = []
        return Reply(await self._persist(attempt, doubts, is_removal=request.method == "DELETE") or b"", doubts)

    async def stream(self, request: Request) -> AsyncGenerator[bytes, None]:
        """The body in pieces as they come. Nothing is sent again once the first has come."""

        async def attempt(until_s: float) -> AsyncGenerator[bytes, None]:
            pieces = self._pieces(request, until_s)
            first = await anext(pieces, b"")
            return _after(first, pieces)

        pieces = await self._persist(attempt, [])
        if pieces is not None:
            async with aclosing(pieces):
                async for piece in pieces:
                    yield piece

    async def _persist(
        self, attempt: Callable[[float], Awaitable[T]], doubts: list[OutcomeUnknown], *, is_removal: bool = False
    ) -> T | None:
        """What an attempt returns, None for a removal that an attempt without an answer had done."""
        clock = asyncio.get_running_loop().time
        deadline_s, doubt, number = clock() + self._timeout_s, None, 0
        while True:
            try:
                return await attempt(min(clock() + self._attempt_s, deadline_s))
            except ToptailError as error:
                if is_removal and doubt is not None and isinstance(error, NotFound):
                    return None
                doubt = error if isinstance(error, DOUBTFUL) else doubt
                if isinstance(error, OutcomeUnknown):
                    doubts.append(error)
                wait_s = pause_s(error, number, self._dice)
                if wait_s is None or clock() + wait_s >= deadline_s:
                    if doubt is not None and isinstance(error, HARMLESS):
                        raise doubt from error
                    raise
            await asyncio.sleep(wait_s)
            number += 1

    @asynccontextmanager
    async def _open(
        self, request: Request, until_s: float, *, is_stream: bool = False
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """A good answer, up to a time; whatever else there is as an error of ours."""
        try:
            async with (
                asyncio.timeout_at(until_s) as limit,
                self._session.request(
                    request.method,
                    self._address(request),
                    data=request.body,
                    headers=self._make_headers(request),
                    allow_redirects=False,  # they would carry the key elsewhere
                    timeout=aiohttp.ClientTimeout(total=None),
                ) as response,
            ):
                if response.status >= 300:
                    body = await response.read()
                    raise parse_error(response.status, body, response.headers.get("Retry-After"))
                if is_stream:
                    limit.reschedule(None)  # a stream takes as long as it takes; only silence ends it
                yield response
        except TimeoutError:
            raise NoAnswer(f"{self._base_url} did not answer in time") from None
        except aiohttp.ClientConnectorError as error:
            raise Unreachable(f"no service at {self._base_url}: {error.os_error.strerror or error}") from None
        except (aiohttp.ClientError, OSError) as error:
            raise NoAnswer(f"the connection to {self._base_url} broke: {error or type(error).__name__}") from None

    async def _pieces(self, request: Request, until_s: float) -> AsyncGenerator[bytes, None]:
        async with self._open(request, until_s, is_stream=True) as response:
            pieces = response.content.iter_any()
            while True:
                # aiohttp's own limit is not enough: it waits for ever after garbage in a body.
                async with asyncio.timeout(self._attempt_s):
                    piece = await anext(pieces, b"")
                if not piece:
                    return
                yield piece

    def _make_headers(self, request: Request) -> dict[str, str]:
        content = {} if request.body is None else {"Content-Type": request.content_type}
        return {**self._headers, **request.headers, **content}

    def _address(self, request: Request) -> str:
        given = {name: value for name, value in request.query.items() if value is not None}
        shown = {name: str(value).lower() if isinstance(value, bool) else value for name, value in given.items()}
        query = f"?{urlencode(shown)}" if shown else ""
        return self._base_url + request.path + query


def pause_s(error: ToptailError, number: int, dice: Callable[[], float]) -> float | None:
    """How long to wait after this attempt (the first is 0) before the next; None where that would be no use."""
    if not isinstance(error, PASSING):
        return None
    pause: float = min(_FIRST_PAUSE_S * 2 ** min(number, 10), _LONGEST_PAUSE_S) * (0.5 + dice() / 2)
    if error.retry_after_s is None:
        return pause
    return max(pause, error.retry_after_s * (1 + dice() / 4))


def check_base_url(base_url: str) -> str:
    """The address of a service without the slash at its end."""
    parts = urlsplit(base_url)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment:
        raise ValueError(f"base_url is like http://127.0.0.1:8080, not {base_url!r}")
    return base_url.rstrip("/")


def quote_name(name: str, field: str) -> str:
    """A board or player as part of a path. Dots alone would climb to another resource on the way: refused."""
    if not isinstance(name, str) or name in ("", ".", ".."):
        raise InvalidField(f"{field} is not empty and not . or .., not {name!r}", field=field)
    try:
        return quote(name, safe="")
    except UnicodeEncodeError:
        raise InvalidField(f"{field} is Unicode text, not {name!r}", field=field) from None


async def _after(first: bytes, pieces: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(pieces):
        yield first
        async for piece in pieces:
            yield piece
