"""Where answers are measured: a server of its own, an engine in this process, and a keeper: in it, or in its own."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from random import Random

from experiments.bench.parts import Job
from experiments.bench.results import ROOT
from experiments.bench.servers import BenchServer, open_server
from hybrid.engine import Engine
from hybrid.keeper import Keeper, KeeperSettings
from hybrid.link import Node, parse_url


@dataclass(frozen=True, slots=True)
class Stand:
    server: BenchServer
    engine: Engine
    seed: int


@asynccontextmanager
async def open_stand(job: Job) -> AsyncIterator[Stand]:
    async with (
        open_server(job.data_dir) as server,
        Engine(Node(parse_url(server.redis.url)), random=Random(job.seed)) as engine,
    ):
        yield Stand(server, engine, job.seed)


@asynccontextmanager
async def keeping(engine: Engine, settings: KeeperSettings) -> AsyncIterator[None]:
    """A keeper as a task of this process."""
    task = asyncio.create_task(Keeper(engine, settings).run())
    try:
        yield
    finally:
        if not task.done():
            task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@dataclass(frozen=True, slots=True)
class KeeperProcess:
    """A keeper in a process of its own (answers_keeper.py)."""

    process: asyncio.subprocess.Process

    async def processor_s(self) -> float:
        """Its processor seconds so far."""
        if self.process.stdin is None or self.process.stdout is None:
            raise RuntimeError("the keeper has no pipes")
        self.process.stdin.write(b"\n")
        return float(await self.process.stdout.readline())


@asynccontextmanager
async def keeping_apart(server: BenchServer, settings: KeeperSettings) -> AsyncIterator[KeeperProcess]:
    """A keeper as a process, so that what it takes is not mixed with what the readers and writers take."""
    options = [server.redis.url, str(settings.pause_s), str(settings.share)]
    command = [sys.executable, "-m", "experiments.bench.answers_keeper", *options]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, cwd=ROOT)
    try:
        yield KeeperProcess(process)
    finally:
        if process.stdin is not None:
            process.stdin.close()  # which ends it
        await process.wait()
