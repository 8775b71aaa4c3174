"""A response of JSON that goes out in one write.

aiohttp's own can do much that an answer never needs (cookies, chunks, compression, bodies that are files), and every
request pays for it. Here the head is one text, and all of it but the length is made once a second.

Not handled: HTTP/1.0, headers of one's own, and hooks of the application; those get a `web.Response`.
"""

import time
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http import SERVER_SOFTWARE

from service.bodies import JSON


class JsonResponse(web.StreamResponse):
    """Status and body; the head says what aiohttp would say."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(status=status)
        self.body = body

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter:
        """Write all of it."""
        if self._keep_alive is None:
            self._keep_alive = request.keep_alive
        start = _start(self.status, self._keep_alive, int(time.time()))
        await request.writer.write_eof(b"%b%d\r\n\r\n%b" % (start, len(self.body), self.body))
        return request.writer

    async def write_eof(self, data: bytes = b"") -> None:
        """Nothing is left to be written."""


@lru_cache(maxsize=16)
def _start(status: int, is_kept: bool, now_s: int) -> bytes:
    """The head up to the length of the body."""
    lines = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
        f"Content-Type: {JSON}",
        f"Date: {formatdate(now_s, usegmt=True)}",
        f"Server: {SERVER_SOFTWARE}",
        *(() if is_kept else ("Connection: close",)),
        "Content-Length: ",
    )
    return "\r\n".join(lines).encode()
