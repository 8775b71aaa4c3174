"""What a promise costs: submits with an fsync before every answer (`always`) and with one a second (`everysec`).

While a lane waits for its fsync, whatever arrives becomes its next group: `groups` shows how they grow.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryFile

import numpy as np

from experiments.bench.batches import draw_players, make_batches
from experiments.bench.boards import count_groups
from experiments.bench.flights import fly
from experiments.bench.parts import Job
from experiments.bench.progress import Track
from experiments.bench.record_results import SHARDS, Sizes, SubmitSpeed
from experiments.bench.servers import BenchServer, open_server
from experiments.bench.timing import Stopwatch
from hybrid.config import BoardConfig
from hybrid.embedded import Fsync
from hybrid.engine import Engine
from hybrid.link import Node, parse_url

EVERYSEC: Fsync = "everysec"
ALWAYS: Fsync = "always"
LEVELS = (EVERYSEC, ALWAYS)

_APPENDS = 200
_APPEND_BYTES = 512


@dataclass(frozen=True, slots=True)
class Way:
    """So many callers, each with one submit of `batch` scores after the other."""

    callers: int
    batch: int
    submits: int


def list_ways(sizes: Sizes) -> list[Way]:
    return [
        Way(sizes.in_flight, sizes.batch, sizes.scores // sizes.batch),
        Way(sizes.callers, 1, sizes.single_submits),
        Way(1, 1, sizes.lone_submits),
    ]


async def measure_submits(sizes: Sizes, job: Job, track: Track) -> list[SubmitSpeed]:
    """The best run of each way at each level."""
    found: list[SubmitSpeed] = []
    for _ in track(range(sizes.submit_repeats), "record: fsync"):
        for fsync in LEVELS:
            async with (
                open_server(job.data_dir, fsync) as server,
                Engine(Node(parse_url(server.redis.url)), random=Random(job.seed)) as engine,
            ):
                await _run(server, engine, fsync, Way(1, 1, sizes.callers), sizes, job.seed)  # warms up
                found += [await _run(server, engine, fsync, way, sizes, job.seed) for way in list_ways(sizes)]
    return [
        min((row for row in found if _key(row) == (fsync, way.callers, way.batch)), key=lambda row: row.seconds)
        for way in list_ways(sizes)
        for fsync in LEVELS
    ]


def measure_fsync(data_dir: Path | None) -> float:
    """Seconds of a small append with an fsync, on the disk that the servers use; the median of many."""
    taken_s = []
    with TemporaryFile(dir=data_dir) as file:
        for _ in range(_APPENDS):
            with Stopwatch() as watch:
                file.write(bytes(_APPEND_BYTES))
                file.flush()
                os.fsync(file.fileno())
            taken_s.append(watch.seconds)
    return float(np.median(taken_s))


async def _run(server: BenchServer, engine: Engine, fsync: str, way: Way, sizes: Sizes, seed: int) -> SubmitSpeed:
    scores = way.submits * way.batch
    batches = make_batches(draw_players(seed, sizes.players, scores), seed, way.batch)
    board, _ = await engine.boards.create("bench", BoardConfig(shards=SHARDS))
    scripts = -await server.calls("evalsha")
    flight = await fly(lambda batch: engine.record.submit(board, batch), batches, way.callers)
    scripts += await server.calls("evalsha")
    groups = await count_groups(server, board)
    await engine.boards.delete(board.name)
    await server.settle()
    return SubmitSpeed(
        fsync=fsync,
        callers=way.callers,
        batch=way.batch,
        submits=way.submits,
        seconds=flight.seconds,
        python_s=flight.python_s,
        p50_s=float(np.quantile(flight.latencies_s, 0.5)),
        p99_s=float(np.quantile(flight.latencies_s, 0.99)),
        groups=groups,
        scripts=scripts,
        missing=scores - sum(outcomes.accepted for outcomes in flight.answers),
    )


def _key(row: SubmitSpeed) -> tuple[str, int, int]:
    return row.fsync, row.callers, row.batch
