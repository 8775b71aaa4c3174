"""The application: routes around an engine.

Every request takes the same way: is there room, may this caller do this, parse, handle, encode; and whatever is raised
on it becomes one shape of error (errors.py). The way is a plain function around each handler rather than a chain of
middlewares, because each of those costs every request.
"""

import logging
import time
from collections.abc import Awaitable, Callable
from hashlib import blake2b
from typing import Any
from uuid import uuid4

import msgspec
from aiohttp import HttpVersion11, web

from service import board_routes, score_routes, site, standing_routes, trend_routes
from service.auth import EVERYTHING, Auth
from service.bodies import JSON, parse_query
from service.errors import ApiError, code_of, render_error
from service.metrics import CONTENT_TYPE, Metrics
from service.openapi import make_openapi
from service.response import JsonResponse
from service.routes import Call, Route
from service.settings import Settings
from service.state import STATE, State

log = logging.getLogger(__name__)

# The router tries them one after the other: what is asked most comes first.
ROUTES: tuple[Route, ...] = (
    *standing_routes.ROUTES,
    *score_routes.ROUTES,
    *trend_routes.ROUTES,
    *board_routes.ROUTES,
    *site.ROUTES,
)
REQUEST_ID = "X-Request-Id"

_encode = msgspec.json.Encoder().encode
_Handle = Callable[[web.Request], Awaitable[web.StreamResponse]]


def make_app(state: State, *, auth: Auth, metrics: Metrics) -> web.Application:
    """The application around one engine, which is opened and closed by whoever made it."""
    app = web.Application(client_max_size=state.settings.max_body_bytes)
    app[STATE] = state
    state.metrics = metrics
    for route in (*ROUTES, *site.PAGES):
        app.router.add_route(route.method, route.path, _make_handle(route, state, auth, metrics))
    schema = _encode(make_openapi(ROUTES))
    app.router.add_get("/openapi.json", _serve(lambda: web.Response(body=schema, content_type=JSON)))
    app.router.add_get("/metrics", _serve(lambda: _render_metrics(metrics, state)))
    app.router.add_route("*", "/{path:.*}", _make_fallback(app, state.settings))
    if state.settings.cors_origins:
        app.on_response_prepare.append(_make_cors(state.settings))
    return app


def _make_handle(route: Route, state: State, auth: Auth, metrics: Metrics) -> _Handle:
    """The way of a request through one route."""
    no_query, name = _default(route.query), route.name
    most, clock = state.settings.max_in_flight, time.perf_counter

    async def handle(request: web.Request) -> web.StreamResponse:
        began_s, grant = clock(), EVERYTHING
        state.in_flight += 1
        try:
            if state.in_flight > most:
                raise ApiError("overloaded", f"{most} requests are being handled already")
            if route.role is not None and not auth.is_open:
                named = request.match_info.get("board") or request.match_info.get("trend")
                grant = auth.check(request.headers.get("Authorization"), route.role, named)
                if state.limits is not None:
                    await state.limits.take_request(grant.id)
            if state.refusal is not None and route.role is not None:
                raise ApiError("unavailable", state.refusal)
            is_plain = no_query is not None and not request.query_string
            query = no_query if is_plain or route.query is None else parse_query(request, route.query)
            response = _render(await route.handler(Call(request, state, query, grant.allows)), route, request)
        except Exception as error:  # whatever it is, the client gets one shape of error
            response = _render_error(error, request)
        finally:
            state.in_flight -= 1
        if state.is_stopping:
            response.force_close()
        metrics.add("toptail_requests", name, str(response.status))
        metrics.observe("toptail_request_seconds", clock() - began_s, name)
        return response

    return handle


def _default(query: Any) -> Any:
    """The query of a request that has none, where none is needed."""
    try:
        return None if query is None else query()
    except TypeError:  # a field is required
        return None


def _render(answer: Any, route: Route, request: web.Request) -> web.StreamResponse:
    """The response of an answer: ready-made, nothing, or of the wire with or without a status of its own."""
    if isinstance(answer, web.StreamResponse):
        return answer
    if answer is None:
        return web.Response(status=204)
    status, body = (answer[0], answer[1]) if isinstance(answer, tuple) else (200, answer)
    encoded = _encode(body)
    if not (route.is_cached or request.app.on_response_prepare) and request.version == HttpVersion11:
        return JsonResponse(status, encoded)
    response = web.Response(status=status, body=encoded, content_type=JSON)
    return _tag(response, request) if route.is_cached else response


def _tag(response: web.Response, request: web.Request) -> web.Response:
    """With an ETag; nothing at all where the client has the same already."""
    tag = f'"{blake2b(response.body or b"", digest_size=12).hexdigest()}"'  # type: ignore[arg-type]
    headers = {"ETag": tag, "Cache-Control": "max-age=1"}
    if tag in request.headers.get("If-None-Match", ""):
        return web.Response(status=304, headers=headers)
    response.headers.update(headers)
    return response


def _render_error(error: Exception, request: web.Request) -> web.Response:
    if isinstance(error, web.HTTPException):
        error = _translate(error)
    request_id = request.headers.get(REQUEST_ID, "")[:128] or uuid4().hex
    if code_of(error) == "internal":
        log.error("request failed", exc_info=error, extra={"request_id": request_id, "path": request.path})
    status, body, headers = render_error(error, request_id)
    return web.Response(status=status, body=_encode(body), content_type=JSON, headers=headers)


def _translate(error: web.HTTPException) -> ApiError:
    """What the framework itself refuses."""
    codes = {404: "not_found", 405: "method_not_allowed", 413: "too_large", 415: "unsupported_media_type"}
    return ApiError(codes.get(error.status, "invalid_body"), error.reason)


def _make_fallback(app: web.Application, settings: Settings) -> _Handle:
    """No such path, or not with this method; and the question of a browser whether it may ask."""

    async def handle(request: web.Request) -> web.StreamResponse:
        allowed: set[str] = set()
        for resource in app.router.resources():
            if resource.canonical != "/{path}":
                _, methods = await resource.resolve(request)
                allowed |= methods
        if not allowed:
            return _render_error(ApiError("not_found", f"there is nothing at {request.path[:200]!r}"), request)
        if request.method == "OPTIONS" and settings.cors_origins:
            return web.Response(status=204)
        error = ApiError("method_not_allowed", f"{request.method} is not for {request.path[:200]!r}")
        response = _render_error(error, request)
        response.headers["Allow"] = ", ".join(sorted(allowed))
        return response

    return handle


def _make_cors(settings: Settings) -> Callable[[web.Request, web.StreamResponse], Awaitable[None]]:
    """Let browsers ask from these origins."""

    async def prepare(request: web.Request, response: web.StreamResponse) -> None:
        origin = request.headers.get("Origin")
        if origin is None or not {"*", origin} & set(settings.cors_origins):
            return
        response.headers["Access-Control-Allow-Origin"] = origin
        response.headers["Vary"] = "Origin"
        if request.method == "OPTIONS":
            response.headers["Access-Control-Allow-Methods"] = "GET, POST, PUT, PATCH, DELETE"
            response.headers["Access-Control-Allow-Headers"] = "Authorization, Content-Type, Idempotency-Key"
            response.headers["Access-Control-Max-Age"] = "600"

    return prepare


def _render_metrics(metrics: Metrics, state: State) -> web.Response:
    metrics.set("toptail_requests_in_flight", state.in_flight)
    return web.Response(body=metrics.render(), headers={"Content-Type": CONTENT_TYPE})


def _serve(make: Callable[[], web.Response]) -> _Handle:
    async def handle(_: web.Request) -> web.StreamResponse:
        return make()

    return handle
