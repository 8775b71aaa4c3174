"""Where players stand: standings, pages, neighbours, quantiles, bins, export."""

import logging
from collections.abc import AsyncIterator
from io import BytesIO
from typing import Annotated, Any, Literal

import msgspec
import pyarrow as pa
from aiohttp import web
from msgspec import UNSET, Meta
from redis.exceptions import ResponseError

from hybrid.config import Board
from hybrid.errors import HybridError
from hybrid.events import check_player
from hybrid.seek import Entry
from service.board_routes import BOARD
from service.bodies import ARROW, JSON, NDJSON, parse_json, read_body
from service.errors import ApiError
from service.rendering import render_entry, render_standing, render_standings, render_time
from service.routes import Call, Route
from service.score_routes import PLAYER
from toptail import wire

EXPORT_ROWS = 1000

log = logging.getLogger(__name__)


class WindowQuery(wire.Request):
    window: wire.Window | None = None


class StandingQuery(wire.Request):
    window: wire.Window | None = None
    exact: bool = False
    ranking: wire.Ranking = "unique"


class ScoreQuery(wire.Request):
    score: wire.Number
    window: wire.Window | None = None
    exact: bool = False
    ranking: wire.Ranking = "unique"


class TopQuery(wire.Request):
    limit: Annotated[int, Meta(ge=1)] = 100
    cursor: str | None = None
    from_rank: Annotated[int, Meta(ge=1)] | None = None
    window: wire.Window | None = None


class NeighborsQuery(wire.Request):
    reach: Annotated[int, Meta(ge=0)] = msgspec.field(default=5, name="range")
    window: wire.Window | None = None


class QuantilesQuery(wire.Request):
    q: Annotated[str, Meta(pattern=r"^[0-9.eE+-]+(,[0-9.eE+-]+)*$", description="Shares with commas between: 0.5,0.99")]
    window: wire.Window | None = None


class DistributionQuery(wire.Request):
    bins: Annotated[int, Meta(ge=1, le=1000)] = 50
    scale: Literal["linear", "log"] = "linear"
    window: wire.Window | None = None


async def get_standing(call: Call) -> wire.Standing:
    query: StandingQuery = call.query
    board, player = await call.board(), call.request.match_info["player"]
    found = await call.state.engine.standings.of_player(
        board, player, window=query.window, is_exact=query.exact, ranking=query.ranking
    )
    if found is None:
        raise _no_player(board, player)
    return render_standing(found)


async def post_standings(call: Call) -> wire.Standings:
    query: StandingQuery = call.query
    board = await call.board()
    body = parse_json(await read_body(call.request, call.state.settings), wire.Players)
    if len(body.players) > call.state.settings.max_items:
        raise ApiError("too_large", f"a request has at most {call.state.settings.max_items} players")
    call.state.metrics.observe("toptail_batch_items", len(body.players), "standings")
    rows = await call.state.engine.standings.of_players(
        board, body.players, window=query.window, is_exact=query.exact, ranking=query.ranking
    )
    return wire.Standings(standings=render_standings(rows))


async def get_standing_of_score(call: Call) -> wire.Standing:
    query: ScoreQuery = call.query
    rows = await call.state.engine.standings.of_scores(
        await call.board(), [query.score], window=query.window, is_exact=query.exact, ranking=query.ranking
    )
    (found,) = rows
    if found is None:
        raise ApiError("internal", "a newcomer always stands somewhere")
    return render_standing(found)


async def get_top(call: Call) -> wire.Top:
    query: TopQuery = call.query
    board, most = await call.board(), call.state.settings.max_page
    if query.limit > most:
        raise ApiError("invalid_field", f"limit goes from 1 to {most}, not {query.limit}", field="limit")
    page = await call.state.engine.pages.page(
        board, limit=query.limit, cursor=query.cursor, from_rank=query.from_rank, window=query.window
    )
    return wire.Top(
        entries=[render_entry(board, entry) for entry in page.entries],
        window=page.window,
        players=page.players,
        seq=page.seq,
        as_of=render_time(page.as_of_ms),
        next_cursor=page.cursor or UNSET,
    )


async def get_neighbors(call: Call) -> wire.Neighbors:
    query: NeighborsQuery = call.query
    board, player = await call.board(), call.request.match_info["player"]
    if query.reach > call.state.settings.max_page:
        raise ApiError(
            "invalid_field", f"range goes from 0 to {call.state.settings.max_page}, not {query.reach}", field="range"
        )
    found = await call.state.engine.pages.neighbors(board, player, reach=query.reach, window=query.window)
    own = await call.state.engine.standings.of_player(board, player, window=query.window, is_exact=True)
    if found is None or own is None:
        raise _no_player(board, player)
    standing = render_standing(own)
    if not isinstance(standing, wire.RankStanding):
        raise ApiError("internal", "an exact standing has a rank")
    return wire.Neighbors(
        player=standing,
        above=[render_entry(board, entry) for entry in found.above],
        below=[render_entry(board, entry) for entry in found.below],
    )


async def get_quantiles(call: Call) -> wire.Quantiles:
    query: QuantilesQuery = call.query
    board = await call.board()
    found = await call.state.engine.distribution.quantiles(board, _parse_shares(query.q), window=query.window)
    rows = [wire.Quantile(q=row.q, score=row.score, low=row.low, high=row.high) for row in found]
    return wire.Quantiles(quantiles=rows, window=board.window(query.window, call.state.engine.now_ms()).name)


async def get_distribution(call: Call) -> wire.Distribution:
    query: DistributionQuery = call.query
    board = await call.board()
    found = await call.state.engine.distribution.bins(board, query.bins, scale=query.scale, window=query.window)
    rows = [wire.Bin(start=row.start, end=row.end, count=row.count, low=row.low, high=row.high) for row in found]
    return wire.Distribution(bins=rows, window=board.window(query.window, call.state.engine.now_ms()).name)


async def get_export(call: Call) -> web.StreamResponse:
    query: WindowQuery = call.query
    board = await call.board()
    board.window(query.window, call.state.engine.now_ms())
    is_arrow = ARROW in call.request.headers.get("Accept", "")
    response = web.StreamResponse(headers={"Content-Type": ARROW if is_arrow else NDJSON})
    rows = call.state.engine.pages.rows(board, window=query.window)
    await response.prepare(call.request)
    try:
        async for chunk in _arrow_chunks(board, rows) if is_arrow else _line_chunks(board, rows):
            await response.write(chunk)
        await response.write_eof()
    except (HybridError, ResponseError) as error:
        # Part of it is out already: only a connection that breaks says that the rest is missing.
        log.warning("export broke off", extra={"board": board.name, "reason": str(error)})
        if call.request.transport is not None:
            call.request.transport.abort()
    return response


async def _line_chunks(board: Board, rows: AsyncIterator[Entry]) -> AsyncIterator[bytes]:
    encoder, lines = msgspec.json.Encoder(), []
    async for entry in rows:
        lines.append(render_entry(board, entry))
        if len(lines) == EXPORT_ROWS:
            yield encoder.encode_lines(lines)
            lines = []
    if lines:
        yield encoder.encode_lines(lines)


async def _arrow_chunks(board: Board, rows: AsyncIterator[Entry]) -> AsyncIterator[bytes]:
    """An Arrow stream of record batches, each handed on when it is full."""
    schema, sink = _arrow_schema(board), BytesIO()
    entries: list[wire.Entry] = []
    with pa.ipc.new_stream(sink, schema) as writer:
        async for entry in rows:
            entries.append(render_entry(board, entry))
            if len(entries) == EXPORT_ROWS:
                writer.write_batch(_arrow_batch(schema, entries))
                yield _drain(sink)
                entries = []
        writer.write_batch(_arrow_batch(schema, entries))
    yield _drain(sink)


def _arrow_schema(board: Board) -> Any:
    score = pa.float64() if board.config.decimals else pa.int64()
    fields = [("rank", pa.int64()), ("player", pa.string()), ("score", score)]
    if board.config.subscore:
        fields.append(("subscore", pa.float64() if board.config.subscore.decimals else pa.int64()))
    if board.key.has_time:
        fields.append(("at", pa.timestamp("ms", "UTC")))
    return pa.schema(fields)


def _arrow_batch(schema: Any, entries: list[wire.Entry]) -> Any:
    columns = [pa.array([getattr(entry, name) for entry in entries], schema.field(name).type) for name in schema.names]
    return pa.record_batch(columns, schema)


def _drain(sink: BytesIO) -> bytes:
    data = sink.getvalue()
    sink.seek(0)
    sink.truncate()
    return data


def _parse_shares(text: str) -> list[float]:
    """Numbers with commas between."""
    shares = []
    for part in text.split(","):
        try:
            shares.append(float(part))
        except ValueError:
            raise ApiError(
                "invalid_field", f"q is numbers from 0 to 1 with commas between, not {part[:100]!r}", field="q"
            ) from None
    return shares


def _no_player(board: Board, player: str) -> ApiError:
    check_player(player)
    return ApiError("player_not_found", f"board {board.name!r} has no player {player!r} in this window", field="player")


ROUTES = (
    Route("GET", PLAYER, get_standing, "Where a player stands", "read", {200: wire.Standing}, StandingQuery),
    Route(
        "POST",
        BOARD + "/standings",
        post_standings,
        "Where many players stand",
        "read",
        {200: wire.Standings},
        StandingQuery,
        wire.Players,
        (JSON,),
    ),
    Route(
        "GET",
        BOARD + "/standing",
        get_standing_of_score,
        "Where a newcomer with this score would stand, last among equals",
        "read",
        {200: wire.Standing},
        ScoreQuery,
    ),
    Route("GET", BOARD + "/top", get_top, "A page of the board", "read", {200: wire.Top}, TopQuery, is_cached=True),
    Route(
        "GET",
        PLAYER + "/neighbors",
        get_neighbors,
        "The rows around a player",
        "read",
        {200: wire.Neighbors},
        NeighborsQuery,
    ),
    Route(
        "GET",
        BOARD + "/quantiles",
        get_quantiles,
        "The score that a percentile takes",
        "read",
        {200: wire.Quantiles},
        QuantilesQuery,
    ),
    Route(
        "GET",
        BOARD + "/distribution",
        get_distribution,
        "How scores are spread",
        "read",
        {200: wire.Distribution},
        DistributionQuery,
        is_cached=True,
    ),
    Route(
        "GET",
        BOARD + "/export",
        get_export,
        "Every row in rank order, as lines or as an Arrow stream",
        "read",
        {200: wire.Entry},
        WindowQuery,
        answer_types=(NDJSON, ARROW),
    ),
)
