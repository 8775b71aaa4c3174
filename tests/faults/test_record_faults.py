"""The record when things go wrong: frozen, killed, full and moving servers; lost answers; callers that leave.

Each scenario keeps a ledger of what was sent and what was said, and holds the record against it.
"""

import asyncio
import logging
import os
import random
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from redis.crc import key_slot

from hybrid.cluster import parse_cluster_url
from hybrid.config import Board, BoardConfig, Strategy
from hybrid.embedded import EmbeddedRedis
from hybrid.engine import Engine, make_link
from hybrid.errors import (
    BoardNotFound,
    HybridError,
    InvalidBoard,
    InvalidField,
    OutcomeUnknown,
    ReadOnly,
    RedisUnavailable,
)
from hybrid.events import Batch
from hybrid.link import TIMEOUT_S, Command, parse_url
from hybrid.log import LogEntry, parse_entry
from hybrid.outcomes import Outcomes, Status
from hybrid.record import RecordSettings
from hybrid.servers import Server, list_servers
from tests.engines import NOON_MS, Clock, LossyLink, fresh_prefix, make_engine
from tests.redis_cluster import RedisCluster, ask, at_most, eventually, free_ports, frozen, kill

DAY_MS = 86_400_000
STRATEGIES: tuple[Strategy, ...] = ("best", "latest", "sum")

log = logging.getLogger(__name__)

every_server = pytest.mark.parametrize("server", list_servers(), ids=str)
every_strategy = pytest.mark.parametrize("strategy", STRATEGIES)


def make_patient_engine(url: str, prefix: str, *, timeout_s: float = 5.0, most_waiting: int = 200_000) -> Engine:
    """An engine that shares its boards with others of the same prefix, and has nonces of its own."""
    settings = RecordSettings(timeout_s=timeout_s, most_waiting=most_waiting)
    return Engine(make_link(url), prefix=prefix, now_ms=Clock(), settings=settings)


async def submit_until_certain(engine: Engine, board: Board, batch: Batch, *, within_s: float = 30.0) -> Outcomes:
    """What a caller does who wants to know: the same ids again, until every event has its answer."""
    answers: list[Outcomes] = []

    async def is_answered() -> bool:
        with suppress(RedisUnavailable):
            answers.append(await engine.record.submit(board, batch))
        return bool(answers) and answers[-1].is_certain

    await eventually(is_answered, within_s=within_s)
    return answers[-1]


async def has_passed(span_s: float) -> None:
    """Let so much time go by."""
    end_s = time.monotonic() + span_s

    async def is_over() -> bool:
        return time.monotonic() >= end_s

    await eventually(is_over, within_s=span_s + 5)


async def read_scores(engine: Engine, board: Board, players: Sequence[str]) -> dict[str, int]:
    keys = await engine.record.lookup_many(board, "alltime", players)
    return {p: board.key.decode(key).points for p, key in zip(players, keys, strict=True) if key is not None}


async def read_log(engine: Engine, tag: str) -> list[LogEntry]:
    log = engine.record._schema.shard(tag).log
    (entries,) = await engine.link.run(log, [("XRANGE", log, "-", "+")])
    return [parse_entry(entry) for entry in entries]


async def assert_record_is_replay(engine: Engine, board: Board) -> None:
    """Every shard: seq contiguous, each entry names the one before, meta names the last, and replay = live."""
    for tag in board.tags:
        keys = engine.record._schema.shard(tag)
        previous, replayed = "0-0", dict[str, dict[bytes, float | None]]()
        for entry in await read_log(engine, tag):
            assert entry.previous == previous
            assert entry.seq == int(previous.partition("-")[0]) + len(entry.events.players)
            previous = entry.id
            for window, rows in entry.rows.items():
                view = replayed.setdefault(window, {})
                for change in rows.changes():
                    assert view.get(change.player) == change.old
                    view[change.player] = change.new
        ((seq, last),) = await engine.link.run(keys.meta, [("HMGET", keys.meta, "seq", "last")])
        assert (int(seq), last.decode()) == (int(previous.partition("-")[0]), previous)
        for window, view in replayed.items():
            key = keys.record(window)
            (pairs,) = await engine.link.run(key, [("ZRANGE", key, 0, -1, "WITHSCORES")])
            assert dict(pairs) == {player: key for player, key in view.items() if key is not None}


@dataclass
class Ledger:
    """What was sent under each token, and how often it was taken in."""

    points: dict[tuple[str, str], int] = field(default_factory=dict)
    taken: Counter[tuple[str, str]] = field(default_factory=Counter)

    def note(self, batch: Batch, outcomes: Outcomes) -> None:
        assert batch.ids is not None
        for player, points, name, outcome in zip(batch.players, batch.scores, batch.ids, outcomes, strict=True):
            assert outcome.status not in (Status.UNKNOWN, Status.REFUSED)
            self.points[player, str(name)] = int(points)
            self.taken[player, str(name)] += outcome.status is not Status.DUPLICATE

    def sums(self) -> dict[str, int]:
        totals: Counter[str] = Counter()
        for (player, _), points in self.points.items():
            totals[player] += points
        return dict(totals)

    def assert_each_taken_once(self) -> None:
        assert {token: times for token, times in self.taken.items() if times != 1} == {}


@dataclass
class Traffic:
    """Writers that send one point after another, each under its own id and until it is answered.

    `taken_at_s` has by player the moments at which a point was acknowledged.
    """

    engine: Engine
    board: Board
    ledger: Ledger = field(default_factory=Ledger)
    taken_at_s: dict[str, list[float]] = field(default_factory=dict)
    is_over: bool = False

    async def write(self, player: str) -> None:
        times = self.taken_at_s.setdefault(player, [])
        while not self.is_over:
            batch = Batch([player], [1], ids=[str(len(times))])
            self.ledger.note(batch, await submit_until_certain(self.engine, self.board, batch))
            times.append(time.monotonic())

    async def has_gone_on(self, events: int = 5) -> None:
        """Wait until every writer had so many more answers."""
        start = {player: len(times) for player, times in self.taken_at_s.items()}

        async def is_so() -> bool:
            return all(len(self.taken_at_s[player]) >= seen + events for player, seen in start.items())

        await eventually(is_so, within_s=30)


@asynccontextmanager
async def traffic_on(engine: Engine, board: Board, players: Sequence[str]) -> AsyncIterator[Traffic]:
    traffic = Traffic(engine, board)
    async with asyncio.TaskGroup() as writers:
        for player in players:
            writers.create_task(traffic.write(player))
        try:
            await eventually(lambda: _done(len(traffic.taken_at_s) == len(players)), within_s=10)
            yield traffic
        finally:
            traffic.is_over = True


async def _done(is_so: bool) -> bool:
    return is_so


@dataclass
class BrokenLink(LossyLink):
    """Breaks commands of one name, or everything after so many calls, as long as it is told to."""

    broken: str = ""
    calls_left: int = 1_000_000
    seen: int = 0

    async def run(self, key: str, commands: Sequence[Command], *, timeout_s: float = TIMEOUT_S) -> list[Any]:
        self.calls_left -= 1
        if self.calls_left < 0 or str(commands[0][0]) == self.broken:
            self.seen += 1
            raise RedisUnavailable("broken on purpose")
        return await super().run(key, commands, timeout_s=timeout_s)


def run(link: LossyLink, scenario: Callable[[Engine], Coroutine[None, None, None]], clock: Clock | None = None) -> None:
    async def main() -> None:
        async with make_engine(link, clock) as engine:
            await scenario(engine)

    asyncio.run(main())


# (a) to (h): the promises


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
            await eventually(lambda: _done(len(ledger.points) > 100), within_s=10)
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


@pytest.mark.slow
@every_server
def test_a_killed_master_stops_writing_for_a_while_and_nothing_is_counted_twice(tmp_path: Path, server: Server) -> None:
    players = [f"p{n}" for n in range(24)]

    async def check() -> None:
        async with (
            RedisCluster(tmp_path, server=server, node_timeout_ms=500) as cluster,
            make_patient_engine(cluster.url, "k") as engine,
        ):
            board, _ = await engine.boards.create("b", BoardConfig(strategy="sum", shards=3))
            slots = [key_slot(engine.record._schema.shard(tag).meta.encode()) for tag in board.tags]
            registry = await cluster.master_of(key_slot(engine.record._schema.boards.encode()))
            masters = [await cluster.master_of(slot) for slot in slots]
            victim = next(shard for shard, master in enumerate(masters) if master is not registry)
            async with traffic_on(engine, board, players) as traffic:
                await traffic.has_gone_on()
                kill(masters[victim])
                killed_s = time.monotonic()
                await traffic.has_gone_on(20)
            ledger, shard_of = traffic.ledger, {p: board.shard_hash.of(p.encode()) for p in players}
            assert set(shard_of.values()) == {0, 1, 2}
            found = await read_scores(engine, board, players)
            for player, total in ledger.sums().items():
                # Replication is asynchronous: the new master may lack what the old one acknowledged, never have more.
                assert found[player] <= total
                assert found[player] == total or shard_of[player] == victim
                assert found[player] >= 15  # most of the 20 came after the failover, and are there
            await assert_record_is_replay(engine, board)
            logged: Counter[tuple[bytes, str | None]] = Counter()
            for entry in await read_log(engine, board.tags[victim]):
                logged.update(zip(entry.events.players, entry.events.ids, strict=True))
            assert {token: times for token, times in logged.items() if times > 1} == {}
            pauses = [longest_pause(traffic.taken_at_s[p], killed_s) for p in players if shard_of[p] == victim]
            log.info("master killed pause_s=%.3f server=%s", max(pauses), server)

    asyncio.run(check())


def longest_pause(times_s: Sequence[float], from_s: float) -> float:
    late = [from_s, *(at for at in times_s if at >= from_s)]
    return max(after - before for before, after in pairwise(late))


@pytest.mark.slow
@every_server
def test_a_slot_that_moves_under_writers_loses_and_doubles_nothing(tmp_path: Path, server: Server) -> None:
    players = [f"p{n}" for n in range(12)]

    async def check() -> None:
        async with (
            RedisCluster(tmp_path, server=server) as cluster,
            make_patient_engine(cluster.url, "k") as engine,
        ):
            board, _ = await engine.boards.create("b", BoardConfig(strategy="sum", shards=1))
            slot = key_slot(engine.record._schema.shard(board.tags[0]).meta.encode())
            source = await cluster.master_of(slot)
            target = await cluster.master_of((slot + 16384 // 2) % 16384)
            assert source is not target
            async with traffic_on(engine, board, players) as traffic:
                await traffic.has_gone_on()
                start_s = time.monotonic()
                async for _ in move_slot(slot, source, target):
                    acknowledged = traffic.ledger.sums()
                    found = await read_scores(engine, board, players)  # wherever the record is by now
                    assert {p: n for p, n in acknowledged.items() if found.get(p, 0) < n} == {}
                    await has_passed(0.4)
                await traffic.has_gone_on()
            assert await cluster.master_of(slot) is target
            assert await ask(source, "CLUSTER", "COUNTKEYSINSLOT", slot) == 0
            traffic.ledger.assert_each_taken_once()
            assert await read_scores(engine, board, players) == traffic.ledger.sums()
            await assert_record_is_replay(engine, board)
            pause_s = max(longest_pause(times, start_s) for times in traffic.taken_at_s.values())
            log.info("slot moved pause_s=%.3f server=%s", pause_s, server)
            assert 1.2 < pause_s < 5.0  # the writers met it, for longer than one attempt, and got over it

    asyncio.run(check())


@pytest.mark.slow
def test_writing_goes_on_soon_after_a_frozen_master_was_replaced(tmp_path: Path) -> None:
    """Frozen, not killed: no connection is reset, as when a machine loses its power or its network."""

    async def check() -> None:
        async with (
            RedisCluster(tmp_path, node_timeout_ms=500) as cluster,
            make_patient_engine(cluster.url, "k") as engine,
        ):
            board, _ = await engine.boards.create("b", BoardConfig(shards=1))
            meta = engine.record._schema.shard(board.tags[0]).meta
            await asyncio.gather(*(engine.link.run(meta, [("HGETALL", meta)]) for _ in range(20)))  # 20 connections
            master, replica = await cluster.nodes_of(key_slot(meta.encode()))

            async def is_replaced() -> bool:
                return bool((await ask(replica, "ROLE"))[0] == "master")

            with frozen(master):
                await eventually(is_replaced, within_s=20)
                with at_most(3.0):  # one attempt that is not answered, and then somebody to ask
                    assert (await engine.record.submit(board, Batch(["ann"], [1])))[0].status is Status.ADDED

    asyncio.run(check())


@pytest.mark.slow
def test_nothing_is_unknown_when_a_master_is_gone_and_the_others_do_not_say_who_follows(tmp_path: Path) -> None:
    async def check() -> None:
        async with RedisCluster(tmp_path, node_timeout_ms=20_000) as cluster:
            link = make_link(cluster.url)
            tags = {"{b}": 3300, "{c}": 7365, "{a}": 15495}  # one in each third of the slots
            for tag in tags:
                await asyncio.gather(*(link.run(tag, [("PING",)]) for _ in range(3)))
            gone, *others = [await cluster.master_of(slot) for slot in tags.values()]
            kill(gone)
            await eventually(lambda: _done(not gone.is_running()), within_s=5)
            with frozen(others[0]), frozen(others[1]):
                for _ in range(3):
                    with at_most(1.5), pytest.raises(RedisUnavailable):
                        await link.run("{b}", [("SET", "{b}", 1)], timeout_s=0.5)
            await link.close()

    asyncio.run(check())


async def move_slot(slot: int, source: EmbeddedRedis, target: EmbeddedRedis) -> AsyncIterator[None]:
    """As redis-cli does it, but one key at a time: at each step scripts meet a slot of which some keys have gone."""
    ids = {node: await ask(node, "CLUSTER", "MYID") for node in (source, target)}
    await ask(target, "CLUSTER", "SETSLOT", slot, "IMPORTING", ids[source])
    await ask(source, "CLUSTER", "SETSLOT", slot, "MIGRATING", ids[target])
    assert target.port is not None
    while keys := await ask(source, "CLUSTER", "GETKEYSINSLOT", slot, 1):
        await ask(source, "MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys)
        yield
    await ask(target, "CLUSTER", "SETSLOT", slot, "NODE", ids[target])
    await ask(source, "CLUSTER", "SETSLOT", slot, "NODE", ids[target])


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
            await eventually(lambda: _done(not redis.is_running()), within_s=5)
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
