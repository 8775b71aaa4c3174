"""A paced writer by itself: `python -m experiments.bench.service_writer URL BOARD PLAYERS SEED`.

It writes through an engine of its own, as another worker would, answers every line on stdin with the number of scores
written so far, and ends when stdin does.
"""

import asyncio
import sys

import numpy as np

from experiments.bench.answers_crowds import Crowd, writing
from experiments.bench.answers_shapes import LOGNORMAL
from experiments.bench.flights import run
from hybrid.engine import Engine, make_link


async def write(url: str, name: str, players: int, seed: int) -> None:
    async with Engine(make_link(url)) as engine:
        board = await engine.boards.describe(name)
        async with writing([Crowd(engine, board, LOGNORMAL, players, np.random.default_rng(seed))]) as writer:
            while await asyncio.to_thread(_has_line):
                sys.stdout.write(f"{writer.scores}\n")
                sys.stdout.flush()


def _has_line() -> bool:
    return bool(sys.stdin.readline())


if __name__ == "__main__":
    url, name, players, seed = sys.argv[1:]
    run(write(url, name, int(players), int(seed)))
