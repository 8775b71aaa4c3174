"""The record when servers go wrong: frozen, killed, full and moving ones.

Each scenario keeps a ledger of what was sent and what was said, and holds the record against it.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hybrid.config import BoardConfig, Strategy
from hybrid.embedded import EmbeddedRedis
from hybrid.engine import Engine
from hybrid.errors import (
    OutcomeUnknown,
    ReadOnly,
    RedisUnavailable,
)
from hybrid.events import Batch
from hybrid.outcomes import Status
from hybrid.servers import Server
from tests.engines import fresh_prefix
from tests.faults.record_traffic import (
    Ledger,
    assert_record_is_replay,
    done,
    every_server,
    every_strategy,
    has_passed,
    make_patient_engine,
    read_log,
    read_scores,
    submit_until_certain,
    traffic_on,
)
from tests.redis_cluster import ask, at_most, eventually, free_ports, frozen, kill


def test_two_engines_sum_exactly_through_a_redis_that_freezes_for_two_seconds(redis_server: EmbeddedRedis) -> None:
    dice, ledger, prefix = random.Random(1), Ledger(), fresh_prefix()
    batches = [
        Batch(
            [f"p{dice.randrange(20)}" for _ in range(8)],
            [1 + dice.randrange(9)] * 8,
            ids=[f"{n}-{i}" for i in range(8)],
        )
        for n in range(400)
    ]

    async def check() -> None:
        async with (
            make_patient_engine(redis_server.url, prefix) as first,
            make_patient_engine(redis_server.url, prefix) as second,
        ):
            board, _ = await first.boards.create("b", BoardConfig(strategy="sum", shards=3))
            turns = asyncio.Semaphore(40)

            async def send(engine: Engine, batch: Batch) -> None:
                async with turns:
                    ledger.note(batch, await engine.record.submit(board, batch))

            sending = [asyncio.create_task(send(engine, batch)) for batch in batches for engine in (first, second)]
            await eventually(lambda: done(len(ledger.points) > 100), within_s=10)
            with frozen(redis_server):
                taken = len(ledger.points)
                await has_passed(2.0)
                assert len(ledger.points) <= taken + 40 * 8 < 3200  # it really stood still, in the middle of it
            await asyncio.gather(*sending)
            ledger.assert_each_taken_once()
            assert await read_scores(first, board, sorted(ledger.sums())) == ledger.sums()
            await assert_record_is_replay(first, board)

    asyncio.run(check())


def test_ten_thousand_tokens_sent_one_to_five_times_from_two_engines_sum_exactly(redis_server: EmbeddedRedis) -> None:
    dice, ledger, prefix = random.Random(2), Ledger(), fresh_prefix()
    events = [(f"p{dice.randrange(300)}", 1 + dice.randrange(9), str(number)) for number in range(10_000)]
    sends = [event for event in events for _ in range(dice.randint(1, 5))]
    dice.shuffle(sends)

    async def check() -> None:
        async with (
            make_patient_engine(redis_server.url, prefix) as first,
            make_patient_engine(redis_server.url, prefix) as second,
        ):
            board, _ = await first.boards.create("b", BoardConfig(strategy="sum", shards=4))
            turns = asyncio.Semaphore(32)

            async def send(engine: Engine, chosen: Sequence[tuple[str, int, str]]) -> None:
                players, points, ids = zip(*chosen, strict=True)
                batch = Batch(players, points, ids=ids)
                async with turns:
                    ledger.note(batch, await submit_until_certain(engine, board, batch))

            await asyncio.gather(
                *(send(dice.choice([first, second]), sends[n : n + 25]) for n in range(0, len(sends), 25))
            )
            assert len(ledger.points) == 10_000
            ledger.assert_each_taken_once()
            assert await read_scores(second, board, sorted(ledger.sums())) == ledger.sums()

    asyncio.run(check())


@every_strategy
def test_a_killed_redis_loses_nothing_acknowledged_and_counts_nothing_twice(tmp_path: Path, strategy: Strategy) -> None:
    players = [f"p{n}" for n in range(8)]

    async def check() -> None:
        redis = EmbeddedRedis(tmp_path / "r", fsync="always")
        async with redis, make_patient_engine(redis.url, "k") as engine:
            board, _ = await engine.boards.create("b", BoardConfig(strategy=strategy, shards=2))
            async with traffic_on(engine, board, players) as traffic:
                for _ in range(8):
                    await traffic.has_gone_on()
                    acknowledged = traffic.ledger.sums()
                    kill(redis)
                    await eventually(redis.revive, within_s=10)
                    if strategy == "sum":
                        kept = await read_scores(engine, board, players)
                        assert {p: n for p, n in acknowledged.items() if kept.get(p, 0) < n} == {}
                    await traffic.has_gone_on()
            if strategy == "sum":
                assert await read_scores(engine, board, players) == traffic.ledger.sums()
            await assert_record_is_replay(engine, board)
            logged = [
                (player, name)
                for tag in board.tags
                for entry in await read_log(engine, tag)
                for player, name in zip(entry.events.players, entry.events.ids, strict=True)
            ]
            assert sorted(logged) == sorted((player.encode(), name) for player, name in traffic.ledger.points)

    asyncio.run(check())


@every_strategy
def test_a_caller_who_leaves_takes_nobody_with_him(redis_server: EmbeddedRedis, strategy: Strategy) -> None:
    async def check() -> None:
        async with make_patient_engine(redis_server.url, fresh_prefix()) as engine:
            board, _ = await engine.boards.create("b", BoardConfig(strategy=strategy, shards=1))
            await engine.record.submit(board, Batch(["warm"], [1], ids=["1"]))
            with frozen(redis_server):
                first = [asyncio.create_task(engine.record.submit(board, Batch([p], [1], ids=["1"]))) for p in "ab"]
                await has_passed(0.05)  # these are on their way
                later = [asyncio.create_task(engine.record.submit(board, Batch([p], [1], ids=["1"]))) for p in "cd"]
                await has_passed(0.05)  # and these wait behind them
                for task in (first[0], later[0]):
                    task.cancel()
                gone = await asyncio.gather(first[0], later[0], return_exceptions=True)
                assert all(isinstance(error, asyncio.CancelledError) for error in gone)
            async with asyncio.timeout(5):
                stayed = await asyncio.gather(first[1], later[1])
            assert [outcomes[0].status for outcomes in stayed] == [Status.ADDED, Status.ADDED]
            async with asyncio.timeout(5):
                again = await engine.record.submit(board, Batch(["a", "c"], [1, 1], ids=["1", "1"]))
            assert again.is_certain
            assert await read_scores(engine, board, list("abcd")) == dict.fromkeys("abcd", 1)
            await assert_record_is_replay(engine, board)

    asyncio.run(check())


@every_server
@every_strategy
def test_a_full_redis_is_read_only_and_nothing_is_written_by_halves(
    tmp_path: Path, server: Server, strategy: Strategy
) -> None:
    async def check() -> None:
        redis = EmbeddedRedis(tmp_path / "r", server=server, fsync="no")
        async with redis, make_patient_engine(redis.url, "full") as engine:
            config = BoardConfig(strategy=strategy, shards=2, windows=("alltime", "daily"))
            board, _ = await engine.boards.create("b", config)
            await engine.record.submit(board, Batch(["ann"], [1], ids=["0"]))
            used = int((await ask(redis, "INFO", "memory"))["used_memory"])
            await ask(redis, "CONFIG", "SET", "maxmemory", used + 1_000_000)
            batches = [Batch([f"p{n}-{i}" for i in range(500)], [7] * 500, ids=[str(n)] * 500) for n in range(200)]
            refused: Batch | None = None
            for batch in batches:
                try:
                    outcomes = await engine.record.submit(board, batch)
                except ReadOnly:
                    assert await read_scores(engine, board, batch.players) == {}
                    refused = batch
                    break
                if not outcomes.is_certain:  # one shard took its events before the memory was full
                    # ReadOnly, or written when memory was just enough and then too little to bring it to the top
                    assert isinstance(outcomes.error, ReadOnly | OutcomeUnknown)
                    refused = batch
                    break
            assert refused is not None
            await assert_record_is_replay(engine, board)
            await ask(redis, "CONFIG", "SET", "maxmemory", 1)
            with pytest.raises(ReadOnly):
                await engine.record.submit(board, Batch(["ann", "bob"], [8, 8], ids=["1", "1"]))
            assert await read_scores(engine, board, ["ann", "bob"]) == {"ann": 1}
            await assert_record_is_replay(engine, board)
            await ask(redis, "CONFIG", "SET", "maxmemory", 0)
            assert (await engine.record.submit(board, refused)).is_certain
            assert await read_scores(engine, board, refused.players) == dict.fromkeys(refused.players, 7)
            await assert_record_is_replay(engine, board)

    asyncio.run(check())


def test_a_full_redis_can_still_be_opened_and_read(tmp_path: Path) -> None:
    async def check() -> None:
        redis = EmbeddedRedis(tmp_path / "r", fsync="no")
        async with redis:
            async with make_patient_engine(redis.url, "full") as engine:
                board, _ = await engine.boards.create("b", BoardConfig())
                await engine.record.submit(board, Batch(["ann"], [5]))
            await ask(redis, "CONFIG", "SET", "maxmemory", 1)
            async with make_patient_engine(redis.url, "full") as again:
                assert await read_scores(again, await again.boards.describe("b"), ["ann"]) == {"ann": 5}

    asyncio.run(check())


@every_server
def test_a_server_that_became_a_replica_is_read_only(tmp_path: Path, server: Server) -> None:
    async def check() -> None:
        port, nobody = free_ports(2)
        redis = EmbeddedRedis(tmp_path / "r", server=server, port=port, fsync="no")
        async with redis, make_patient_engine(redis.url, "ro") as engine:
            board, _ = await engine.boards.create("b", BoardConfig(shards=2))
            await engine.record.submit(board, Batch(["ann"], [1]))
            await ask(redis, "REPLICAOF", "127.0.0.1", nobody)
            with pytest.raises(ReadOnly):
                await engine.record.submit(board, Batch(["ann", "bob"], [2, 3]))
            await ask(redis, "REPLICAOF", "NO", "ONE")
            assert (await engine.record.submit(board, Batch(["ann", "bob"], [2, 3]))).accepted == 2

    asyncio.run(check())


@every_strategy
def test_a_redis_that_is_gone_is_unavailable_within_the_deadline_and_nothing_is_unknown(
    tmp_path: Path, strategy: Strategy
) -> None:
    async def check() -> None:
        redis = EmbeddedRedis(tmp_path / "r", fsync="no")
        async with redis, make_patient_engine(redis.url, "gone", timeout_s=1.0) as engine:
            board, _ = await engine.boards.create("b", BoardConfig(strategy=strategy, shards=4))
        async with make_patient_engine_unopened(redis.url, "gone", timeout_s=1.0) as late:
            with at_most(1.5), pytest.raises(RedisUnavailable):
                await late.boards.open()
            batch = Batch([f"p{n}" for n in range(50)], [1] * 50, ids=["1"] * 50)
            with at_most(1.5), pytest.raises(RedisUnavailable) as error:
                await late.record.submit(board, batch)
            assert not isinstance(error.value, ReadOnly)
            with at_most(1.5), pytest.raises(RedisUnavailable):
                await late.record.remove(board, "p1")
            with at_most(1.5), pytest.raises(RedisUnavailable):
                await late.record.lookup(board, "alltime", "p1")

    asyncio.run(check())


@asynccontextmanager
async def make_patient_engine_unopened(url: str, prefix: str, *, timeout_s: float) -> AsyncIterator[Engine]:
    """An engine whose Redis need not be there."""
    engine = make_patient_engine(url, prefix, timeout_s=timeout_s)
    try:
        yield engine
    finally:
        await engine.link.close()


# Answers that must not be guesses
