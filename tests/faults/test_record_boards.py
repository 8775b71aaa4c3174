"""The record when boards come and go, and when what is asked of them is odd."""

import asyncio
import os
import random
import signal
from collections.abc import Callable
from contextlib import suppress

import pytest

from hybrid.cluster import parse_cluster_url
from hybrid.config import BoardConfig
from hybrid.embedded import EmbeddedRedis
from hybrid.engine import Engine, make_link
from hybrid.errors import (
    BoardNotFound,
    HybridError,
    InvalidBoard,
    InvalidField,
    RedisUnavailable,
)
from hybrid.events import Batch
from hybrid.link import parse_url
from hybrid.outcomes import Status
from tests.engines import NOON_MS, Clock, LossyLink, fresh_prefix, make_engine
from tests.faults.record_traffic import (
    DAY_MS,
    STRATEGIES,
    BrokenLink,
    assert_record_is_replay,
    make_patient_engine,
    read_scores,
    run,
)
from tests.redis_cluster import ask, at_most, eventually, frozen


def test_a_deletion_that_stopped_anywhere_is_finished_by_the_next_sweep(redis_server: EmbeddedRedis) -> None:
    link = BrokenLink(make_link(redis_server.url))

    async def scenario(engine: Engine) -> None:
        calls, is_whole = 0, False
        while not is_whole:
            board, _ = await engine.boards.create("b", BoardConfig(shards=2, windows=("alltime", "daily")))
            await engine.record.submit(board, Batch([f"p{n}" for n in range(20)], [1] * 20, ids=["1"] * 20))
            calls, link.calls_left, link.seen = calls + 1, calls + 1, 0
            with suppress(RedisUnavailable):
                await engine.boards.delete("b")
            is_whole, link.calls_left = link.seen == 0, 1_000_000
            with suppress(BoardNotFound):
                await engine.boards.delete("b")  # the name may still be there
            await engine.boards.sweep()
            left = await ask(redis_server, "KEYS", f"{engine.record._schema.prefix}:{{*")
            # The nonces go by themselves, in ten minutes.
            assert [key for key in left if ":min:" not in key] == [], f"after {calls} calls"
        assert calls > 4

    run(link, scenario)


def test_a_creation_that_stopped_anywhere_leaves_nothing_that_a_sweep_does_not_find(
    redis_server: EmbeddedRedis,
) -> None:
    clock = Clock()
    link = BrokenLink(make_link(redis_server.url))

    async def scenario(engine: Engine) -> None:
        calls, is_whole = 0, False
        while not is_whole:
            calls, link.calls_left, link.seen = calls + 1, calls + 1, 0
            with suppress(RedisUnavailable):
                await engine.boards.create("b", BoardConfig(shards=3))
            is_whole, link.calls_left = link.seen == 0, 1_000_000
        await engine.boards.delete("b")
        clock.now_ms += 3_600_000  # a making is given up after ten minutes
        await engine.boards.sweep()
        assert calls > 3
        assert await ask(redis_server, "KEYS", f"{engine.record._schema.prefix}:{{*") == []

    run(link, scenario, clock)


def test_deletion_under_writers_leaves_no_key_behind(redis_server: EmbeddedRedis) -> None:
    async def scenario(engine: Engine) -> None:
        for turn in range(20):
            board, _ = await engine.boards.create("b", BoardConfig(shards=2, windows=("alltime", "daily")))
            sends = [
                asyncio.create_task(engine.record.submit(board, Batch([f"p{n}"], [1], request=f"{turn}")))
                for n in range(40)
            ]
            await asyncio.gather(engine.boards.delete("b"), *sends, return_exceptions=True)
        left = await ask(redis_server, "KEYS", f"{engine.record._schema.prefix}:{{*")
        assert [key for key in left if ":min:" not in key] == []

    run(LossyLink(make_link(redis_server.url)), scenario)


def test_a_player_of_many_windows_is_removed_from_all_and_logged_or_from_none(redis_server: EmbeddedRedis) -> None:
    clock = Clock()

    async def check() -> None:
        async with make_engine(make_link(redis_server.url), clock) as engine:
            board, _ = await engine.boards.create("b", BoardConfig(shards=1, windows=("daily",), retention_days=400))
            for _ in range(450):  # more than are ever kept
                await engine.record.submit(board, Batch(["ann"], [5]))
                clock.now_ms += DAY_MS
            assert await engine.record.remove(board, "ann")
            await assert_record_is_replay(engine, board)
            assert await engine.record.lookup(board, "daily:2037-11-17", "ann") is None

    asyncio.run(check())


def test_a_board_stored_by_a_release_that_knew_fewer_settings_can_be_changed_and_deleted(
    redis_server: EmbeddedRedis,
) -> None:
    async def scenario(engine: Engine) -> None:
        await engine.boards.create("b", BoardConfig(shards=1))
        key = engine.record._schema.boards
        (stored,) = await engine.link.run(key, [("HGET", key, "b")])
        older = stored.replace(b',"retention_days":7', b"")
        assert older != stored
        await engine.link.run(key, [("HSET", key, "b", older)])
        async with asyncio.timeout(2):
            assert (await engine.boards.patch("b", top_n=5)).config.top_n == 5
        await engine.link.run(key, [("HSET", key, "b", older)])
        async with asyncio.timeout(2):
            await engine.boards.delete("b")

    run(LossyLink(make_link(redis_server.url)), scenario)


def test_a_changed_retention_holds_from_the_next_write_on(redis_server: EmbeddedRedis) -> None:
    async def scenario(engine: Engine) -> None:
        board, _ = await engine.boards.create("b", BoardConfig(shards=1, windows=("daily",)))
        await engine.record.submit(board, Batch(["ann"], [5]))
        key = engine.record._schema.shard(board.tags[0]).record("daily:2037-11-17")
        before_ms = await ask(redis_server, "PTTL", key)
        board = await engine.boards.patch("b", retention_days=100)
        await engine.record.submit(board, Batch(["ann"], [6]))
        assert await ask(redis_server, "PTTL", key) > before_ms + 90 * DAY_MS

    run(LossyLink(make_link(redis_server.url)), scenario)


def test_nothing_is_remembered_of_deleted_boards(redis_server: EmbeddedRedis) -> None:
    async def scenario(engine: Engine) -> None:
        for _ in range(10):
            board, _ = await engine.boards.create("b", BoardConfig(shards=4))
            await engine.record.submit(board, Batch([f"p{n}" for n in range(40)], [1] * 40))
            await engine.record.lookup(board, "alltime", "p1")
            await engine.boards.delete("b")
        record = engine.record
        assert max(len(record._lanes), len(record._shards), len(record._lookups)) <= 2 * 4

    run(LossyLink(make_link(redis_server.url)), scenario)


def test_what_callers_left_behind_counts_as_waiting_or_is_dropped(redis_server: EmbeddedRedis) -> None:
    async def check() -> None:
        async with make_patient_engine(redis_server.url, fresh_prefix(), most_waiting=100) as engine:
            board, _ = await engine.boards.create("b", BoardConfig(shards=1))
            await engine.record.submit(board, Batch(["warm"], [1]))
            with frozen(redis_server):
                for n in range(20):
                    with suppress(TimeoutError, HybridError):
                        async with asyncio.timeout(0.01):
                            await engine.record.submit(board, Batch([f"p{n}-{i}" for i in range(50)], [1] * 50))
                (lane,) = engine.record._lanes.values()
                assert sum(len(part) for part, *_ in lane._waiting) <= 100
            assert (await engine.record.submit(board, Batch(["ann"], [1])))[0].status is Status.ADDED

    asyncio.run(check())


def test_a_closed_engine_keeps_no_connection(redis_server: EmbeddedRedis) -> None:
    async def clients() -> int:
        return len((await ask(redis_server, "CLIENT", "LIST")) or [])

    async def check() -> None:
        before = await clients()
        async with make_patient_engine(redis_server.url, fresh_prefix()) as engine:
            board, _ = await engine.boards.create("b", BoardConfig(shards=1))
            await engine.record.submit(board, Batch(["warm"], [1]))
            os.kill(redis_server.pid, signal.SIGSTOP)
            try:
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.1):
                        await engine.record.submit(board, Batch(["ann"], [1]))
            finally:
                os.kill(redis_server.pid, signal.SIGCONT)

        async def is_as_before() -> bool:
            return await clients() <= before

        await eventually(is_as_before, within_s=3)

    asyncio.run(check())


# Time, size and odd input


def test_a_jump_of_the_redis_clock_is_noticed_and_nothing_is_lost(redis_server: EmbeddedRedis) -> None:
    async def scenario(engine: Engine) -> None:
        board, _ = await engine.boards.create("b", BoardConfig(strategy="sum", shards=1))
        await engine.record.submit(board, Batch(["ann"], [1], ids=["1"]))
        (shard,) = engine.record._shards.values()
        for jump_ms in (-3_600_000, 3_600_000):
            assert shard._offset_ms is not None
            shard._offset_ms += jump_ms  # as if Redis' clock had gone the other way
            outcomes = await engine.record.submit(board, Batch(["ann", "ann"], [1, 1], ids=["1", str(jump_ms)]))
            assert [outcome.status for outcome in outcomes] == [Status.DUPLICATE, Status.IMPROVED]
        assert await read_scores(engine, board, ["ann"]) == {"ann": 3}

    run(LossyLink(make_link(redis_server.url)), scenario)


def test_the_longest_players_in_the_largest_group_with_every_window_and_token(redis_server: EmbeddedRedis) -> None:
    async def scenario(engine: Engine) -> None:
        for strategy in STRATEGIES:
            config = BoardConfig(strategy=strategy, shards=1, windows=("daily", "alltime", "weekly", "monthly"))
            board, _ = await engine.boards.create(strategy, config)
            players = [f"{n:04d}" + "\N{GRINNING FACE}" * 124 for n in range(2000)]
            times = [NOON_MS - n * 7_000 for n in range(2000)]
            batch = Batch(players, list(range(2000)), at_ms=times, ids=["i" * 128] * 2000, tags=["t" * 128] * 2000)
            assert (await engine.record.submit(board, batch)).accepted == 2000
            assert {o.status for o in await engine.record.submit(board, batch)} == {Status.DUPLICATE}
            await assert_record_is_replay(engine, board)
            assert await engine.record.remove(board, players[0])

    run(LossyLink(make_link(redis_server.url)), scenario)


def test_a_batch_of_years_of_history_is_dealt_in_a_moment(redis_server: EmbeddedRedis) -> None:
    dice = random.Random(3)

    async def scenario(engine: Engine) -> None:
        board, _ = await engine.boards.create("b", BoardConfig(windows=("alltime", "daily")))
        times = [NOON_MS - dice.randrange(5 * 365) * DAY_MS for _ in range(20_000)]
        with at_most(1.5):  # each event once, not each event for each of 1,825 days
            batch = Batch([f"p{n}" for n in range(20_000)], [1] * 20_000, at_ms=times)
            assert (await engine.record.submit(board, batch)).accepted == 20_000

    run(LossyLink(make_link(redis_server.url)), scenario)


@pytest.mark.parametrize("low", [2**63, 2**64, 10**30, -(2**63) - 10])
def test_scores_beyond_64_bits_are_refused_when_the_board_is_made(redis_server: EmbeddedRedis, low: int) -> None:
    async def scenario(engine: Engine) -> None:
        with pytest.raises(InvalidBoard, match=str(low)):
            await engine.boards.create("b", BoardConfig(score_min=low, score_max=low + 5))

    run(LossyLink(make_link(redis_server.url)), scenario)


@pytest.mark.parametrize(
    ("parse", "url"),
    [
        (parse_url, "redis://:hunter2@host/not-a-db"),
        (parse_url, "redis://:hunter2@host:port"),
        (parse_cluster_url, "redis+cluster://:hunter2@host"),
    ],
)
def test_a_bad_address_is_refused_without_its_password(parse: Callable[[str], object], url: str) -> None:
    with pytest.raises(InvalidField) as error:
        parse(url)
    assert "hunter2" not in str(error.value)
