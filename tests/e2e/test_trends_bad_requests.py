"""Requests about trends that nobody should send: each gets its 4xx in the one shape of error, nothing is written."""

import asyncio
import gzip
import json
import random
import resource
import struct
from typing import Any

import pyarrow as pa

from hybrid.embedded import EmbeddedRedis
from hybrid.engine import make_link
from service.arrow_bodies import parse_events
from service.errors import ApiError
from tests.api import open_api
from tests.arrow_streams import coded, lie, torn, write_stream
from tests.bad_request import ARROW, JSON, NDJSON, Bad, send
from tests.e2e.trend_examples import TREND

EVENTS, TOP = f"{TREND}/events", f"{TREND}/top"
NOW_MS = 2_142_072_000_000
GOOD = write_stream({"item": ["a", "b"], "count": [1, 2]})


def post(status: int, body: Any, *, kind: str = JSON, path: str = EVENTS, **headers: str) -> Bad:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Bad(status, "POST", path, body if isinstance(body, bytes) else json.dumps(body).encode(), kind, named)


def event(**changes: Any) -> dict[str, Any]:
    return {"events": [{"item": "x"} | changes]}


def arrow(status: int, body: bytes | dict[str, Any], **options: Any) -> Bad:
    return post(status, body if isinstance(body, bytes) else write_stream(body, **options), kind=ARROW)


BODIES = [
    *(post(400, body) for body in (b"", b"{", b"nonsense", b'{"events":', b"\xff\xfe", b'{"events":["\xff"]}')),
    *(post(400, body) for body in (b"null", b"1", b'"x"', b"[]", b'["a"]', b'{"events":["a"]} more')),
    *(post(400, b'{"events":[{"item":"x","count":%s}]}' % word) for word in (b"NaN", b"Infinity", b"01")),
    *(post(400, body) for body in (b"[" * 100_000, b'{"events":["\\ud800"]}')),
    *(post(400, body, kind=NDJSON) for body in (b'"a"\n{"item":', b"\x00", b'{"item":"\xff"}')),
]
ITEMS = [
    *(post(422, {"events": [item]}) for item in ("", ".", "..", "x" * 129, "a\x00b", "a\nb", "\x7f", "a\u0085b")),
    *(post(422, {"events": [item]}) for item in (1, None, True, 1.5, ["x"])),
    *(post(422, event(item=item)) for item in ("", ".", "x" * 129, "a\tb", 1, None, ["x"], {"a": 1})),
    *(post(422, event(count=count)) for count in (0, -1, 1_000_001, 10**30, 1.5, "1", True, None, [1])),
    *(post(422, event(at=at)) for at in ("yesterday", -1, 10**18, 10**30, "2037-11-17T12:05:01Z", True, 1.5)),
    *(post(422, event(at=at)) for at in ("2037-11-17T12:00:00", "2026-13-01T00:00:00Z", "9999-12-31T23:59:59Z")),
    post(422, event(at=[])),
    *(post(422, event(actor=actor)) for actor in ("", ".", "x" * 129, "a\nb", 7, None)),
    *(post(422, body) for body in ({}, {"events": "a"}, {"events": {"item": "a"}}, {"events": ["a"], "more": 1})),
    *(post(422, body) for body in (event(weight=2), {"events": [{"count": 1}]}, {"events": ["a", {"item": 1}]})),
    *(
        post(422, body, kind=NDJSON)
        for body in (b"1\n2", b'"a"\n""', b'{"item":"a","more":1}', b'["a"]', b"null", b"[" * 100_000)
    ),
    post(422, b'{"events":' * 10_000),
    post(422, {"events": ["a"]}, Idempotency_Key="x" * 129),
    post(422, {"events": ["a"]}, Idempotency_Key=""),
    post(422, {"events": ["a"]}, path=f"{EVENTS}?on_error=skip"),
    post(404, {"events": ["a"]}, path="/v1/trends/none/events"),
    post(422, {"events": ["a"]}, path="/v1/trends/a%20b/events"),
    post(422, {"events": ["a"]}, path="/v1/trends/fed/events"),
    post(413, {"events": [f"x{n}" for n in range(21)]}),
    post(413, b"\n".join([b'"a"'] * 21), kind=NDJSON),
]
TRANSPORT = [
    *(post(415, {"events": ["a"]}, kind=kind) for kind in ("text/plain", "application/vnd.apache.arrow.file", "")),
    *(post(415, gzip.compress(b'{"events":["a"]}'), kind=kind, Content_Encoding="gzip") for kind in (JSON, ARROW)),
    post(415, gzip.compress(b" " * 10_000_000), Content_Encoding="gzip"),
    post(415, GOOD, kind=ARROW, Content_Encoding="zstd"),
    post(413, b'{"events":["' + b"x" * 250_000 + b'"]}'),
    post(413, b"\0" * 250_000, kind=ARROW),
]
STREAMS = [
    *(arrow(400, body) for body in (b"", b"nonsense", b"{}", b"\0" * 1000, b"\xff" * 1000, b"ARROW1\0\0" + GOOD)),
    *(arrow(400, GOOD[:size]) for size in (1, 7, 9, 100, 300, len(GOOD) - 20)),
    arrow(400, GOOD + b"more"),
    arrow(400, GOOD + GOOD),
    arrow(400, struct.pack("<Ii", 0xFFFFFFFF, -1) + GOOD),
    arrow(400, struct.pack("<Ii", 0xFFFFFFFF, 2**31 - 1) + GOOD),
    arrow(400, struct.pack("<II", 0xFFFFFFFF, 8) + b"\xff" * 8),
    *(arrow(400, {"item": ["a"] * 1000}, compression=name) for name in ("zstd", "lz4")),
    arrow(400, {"item": coded([0, 0], ["a" * 1000])}, compression="zstd"),
    arrow(400, {"item": ["a" * 20_000_000]}, compression="zstd"),
    arrow(400, {"item": [None]}),
    arrow(400, {"item": ["a"]}, metadata_version=pa.ipc.MetadataVersion.V4),
    arrow(400, {"item": ["a"]}, use_legacy_format=True),
    *(arrow(400, lie(write_stream({"item": ["a"] * 77}), 77, rows)) for rows in (78, 10**6, 2**62, -1, -(2**63))),
    *(arrow(400, {"item": coded([place], ["a", "b"])}) for place in (2, -1, 2**31 - 1)),
    arrow(400, {"item": ["a"], "actor": coded([9], ["a"])}),
    *(arrow(400, torn(*offsets)) for offsets in ((0, 4, 3), (0, -5, 3), (0, 2, 99), (7, 8, 9), (3, 2, 0))),
    arrow(400, write_stream({"item": ["ab"]}).replace(b"ab\0", b"\xff\xfe\0")),
]
COLUMNS = [
    *(arrow(422, {"item": column}) for column in ([1, 2], [1.5], [b"a"], [True], [["a"]], [{"a": 1}])),
    arrow(422, {"item": pa.array(["a"], pa.string_view())}),
    arrow(422, {"item": pa.array([1, 2]).dictionary_encode()}),
    arrow(422, {"item": pa.array([None, None], pa.string())}),
    arrow(422, {"item": ["a", None]}),
    arrow(422, {"item": coded([0, 1], ["a", ""])}),
    *(arrow(422, {"item": [item]}) for item in ("", ".", "..", "x" * 129, "a\nb", "\x7f", "a\u0085b")),
    *(arrow(422, {"item": ["a"], "count": [count]}) for count in (0, -1, 1_000_001, 2**63 - 1, 1.0, "1", True)),
    arrow(422, {"item": ["a"], "count": pa.array([2**64 - 1], pa.uint64())}),
    *(arrow(422, {"item": ["a"], "at": [at]}) for at in (-1, 2**63 - 1, 1.0, "now", NOW_MS + 300_001)),
    arrow(422, {"item": ["a"], "at": pa.array([2**62], pa.timestamp("s"))}),
    arrow(422, {"item": ["a"], "at": pa.array([1], pa.date32())}),
    *(arrow(422, {"item": ["a"], "actor": [actor]}) for actor in (1, "", "a\nb", "x" * 129, b"a")),
    arrow(422, {"items": ["a"]}),
    arrow(422, {"item": ["a"], "weight": [1]}),
    arrow(422, {}),
    arrow(422, write_stream(pa.table([["a"], ["b"]], names=["item", "item"]))),
    arrow(413, {"item": ["a"] * 300}, rows=1),
]
QUERIES = [
    *(Bad(422, "GET", f"{TOP}?limit={value}") for value in ("0", "-1", "x", "", "257", "1001", "null", "1&limit=2")),
    *(
        Bad(422, "GET", f"{TOP}?{query}")
        for query in ("by=z", "by=null", "window=1w", "window=", "window=null", "page=2")
    ),
    *(Bad(422, "GET", f"{TREND}/items/a?{query}") for query in ("window=1w", "by=count", "limit=1")),
    *(Bad(422, "GET", f"{TREND}/items/{item}") for item in ("%00", "a%0Ab", "x" * 129, "%7F")),
    *(Bad(422, method, f"{TREND}/hidden/{item}") for item in ("%00", "x" * 129) for method in ("PUT", "DELETE")),
    *(Bad(422, "GET", f"/v1/trends?{query}") for query in ("limit=0", "limit=1001", "limit=x", "offset=3")),
]
PATHS = [
    *(Bad(404, "GET", path) for path in ("/v1/trend/clicks", "/v1/trends/", f"{TREND}/", f"{TREND}/items")),
    *(Bad(404, "GET", f"/v1/trends/none{rest}") for rest in ("", "/top", "/items/a")),
    *(Bad(404, method, "/v1/trends/none/hidden/a") for method in ("PUT", "DELETE")),
    Bad(404, "DELETE", "/v1/trends/none"),
    *(Bad(422, "GET", f"/v1/trends/{name}") for name in ("a%20b", "%7Bx%7D", "x" * 65, "a%2Fb", "%C3%A9")),
    *(Bad(405, method, TREND) for method in ("POST", "PATCH")),
    *(Bad(405, method, EVENTS) for method in ("GET", "PUT", "DELETE")),
    Bad(405, "GET", f"{TREND}/hidden/a"),
]
TRENDS = [
    *(Bad(422, "PUT", f"/v1/trends/{name}", b"{}") for name in ("a%20b", "%7B%7D", "x" * 65, "b%C3%A9")),
    *(
        Bad(422, "PUT", "/v1/trends/new", json.dumps(spec).encode())
        for spec in (
            *({"capacity": value} for value in (0, 15, 65_537, "1024", 1.5, None)),
            *({"windows": value} for value in ([], ["1w"], ["1m", "1m"], "1m", [1], None)),
            *({"partitions": value} for value in (0, 65, True)),
            *({"actor_cap": value} for value in (0, -1, 2**31 + 1, "5")),
            *({"title": value} for value in ("x" * 201, 7)),
            *({"source": value} for value in ("game", {}, {"board": "a b"}, {"board": "game", "count": "views"})),
            *({"source": {"board": "game"}, name: 2} for name in ("partitions", "actor_cap")),
            {"colour": "red"},
        )
    ),
    Bad(404, "PUT", "/v1/trends/new", b'{"source":{"board":"none"}}'),
    Bad(409, "PUT", TREND, b'{"capacity":2048}'),
    *(Bad(400, "PUT", "/v1/trends/new", body) for body in (b"[]", b"{", b"null")),
    Bad(415, "PUT", "/v1/trends/new", b"{}", "text/plain"),
]
ALL = [*BODIES, *ITEMS, *TRANSPORT, *STREAMS, *COLUMNS, *QUERIES, *PATHS, *TRENDS]


def test_every_bad_request_gets_its_4xx_and_writes_nothing(redis_server: EmbeddedRedis) -> None:
    async def run() -> None:
        async with open_api(make_link(redis_server.url), max_items=20, max_body_bytes=200_000) as api:
            await api.ask("PUT", "/v1/boards/game", json={})
            await api.ask("PUT", TREND, json={})
            await api.ask("PUT", "/v1/trends/fed", json={"source": {"board": "game"}})
            wrong = [found for bad in ALL if (found := await send(api, bad)) is not None]
            assert not wrong, "\n".join(wrong)
            assert [trend.name for trend in await api.engine.trends.list()] == ["clicks", "fed"]
            trend = await api.engine.trends.describe("clicks")
            assert await api.engine.trends.backlog(trend) == 0
            assert await api.engine.trends.hidden(trend) == set()

    assert len(ALL) > 200
    asyncio.run(run())


def refused(body: bytes) -> ApiError | None:
    try:
        parse_events(body, NOW_MS)
    except ApiError as error:
        return error
    return None


def test_a_stream_that_would_unpack_to_gigabytes_takes_no_memory() -> None:
    few = pa.array([0] * 1_000_000, pa.int8())
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    spelled_out = write_stream({"item": pa.DictionaryArray.from_arrays(few, pa.array(["x" * 4_000_000]))})
    error = refused(spelled_out)
    assert error is not None
    assert (error.code, "bytes of text" in str(error)) == ("too_large", True)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb < 200_000
    many = pa.DictionaryArray.from_arrays(pa.array([0] * 1_000_001, pa.int8()), pa.array(["x"]))
    error = refused(write_stream({"item": many}, rows=2_000_000))
    assert error is not None
    assert error.code == "too_large"


def test_a_stream_with_any_bytes_changed_is_refused_or_sound() -> None:
    columns = {
        "item": coded([0, 1, 0, 2], ["a", "b", "c"]),
        "count": pa.array([1, None, 3, 4], pa.uint16()),
        "at": pa.array([1, 2, None, 4], pa.timestamp("us", "UTC")),
        "actor": pa.array(["x", None, "y", "z"], pa.large_string()),
    }
    whole, dice, outcomes = write_stream(columns, rows=3), random.Random(5), set()
    for _ in range(4000):
        body = bytearray(whole)
        for _ in range(dice.randint(1, 4)):
            body[dice.randrange(len(body))] = dice.choice((0, 1, 0x7F, 0xFF, dice.randrange(256)))
        error = refused(bytes(body[: dice.randrange(len(body))] if dice.random() < 0.1 else body))
        outcomes.add(error.code if error else "sound")
    assert outcomes >= {"invalid_body", "invalid_field", "sound"}
    assert outcomes <= {"invalid_body", "invalid_field", "sound", "too_large"}
