"""The response that goes out in one write, beside aiohttp's own."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from aiohttp import web

from service.response import JsonResponse

BODY = '{"who":"日本"}'.encode()

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


async def answer_of_ours(_: web.Request) -> web.StreamResponse:
    return JsonResponse(201, BODY)


async def answer_of_theirs(_: web.Request) -> web.StreamResponse:
    return web.Response(status=201, body=BODY, content_type="application/json")


def forced(answer: Handler) -> Handler:
    async def close(request: web.Request) -> web.StreamResponse:
        response = await answer(request)
        response.force_close()
        return response

    return close


async def exchange(answer: Handler, requests: list[bytes]) -> tuple[list[set[bytes]], bool]:
    """The lines of all answers, given one after the other on one connection, and whether it is closed then."""
    server = web.Server(answer)  # type: ignore[arg-type]  # it hands over a BaseRequest
    listener = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*listener.sockets[0].getsockname())
    answers = []
    for request in requests:
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        answers.append({*head.split(b"\r\n"), await reader.readexactly(len(BODY))})
    await asyncio.sleep(0.05)
    is_closed = reader.at_eof()
    writer.close()
    listener.close()
    await server.shutdown()
    return answers, is_closed


@pytest.mark.parametrize(
    ("wrap", "requests", "is_closed"),
    [
        (lambda answer: answer, [b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"] * 3, False),
        (lambda answer: answer, [b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"], True),
        (forced, [b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"], True),
    ],
    ids=["kept", "closed by the client", "closed by the service"],
)
def test_it_says_what_aiohttp_would_say(
    wrap: Callable[[Handler], Handler], requests: list[bytes], is_closed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    day = "Wed, 18 Nov 2026 12:00:00 GMT"
    monkeypatch.setattr("service.response.formatdate", lambda _, usegmt: day if usegmt else "")
    monkeypatch.setattr("aiohttp.web_response.rfc822_formatted_time", lambda: day)
    ours = asyncio.run(exchange(wrap(answer_of_ours), requests))
    assert ours == asyncio.run(exchange(wrap(answer_of_theirs), requests))
    assert ours[1] == is_closed
