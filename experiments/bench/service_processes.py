"""The processes that take part, each of them a real one: `toptail serve`, the peers, the writer, the sender."""

import asyncio
import re
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile

from experiments.bench.answers_crowds import Crowd
from experiments.bench.results import ROOT
from experiments.bench.servers import BenchServer

TOPTAIL = (sys.executable, "-P", "-c", "from service.cli import main; main()")

_READY_S = 30.0


@asynccontextmanager
async def serving(server: BenchServer, *, workers: int = 1) -> AsyncIterator[str]:
    """`toptail serve` on this Redis; where it is, once it is ready."""
    options = ("serve", "--redis", server.redis.url, "--port", "0", "--workers", str(workers))
    with TemporaryFile() as log:
        process = await asyncio.create_subprocess_exec(*TOPTAIL, *options, stdout=PIPE, stderr=log)
        try:
            async with asyncio.timeout(_READY_S):
                found = re.match(r"dashboard +(http://\S+)/\n", await read_line(process))
            if found is None:
                log.seek(0)
                raise RuntimeError(f"the service did not start: {log.read().decode()}")
            yield found[1]
        finally:
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)
            await process.wait()


@asynccontextmanager
async def peering(way: str, server: BenchServer, key: str) -> AsyncIterator[str]:
    """A handler of another kind (service_peer.py), over this ZSET; where it is."""
    async with running_module("service_peer", way, server.redis.url, key) as process:
        yield (await read_line(process)).strip()


@dataclass(frozen=True, slots=True)
class Writer:
    """A paced writer (service_writer.py), or None of it."""

    process: Process | None

    @property
    def is_writing(self) -> bool:
        return self.process is not None

    async def scores(self) -> int:
        """Scores written so far."""
        if self.process is None or self.process.stdin is None:
            return 0
        self.process.stdin.write(b"\n")
        return int(await read_line(self.process))


@asynccontextmanager
async def writing_apart(server: BenchServer, crowd: Crowd, *, is_written: bool = True) -> AsyncIterator[Writer]:
    """Scores for a crowd at a steady pace, from a process of its own; or nothing."""
    if not is_written:
        yield Writer(None)
        return
    seed = int(crowd.rng.integers(2**31))
    options = (server.redis.url, crowd.board.name, str(crowd.players), str(seed))
    async with running_module("service_writer", *options) as process:
        yield Writer(process)


async def run_sender(*options: object) -> str:
    """What the sender (service_sender.py) says when it has sent everything."""
    async with running_module("service_sender", *map(str, options)) as process:
        return await read_line(process)


async def run_toptail(*options: str) -> int:
    """Run a command of ours to its end; returns the most bytes of memory that it had."""
    with TemporaryFile() as log:
        process = await asyncio.create_subprocess_exec(*TOPTAIL, *options, stdout=log, stderr=log)
        ended = asyncio.create_task(process.wait())
        peak_bytes = 0
        while not ended.done():
            peak_bytes = max(peak_bytes, read_memory(process.pid, "VmHWM"))
            await asyncio.wait({ended}, timeout=0.02)
        if process.returncode:
            log.seek(0)
            raise RuntimeError(f"toptail {options[0]} failed: {log.read().decode()}")
    return peak_bytes


def read_memory(pid: int, figure: str = "VmRSS") -> int:
    """Bytes that it has now, or VmHWM: unlike ru_maxrss that knows nothing of the process it was forked from."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except OSError:
        return 0
    found = re.search(rf"{figure}:\s+(\d+) kB", status)
    return 1024 * int(found[1]) if found else 0


@asynccontextmanager
async def running_module(module: str, *options: str) -> AsyncIterator[Process]:
    """A module of the benchmark as a process that ends when its input does."""
    command = (sys.executable, "-m", f"experiments.bench.{module}", *options)
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, cwd=ROOT)
    try:
        yield process
    finally:
        if process.stdin is not None:
            process.stdin.close()
        await process.wait()


async def read_line(process: Process) -> str:
    if process.stdout is None:
        raise RuntimeError("the process has no pipes")
    return (await process.stdout.readline()).decode()
