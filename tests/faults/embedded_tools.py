"""Parents that die, servers that are fakes, and looks at what is still running."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from redis.exceptions import TimeoutError as RedisTimeoutError

from hybrid.embedded import EmbeddedRedis
from hybrid.servers import Server, list_servers, load_server
from tests.redis_cluster import ask, eventually

every_server = pytest.mark.parametrize("server", list_servers(), ids=str)

GONE_WITHIN_S = 2.0

Meanwhile = Callable[[EmbeddedRedis, int], Coroutine[None, None, None]]

# Starts a server and says its pid, then writes for ever and says each number once Redis has acknowledged it.
PARENT = """
import asyncio, itertools, sys
from redis.asyncio import Redis
from hybrid.embedded import EmbeddedRedis
from hybrid.servers import load_server

async def main():
    async with EmbeddedRedis(sys.argv[1], server=load_server(sys.argv[2]), fsync="always") as redis:
        print(redis.pid, flush=True)
        async with Redis.from_url(redis.url) as client:
            for number in itertools.count(1):
                await client.set(f"key:{number}", number)
                print(number, flush=True)

asyncio.run(main())
"""

# Starts a server; at Ctrl-C asks it for signs of life, for half a second, before stopping it.
INTERRUPTED = """
import asyncio, signal, sys
from hybrid.embedded import EmbeddedRedis
from hybrid.servers import ping

async def main():
    interrupted = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, interrupted.set)
    async with EmbeddedRedis(sys.argv[1]) as redis:
        print(redis.pid, flush=True)
        await interrupted.wait()
        signs = set()
        for _ in range(25):
            signs.add(await ping(redis.socket_path))
            await asyncio.sleep(0.02)
        print(signs, flush=True)

asyncio.run(main())
"""

# Starts a server in a process that may write no file larger than a few kilobytes.
CRAMPED = """
import asyncio, resource, sys
from hybrid.embedded import EmbeddedRedis
from hybrid.errors import StartFailed

resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    asyncio.run(EmbeddedRedis(sys.argv[1]).start())
except StartFailed as error:
    print(error)
"""


@contextmanager
def parent_of(data_dir: Path, server: Server) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A process with a server of its own, and that server's pid; both are gone at the end."""
    command = [sys.executable, "-c", PARENT, str(data_dir), server.path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        try:
            yield parent, pid
        finally:
            parent.kill()
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)


def read_until(parent: subprocess.Popen[str], number: int) -> None:
    assert parent.stdout is not None
    while int(parent.stdout.readline()) < number:
        pass


def read_last(parent: subprocess.Popen[str], default: int) -> int:
    """The last number that a parent said before it died."""
    assert parent.stdout is not None
    return [default, *map(int, parent.stdout.read().split())][-1]


def members(group: int) -> list[int]:
    """The processes of a group, from /proc; one that only waits to be reaped is none."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, pgrp = entry.read_text().rpartition(")")[2].split()[:3]
            if int(pgrp) == group and state not in "ZX":
                found.append(int(entry.parent.name))
    return found


async def wait_until_gone(group: int, *, within_s: float = GONE_WITHIN_S) -> None:
    async def is_gone() -> bool:
        return not members(group)

    await eventually(is_gone, within_s=within_s)


def make_fake(folder: Path, says: str, does: str = "exit 1") -> str:
    """A program that answers --version as it is told, and otherwise does what it is told."""
    path = folder / "redis-server"
    path.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo "{says}" && exit 0\n{does}\n')
    path.chmod(0o700)
    return str(path)


def make_fake_server(folder: Path, version: str, does: str = "exit 1") -> Server:
    folder.mkdir(exist_ok=True)
    return load_server(make_fake(folder, f"Redis server v={version} sha=00000000:0 malloc=libc bits=64", does))


async def write_and_stop(data_dir: Path, server: Server | None = None) -> None:
    async with EmbeddedRedis(data_dir, server=server) as redis:
        await ask(redis, "SET", "key", "value")


# Killed parents


async def leave_alone(_: EmbeddedRedis, pid: int) -> None:
    assert members(pid) == [pid]


async def freeze(_: EmbeddedRedis, pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)


async def keep_busy(redis: EmbeddedRedis, _: int) -> None:
    with pytest.raises(RedisTimeoutError):
        await ask(redis, "EVAL", "while true do end", 0, wait_s=0.1)


async def rewrite_slowly(redis: EmbeddedRedis, pid: int, *, key_s: int = 1) -> None:
    """Begin an AOF rewrite that takes so long for each key, and looks up only between two of them."""
    await ask(redis, "CONFIG", "SET", "rdb-key-save-delay", key_s * 1_000_000)
    await ask(redis, "EVAL", "for number = 1, 60 do redis.call('SET', 'many:' .. number, number) end", 0)
    await ask(redis, "BGREWRITEAOF")
    assert len(members(pid)) == 2
