"""The one small interface to Redis: commands for a key go out in one write, and their replies come back.

    await link.run(key, [("ZMSCORE", key, "ann"), ("ZCARD", key)])   ->  [[1.5], 1200]

`Node` is one server, and a Link by itself: a bounded pool of plain redis-py connections, RESP3, no retries of any kind.
A cluster routes to several (cluster.py). Errors are translated here and nowhere else:

    nothing was sent, or Redis refused it whole     RedisUnavailable (ReadOnly when it takes no writes)
    something was sent and no answer came           OutcomeUnknown: it may or may not have happened
    an error reply to one command                   redis' ResponseError, raised as it is

Commands of one `run` share one connection and one write, but are no transaction.
"""

import asyncio
import re
import select
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import sha1
from typing import Any, Protocol
from urllib.parse import parse_qs, unquote, urlsplit

from hiredis import pack_command
from redis.asyncio.connection import AbstractConnection, Connection, SSLConnection, UnixDomainSocketConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    BusyLoadingError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)
from redis.maint_notifications import MaintNotificationsConfig

from hybrid.errors import InvalidField, OutcomeUnknown, ReadOnly, RedisUnavailable

Argument = str | bytes | int | float
Command = Sequence[Argument]

_NO_WRITES = re.compile(r"(?:^|-)(?:OOM|READONLY|MISCONF|NOREPLICAS) ")
_NOT_READY = ("LOADING", "MASTERDOWN", "CLUSTERDOWN", "BUSY")

CONNECTIONS = 32
TIMEOUT_S = 5.0
CONNECT_S = 2.0
PAUSE_S = 0.02  # before Redis is asked again for what it did not do just now


class Link(Protocol):
    """Where a board's keys live: one server, a cluster, or a stand-in for tests."""

    async def run(self, key: str, commands: Sequence[Command], *, timeout_s: float = TIMEOUT_S) -> list[Any]:
        """The replies to commands that all concern the slot of `key`."""
        ...

    async def close(self) -> None: ...


class Script:
    """A Lua script: sent by its hash, and whole only where Redis does not know it (then nothing has run)."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.sha = sha1(text.encode(), usedforsecurity=False).hexdigest()

    async def run(
        self,
        link: Link,
        keys: Sequence[str],
        args: Sequence[Argument],
        *,
        timeout_s: float = TIMEOUT_S,
    ) -> Any:
        rest = (len(keys), *keys, *args)
        try:
            replies = await link.run(keys[0], [("EVALSHA", self.sha, *rest)], timeout_s=timeout_s)
        except NoScriptError:
            replies = await link.run(keys[0], [("EVAL", self.text, *rest)], timeout_s=timeout_s)
        return replies[0]


class Node:
    """One Redis server and the connections to it."""

    def __init__(self, options: Mapping[str, Any], *, connections: int = CONNECTIONS) -> None:
        self._options = dict(options)
        self._idle: list[AbstractConnection] = []
        self._is_closed = False
        self._slots = asyncio.Semaphore(connections)

    async def run(
        self,
        key: str,  # noqa: ARG002  there is one server only
        commands: Sequence[Command],
        *,
        timeout_s: float = TIMEOUT_S,
    ) -> list[Any]:
        """Replies in order. The first error reply is raised once all are read."""
        return raise_reply(await self.exchange(commands, timeout_s))

    async def exchange(self, commands: Sequence[Command], timeout_s: float) -> list[Any]:
        """Replies in order, error replies among them."""
        connection: AbstractConnection | None = None
        try:
            async with asyncio.timeout(timeout_s), self._slots:
                connection = await self._take()
                replies = await _exchange(connection, commands)
        except BaseException as error:
            # Also when cancelled: a reply may still come, and nobody may read it as his own.
            if connection is not None:
                await connection.disconnect(nowait=True)
            if isinstance(error, TimeoutError):
                await self.drop_idle()
            if isinstance(error, RedisError | OSError | TimeoutError):
                raise _translate(error, is_sent=connection is not None) from error
            raise
        if self._is_closed:
            await connection.disconnect(nowait=True)
        else:
            self._idle.append(connection)
        return replies

    async def drop_idle(self) -> None:
        """Close what waits to be used again: the server behind it may be gone without a word."""
        while self._idle:
            await self._idle.pop().disconnect(nowait=True)

    async def close(self) -> None:
        self._is_closed = True
        while self._idle:
            with suppress(RedisError, OSError):
                await self._idle.pop().disconnect()

    async def _take(self) -> AbstractConnection:
        while self._idle:
            connection = self._idle.pop()
            with suppress(RedisError, OSError):
                if not (_is_over(connection) or await connection.can_read()):
                    return connection
            await connection.disconnect(nowait=True)
        connection = make_connection(self._options)
        await connection.connect()  # type: ignore[no-untyped-call]
        return connection


def raise_reply(replies: list[Any]) -> list[Any]:
    """The replies, unless one is an error: then that is raised, in our words where we have some."""
    for reply in replies:
        if isinstance(reply, ResponseError):
            raise _translate_reply(reply) from reply
    return replies


def make_connection(options: Mapping[str, Any]) -> AbstractConnection:
    """A connection that keeps to our own timeouts and never retries: a write must not run twice."""
    kind: type[AbstractConnection] = SSLConnection if options.get("ssl") else Connection
    if "path" in options:
        kind = UnixDomainSocketConnection
    return kind(
        protocol=3,
        retry=Retry(NoBackoff(), 0),
        socket_timeout=None,
        socket_connect_timeout=CONNECT_S,
        maint_notifications_config=MaintNotificationsConfig(enabled=False),
        **{name: value for name, value in options.items() if name != "ssl"},
    )


def parse_url(url: str) -> dict[str, Any]:
    """Connection options of redis://, rediss:// (TLS) and unix:// addresses."""
    try:
        parts = urlsplit(url)
        port = parts.port or 6379
    except ValueError:
        parts, port = urlsplit(""), 0
    db = parse_qs(parts.query).get("db", [""])[0] or (parts.path.strip("/") if parts.scheme != "unix" else "")
    if parts.scheme not in ("redis", "rediss", "unix") or not (db == "" or db.isdecimal()):
        shown = hide_password(url)
        raise InvalidField("redis", f"a Redis address is redis://host:port/db, rediss:// or unix://path, not {shown!r}")
    options: dict[str, Any] = {"db": int(db or 0)}
    if parts.username:
        options["username"] = unquote(parts.username)
    if parts.password:
        options["password"] = unquote(parts.password)
    if parts.scheme == "unix":
        return options | {"path": unquote(parts.path)}
    return options | {
        "host": parts.hostname or "127.0.0.1",
        "port": port,
        "ssl": parts.scheme == "rediss",
    }


def hide_password(url: str) -> str:
    """The address as it may be shown."""
    return re.sub(r"(://[^/@]*:)[^/@]*@", r"\1***@", url)


def _is_over(connection: AbstractConnection) -> bool:
    """Closed, or something to read before anything was asked: then it is about to be, or it is out of step.

    The kernel is asked, because of what happened just now, or while this thread was busy, the event loop has not heard
    yet; and what is sent to a server that is gone would be unknown without need.
    """
    writer = connection._writer
    if writer is None or writer.is_closing():
        return True
    poll = select.poll()
    poll.register(writer.get_extra_info("socket"), select.POLLIN)
    return bool(poll.poll(0))


async def _exchange(connection: AbstractConnection, commands: Sequence[Command]) -> list[Any]:
    # redis-py packs argument by argument in Python; hiredis does it in C, ten times as fast.
    packed = [pack_command(tuple(command)) for command in commands]  # type: ignore[arg-type]  # its stub takes one only
    await connection.send_packed_command(packed, check_health=False)
    # The parser itself, without the connection's own timeouts around each reply: ours is around all of them. It returns
    # error replies instead of raising them.
    read = connection._parser.read_response  # type: ignore[attr-defined]  # its type is that of all parsers
    return [await read() for _ in commands]


def _translate(error: Exception, is_sent: bool) -> Exception:
    if isinstance(error, BusyLoadingError):
        return RedisUnavailable("Redis is still loading its data")
    what = "did not answer in time" if isinstance(error, TimeoutError) else f"went away: {error}"
    if is_sent:
        return OutcomeUnknown(f"Redis {what}")
    return RedisUnavailable(f"Redis cannot be reached: {str(error) or 'no answer in time'}")


def _translate_reply(reply: ResponseError) -> Exception:
    said = str(reply)
    # Redis 6.2 wraps what a command inside a script was refused with: "ERR Error running script ...: -OOM ...".
    if isinstance(reply, ReadOnlyError | OutOfMemoryError) or _NO_WRITES.search(said):
        return ReadOnly(f"Redis takes no writes: {reply}")
    if isinstance(reply, BusyLoadingError) or said.startswith(_NOT_READY):
        return RedisUnavailable(f"Redis is not ready: {reply}")
    return reply
