"""The processes that take part: keepers of trends that are killed, who sends events, and what the service's take."""

import asyncio
import os
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random

import msgspec

from experiments.bench.service_processes import read_line, running_module
from experiments.bench.timing import now_s
from experiments.bench.trends_sender import Sent
from hybrid.trends.config import Trend
from hybrid.trends.trends import Trends

KEEPER, WORKER = "service.keeping", "service.worker"
LONGEST_S = 0.5  # that a keeper lives when it is killed

_SETTLE_S = 120.0


@asynccontextmanager
async def keeping_apart(url: str) -> AsyncIterator[None]:
    """A keeper (trends_keeper.py) that has begun, and is killed at the end."""
    async with running_module("trends_keeper", url) as process:
        await read_line(process)
        try:
            yield
        finally:
            process.kill()


async def kill_keeper(url: str, dice: Random) -> None:
    """Start one, and kill it some time after it has begun."""
    async with keeping_apart(url):
        await asyncio.sleep(dice.uniform(0, LONGEST_S))


async def wait_until_counted(trends: Trends, trend: Trend, events: int) -> int:
    """Wait until so many events were counted, if they ever are; returns how many were."""
    deadline_s = now_s() + _SETTLE_S
    while True:
        counted = (await trends.sums(trend)).counted
        if counted >= events or now_s() > deadline_s:
            return counted
        await asyncio.sleep(0.05)


class Sender:
    """A sender (trends_sender.py) that has its bodies ready."""

    def __init__(self, process: Process) -> None:
        self._process = process

    async def send(self) -> Sent:
        """Have it send them; what it says when all of it was answered."""
        if self._process.stdin is None:
            raise RuntimeError("the sender has no pipes")
        self._process.stdin.write(b"\n")
        return msgspec.json.decode(await read_line(self._process), type=Sent)


@asynccontextmanager
async def sending_apart(*options: object) -> AsyncIterator[Sender]:
    async with running_module("trends_sender", *map(str, options)) as process:
        await read_line(process)
        yield Sender(process)


def find_process(module: str) -> int:
    """The process below this one that runs a module."""
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            command = (entry / "cmdline").read_bytes().split(b"\0")
            if module.encode() in command and os.getpid() in _ancestors(int(entry.name)):
                return int(entry.name)
    raise RuntimeError(f"no process runs {module}")


def _ancestors(pid: int) -> Iterator[int]:
    while pid > 1:
        pid = int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])
        yield pid
