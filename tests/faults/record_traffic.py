"""Traffic on a record that others hold against what was said: ledgers, writers, links that break."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from hybrid.config import Board, Strategy
from hybrid.engine import Engine, make_link
from hybrid.errors import (
    RedisUnavailable,
)
from hybrid.events import Batch
from hybrid.link import TIMEOUT_S, Command
from hybrid.log import LogEntry, parse_entry
from hybrid.outcomes import Outcomes, Status
from hybrid.record import RecordSettings
from hybrid.servers import list_servers
from tests.engines import Clock, LossyLink, make_engine
from tests.redis_cluster import eventually

DAY_MS = 86_400_000
STRATEGIES: tuple[Strategy, ...] = ("best", "latest", "sum")

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
            await eventually(lambda: done(len(traffic.taken_at_s) == len(players)), within_s=10)
            yield traffic
        finally:
            traffic.is_over = True


async def done(is_so: bool) -> bool:
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
