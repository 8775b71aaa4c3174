"""Trends: make, list, describe, remove; events in, boards out; items kept off them."""

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from hybrid.trends.config import Trend
from hybrid.trends.events import TrendBatch
from service.arrow_bodies import parse_events
from service.board_routes import ListQuery, NoQuery
from service.bodies import ARROW, JSON, NDJSON, parse_json, parse_lines, read_body
from service.errors import ApiError
from service.routes import Call, Route
from service.trend_rendering import (
    make_batch,
    parse_trend,
    render_item_count,
    render_trend,
    render_trend_head,
    render_trend_top,
)
from toptail import trend_wire as wire
from toptail.wire import Request

LIMIT = 10  # rows of a top, unless more are asked for


class ItemQuery(Request):
    window: wire.TrendWindow | UnsetType = UNSET  # not None, which a query could spell as `null`


class TrendTopQuery(ItemQuery):
    limit: Annotated[int, Meta(ge=1, description="10 unless given; at most a quarter of capacity")] | UnsetType = UNSET
    by: wire.TrendOrder = "count"


async def put_trend(call: Call) -> tuple[int, wire.TrendInfo]:
    body = await read_body(call.request, call.state.settings)
    spec = parse_json(body or b"{}", wire.TrendSpec)
    if spec.source is not None and not call.may("read", spec.source.board):
        raise ApiError("forbidden", f"this key may not read {spec.source.board!r}", field="source")
    trend, is_new = await call.state.engine.trends.create(call.path["trend"], parse_trend(spec))
    call.state.trends.forget(trend.name)
    return 201 if is_new else 200, await _describe(call)


async def list_trends(call: Call) -> wire.TrendList:
    query: ListQuery = call.query
    trends = await call.state.engine.trends.list(query.prefix, limit=query.limit + 1, after=query.cursor)
    page = trends[: query.limit]
    cursor: str | UnsetType = page[-1].name if len(trends) > query.limit else UNSET
    return wire.TrendList(trends=list(map(render_trend_head, page)), next_cursor=cursor)


async def get_trend(call: Call) -> wire.TrendInfo:
    return await _describe(call)


async def delete_trend(call: Call) -> None:
    await call.state.engine.trends.delete(call.path["trend"])
    call.state.trends.forget(call.path["trend"])


async def post_events(call: Call) -> tuple[int, wire.EventsTaken]:
    trend = await call.trend()
    batch = await _read_events(call)
    call.state.metrics.observe("toptail_batch_items", len(batch.items), "events")
    taken = await call.state.engine.trends.submit(trend, batch, call.request.headers.get("Idempotency-Key"))
    return 202, wire.EventsTaken(accepted=taken.accepted, late=taken.late)


async def get_trend_top(call: Call) -> wire.TrendTop:
    query: TrendTopQuery = call.query
    trend, most = await call.trend(), call.state.settings.max_page
    limit = min(LIMIT, trend.most_rows) if query.limit is UNSET else query.limit
    if limit > most:
        raise ApiError("invalid_field", f"limit goes from 1 to {most}, not {limit}", field="limit")
    window = _window(trend, query)
    return render_trend_top(await call.state.engine.trends.top(trend, window, by=query.by, limit=limit), window)


async def get_item(call: Call) -> wire.ItemCount:
    trend = await call.trend()
    window = _window(trend, call.query)
    return render_item_count(await call.state.engine.trends.item(trend, call.path["item"], window), window)


async def put_hidden(call: Call) -> None:
    await call.state.engine.trends.hide(await call.trend(), call.path["item"])


async def delete_hidden(call: Call) -> None:
    await call.state.engine.trends.show(await call.trend(), call.path["item"])


async def _describe(call: Call) -> wire.TrendInfo:
    trends, trend = call.state.engine.trends, await call.trend()
    return render_trend(trend, await trends.sums(trend), await trends.backlog(trend), call.state.engine.now_ms())


def _window(trend: Trend, query: ItemQuery) -> str:
    return trend.span(None if query.window is UNSET else query.window).name


async def _read_events(call: Call) -> TrendBatch:
    """The events of a body; Arrow's are limited by its bytes, others by their number too."""
    settings, now_ms = call.state.settings, call.state.engine.now_ms()
    body = await read_body(call.request, settings, (JSON, NDJSON, ARROW))
    kind = call.request.content_type
    if kind == ARROW:
        return parse_events(body, now_ms)
    if kind == NDJSON:
        events: list[wire.AnyEvent] = parse_lines(body, wire.AnyEvent)  # type: ignore[arg-type]  # a union is one too
    else:
        events = parse_json(body, wire.Events).events
    if len(events) > settings.max_items:
        raise ApiError("too_large", f"a request has at most {settings.max_items} events")
    return make_batch(events, now_ms)


TREND = "/v1/trends/{trend:[^/]+}"
HIDDEN = TREND + "/hidden/{item:[^/]+}"
ROUTES = (
    Route(
        "POST",
        TREND + "/events",
        post_events,
        "Count items: a list, a stream of lines, or an Arrow stream",
        "write",
        {202: wire.EventsTaken},
        NoQuery,
        wire.Events,
        (JSON, NDJSON, ARROW),
        line=wire.AnyEvent,
    ),
    Route(
        "GET",
        TREND + "/top",
        get_trend_top,
        "What was counted most in a window, what more than usual, or by most actors",
        "read",
        {200: wire.TrendTop},
        TrendTopQuery,
        is_cached=True,
    ),
    Route(
        "GET",
        TREND + "/items/{item:[^/]+}",
        get_item,
        "How often any item was counted in a window",
        "read",
        {200: wire.ItemCount},
        ItemQuery,
    ),
    Route(
        "PUT",
        TREND,
        put_trend,
        "Make a trend; the same again changes nothing",
        "admin",
        {201: wire.TrendInfo, 200: wire.TrendInfo},
        NoQuery,
        wire.TrendSpec,
        (JSON,),
    ),
    Route("GET", "/v1/trends", list_trends, "List trends by name", "read", {200: wire.TrendList}, ListQuery),
    Route("GET", TREND, get_trend, "Describe a trend", "read", {200: wire.TrendInfo}, NoQuery, is_cached=True),
    Route("DELETE", TREND, delete_trend, "Remove a trend and all it has counted", "admin", {204: None}, NoQuery),
    Route("PUT", HIDDEN, put_hidden, "Keep an item off the board", "admin", {204: None}, NoQuery),
    Route("DELETE", HIDDEN, delete_hidden, "Let an item be seen again", "admin", {204: None}, NoQuery),
)
