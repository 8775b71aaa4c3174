"""Trends over HTTP: events in, boards out, and what can be said of them."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pytest
from yarl import URL

from hybrid.embedded import EmbeddedRedis
from hybrid.engine import make_link
from hybrid.errors import OutcomeUnknown, Overloaded, ReadOnly, RedisUnavailable
from service import errors
from service.auth import make_key
from tests.api import Api, open_api
from tests.arrow_streams import write_stream
from tests.bad_request import ARROW, NDJSON
from tests.e2e.trend_examples import EVENTS, TREND, counts, fill_trend

MINUTE_MS = 60_000


def play(redis: EmbeddedRedis, test: Callable[[Api], Awaitable[None]], **options: Any) -> None:
    async def run() -> None:
        async with open_api(make_link(redis.url), **options) as api:
            await test(api)

    asyncio.run(run())


async def post(api: Api, body: Any, kind: str = "", *, key: str | None = None) -> tuple[int, Any]:
    """Send events; a list is sent as JSON."""
    headers = {} if key is None else {"Idempotency-Key": key}
    if isinstance(body, list):
        return await api.ask("POST", f"{TREND}/events", json={"events": body}, headers=headers)
    return await api.ask("POST", f"{TREND}/events", data=body, headers={"Content-Type": kind, **headers})


async def error_of(api: Api, method: str, path: str, **options: Any) -> dict[str, Any]:
    """The error of a request that must have one, with the status of its code."""
    status, body = await api.ask(method, path, **options)
    assert status == errors.STATUS[body["error"]["code"]], body
    error: dict[str, Any] = body["error"]
    return error


def test_events_come_as_a_list_as_lines_and_as_arrow(redis_server: EmbeddedRedis) -> None:
    async def test(api: Api) -> None:
        await api.ask("PUT", TREND)
        now_ms = api.clock.now_ms
        columns: list[dict[str, Any]] = [
            {"item": ["a", "b", "a"]},
            {"item": pa.array(["a", "b", "a"], pa.large_string()), "count": pa.array([1, None, 1], pa.int8())},
            {"item": pa.array(["a", "b", "a"]).dictionary_encode(), "at": [now_ms, None, now_ms]},
            {"item": ["a", "b", "a"], "at": pa.array([now_ms * 1000 + 7] * 3, pa.timestamp("us", "UTC"))},
            {"item": ["a", "b"], "count": pa.array([2, 1], pa.uint64()), "actor": ["ann", None]},
        ]
        bodies: list[tuple[Any, str]] = [
            (["a", "b", "a"], ""),
            ([{"item": "a", "count": 2}, "b"], ""),
            (b'"a"\n{"item":"b"}\n\n"a"\n', NDJSON),
            *((write_stream(part, rows=2), ARROW) for part in columns),
        ]
        for body, kind in bodies:
            assert await post(api, body, kind) == (202, {"accepted": 3, "late": 0}), body
        async with api.counting():
            top = await api.get(f"{TREND}/top")
        assert counts(top) == [("a", 2 * len(bodies)), ("b", len(bodies))]
        assert top["total"] == 3 * len(bodies)

    play(redis_server, test)


def test_a_request_with_a_key_counts_once(redis_server: EmbeddedRedis) -> None:
    async def test(api: Api) -> None:
        await api.ask("PUT", TREND, json={"partitions": 3})
        for key in ("r1", "r1", "r2"):
            assert (await post(api, ["a", "b", "c", "d"], key=key))[0] == 202
        for _ in range(2):
            assert (await post(api, ["a"]))[0] == 202
        async with api.counting():
            top = await api.get(f"{TREND}/top")
        assert counts(top) == [("a", 4), ("b", 2), ("c", 2), ("d", 2)]

    play(redis_server, test)


def test_a_board_says_what_is_sure_what_surges_and_who_acted(redis_server: EmbeddedRedis) -> None:
    async def test(api: Api) -> None:
        await api.ask("PUT", TREND)
        now_ms = api.clock.now_ms
        for minute in range(2, 20):
            steady = [{"item": item, "count": 50, "at": now_ms - minute * MINUTE_MS} for item in ("calm", "bold")]
            await post(api, steady)
        await post(api, [{"item": "calm", "count": 50}, {"item": "bold", "count": 500}, "rare"])
        await post(api, [{"item": "seen", "actor": f"u{number % 20}"} for number in range(60)])
        async with api.counting():
            by_count, by_surge, by_actors, hour = [
                await api.get(f"{TREND}/top?{query}") for query in ("", "by=surge", "by=actors", "window=1h&limit=2")
            ]
        assert counts(by_count) == [("bold", 500), ("seen", 60), ("calm", 50), ("rare", 1)]
        assert all(row["guaranteed"] and row["low"] == row["high"] for row in by_count["items"])
        rows = {row["item"]: row for row in by_count["items"]}
        assert rows["bold"]["surge"]["z"] > 1 > rows["calm"]["surge"]["z"]
        assert rows["rare"]["surge"] == {"expected": 0.0, "z": None}
        assert [row["item"] for row in by_surge["items"]] == ["seen", "bold", "calm"]
        (seen,) = by_actors["items"]
        assert seen["item"] == "seen"
        assert seen["actors_low"] <= 20 <= seen["actors_high"]
        assert round(seen["actors"]) == 20
        assert counts(hour) == [("bold", 500 + 18 * 50), ("calm", 50 + 18 * 50)]
        assert (hour["window"], hour["from"], hour["to"]) == ("1h", "2037-11-17T11:01:00Z", "2037-11-17T12:00:00Z")

    play(redis_server, test)


def test_what_is_late_and_what_is_capped_is_said(redis_server: EmbeddedRedis) -> None:
    async def test(api: Api) -> None:
        events = ["a", {"item": "a", "count": 9, "actor": "bot"}, {"item": "a", "at": "2001-01-01T00:00:00Z"}]
        await fill_trend(api, events=events, actor_cap=3)
        async with api.counting():
            top = await api.get(f"{TREND}/top")
        assert (counts(top), top["total"], top["late"], top["capped"]) == ([("a", 4)], 4, 1, 6)
        described = await api.get(TREND)  # the keeper writes down what it has when it ends
        assert described["events"] == {"counted": 4, "late": 1, "capped": 6}
        assert described["backlog"] == 0

    play(redis_server, test)


def test_any_item_can_be_asked_for_by_its_name(redis_server: EmbeddedRedis) -> None:
    async def test(api: Api) -> None:
        names = ["{a}", "a/b", "100%", "a b", "é", "..a", "a?b", "a#b", "\U0001f600", "%2F", "a+b", "x" * 128]
        await fill_trend(api, events=names)
        async with api.counting():
            for name in [*names, "never"]:
                async with api.client.get(URL(f"{TREND}/items/{quote(name, safe='')}", encoded=True)) as response:
                    body = await response.json()
                assert (response.status, body["item"]) == (200, name), body
                assert body["low"] <= (name in names) <= body["high"] == body["count"]
                assert body["total"] == len(names)

    play(redis_server, test)


def test_a_hidden_item_is_off_the_board_until_it_is_shown(redis_server: EmbeddedRedis) -> None:
    async def test(api: Api) -> None:
        await fill_trend(api)
        async with api.counting():
            assert counts(await api.get(f"{TREND}/top")) == [("c", 5), ("a", 2), ("b", 1)]
            for _ in range(2):
                assert await api.ask("PUT", f"{TREND}/hidden/c") == (204, b"")
            top = await api.get(f"{TREND}/top?limit=1")
            assert (counts(top), top["total"]) == ([("a", 2)], 8)
            assert (await api.get(f"{TREND}/items/c"))["count"] == 5
            for _ in range(2):
                assert await api.ask("DELETE", f"{TREND}/hidden/c") == (204, b"")
            assert await api.engine.trends.hidden(await api.engine.trends.describe("clicks")) == set()

    play(redis_server, test)


def test_an_etag_saves_sending_the_same_board_again(redis_server: EmbeddedRedis) -> None:
    async def test(api: Api) -> None:
        await fill_trend(api)
        async with api.counting(), api.client.get(f"{TREND}/top") as first:
            assert first.headers["Cache-Control"] == "max-age=1"
            again = await api.ask("GET", f"{TREND}/top", headers={"If-None-Match": first.headers["ETag"]})
            assert again == (304, b"")

    play(redis_server, test)


def test_a_trend_is_made_once_listed_in_pages_and_removed(redis_server: EmbeddedRedis) -> None:
    async def test(api: Api) -> None:
        spec = {"capacity": 16, "windows": ["1h", "1m"], "partitions": 2, "actor_cap": 5, "title": "Klicks"}
        status, made = await api.ask("PUT", TREND, json=spec)
        assert (status, made["config"]) == (201, spec)
        assert (await api.ask("PUT", TREND, json=spec))[0] == 200
        conflict = await error_of(api, "PUT", TREND, json={**spec, "capacity": 17, "title": ""})
        assert (conflict["code"], conflict["fields"]) == ("conflict", ["capacity", "title"])
        for number in range(3):
            assert (await api.ask("PUT", f"/v1/trends/t{number}"))[0] == 201
        first = await api.get("/v1/trends?limit=3")
        rest = await api.get("/v1/trends", params={"limit": 3, "cursor": first["next_cursor"]})
        assert [row["trend"] for row in first["trends"] + rest["trends"]] == ["clicks", "t0", "t1", "t2"]
        assert "next_cursor" not in rest
        assert (await api.ask("DELETE", TREND))[0] == 204
        for method, path in (("GET", TREND), ("GET", f"{TREND}/top"), ("DELETE", TREND)):
            assert (await error_of(api, method, path))["code"] == "trend_not_found"
        assert (await error_of(api, "POST", f"{TREND}/events", json={"events": ["a"]}))["code"] == "trend_not_found"

    play(redis_server, test)


def test_a_small_trend_shows_what_it_can_and_no_more(redis_server: EmbeddedRedis) -> None:
    async def test(api: Api) -> None:
        await fill_trend(api, events=[f"i{number}" for number in range(9)], capacity=16, windows=["1d"])
        async with api.counting():
            top = await api.get(f"{TREND}/top")
            assert (len(top["items"]), top["window"]) == (4, "1d")
            assert (await error_of(api, "GET", f"{TREND}/top?limit=5"))["field"] == "limit"
            assert (await error_of(api, "GET", f"{TREND}/top?window=1m"))["field"] == "window"

    play(redis_server, test)


def test_a_board_feeds_a_trend(redis_server: EmbeddedRedis) -> None:
    async def test(api: Api) -> None:
        assert (await api.ask("PUT", "/v1/boards/game", json={}))[0] == 201
        gone = await error_of(api, "PUT", TREND, json={"source": {"board": "none"}})
        assert gone["code"] == "board_not_found"
        source = {"board": "game", "count": "changes"}
        status, made = await api.ask("PUT", TREND, json={"source": source})
        assert (status, made["config"]["source"]) == (201, source)
        scores = [{"player": player, "score": score} for player, score in (("ann", 1), ("bob", 9), ("ann", 2))]
        for score in scores:
            await api.ask("POST", "/v1/boards/game/scores", json=score)
        assert (await api.get(TREND))["backlog"] == 2
        async with api.counting():
            assert counts(await api.get(f"{TREND}/top")) == [("ann", 2), ("bob", 1)]
        assert (await error_of(api, "POST", f"{TREND}/events", json={"events": ["a"]}))["field"] == "trend"

    play(redis_server, test)


def test_a_key_opens_the_trends_that_it_names_and_no_others_boards(redis_server: EmbeddedRedis) -> None:
    admin, admin_line = make_key("admin", "*")
    mine, mine_line = make_key("admin", "cl*")

    async def test(api: Api) -> None:
        everything, some = ({"Authorization": f"Bearer {key}"} for key in (admin, mine))
        assert (await api.ask("PUT", "/v1/boards/secret", headers=everything))[0] == 201
        feed = {"source": {"board": "secret"}}
        refused = await error_of(api, "PUT", TREND, json=feed, headers=some)
        assert (refused["code"], "secret" in refused["message"]) == ("forbidden", True)
        assert await api.engine.trends.list() == []
        assert (await api.ask("PUT", TREND, headers=some))[0] == 201
        assert (await error_of(api, "PUT", "/v1/trends/other", headers=some))["code"] == "forbidden"
        assert (await api.ask("PUT", "/v1/trends/other", json=feed, headers=everything))[0] == 201

    play(redis_server, test, keys=[admin_line, mine_line])


FAILURES: dict[str, Exception] = {
    "overloaded": Overloaded("too much is waiting"),
    "unavailable": RedisUnavailable("Redis cannot be reached"),
    "read_only": ReadOnly("Redis takes no writes"),
    "outcome_unknown": OutcomeUnknown("Redis did not answer in time"),
}


@pytest.mark.parametrize("code", FAILURES)
def test_events_that_cannot_be_taken_are_refused_with_the_reason(redis_server: EmbeddedRedis, code: str) -> None:
    async def test(api: Api) -> None:
        await fill_trend(api)

        async def fail(*_: object, **__: object) -> Any:
            raise FAILURES[code]

        api.engine.trends.submit = fail  # type: ignore[method-assign]
        async with api.client.post(f"{TREND}/events", json={"events": EVENTS}) as response:
            body = await response.json()
            assert (response.status, body["error"]["code"]) == (errors.STATUS[code], code)
            assert ("Retry-After" in response.headers) == (code in ("overloaded", "unavailable"))

    play(redis_server, test)


def test_without_a_keeper_a_board_is_unavailable_and_says_why(
    redis_server: EmbeddedRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hybrid.trends.trends.PATIENCE_S", 0.1)

    async def test(api: Api) -> None:
        await fill_trend(api)
        error = await error_of(api, "GET", f"{TREND}/top")
        assert (error["code"], "no keeper is at work" in error["message"]) == ("unavailable", True)

    play(redis_server, test)
