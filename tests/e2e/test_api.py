"""The HTTP API: every route's good answer, every code of error, every wrong credential."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pytest
from yarl import URL

from hybrid import errors as hybrid_errors
from hybrid.embedded import EmbeddedRedis
from hybrid.engine import make_link
from hybrid.errors import OutcomeUnknown, ReadOnly, RedisUnavailable
from service import errors
from service.app import ROUTES
from service.auth import make_key
from service.openapi import make_openapi
from tests.api import BOARD, Api, open_api
from tests.e2e.trend_examples import TREND_EXAMPLES, fill_trend
from toptail import wire

JSON = {"Content-Type": "application/json"}
SCORES = [("ann", 120), ("bob", 95), ("cy", 95), ("dé", 7)]


async def fill(api: Api, **spec: Any) -> None:
    """A board with four players."""
    status, body = await api.ask("PUT", BOARD, json=spec)
    assert status == 201, body
    scores = [{"player": player, "score": score} for player, score in SCORES]
    status, body = await api.ask("POST", f"{BOARD}/scores", json={"scores": scores})
    assert status == 200, body


def play(redis: EmbeddedRedis, test: Callable[[Api], Awaitable[None]], **options: Any) -> None:
    async def run() -> None:
        async with open_api(make_link(redis.url), **options) as api:
            await test(api)

    asyncio.run(run())


EXAMPLES: dict[str, tuple[str, Any, Callable[[Any], bool]]] = {
    "PUT /v1/boards/{board}": (BOARD, {}, lambda body: body["board"] == "game" and body["bits"]["spare"] == 0),
    "GET /v1/boards": ("/v1/boards?prefix=ga", None, lambda body: [row["board"] for row in body["boards"]] == ["game"]),
    "GET /v1/boards/{board}": (
        BOARD,
        None,
        lambda body: body["players"] == 4 and body["seq"] == 4 and body["bytes"] > 0,
    ),
    "PATCH /v1/boards/{board}": (BOARD, {"title": "The game"}, lambda body: body["config"]["title"] == "The game"),
    "POST /v1/boards/{board}/scores": (
        f"{BOARD}/scores?return=standing",
        {"player": "ann", "score": 130},
        lambda body: body["results"][0]["status"] == "improved" and body["results"][0]["standing"]["rank"] == 1,
    ),
    "GET /v1/boards/{board}/players/{player}": (
        f"{BOARD}/players/bob?exact=true",
        None,
        lambda body: (body["kind"], body["rank"], body["percentile"]) == ("rank", 2, 100 / 3),
    ),
    "POST /v1/boards/{board}/standings": (
        f"{BOARD}/standings",
        {"players": ["dé", "nobody"]},
        lambda body: body["standings"][0]["rank"] == 4 and body["standings"][1] is None,
    ),
    "GET /v1/boards/{board}/standing": (f"{BOARD}/standing?score=100", None, lambda body: body["rank"] == 2),
    "GET /v1/boards/{board}/top": (
        f"{BOARD}/top?limit=2",
        None,
        lambda body: [row["player"] for row in body["entries"]] == ["ann", "bob"] and body["next_cursor"],
    ),
    "GET /v1/boards/{board}/players/{player}/neighbors": (
        f"{BOARD}/players/cy/neighbors?range=1",
        None,
        lambda body: (
            (body["player"]["rank"], body["above"][0]["player"], body["below"][0]["player"]) == (3, "bob", "dé")
        ),
    ),
    "GET /v1/boards/{board}/quantiles": (
        f"{BOARD}/quantiles?q=0.5,1",
        None,
        lambda body: [row["score"] for row in body["quantiles"]] == [96, 121],
    ),
    "GET /v1/boards/{board}/distribution": (
        f"{BOARD}/distribution?bins=2",
        None,
        lambda body: [(row["from"], row["to"], row["count"]) for row in body["bins"]] == [(7, 63, 1), (63, 120, 3)],
    ),
    "GET /v1/boards/{board}/export": (
        f"{BOARD}/export",
        None,
        lambda body: [json.loads(line)["rank"] for line in body.splitlines()] == [1, 2, 3, 4],
    ),
    "DELETE /v1/boards/{board}/players/{player}": (f"{BOARD}/players/ann", None, lambda body: body == b""),
    "DELETE /v1/boards/{board}": (BOARD, None, lambda body: body == b""),
    "GET /healthz": ("/healthz", None, lambda body: body == {"status": "ok"}),
    "GET /readyz": ("/readyz", None, lambda body: body["status"] == "ok"),
    **TREND_EXAMPLES,
}


def test_every_route_has_an_example_here() -> None:
    assert EXAMPLES.keys() == {route.name for route in ROUTES}


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_route_gives_its_good_answer(redis_server: EmbeddedRedis, name: str) -> None:
    path, sent, is_right = EXAMPLES[name]

    async def test(api: Api) -> None:
        await fill(api)
        await fill_trend(api)
        options = {} if sent is None else {"json": sent}
        async with api.counting():
            status, body = await api.ask(name.split(" ")[0], path, **options)
        assert status in (200, 202, 204), body
        assert is_right(body), body

    play(redis_server, test)


def test_the_schema_lists_exactly_the_routes_and_can_be_fetched(redis_server: EmbeddedRedis) -> None:
    async def test(api: Api) -> None:
        schema = await api.get("/openapi.json")
        listed = {f"{method.upper()} {path}" for path, rows in schema["paths"].items() for method in rows}
        assert listed == EXAMPLES.keys()
        assert schema == json.loads(json.dumps(make_openapi(ROUTES)))

    play(redis_server, test)


async def ask_bad(api: Api, code: str, **options: Any) -> dict[str, Any]:
    """The error of a request that must be refused with this code."""
    method, path = options.pop("method", "GET"), options.pop("path")
    async with api.client.request(method, path, **options) as response:
        body = await response.json()
        assert response.status == errors.STATUS[code], body
        assert body["error"]["code"] == code
        assert body["error"]["message"]
        assert body["error"]["request_id"]
        if response.status == 429:
            assert int(response.headers["Retry-After"]) >= 1
        error: dict[str, Any] = body["error"]
        return error


def fail_with(error: Exception) -> Callable[..., Awaitable[Any]]:
    async def fail(*_: object, **__: object) -> Any:
        raise error

    return fail


REFUSALS: dict[str, dict[str, Any]] = {
    "invalid_body": {"method": "POST", "path": f"{BOARD}/scores", "data": b"{", "headers": JSON},
    "board_not_found": {"path": "/v1/boards/none/top"},
    "player_not_found": {"path": f"{BOARD}/players/none"},
    "trend_not_found": {"path": "/v1/trends/none/top"},
    "not_found": {"path": "/v2"},
    "method_not_allowed": {"method": "POST", "path": BOARD},
    "conflict": {"method": "PUT", "path": BOARD, "json": {"shards": 3}},
    "too_large": {"method": "POST", "path": f"{BOARD}/scores", "data": b" " * 5000, "headers": JSON},
    "unsupported_media_type": {
        "method": "POST",
        "path": f"{BOARD}/scores",
        "data": b"x",
        "headers": {"Content-Type": "a/b"},
    },
    "invalid_field": {"path": f"{BOARD}/top?limit=0"},
    "at_out_of_range": {
        "method": "POST",
        "path": f"{BOARD}/scores",
        "json": {"player": "a", "score": 1, "at": "2019-01-01T00:00:00Z"},
    },
    "ranking_unavailable": {"path": f"{BOARD}/players/dé?ranking=dense"},
}


@pytest.mark.parametrize("code", REFUSALS)
def test_every_refusal_has_its_code_and_status(redis_server: EmbeddedRedis, code: str) -> None:
    async def test(api: Api) -> None:
        await fill(api, top_n=2)
        await ask_bad(api, code, **REFUSALS[code])

    play(redis_server, test, max_body_bytes=4000)


FAILURES: dict[str, Exception] = {
    "unavailable": RedisUnavailable("Redis cannot be reached"),
    "read_only": ReadOnly("Redis takes no writes"),
    "outcome_unknown": OutcomeUnknown("Redis did not answer in time"),
    "internal": ZeroDivisionError("a defect"),
}


@pytest.mark.parametrize("code", FAILURES)
def test_every_failure_has_its_code_and_status(
    redis_server: EmbeddedRedis, code: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(api: Api) -> None:
        await fill(api)
        api.engine.record.submit = fail_with(FAILURES[code])  # type: ignore[method-assign, assignment]
        error = await ask_bad(api, code, method="POST", path=f"{BOARD}/scores", json={"player": "a", "score": 1})
        assert "defect" not in error["message"]

    play(redis_server, test)
    assert ("a defect" in caplog.text) == (code == "internal")


def test_too_many_requests_at_a_time_are_refused_with_a_pause(redis_server: EmbeddedRedis) -> None:
    async def test(api: Api) -> None:
        await fill(api)
        api.state.in_flight = api.state.settings.max_in_flight
        await ask_bad(api, "overloaded", path=f"{BOARD}/top")
        api.state.in_flight = 0
        await api.get(f"{BOARD}/top")

    play(redis_server, test, max_in_flight=5)


def test_all_codes_are_shown_to_be_reachable() -> None:
    shown = {*REFUSALS, *FAILURES, "overloaded", "unauthenticated", "forbidden", "rate_limited"}
    assert shown == errors.STATUS.keys()


def test_every_error_of_the_engine_has_a_code() -> None:
    kinds = {kind for kind, _ in errors.CODES}
    for name in ("Refused", "RedisUnavailable", "OutcomeUnknown"):
        base = getattr(hybrid_errors, name)
        for kind in (base, *base.__subclasses__()):
            assert any(issubclass(kind, known) for known in kinds) or kind is hybrid_errors.Refused, kind


WRITER, WRITER_LINE = make_key("write", "game*")
READER, READER_LINE = make_key("read", "*")
ADMIN, ADMIN_LINE = make_key("admin", "*")
OTHER, OTHER_LINE = make_key("admin", "other-*")
WRONG = [
    None,
    "",
    "Bearer",
    "Bearer nonsense",
    f"Basic {ADMIN}",
    f"Bearer {ADMIN[:-1]}{'y' if ADMIN.endswith('x') else 'x'}",
    f"Bearer {make_key('admin', '*')[0]}",
]


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name.split(" ")[1].startswith("/v1")])
def test_every_route_refuses_every_wrong_credential(redis_server: EmbeddedRedis, name: str) -> None:
    path, sent, _ = EXAMPLES[name]
    role = next(route.role for route in ROUTES if route.name == name)

    async def test(api: Api) -> None:
        options: dict[str, Any] = {"method": name.split(" ")[0], "path": path}
        options |= {} if sent is None else {"json": sent}
        for wrong in WRONG:
            headers = {} if wrong is None else {"Authorization": wrong}
            await ask_bad(api, "unauthenticated", headers=headers, **options)
        too_low = {"write": [READER], "admin": [READER, WRITER], "read": []}[role or "read"]
        others = [OTHER] if "{board}" in name or "{trend}" in name else []
        for key in (*too_low, *others):
            await ask_bad(api, "forbidden", headers={"Authorization": f"Bearer {key}"}, **options)
        assert await api.engine.boards.list() == []
        assert await api.engine.trends.list() == []

    play(redis_server, test, keys=[WRITER_LINE, READER_LINE, ADMIN_LINE, OTHER_LINE])


def test_the_right_key_opens_the_door(redis_server: EmbeddedRedis) -> None:
    async def test(api: Api) -> None:
        admin, writer = ({"Authorization": f"Bearer {key}"} for key in (ADMIN, WRITER))
        assert (await api.ask("PUT", BOARD, headers=admin))[0] == 201
        score = {"player": "ann", "score": 1}
        assert (await api.ask("POST", f"{BOARD}/scores", json=score, headers=writer))[0] == 200
        assert (await api.ask("GET", f"{BOARD}/players/ann", headers=writer))[0] == 200
        assert (await api.ask("GET", "/healthz"))[0] == 200

    play(redis_server, test, keys=[WRITER_LINE, ADMIN_LINE])


def test_an_etag_saves_sending_the_same_again(redis_server: EmbeddedRedis) -> None:
    async def test(api: Api) -> None:
        await fill(api)
        async with api.client.get(f"{BOARD}/top") as first:
            assert first.headers["Cache-Control"] == "max-age=1"
            tag = first.headers["ETag"]
        status, body = await api.ask("GET", f"{BOARD}/top", headers={"If-None-Match": tag})
        assert (status, body) == (304, b"")
        await api.ask("POST", f"{BOARD}/scores", json={"player": "new", "score": 1})
        assert (await api.ask("GET", f"{BOARD}/top", headers={"If-None-Match": tag}))[0] == 200

    play(redis_server, test)


def test_browsers_may_ask_from_allowed_origins_only(redis_server: EmbeddedRedis) -> None:
    async def test(api: Api) -> None:
        await fill(api)
        for origin, is_allowed in (("https://game.example", True), ("https://evil.example", False)):
            async with api.client.get(f"{BOARD}/top", headers={"Origin": origin}) as response:
                assert (response.headers.get("Access-Control-Allow-Origin") == origin) == is_allowed
        preflight = {"Origin": "https://game.example", "Access-Control-Request-Method": "POST"}
        async with api.client.options(f"{BOARD}/scores", headers=preflight) as response:
            assert response.status == 204
            assert "POST" in response.headers["Access-Control-Allow-Methods"]

    play(redis_server, test, cors_origins=["https://game.example"])


def test_scores_come_as_one_as_many_and_as_lines(redis_server: EmbeddedRedis) -> None:
    async def test(api: Api) -> None:
        await fill(api)
        at = "2037-11-17T11:00:00Z"
        lines = b'{"player":"x","score":5,"at":"%s"}\n\n{"player":"y","score":6,"id":"e1","tag":"t"}\n' % at.encode()
        headers = {"Content-Type": "application/x-ndjson"}
        status, body = await api.ask("POST", f"{BOARD}/scores", data=lines, headers=headers)
        assert (status, body["accepted"], body["ack"]) == (200, 2, "fsync")
        assert (await api.get(f"{BOARD}/players/x"))["at"] == at
        status, body = await api.ask(
            "POST", f"{BOARD}/scores", json={"scores": [{"player": "y", "score": 9, "id": "e1"}]}
        )
        assert body["results"] == [{"player": "y", "status": "duplicate", "score": 6, "previous": 6}]

    play(redis_server, test)


def test_one_bad_score_refuses_all_unless_told_to_skip(redis_server: EmbeddedRedis) -> None:
    async def test(api: Api) -> None:
        await fill(api)
        scores = [
            {"player": "x", "score": 5},
            {"player": "y", "score": "6"},
            {"player": "z", "score": -1},
            {"score": 3},
        ]
        error = await ask_bad(api, "invalid_field", method="POST", path=f"{BOARD}/scores", json={"scores": scores})
        assert (error["field"], error["index"]) == ("score", 1)
        assert "'6'" in error["message"]
        assert (await api.ask("GET", f"{BOARD}/players/x"))[0] == 404
        status, body = await api.ask("POST", f"{BOARD}/scores?on_error=skip", json={"scores": scores})
        assert (status, body["accepted"]) == (200, 1)
        assert [(row["index"], row["field"]) for row in body["errors"]] == [(1, "score"), (2, "score"), (3, "player")]

    play(redis_server, test)


def test_a_sum_needs_a_token_and_a_request_with_one_counts_once(redis_server: EmbeddedRedis) -> None:
    async def test(api: Api) -> None:
        await api.ask("PUT", BOARD, json={"strategy": "sum"})
        score = {"player": "ann", "score": 5}
        await ask_bad(api, "invalid_field", method="POST", path=f"{BOARD}/scores", json=score)
        for _ in range(3):
            status, _ = await api.ask("POST", f"{BOARD}/scores", json=score, headers={"Idempotency-Key": "r1"})
            assert status == 200
        assert (await api.get(f"{BOARD}/players/ann"))["score"] == 5

    play(redis_server, test)


def test_what_nobody_knows_is_said_with_what_is_known(redis_server: EmbeddedRedis) -> None:
    async def test(api: Api) -> None:
        await fill(api)
        submit = api.engine.record.submit

        async def forget(*args: Any) -> Any:
            outcomes = await submit(*args)
            outcomes.codes[0] = 6
            outcomes.error = OutcomeUnknown("Redis did not answer before the deadline")
            return outcomes

        api.engine.record.submit = forget  # type: ignore[method-assign, assignment]
        scores = [{"player": "x", "score": 5}, {"player": "y", "score": 6}]
        error = await ask_bad(api, "outcome_unknown", method="POST", path=f"{BOARD}/scores", json={"scores": scores})
        assert [row["status"] for row in error["results"]] == ["unknown", "added"]

    play(redis_server, test)


def test_the_export_comes_as_arrow_too(redis_server: EmbeddedRedis) -> None:
    async def test(api: Api) -> None:
        await fill(api)
        headers = {"Accept": "application/vnd.apache.arrow.stream"}
        table = pa.ipc.open_stream(await api.get(f"{BOARD}/export", headers=headers)).read_all()
        assert table.column("player").to_pylist() == ["ann", "bob", "cy", "dé"]
        assert table.column("rank").to_pylist() == [1, 2, 3, 4]

    play(redis_server, test)


@pytest.mark.parametrize(
    "player", ["{a}", "a/b", "100%", "a b", "é", "..a", "a?b", "a#b", "\U0001f600", "%2F", "a+b", "x" * 128]
)
def test_any_player_can_be_named_in_a_path(redis_server: EmbeddedRedis, player: str) -> None:
    async def test(api: Api) -> None:
        await fill(api)
        assert (await api.ask("POST", f"{BOARD}/scores", json={"player": player, "score": 50}))[0] == 200
        path = URL(f"{BOARD}/players/{quote(player, safe='')}", encoded=True)
        async with api.client.get(path) as response:
            body = await response.json()
            assert (response.status, body["player"]) == (200, player), body

    play(redis_server, test)


def test_a_tail_standing_carries_its_intervals(redis_server: EmbeddedRedis) -> None:
    async def test(api: Api) -> None:
        await api.ask("PUT", BOARD, json={"top_n": 3})
        scores = [{"player": f"p{n}", "score": n} for n in range(100)]
        await api.ask("POST", f"{BOARD}/scores", json={"scores": scores})
        await api.get(f"{BOARD}/players/p50")
        await api.keep()
        body = await api.get(f"{BOARD}/players/p50")
        assert body["kind"] == "percentile"
        assert "rank" not in body
        assert body["rank_low"] <= 50 <= body["rank_high"]
        assert body["percentile_low"] <= 100 * 50 / 99 <= body["percentile_high"]
        exact = await api.get(f"{BOARD}/players/p50?exact=true")
        assert (exact["kind"], exact["rank"]) == ("rank", 50)
        wire_fields = set(wire.PercentileStanding.__struct_fields__) - {"subscore"}
        assert body.keys() == {*wire_fields, "kind"}

    play(redis_server, test)


def test_boards_are_listed_in_pages(redis_server: EmbeddedRedis) -> None:
    async def test(api: Api) -> None:
        for number in range(5):
            await api.ask("PUT", f"/v1/boards/b{number}")
        first = await api.get("/v1/boards?limit=3")
        rest = await api.get("/v1/boards", params={"limit": 3, "cursor": first["next_cursor"]})
        names = [row["board"] for row in first["boards"] + rest["boards"]]
        assert names == [f"b{number}" for number in range(5)]
        assert "next_cursor" not in rest

    play(redis_server, test)


def test_pages_metrics_and_docs_are_served_offline(redis_server: EmbeddedRedis) -> None:
    async def test(api: Api) -> None:
        await fill(api)
        await fill_trend(api, title="<b>")
        landing = await api.get("/")
        assert b"/v1/boards/game/top" in landing
        assert b"/v1/trends/clicks/top" in landing
        assert b"&lt;b&gt;" in landing
        for page in (landing, await api.get("/docs")):
            assert b"http" not in page
        for asset in ("swagger-ui.css", "swagger-ui-bundle.js"):
            assert len(await api.get(f"/docs/{asset}")) > 10_000
        assert (await api.ask("GET", "/docs/secrets.txt"))[0] == 404
        metrics = (await api.get("/metrics")).decode()
        assert 'toptail_requests_total{route="PUT /v1/boards/{board}",status="201"} 1.0' in metrics

    play(redis_server, test)
