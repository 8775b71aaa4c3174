"""Standings while much is moving: writers, keepers, leaders that fall, a Redis that is frozen or gone."""

import asyncio
import random
import time
from contextlib import suppress
from pathlib import Path

import pytest

from hybrid.config import Board, BoardConfig
from hybrid.embedded import EmbeddedRedis
from hybrid.engine import Engine, make_link
from hybrid.errors import RedisUnavailable
from hybrid.events import Batch
from hybrid.keeper import Keeper, KeeperSettings
from hybrid.standing import Estimate, Exact
from tests.engines import fresh_prefix
from tests.redis_cluster import frozen

TOP_N, HIGH, PLAYERS = 20, 500, 1000


async def fall_and_rise(engine: Engine, board: Board, falls: int) -> int:
    """Leaders fall one by one, and others rise; after each fall every leader is exactly who he should be."""
    dice, scores = random.Random(4), {f"h{number}": 0 for number in range(60)}
    scores = {name: HIGH + dice.randrange(500) for name in scores}
    await engine.record.submit(board, Batch(list(scores), list(scores.values())))
    at_ms, checked = int(time.time() * 1000), 0
    for _ in range(falls):
        at_ms += 1
        order = sorted((name for name in scores if scores[name] >= HIGH), key=lambda name: (-scores[name], name))
        leader = dice.choice(order[:TOP_N])
        riser = dice.choice([name for name in scores if scores[name] < HIGH] or [order[-1]])
        scores[leader] = dice.randrange(HIGH)
        scores[riser] = HIGH + dice.randrange(500)
        changed = list({leader: 0, riser: 0})
        await engine.record.submit(board, Batch(changed, [scores[n] for n in changed], at_ms=[at_ms] * len(changed)))
        checked += await check_leaders(engine, board, scores)
    return checked


async def check_leaders(engine: Engine, board: Board, scores: dict[str, int]) -> int:
    """Of those who are surely above all others, each leader has his rank and nobody else has one."""
    high = [name for name in scores if scores[name] >= HIGH]
    rows = dict(zip(high, await engine.standings.of_players(board, high), strict=True))
    ranks = {name: row.rank for name, row in rows.items() if isinstance(row, Exact)}
    expected = {name: sum(scores[other] > scores[name] for other in high) + 1 for name in high}
    first = sorted(high, key=lambda name: expected[name])[:TOP_N]
    for name, rank in ranks.items():
        ties = sum(scores[other] == scores[name] for other in high)
        assert expected[name] <= rank < expected[name] + ties, (name, rank, expected[name])
    assert sorted(ranks.values()) == list(range(1, min(TOP_N, len(high)) + 1))
    assert {scores[name] for name in ranks} == {scores[name] for name in first}
    return len(ranks)


@pytest.mark.slow
def test_a_leader_who_falls_is_replaced_by_exactly_the_right_player_1000_times_while_others_write(
    redis_server: EmbeddedRedis,
) -> None:
    async def run() -> None:
        async with Engine(make_link(redis_server.url), prefix=fresh_prefix(), fresh_s=0.0) as engine:
            config = BoardConfig(top_n=TOP_N, shards=4, strategy="latest", score_max=1000, time_to_ms=2_200_000_000_000)
            board, _ = await engine.boards.create("game", config)
            names = [f"low{number}" for number in range(PLAYERS)]
            await engine.record.submit(board, Batch(names, [number % HIGH for number in range(PLAYERS)]))
            others = [asyncio.create_task(write_below(engine, board, names, seed)) for seed in range(3)]
            others.append(asyncio.create_task(Keeper(engine, KeeperSettings(pause_s=0.02, share=1.0)).run()))
            try:
                assert await fall_and_rise(engine, board, 1000) >= 15_000
            finally:
                for task in others:
                    task.cancel()
                await asyncio.gather(*others, return_exceptions=True)

    async def write_below(engine: Engine, board: Board, names: list[str], seed: int) -> None:
        """Scores that never reach the leaders'."""
        dice = random.Random(seed)
        while True:
            chosen = dice.sample(names, 20)
            await engine.record.submit(board, Batch(chosen, [dice.randrange(HIGH) for _ in chosen]))

    asyncio.run(run())


def test_a_frozen_redis_is_unavailable_for_readers_and_back_by_itself(tmp_path: Path) -> None:
    async def run() -> None:
        async with EmbeddedRedis(tmp_path / "data", fsync="no") as redis, Engine(make_link(redis.url)) as engine:
            board, _ = await engine.boards.create("game", BoardConfig(top_n=5))
            await engine.record.submit(board, Batch([f"p{n}" for n in range(100)], list(range(100))))
            before = await engine.standings.of_player(board, "p50")
            with frozen(redis):
                began_s = time.monotonic()
                results = await asyncio.gather(
                    engine.standings.of_player(board, "p50"),
                    engine.pages.page(board),
                    engine.distribution.bins(board),
                    return_exceptions=True,
                )
                assert all(isinstance(result, RedisUnavailable) for result in results), results
                assert time.monotonic() - began_s < 7
            after = await engine.standings.of_player(board, "p50")
            assert before is not None
            assert after is not None
            assert (after.score, after.percentile) == (before.score, before.percentile)

    asyncio.run(run())


def test_a_keeper_outlives_a_redis_that_is_killed_and_revived(tmp_path: Path) -> None:
    async def run() -> None:
        redis = EmbeddedRedis(tmp_path / "data")
        async with redis, Engine(make_link(redis.url), fresh_s=0.0) as engine:
            board, _ = await engine.boards.create("game", BoardConfig(top_n=5))
            await engine.record.submit(board, Batch([f"p{n}" for n in range(100)], list(range(100))))
            keeper = asyncio.create_task(Keeper(engine, KeeperSettings(pause_s=0.01, share=1.0)).run())
            await engine.standings.of_player(board, "p50")
            redis._process.kill()  # type: ignore[union-attr]
            await asyncio.sleep(0.05)
            await redis.revive()
            await engine.record.submit(board, Batch(["p50"], [1000]))
            async with asyncio.timeout(10):
                while True:
                    standing = await engine.standings.of_player(board, "p51")
                    if isinstance(standing, Estimate) and standing.seq == 101:
                        break
                    await asyncio.sleep(0.02)
            assert not keeper.done()
            keeper.cancel()
            with suppress(asyncio.CancelledError):
                await keeper

    asyncio.run(run())
