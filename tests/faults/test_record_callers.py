"""The record and its callers: lost answers, shared tokens, deadlines, and those who leave."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from hybrid.config import BoardConfig, Strategy
from hybrid.embedded import EmbeddedRedis
from hybrid.engine import Engine, make_link
from hybrid.errors import (
    HybridError,
    OutcomeUnknown,
    RedisUnavailable,
)
from hybrid.events import Batch
from hybrid.outcomes import Status
from tests.engines import LossyLink, fresh_prefix
from tests.faults.record_traffic import (
    BrokenLink,
    done,
    every_strategy,
    has_passed,
    make_patient_engine,
    read_scores,
    run,
)
from tests.redis_cluster import ask, at_most, eventually, frozen, kill


@pytest.mark.parametrize("shards", [1, 2])
def test_a_request_token_does_not_make_a_large_request_a_duplicate_of_itself(
    redis_server: EmbeddedRedis, shards: int
) -> None:
    async def scenario(engine: Engine) -> None:
        board, _ = await engine.boards.create("b", BoardConfig(strategy="sum", shards=shards))
        players = [f"p{n}" for n in range(9000)]
        batch = Batch(players, [3] * 9000, request="one")
        assert (await engine.record.submit(board, batch)).accepted == 9000
        assert {o.status for o in await engine.record.submit(board, batch)} == {Status.DUPLICATE}
        assert await read_scores(engine, board, players) == dict.fromkeys(players, 3)

    run(LossyLink(make_link(redis_server.url)), scenario)


@every_strategy
@pytest.mark.parametrize("tokens", [{"ids": ["x"]}, {"request": "x"}], ids=["id", "request"])
def test_of_two_callers_with_one_token_neither_is_told_duplicate_when_nothing_is_known(
    redis_server: EmbeddedRedis, strategy: Strategy, tokens: dict[str, Any]
) -> None:
    link = LossyLink(make_link(redis_server.url))

    async def scenario(engine: Engine) -> None:
        object.__setattr__(engine.record._settings, "timeout_s", 0.2)
        board, _ = await engine.boards.create("b", BoardConfig(strategy=strategy, shards=1))
        link.losses = ["lost"] * 1_000_000  # it never arrives
        sends = (engine.record.submit(board, Batch(["ann"], [5], **tokens)) for _ in range(2))
        assert [outcomes[0].status for outcomes in await asyncio.gather(*sends)] == [Status.UNKNOWN] * 2
        link.losses = []
        assert await engine.record.lookup(board, "alltime", "ann") is None

    run(link, scenario)


def test_what_was_written_is_never_reported_as_not_written(redis_server: EmbeddedRedis) -> None:
    """The look at the duplicates' records comes after the write; when it fails, the write still happened."""
    link = BrokenLink(make_link(redis_server.url))

    async def scenario(engine: Engine) -> None:
        board, _ = await engine.boards.create("b", BoardConfig(shards=1))
        await engine.record.submit(board, Batch(["ann"], [5], ids=["1"]))
        object.__setattr__(engine.record._settings, "timeout_s", 0.3)
        link.broken = "ZMSCORE"
        outcomes = await engine.record.submit(board, Batch(["ann", "bob"], [5, 7], ids=["1", "1"]))
        assert link.seen > 0
        assert [outcome.status for outcome in outcomes] == [Status.DUPLICATE, Status.ADDED]

    run(link, scenario)


@every_strategy
def test_one_deadline_is_not_cut_short_by_that_of_another_caller(
    redis_server: EmbeddedRedis, strategy: Strategy
) -> None:
    async def check() -> None:
        async with make_patient_engine(redis_server.url, fresh_prefix(), timeout_s=2.0) as engine:
            board, _ = await engine.boards.create("b", BoardConfig(strategy=strategy, shards=1))
            await engine.record.submit(board, Batch(["warm"], [1], ids=["1"]))
            with frozen(redis_server):
                early = [asyncio.create_task(engine.record.submit(board, Batch(["ann"], [1], ids=["1"])))]
                await has_passed(0.1)
                early.append(asyncio.create_task(engine.record.submit(board, Batch(["bob"], [1], ids=["1"]))))
                await has_passed(1.7)
                late = asyncio.create_task(engine.record.submit(board, Batch(["cy"], [1], ids=["1"])))
                await asyncio.gather(*early, return_exceptions=True)
                await has_passed(0.2)
            assert (await late)[0].status is Status.ADDED  # he asked 0.4 s before, and would wait for 2

    asyncio.run(check())


@every_strategy
def test_a_frozen_redis_is_answered_for_within_the_deadline(redis_server: EmbeddedRedis, strategy: Strategy) -> None:
    async def check() -> None:
        async with make_patient_engine(redis_server.url, fresh_prefix(), timeout_s=1.0) as engine:
            board, _ = await engine.boards.create("b", BoardConfig(strategy=strategy, shards=1))
            with frozen(redis_server):
                # Nothing of it was ever sent but a question for the time, or for the record: so it is not unknown.
                with at_most(1.5), pytest.raises(RedisUnavailable):
                    await engine.record.submit(board, Batch(["ann"], [1], ids=["1"]))
                with at_most(1.5), pytest.raises(RedisUnavailable):
                    await engine.record.remove(board, "ann")

    asyncio.run(check())


def test_a_connection_that_was_closed_while_nobody_looked_is_not_used(redis_server: EmbeddedRedis) -> None:
    async def check() -> None:
        link = make_link(redis_server.url)
        await asyncio.gather(*(link.run("k", [("PING",)]) for _ in range(3)))
        with Redis(unix_socket_path=str(redis_server.socket_path)) as client:  # it blocks: the event loop hears nothing
            assert client.client_kill_filter(_type="normal", skipme=True) >= 3
        assert await link.run("k", [("PING",)]) == [b"PONG"]
        await link.close()

    asyncio.run(check())


def test_a_lookup_that_got_no_answer_is_unavailable_since_it_writes_nothing(redis_server: EmbeddedRedis) -> None:
    async def check() -> None:
        async with make_patient_engine(redis_server.url, fresh_prefix(), timeout_s=1.0) as engine:
            board, _ = await engine.boards.create("b", BoardConfig(shards=1))
            with frozen(redis_server), pytest.raises(HybridError) as error:
                await engine.record.lookup(board, "alltime", "ann")
            assert not isinstance(error.value, OutcomeUnknown)

    asyncio.run(check())


@every_strategy
def test_a_submit_waits_for_a_redis_that_restarts(tmp_path: Path, strategy: Strategy) -> None:
    async def check() -> None:
        redis = EmbeddedRedis(tmp_path / "r", fsync="always")
        async with redis, make_patient_engine(redis.url, "wait") as engine:
            board, _ = await engine.boards.create("b", BoardConfig(strategy=strategy, shards=1))
            await engine.record.submit(board, Batch(["warm"], [1], ids=["1"]))
            kill(redis)
            await eventually(lambda: done(not redis.is_running()), within_s=5)
            sent = asyncio.create_task(engine.record.submit(board, Batch(["ann"], [1], ids=["1"])))
            assert await redis.revive()
            assert (await sent)[0].status is Status.ADDED

    asyncio.run(check())


def test_a_redis_that_is_busy_with_a_script_is_waited_for(tmp_path: Path) -> None:
    busy = "local t = redis.call('TIME')[1] while redis.call('TIME')[1] - t < 2 do end return 1"

    async def check() -> None:
        redis = EmbeddedRedis(tmp_path / "r", fsync="no", options={"lua-time-limit": "10"})
        async with redis, make_patient_engine(redis.url, "busy") as engine:
            board, _ = await engine.boards.create("b", BoardConfig(shards=2))
            await engine.record.submit(board, Batch(["ann"], [1]))
            hog = asyncio.create_task(ask(redis, "EVAL", busy, 0))

            async def is_busy() -> bool:
                with suppress(TimeoutError):
                    async with asyncio.timeout(0.2):
                        return await asyncio.shield(hog) is None
                return True

            await eventually(is_busy, within_s=2)
            assert (await engine.record.submit(board, Batch(["ann", "bob"], [2, 3]))).accepted == 2
            await hog

    asyncio.run(check())


# What must not grow, and what must not be left behind
