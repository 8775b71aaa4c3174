"""All answers against the naive oracle, while everything happens: writes, removals, time, keepers, crashes.

Each run is a small board of random make, coarsely sampled, so that intervals are wide and leaders fall out of the top
all the time (answers_world.py). After each step something is asked and compared, and in the end everything
(answers_checks.py). Dice are seeded, so a failing run repeats.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import pytest

from hybrid import past, tail, top
from hybrid.config import Board, BoardConfig
from hybrid.embedded import EmbeddedRedis
from hybrid.engine import Engine
from hybrid.events import Batch
from hybrid.keeper import Keeper
from hybrid.link import TIMEOUT_S, Command, Link, Script
from hybrid.scripts import COUNT
from hybrid.standing import Exact
from tests.engines import Clock, make_engine
from tests.interleaving import BlockingLink
from tests.property.answers_checks import Checks
from tests.property.answers_world import ALL_BUDGET, DAY_MS, YEAR_2040_MS, World, random_config

STUCK_S = 30.0  # a run takes a fifth of a second

LEAST_A_RUN = {
    "players": 60,
    "players within an interval": 12,
    "players, some events old": 15,
    "orders": 2,
    "alone": 8,
    "dense": 10,
    "newcomers": 25,
    "newcomers within an interval": 1.5,
    "newcomers, some events old": 5,
    "rows": 150,
    "cursors": 0.7,
    "quantiles": 5,
    "bins": 20,
    "players in storms": 30,
    "past leaders": 2,
    "past scores": 3,
    "past scores within an interval": 0.4,
    "past quantiles": 0.7,
    "deaths": 2.5,
    "removals": 5,
    "tops lost": 0.15,
    "windows retired": 0.15,
}


def small_sizes(board: Board) -> tuple[int, int]:
    """A top with so little to spare that leaders fall out of it all the time."""
    return board.config.top_n + 2, 2


async def play_one(link: Link, seed: int, steps: int) -> Counter[str]:
    """One run; returns what happened in it."""
    dice = random.Random(seed)
    parts, slope = dice.choice([(5, 3), (3, 2), (2, 1), (12, 4)])
    world = World(link, dice, Clock(YEAR_2040_MS + seed * 3_700_000), random_config(dice))
    checks = Checks(world)
    # For a second after it was written down for good a window may be believed to be whole: here every look is fresh.
    with patch.multiple(tail, PARTS=parts, SLOPE=slope), patch.object(past, "_AGAIN_S", -1.0):
        await world.start()
        for _ in range(steps):
            await world.step()
            if dice.random() < 0.7:
                await checks.some()
        await checks.all()
    await world.engine.boards.delete("b")
    return world.events


async def play(redis: EmbeddedRedis, seeds: range, steps: int) -> Counter[str]:
    """Many runs; returns what happened in all of them."""
    events: Counter[str] = Counter()
    with patch.object(top, "sizes", small_sizes):
        async with BlockingLink(redis.url) as link:
            for seed in seeds:
                try:
                    async with asyncio.timeout(STUCK_S):
                        events += await play_one(link, seed, steps)
                except AssertionError as error:
                    raise AssertionError(f"run {seed}: {error}") from error
                except TimeoutError:
                    raise AssertionError(f"run {seed} never ends") from None
    return events


def check_happened(events: Counter[str], runs: int) -> None:
    """So much of everything happens in runs that prove something: about half of what did when this was written."""
    too_few = {what: events[what] for what, least in LEAST_A_RUN.items() if events[what] < least * runs}
    assert not too_few, events


def test_every_answer_is_what_the_oracle_says(redis_server: EmbeddedRedis) -> None:
    check_happened(asyncio.run(play(redis_server, range(25), steps=40)), runs=25)


@pytest.mark.slow
def test_every_answer_is_what_the_oracle_says_in_500_runs(redis_server: EmbeddedRedis) -> None:
    check_happened(asyncio.run(play(redis_server, range(1000, 1500), steps=50)), runs=500)


YESTERDAY = "daily:2040-01-01"


async def make_yesterday(link: Link) -> tuple[Engine, Clock, Board]:
    """A board with a window that is about to be let go."""
    clock = Clock(YEAR_2040_MS)
    engine = make_engine(link, clock, fresh_s=0.0)
    await engine.boards.open()
    board, _ = await engine.boards.create("b", BoardConfig(top_n=3, shards=2, score_max=100, windows=("daily",)))
    await engine.record.submit(board, Batch([f"p{number}" for number in range(10)], list(range(10))))
    clock.now_ms += 9 * DAY_MS
    return engine, clock, board


def test_a_window_is_let_go_behind_the_back_of_nobody_who_reads_it(redis_server: EmbeddedRedis) -> None:
    """Another engine's keeper lets it go just after it was found whole."""

    async def run() -> None:
        async with BlockingLink(redis_server.url) as link:
            engine, clock, board = await make_yesterday(link)
            other = make_engine(link, clock, prefix=engine.schema.prefix, seed=1, fresh_s=0.0)
            for turn in range(2):
                leader = await engine.standings.of_player(board, "p9", window=YESTERDAY)
                (middle,) = list(await engine.standings.of_scores(board, [5], window=YESTERDAY))
                assert isinstance(leader, Exact), turn
                assert middle is not None
                assert (leader.rank, leader.players, middle.players) == (1, 10, 11), turn
                await Keeper(other, ALL_BUDGET).round()

    asyncio.run(run())


@dataclass
class InterruptedLink:
    """Something happens before the first call of a script."""

    link: Link
    script: Script
    happens: Callable[[], Awaitable[object]] | None

    async def run(self, key: str, commands: Sequence[Command], *, timeout_s: float = TIMEOUT_S) -> list[Any]:
        if self.happens is not None and commands[0][1] == self.script.sha:
            happens, self.happens = self.happens, None
            await happens()
        return await self.link.run(key, commands, timeout_s=timeout_s)

    async def close(self) -> None:
        """The link below is shared; whoever made it closes it."""


def test_who_is_removed_while_a_window_is_written_down_is_in_it_no_more(redis_server: EmbeddedRedis) -> None:
    async def run() -> None:
        async with BlockingLink(redis_server.url) as link:
            engine, clock, board = await make_yesterday(link)
            # Its leaders were read, and what is left is to count them and to write them down.
            interrupted = InterruptedLink(link, COUNT, lambda: engine.remove_player(board, "p9"))
            keeper = Keeper(make_engine(interrupted, clock, prefix=engine.schema.prefix, seed=1), ALL_BUDGET)
            await keeper.round()
            assert interrupted.happens is None
            for _ in range(3):
                clock.now_ms += 3_600_000
                await keeper.round()
            fresh = make_engine(link, clock, prefix=engine.schema.prefix, seed=2, fresh_s=0.0)
            assert await fresh.standings.of_player(board, "p9", window=YESTERDAY) is None
            leader = await fresh.standings.of_player(board, "p8", window=YESTERDAY)
            assert isinstance(leader, Exact)
            assert (leader.rank, leader.players) == (1, 9)
            keys = fresh.schema.shard(board.tags[0])
            assert await link.run(keys.meta, [("EXISTS", keys.record(YESTERDAY))]) == [0]

    asyncio.run(run())
