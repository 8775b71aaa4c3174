"""Where the service is measured: a Redis of its own, somebody to fill it, and wrk, which is aimed at one after another.

Redis is started here and `toptail serve` is told where it is, so that its append-only file is not rewritten beside
what is being measured, and services with one worker and with two meet the same boards.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import NamedTuple

from experiments.bench.answers_crowds import Crowd, make_crowd
from experiments.bench.answers_shapes import LOGNORMAL
from experiments.bench.answers_stands import Stand
from experiments.bench.parts import Job
from experiments.bench.progress import Track
from experiments.bench.servers import BenchServer, open_server
from experiments.bench.service_processes import Writer
from experiments.bench.service_results import Round
from experiments.bench.service_sizes import FAST, FULL, Sizes
from experiments.bench.service_wrk import run_wrk
from experiments.bench.timing import now_s
from hybrid.embedded import Fsync
from hybrid.engine import Engine
from hybrid.link import Node, parse_url


@dataclass(frozen=True, slots=True)
class Stage:
    """`folder` is for files, and gone afterwards."""

    stand: Stand
    sizes: Sizes
    folder: Path
    track: Track

    @property
    def server(self) -> BenchServer:
        return self.stand.server

    async def make_crowd(self, name: str, players: int, top_n: int) -> Crowd:
        """A board with a score for everybody, on which every further score is a change."""
        crowd = await make_crowd(self.stand, LOGNORMAL, players, name=name, strategy="latest", top_n=top_n)
        await crowd.fill()
        return crowd

    async def remove_board(self, name: str) -> None:
        """Remove it, and wait until its memory is free."""
        await self.stand.engine.boards.delete(name)
        await self.server.settle()


@asynccontextmanager
async def open_stage(job: Job, track: Track, fsync: Fsync) -> AsyncIterator[Stage]:
    with TemporaryDirectory(prefix="bench-", dir=job.data_dir) as folder:
        async with (
            open_server(job.data_dir, fsync) as server,
            Engine(Node(parse_url(server.redis.url)), random=Random(job.seed)) as engine,
        ):
            yield Stage(Stand(server, engine, job.seed), FAST if job.is_fast else FULL, Path(folder), track)


class Aim(NamedTuple):
    """Who is asked, about how many players, by which script, over how many connections."""

    who: str
    url: str
    script: Path
    players: int
    connections: int
    batch: int = 1


async def shoot(aim: Aim, seconds: int, writer: Writer) -> Round:
    """One round of wrk."""
    before, began_s = await writer.scores(), now_s()
    found = await run_wrk(aim.url, aim.script, aim.connections, seconds)
    scores_s = (await writer.scores() - before) / (now_s() - began_s)
    return Round(
        who=aim.who,
        players=aim.players,
        is_written=writer.is_writing,
        connections=aim.connections,
        batch=aim.batch,
        scores_s=scores_s,
        **found._asdict(),
    )
