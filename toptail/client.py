"""The client: boards and trends over HTTP, with typed answers and errors.

    async with Client("http://127.0.0.1:8080", key="tt_...") as boards:
        await boards.create_board("game-1", top_n=1000, windows=["alltime", "daily"])
        await boards.submit("game-1", "ann", 120)
        standing = await boards.standing("game-1", "ann")

Answers are the types of toptail.wire and toptail.trend_wire, errors those of toptail.errors. A call is sent again when
that may help, until `timeout_s` is over (transport.py); a score gets an id if it has none, so it counts once however
often it is sent. When an attempt that got no answer had done the work, the result of the next one is `duplicate`.
"""

import secrets
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Sequence
from contextlib import aclosing
from datetime import datetime
from functools import cache
from typing import Any, Literal, Self, TypeVar

import aiohttp
import msgspec
from msgspec import UNSET, UnsetType

from toptail import trend_wire, wire
from toptail.bulk import MOST_SCORES, AnyScore, OnError, Outcome, submit_many
from toptail.errors import BadAnswer
from toptail.events import SomeEvent, send_events
from toptail.transport import Request, Transport, check_base_url, quote_name
from toptail.trend_wire import TrendOrder, TrendWindow
from toptail.wire import Number, Ranking, Standing

PAGE_ROWS = 1_000

T = TypeVar("T")

_encode = msgspec.json.Encoder().encode


class Client:
    """One service, asked by any number of tasks of one event loop.

    Time        `timeout_s` bounds a call with all its attempts, `attempt_s` one of them. Iterators bound each of their
                requests; an export only its silences.
    Session     A session that is given stays open; without one the client is used in `async with`, and makes its own.
    Retries     Broken connections, 429 and 503. An error after them says so if a write may have happened.
    Does not    follow redirects, or keep cookies. Undo what `submit_many` and `send_events` sent before they failed.
    """

    def __init__(
        self,
        base_url: str = "http://127.0.0.1:8080",
        *,
        key: str | None = None,
        session: aiohttp.ClientSession | None = None,
        timeout_s: float = 30.0,
        attempt_s: float = 10.0,
    ) -> None:
        self._base_url = check_base_url(base_url)
        self._key = key
        self._timeout_s, self._attempt_s = timeout_s, attempt_s
        self._own: aiohttp.ClientSession | None = None
        self._transport = None if session is None else self._make_transport(session)

    def __repr__(self) -> str:
        return f"Client({self._base_url!r}, key={'<hidden>' if self._key else None})"

    async def __aenter__(self) -> Self:
        if self._transport is None:
            self._own = aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar())
            self._transport = self._make_transport(self._own)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._own is not None:
            await self._own.close()
            self._own = self._transport = None

    # Boards

    async def create_board(self, name: str, **spec: Any) -> wire.BoardInfo:
        """Make a board, as wire.BoardSpec says; the same again changes nothing, another one is a Conflict."""
        return await self._ask(wire.BoardInfo, Request("PUT", _board(name), body=_encode(spec)))

    async def boards(self, prefix: str = "") -> AsyncGenerator[wire.BoardHead, None]:
        """All boards whose names begin so, by name."""
        cursor: str | UnsetType | None = None
        while cursor is not UNSET:
            query = {"prefix": prefix, "limit": PAGE_ROWS, "cursor": cursor}
            page = await self._ask(wire.BoardList, Request("GET", "/v1/boards", query))  # type: ignore[arg-type]
            for head in page.boards:
                yield head
            cursor = page.next_cursor

    async def board(self, name: str) -> wire.BoardInfo:
        return await self._ask(wire.BoardInfo, Request("GET", _board(name)))

    async def change_board(self, name: str, **change: Any) -> wire.BoardInfo:
        """Change top_n, title or retention_days."""
        return await self._ask(wire.BoardInfo, Request("PATCH", _board(name), body=_encode(change)))

    async def delete_board(self, name: str) -> None:
        """Remove a board and everything on it."""
        await self._send(Request("DELETE", _board(name)))

    # Scores

    async def submit(
        self,
        board: str,
        player: str,
        score: Number,
        *,
        subscore: Number | None = None,
        at: datetime | int | None = None,
        id: str | None = None,  # noqa: A002  # the wire calls it so
        tag: str | None = None,
        with_standing: bool = False,
    ) -> wire.ScoreResult:
        """Submit one score; `id` makes it count once, also across calls. `at` is now unless given."""
        given = {"player": player, "score": score, "subscore": subscore, "at": at, "id": id or _token(), "tag": tag}
        body = _encode({name: value for name, value in given.items() if value is not None})
        query = {"return": "standing" if with_standing else None}
        taken = await self._ask(wire.ScoresTaken, Request("POST", _board(board) + "/scores", query, body))
        (result,) = taken.results
        return result

    async def submit_many(
        self, board: str, scores: Iterable[AnyScore] | AsyncIterable[AnyScore], *, on_error: OnError = "stop"
    ) -> AsyncGenerator[Outcome, None]:
        """What became of each score, in order, while later ones are still on their way.

        Scores leave in requests of 5,000, eight under way at a time. With "stop" the first bad score raises, with
        its `index`: its request is not written, those before it are, up to seven after it may be. With "skip" a
        wire.BadScore stands in its place. Ids of your own make it safe to submit the same scores again.
        """
        outcomes = submit_many(self._way(), _board(board) + "/scores", scores, id_prefix=_token(), on_error=on_error)
        async with aclosing(outcomes):
            async for outcome in outcomes:
                yield outcome

    async def remove_player(self, board: str, player: str) -> None:
        """Remove a player from every window."""
        await self._send(Request("DELETE", _player(board, player)))

    # Standings

    async def standing(
        self, board: str, player: str, *, window: str | None = None, exact: bool = False, ranking: Ranking = "unique"
    ) -> Standing:
        """Where a player stands: a rank, or a percentile with its interval; with `exact` always a rank."""
        query = {"window": window, "exact": exact or None, "ranking": ranking}
        return await self._ask(Standing, Request("GET", _player(board, player), query))  # type: ignore[arg-type]

    async def standings(
        self,
        board: str,
        players: Sequence[str],
        *,
        window: str | None = None,
        exact: bool = False,
        ranking: Ranking = "unique",
    ) -> list[Standing | None]:
        """Where players stand, in their order, None for those without a record; asked 5,000 at a time."""
        query = {"window": window, "exact": exact or None, "ranking": ranking}
        found: list[Standing | None] = []
        for start in range(0, len(players), MOST_SCORES):
            body = _encode({"players": players[start : start + MOST_SCORES]})
            page = await self._ask(wire.Standings, Request("POST", _board(board) + "/standings", query, body))
            found += page.standings
        return found

    async def standing_of_score(
        self, board: str, score: Number, *, window: str | None = None, exact: bool = False, ranking: Ranking = "unique"
    ) -> Standing:
        """Where a newcomer with this score would stand, last among equals."""
        query = {"score": score, "window": window, "exact": exact or None, "ranking": ranking}
        return await self._ask(Standing, Request("GET", _board(board) + "/standing", query))  # type: ignore[arg-type]

    # Rows

    async def top(
        self,
        board: str,
        limit: int = 100,
        *,
        cursor: str | None = None,
        from_rank: int | None = None,
        window: str | None = None,
    ) -> wire.Top:
        """A page of rows: from the first, from a rank on, or from where another page ended."""
        query = {"limit": limit, "cursor": cursor, "from_rank": from_rank, "window": window}
        return await self._ask(wire.Top, Request("GET", _board(board) + "/top", query))

    async def rows(
        self, board: str, *, window: str | None = None, page_rows: int = PAGE_ROWS
    ) -> AsyncGenerator[wire.Entry, None]:
        """All rows, page by page: each may be long after the one before."""
        page = await self.top(board, page_rows, window=window)
        while True:
            for entry in page.entries:
                yield entry
            if page.next_cursor is UNSET:
                return
            page = await self.top(board, page_rows, cursor=str(page.next_cursor), window=window)

    async def export(self, board: str, *, window: str | None = None) -> AsyncGenerator[wire.Entry, None]:
        """All rows in one stream, the quickest way to them; raises NoAnswer if it breaks off."""
        decode, rest = _decoder(wire.Entry).decode_lines, b""
        pieces = self._way().stream(Request("GET", _board(board) + "/export", {"window": window}))
        async with aclosing(pieces):
            async for piece in pieces:
                lines, _, rest = (rest + piece).rpartition(b"\n")
                for entry in _decode(lines, decode):
                    yield entry
        for entry in _decode(rest, decode):
            yield entry

    async def neighbors(self, board: str, player: str, *, reach: int = 5, window: str | None = None) -> wire.Neighbors:
        """A player, and `reach` rows above and below."""
        query = {"range": reach, "window": window}
        return await self._ask(wire.Neighbors, Request("GET", _player(board, player) + "/neighbors", query))

    # The spread of scores

    async def quantiles(self, board: str, shares: Iterable[float], *, window: str | None = None) -> wire.Quantiles:
        """The least scores that are proved to reach these shares of players, 0 to 1."""
        query = {"q": ",".join(map(repr, shares)), "window": window}
        return await self._ask(wire.Quantiles, Request("GET", _board(board) + "/quantiles", query))

    async def distribution(
        self, board: str, *, bins: int = 50, scale: Literal["linear", "log"] = "linear", window: str | None = None
    ) -> wire.Distribution:
        """How many players have which scores."""
        query = {"bins": bins, "scale": scale, "window": window}
        return await self._ask(wire.Distribution, Request("GET", _board(board) + "/distribution", query))

    # Trends

    async def create_trend(self, name: str, **spec: Any) -> trend_wire.TrendInfo:
        """Make a trend, as trend_wire.TrendSpec says; the same again changes nothing, another one is a Conflict."""
        return await self._ask(trend_wire.TrendInfo, Request("PUT", _trend(name), body=_encode(spec)))

    async def trends(self, prefix: str = "") -> AsyncGenerator[trend_wire.TrendHead, None]:
        """All trends whose names begin so, by name."""
        cursor: str | UnsetType | None = None
        while cursor is not UNSET:
            query = {"prefix": prefix, "limit": PAGE_ROWS, "cursor": cursor}
            page = await self._ask(trend_wire.TrendList, Request("GET", "/v1/trends", query))  # type: ignore[arg-type]
            for head in page.trends:
                yield head
            cursor = page.next_cursor

    async def trend(self, name: str) -> trend_wire.TrendInfo:
        return await self._ask(trend_wire.TrendInfo, Request("GET", _trend(name)))

    async def delete_trend(self, name: str) -> None:
        """Remove a trend and all it has counted."""
        await self._send(Request("DELETE", _trend(name)))

    async def send_events(
        self, trend: str, events: Iterable[SomeEvent], *, key: str | None = None
    ) -> trend_wire.EventsTaken:
        """Count events: items alone, or with a count, a time or an actor; 10,000 a request, one after the other.

        `key` names them: the same events with the same key again count once, so a call that failed half way may be
        repeated. Without one they get a name of their own, and count once however often the call has to try.
        """
        return await send_events(self._way(), _trend(trend) + "/events", events, key=key or _token())

    async def trending(
        self, trend: str, *, window: TrendWindow | None = None, by: TrendOrder = "count", limit: int | None = None
    ) -> trend_wire.TrendTop:
        """What was counted most, what more than usual, or by most actors; 10 rows unless `limit` says otherwise."""
        query = {"window": window, "by": by, "limit": limit}
        return await self._ask(trend_wire.TrendTop, Request("GET", _trend(trend) + "/top", query))

    async def trend_item(self, trend: str, item: str, *, window: TrendWindow | None = None) -> trend_wire.ItemCount:
        """How often any item was counted."""
        path = f"{_trend(trend)}/items/{quote_name(item, 'item')}"
        return await self._ask(trend_wire.ItemCount, Request("GET", path, {"window": window}))

    async def hide_item(self, trend: str, item: str) -> None:
        """Keep an item off the board."""
        await self._send(Request("PUT", _hidden(trend, item)))

    async def show_item(self, trend: str, item: str) -> None:
        """Let an item be seen again."""
        await self._send(Request("DELETE", _hidden(trend, item)))

    def _make_transport(self, session: aiohttp.ClientSession) -> Transport:
        return Transport(session, self._base_url, self._key, timeout_s=self._timeout_s, attempt_s=self._attempt_s)

    def _way(self) -> Transport:
        if self._transport is None:
            raise RuntimeError("a client without a session of yours is used in `async with Client(...)`")
        return self._transport

    async def _send(self, request: Request) -> bytes:
        return (await self._way().send(request)).body

    async def _ask(self, kind: type[T], request: Request) -> T:
        answer: T = _decode(await self._send(request), _decoder(kind).decode)  # type: ignore[arg-type]  # types hash
        return answer


@cache
def _decoder(kind: Any) -> Any:
    return msgspec.json.Decoder(kind)


def _decode(body: bytes, decode: Callable[[bytes], T]) -> T:
    try:
        return decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadAnswer(f"the answer is not one of toptail's: {error}") from None


def _board(name: str) -> str:
    return f"/v1/boards/{quote_name(name, 'board')}"


def _player(board: str, player: str) -> str:
    return f"{_board(board)}/players/{quote_name(player, 'player')}"


def _trend(name: str) -> str:
    return f"/v1/trends/{quote_name(name, 'trend')}"


def _hidden(trend: str, item: str) -> str:
    return f"{_trend(trend)}/hidden/{quote_name(item, 'item')}"


def _token() -> str:
    return secrets.token_urlsafe(12)
