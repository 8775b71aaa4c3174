"""Requests that nobody should send: each gets the right 4xx in the one shape of error, and nothing is written."""

import asyncio
import gzip
import json
import re
from typing import Any

import pytest

from hybrid.embedded import EmbeddedRedis
from hybrid.engine import make_link
from tests.api import BOARD, open_api
from tests.bad_request import JSON, NDJSON, Bad, send

SCORES, STANDINGS, TOP = f"{BOARD}/scores", f"{BOARD}/standings", f"{BOARD}/top"


def post(status: int, body: bytes | dict[str, Any] | list[Any] | Any, path: str = SCORES, **options: Any) -> Bad:
    return Bad(status, "POST", path, body if isinstance(body, bytes) else json.dumps(body).encode(), **options)


def score(**changes: Any) -> dict[str, Any]:
    return {"player": "x", "score": 1} | changes


def _any(*values: Any) -> tuple[Any, ...]:
    return values


BODIES = [
    *(post(400, body) for body in (b"", b"{", b"nonsense", b'{"player":', b"\xff\xfe", b'{"player":"\xff","score":1}')),
    *(post(400, body) for body in (b"null", b"1", b'"x"', b"[]", b"true", b'[{"player":"x","score":1}]')),
    post(400, b'{"player":"x","score":1} trailing'),
    post(400, b'{"player":"x","score":NaN}'),
    post(400, b'{"player":"x","score":Infinity}'),
    post(400, b'{"player":"x","score":01}'),
    post(400, b"[" * 100_000),
    post(400, {"scores": [score()], "player": "x"}),
    post(400, b'{"player":"x","score":1}\n{"player":', kind=NDJSON),
    post(400, b"\x00", kind=NDJSON),
    post(400, score(player="\ud800")),
]
ITEMS = [
    *(post(422, score(player=player)) for player in ("", ".", "..", "x" * 129, "a\x00b", "a\nb", "\x7f", "a\u0085b")),
    *(post(422, score(player=player)) for player in (1, None, ["x"], {"x": 1}, True)),
    *(
        post(422, score(score=value))
        for value in ("1", None, True, [1], {"a": 1}, -1, 2**31, 1.5, 10**30, -(10**30), 1e300)
    ),
    *(
        post(422, score(at=value))
        for value in _any("yesterday", -1, 0, 10**18, "2019-12-31T23:59:59Z", "2037-11-17T12:05:01Z")
    ),
    *(post(422, score(at=value)) for value in _any("2037-11-17T12:00:00", True, 1.5, [], "2026-13-01T00:00:00Z")),
    *(post(422, score(id=value)) for value in ("", "x" * 129, 7, None, "a\nb")),
    *(post(422, score(tag=value)) for value in ("x" * 129, 7, ["t"])),
    post(422, score(subscore=1)),
    post(422, score(bonus=1)),
    post(422, b'{"a":' * 30_000),
    post(422, {"player": "x"}),
    post(422, {"score": 1}),
    post(422, {"scores": score()}),
    post(422, {"scores": [1]}),
    post(422, {"scores": [None]}),
    post(422, {"scores": [score(), score(score="1")]}),
    post(422, {"scores": [score()], "mode": "fast"}),
    post(422, b'{"player":"x","score":1,"unknown":2}', kind=NDJSON),
    post(422, b"1\n2", kind=NDJSON),
    post(422, b"[" * 100_000, kind=NDJSON),
    post(413, {"scores": [score(player=f"x{n}") for n in range(21)]}),
    post(413, b"\n".join([b'{"player":"x","score":1}'] * 21), kind=NDJSON),
    post(422, score(), path=f"{SCORES}?on_error=ignore"),
    post(422, score(), path=f"{SCORES}?return=everything"),
    post(422, score(), path=f"{SCORES}?unknown=1"),
    post(422, score(), headers={"Idempotency-Key": "x" * 129}),
    post(404, score(), path="/v1/boards/none/scores"),
]
PLAYERS = [
    *(
        post(422, {"players": value}, STANDINGS)
        for value in ("x", [1], [None], [""], ["."], ["x" * 129], {"a": 1}, None)
    ),
    *(post(422, body, STANDINGS) for body in ({}, {"players": ["x"], "more": 1})),
    post(400, [], STANDINGS),
    post(413, {"players": [f"x{n}" for n in range(21)]}, STANDINGS),
    post(422, {"players": ["x"]}, f"{STANDINGS}?ranking=olympic"),
    post(422, {"players": ["x"]}, f"{STANDINGS}?exact=perhaps"),
    post(422, {"players": ["x"]}, f"{STANDINGS}?window=hourly"),
]
TRANSPORT = [
    post(415, score(), kind="text/plain"),
    post(415, score(), kind="application/xml"),
    post(415, score(), kind=""),
    post(415, score(), kind=NDJSON, path=STANDINGS),
    post(415, gzip.compress(b'{"player":"x","score":1}'), headers={"Content-Encoding": "gzip"}),
    post(415, gzip.compress(b" " * 10_000_000), headers={"Content-Encoding": "gzip"}),
    post(415, score(), headers={"Content-Encoding": "br"}),
    post(413, b'{"player":"' + b"x" * 250_000 + b'","score":1}'),
]
QUERIES = [
    *(Bad(422, "GET", f"{TOP}?{query}") for query in ("limit=0", "limit=-1", "limit=x", "limit=", "limit=1001")),
    *(
        Bad(422, "GET", f"{TOP}?{query}")
        for query in ("from_rank=0", "from_rank=-5", "from_rank=x", "cursor=x", "cursor=")
    ),
    *(Bad(422, "GET", f"{TOP}?{query}") for query in ("cursor=%FF%FE", "cursor=AAAA", "limit=1&limit=2", "page=2")),
    *(
        Bad(422, "GET", f"{TOP}?window={window}")
        for window in ("daily", "daily:2037-11-17", "x", "%00", "daily:2026-99-01")
    ),
    *(Bad(422, "GET", f"{BOARD}/standing?{query}") for query in ("", "score=", "score=x", "score=NaN", "score=inf")),
    *(
        Bad(422, "GET", f"{BOARD}/standing?{query}")
        for query in ("score=-1", "score=1.5", "score=1&score=2", "score=0x10")
    ),
    *(
        Bad(422, "GET", f"{BOARD}/quantiles?{query}")
        for query in ("", "q=", "q=x", "q=1.1", "q=-0.1", "q=nan", "q=0.5,,1")
    ),
    *(Bad(422, "GET", f"{BOARD}/distribution?{query}") for query in ("bins=0", "bins=1001", "bins=x", "scale=cubic")),
    *(Bad(422, "GET", f"{BOARD}/players/ann?{query}") for query in ("ranking=x", "exact=2", "window=", "verbose=1")),
    *(Bad(422, "GET", f"{BOARD}/players/ann/neighbors?range={value}") for value in ("-1", "x", "1001")),
    *(Bad(422, "GET", f"/v1/boards?{query}") for query in ("limit=0", "limit=1001", "limit=x", "offset=3")),
]
PATHS = [
    *(
        Bad(404, "GET", path)
        for path in ("/v1", "/v1/", "/v1/board/game", "/v2/boards/game", "//v1/boards", "/v1/boards/")
    ),
    *(Bad(404, "GET", f"/v1/boards/game/{rest}") for rest in ("", "nothing", "players", "players/", "players/ann/x")),
    Bad(404, "GET", "/v1/boards/game/players/..%2F..%2Fx"),
    *(Bad(422, "GET", f"{BOARD}/players/{player}") for player in ("%00", "a%0Ab", "x" * 129, "%7F")),
    *(Bad(422, "GET", f"/v1/boards/{name}") for name in ("a%20b", "%7Bx%7D", "a%00", "x" * 65, "a%2Fb", "%C3%A9")),
    *(Bad(422, "PUT", f"/v1/boards/{name}", b"{}") for name in ("a%20b", "%7B%7D", "x" * 65, "b%C3%A9")),
    Bad(404, "GET", "/docs/..%2F..%2Fetc%2Fpasswd"),
    *(Bad(405, method, BOARD) for method in ("POST", "OPTIONS", "TRACE")),
    *(Bad(405, method, "/v1/boards") for method in ("PUT", "DELETE")),
    Bad(405, "DELETE", "/healthz"),
]
BOARDS = [
    Bad(422, "PUT", "/v1/boards/new", json.dumps(spec).encode())
    for spec in _any(
        {"top_n": 0},
        {"top_n": 10**7},
        {"shards": 0},
        {"shards": 257},
        {"strategy": "worst"},
        {"direction": "up"},
        {"tie_break": "random"},
        {"score_min": 5, "score_max": 4},
        {"score_min": "0"},
        {"score_max": 2**63},
        {"score_max": 10**40},
        {"decimals": 16},
        {"decimals": -1},
        {"decimals": 3, "score_max": 0.0001},
        {"windows": []},
        {"windows": ["hourly"]},
        {"windows": ["daily", "daily"]},
        {"windows": "daily"},
        {"time_from": "2050-01-01T00:00:00Z", "time_to": "2020-01-01T00:00:00Z"},
        {"time_from": "then"},
        {"resolution": 0},
        {"resolution": 10**12},
        {"score_max": 2**62, "resolution": 1},
        {"title": "x" * 201},
        {"retention_days": 0},
        {"subscore": {"min": 2, "max": 1}},
        {"subscore": {"goal": 1}},
        {"subscore": {}, "strategy": "sum"},
        {"strategy": "latest", "tie_break": "none"},
        {"colour": "red"},
        {"top_n": None},
    )
]
CHANGES = [
    Bad(status, "PATCH", BOARD, body)
    for status, body in (
        (422, b'{"shards":3}'),
        (422, b'{"top_n":0}'),
        (422, b'{"top_n":"5"}'),
        (422, b'{"title":7}'),
        (400, b"[]"),
        (400, b""),
    )
]
ALL = [*BODIES, *ITEMS, *PLAYERS, *TRANSPORT, *QUERIES, *PATHS, *BOARDS, *CHANGES]


def test_there_are_more_than_a_hundred_of_them() -> None:
    assert len(ALL) > 100
    assert len({str(bad) for bad in ALL}) > 100


def test_every_bad_request_gets_its_4xx_and_writes_nothing(redis_server: EmbeddedRedis) -> None:
    async def run() -> None:
        async with open_api(make_link(redis_server.url), max_items=20, max_body_bytes=200_000) as api:
            await api.ask("PUT", BOARD, json={})
            await api.ask("POST", SCORES, json={"player": "ann", "score": 5})
            wrong = [found for bad in ALL if (found := await send(api, bad)) is not None]
            assert not wrong, "\n".join(wrong)
            assert [board.name for board in await api.engine.boards.list()] == ["game"]
            described = await api.get(BOARD)
            assert (described["players"], described["seq"]) == (1, 1)

    asyncio.run(run())


def test_a_body_that_stalls_or_is_cut_short_is_given_up(redis_server: EmbeddedRedis) -> None:
    async def run() -> None:
        async with open_api(make_link(redis_server.url), body_timeout_s=0.2) as api:
            await api.ask("PUT", BOARD, json={})
            url = api.client.make_url("/")
            head = f"POST {SCORES} HTTP/1.1\r\nHost: x\r\nContent-Type: {JSON}\r\nContent-Length: 100\r\n\r\n"
            reader, writer = await asyncio.open_connection(url.host, url.port)
            writer.write(head.encode() + b'{"player":')
            async with asyncio.timeout(5):
                assert (await reader.readline()).startswith(b"HTTP/1.1 400")
            writer.close()
            reader, writer = await asyncio.open_connection(url.host, url.port)
            writer.write(head.encode() + b'{"player":')
            writer.write_eof()
            async with asyncio.timeout(5):
                await reader.read()
            writer.close()
            assert (await api.get(BOARD))["seq"] == 0

    asyncio.run(run())


@pytest.mark.parametrize(
    "raw",
    [
        b"GARBAGE\r\n\r\n",
        b"FOO / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /v1/boards HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        b"GET /v1/boards HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 20_000 + b"\r\n\r\n",
        b"POST /v1/boards/game/scores HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n\r\n",
    ],
)
def test_what_is_not_even_http_is_refused_and_the_service_lives(redis_server: EmbeddedRedis, raw: bytes) -> None:
    async def run() -> None:
        async with open_api(make_link(redis_server.url)) as api:
            url = api.client.make_url("/")
            reader, writer = await asyncio.open_connection(url.host, url.port)
            writer.write(raw)
            async with asyncio.timeout(5):
                answer = await reader.readline()
            writer.close()
            assert re.match(rb"HTTP/1\.[01] 4\d\d ", answer)
            assert (await api.ask("GET", "/healthz"))[0] == 200

    asyncio.run(run())
