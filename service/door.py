"""How workers share one listening socket: who has the fewest connections goes first.

An event loop's own server takes all that wait, so the worker that wakes first gets nearly everything: of 64 connections
that came at once one of two workers took 52. Here each takes one at a time, and one that has clearly more than another
waits a millisecond before it does. The counts stand in a few bytes of memory that all workers share. A worker that
died or hangs with few connections costs the others that millisecond, and nothing else.
"""

import asyncio
import errno
import logging
import mmap
import os
import socket
from pathlib import Path

from aiohttp import web

SLACK = 2  # connections that a worker may have more than another without waiting for it
WAIT_S = 0.001  # for a worker with fewer connections to be quicker
REST_S = 0.1  # after a connection could not be taken, before the next is tried

log = logging.getLogger(__name__)


class Counts:
    """How many connections each worker has, for all of them to see; no lock, because a stale number does no harm."""

    def __init__(self, path: Path, workers: int, mine: int) -> None:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.ftruncate(file, 8 * workers)
            self._counts = memoryview(mmap.mmap(file, 8 * workers)).cast("q")
        finally:
            os.close(file)
        self._mine = mine

    def is_my_turn(self, count: int) -> bool:
        """Note how many this worker has; whether none has clearly fewer."""
        self._counts[self._mine] = count
        return count <= min(self._counts) + SLACK


class Door:
    """Takes connections from a socket that other workers take from too, and hands them to a server."""

    def __init__(self, listener: socket.socket, server: web.Server, counts: Counts) -> None:
        self._listener, self._server, self._counts = listener, server, counts
        self._loop = asyncio.get_running_loop()
        self._greetings: set[asyncio.Task[None]] = set()
        self._is_open = False

    def open(self) -> None:
        self._is_open = True
        self._loop.add_reader(self._listener.fileno(), self._knock)

    def close(self) -> None:
        """Take no more; the socket stays open for others who have it."""
        self._is_open = False
        self._loop.remove_reader(self._listener.fileno())
        self._listener.close()

    def _knock(self) -> None:
        if self._counts.is_my_turn(len(self._server.connections) + len(self._greetings)):
            self._take()
        else:
            self._pause(WAIT_S)

    def _pause(self, pause_s: float) -> None:
        self._loop.remove_reader(self._listener.fileno())
        self._loop.call_later(pause_s, self._resume)

    def _resume(self) -> None:
        if self._is_open:
            self.open()
            self._take()

    def _take(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return  # another was quicker, or the client has gone
        except OSError as error:  # no descriptors or memory left: who waits stays in the kernel's queue
            log.error("connection not taken", extra={"reason": errno.errorcode.get(error.errno or 0, str(error))})
            self._pause(REST_S)
            return
        connection.setblocking(False)
        greeting = self._loop.create_task(self._greet(connection))
        self._greetings.add(greeting)
        greeting.add_done_callback(self._greetings.discard)

    async def _greet(self, connection: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._server, connection)
        except OSError:  # the client has gone
            connection.close()
