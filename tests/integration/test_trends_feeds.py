"""Trends that a board feeds, against what the board answered: each of its outcomes counted one by one."""

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field

import pytest

from hybrid.config import Board, BoardConfig, Direction, Strategy
from hybrid.engine import Engine
from hybrid.errors import BoardNotFound, InvalidField
from hybrid.events import Batch
from hybrid.link import Link
from hybrid.outcomes import Status
from hybrid.trends.config import Counted, Source, Trend, TrendConfig
from hybrid.trends.events import TrendBatch
from hybrid.trends.keeper import TrendKeeper
from tests.engines import Clock, make_engine
from tests.trends_oracle import Event, NaiveTrend
from tests.trends_world import keeping_at_once

COUNTED: tuple[Counted, ...] = ("submissions", "changes", "gain")
WIDE = 256  # room for every player: bounds are exact


@dataclass
class Feed:
    """A board, a trend of each kind that it feeds, and what each should count."""

    engine: Engine
    clock: Clock
    board: Board
    trends: dict[str, Trend] = field(default_factory=dict)
    naive: dict[str, NaiveTrend] = field(default_factory=dict)

    async def start(self) -> None:
        for kind in COUNTED:
            config = TrendConfig(capacity=WIDE, source=Source(self.board.name, kind))
            self.trends[kind], _ = await self.engine.trends.create(kind, config)
            self.naive[kind] = NaiveTrend(self.trends[kind])

    async def play(self, players: list[str], points: list[int], at_ms: list[int], request: str) -> None:
        batch = Batch(players, points, at_ms=at_ms, request=request)
        outcomes = await self.engine.record.submit(self.board, batch)
        for player, at, outcome in zip(players, at_ms, outcomes, strict=True):
            if outcome.status is Status.DUPLICATE or outcome.status is Status.REFUSED:
                continue
            self.naive["submissions"].add([Event(player, 1, at)])
            if outcome.status is Status.KEPT:
                continue
            self.naive["changes"].add([Event(player, 1, at)])
            assert outcome.score is not None
            previous = None if outcome.previous is None else int(outcome.previous)
            gain = self.gain(previous, int(outcome.score))
            if gain > 0:
                self.naive["gain"].add([Event(player, gain, at)])

    def gain(self, previous: int | None, points: int) -> int:
        """A first record is a gain only where it began at nothing: on a board of sums."""
        if previous is None and self.board.config.strategy != "sum":
            return 0
        change = points - (previous or 0)
        return -change if self.board.config.direction == "low" else change

    async def check(self) -> None:
        for kind, trend in self.trends.items():
            partitions = await self.engine.trends.open_partitions(trend)
            for partition in partitions:
                while await partition.fold(self.clock.now_ms):
                    pass
            for level in trend.levels:
                living = range(level.oldest(self.clock.now_ms), level.pane_of(self.clock.now_ms) + 1)
                for number in living:
                    panes = [pane for each in partitions for pane in each.panes(level.pane_ms, [number]).values()]
                    found: Counter[str] = Counter()
                    for pane in panes:
                        counters = pane.heavy.counters()
                        found.update(dict(zip(counters.items.to_pylist(), counters.counts.tolist(), strict=True)))
                    assert found == +self.naive[kind].panes[level.pane_ms, number], (kind, level)
                sums = [each.sums[level.pane_ms] for each in partitions]
                assert sum(each.counted + each.late for each in sums) == self.naive[kind].events


@pytest.mark.parametrize("direction", ["high", "low"])
@pytest.mark.parametrize("strategy", ["best", "latest", "sum"])
def test_a_trend_that_a_board_feeds_counts_exactly_what_the_board_did(
    link: Link, strategy: Strategy, direction: Direction
) -> None:
    async def main() -> None:
        dice, clock = random.Random(7), Clock()
        engine = make_engine(link, clock)
        await engine.boards.open()
        config = BoardConfig(shards=3, strategy=strategy, direction=direction, score_max=100_000)
        board, _ = await engine.boards.create("b", config)
        await engine.record.submit(board, Batch(["p1", "p2"], [50, 60], request="before there was a trend"))
        feed = Feed(engine, clock, board)
        await feed.start()
        keeper = TrendKeeper(engine.trends)
        for number in range(12):
            players = [f"p{each}" for each in dice.sample(range(30), 8)]
            points = [dice.randint(1, 100) for _ in players]
            at_ms = [clock.now_ms - dice.choice([0, 0, 0, 4_000, 70_000, 90_000_000]) for _ in players]
            await feed.play(players, points, at_ms, f"request {number // 2 * 2 if number % 5 == 1 else number}")
            if number == 6:
                await engine.record.remove(board, "p3")
            with keeping_at_once():
                await keeper.tick()
            clock.now_ms += dice.choice([0, 3_000, 30_000])
        await feed.check()
        await link.close()

    asyncio.run(main())


def test_a_board_feeds_a_trend_alone_and_must_be_there(link: Link) -> None:
    async def main() -> None:
        engine = make_engine(link)
        await engine.boards.open()
        with pytest.raises(BoardNotFound):
            await engine.trends.create("t", TrendConfig(source=Source("nowhere")))
        board, _ = await engine.boards.create("b", BoardConfig(shards=2))
        for refused in (
            TrendConfig(source=Source("b"), partitions=2),
            TrendConfig(source=Source("b"), actor_cap=5),
        ):
            with pytest.raises(InvalidField):
                await engine.trends.create("t", refused)
        trend, _ = await engine.trends.create("t", TrendConfig(source=Source("b")))
        assert len(trend.tags) == len(board.tags)
        with pytest.raises(InvalidField, match="'b'"):
            await engine.trends.submit(trend, TrendBatch(["a"]))
        await link.close()

    asyncio.run(main())


def test_a_keeper_goes_on_with_other_trends_when_a_board_is_gone(link: Link) -> None:
    async def main() -> None:
        engine = make_engine(link)
        await engine.boards.open()
        board, _ = await engine.boards.create("b", BoardConfig(shards=2))
        await engine.trends.create("fed", TrendConfig(capacity=16, source=Source("b")))
        trend, _ = await engine.trends.create("own", TrendConfig(capacity=16))
        old, new = TrendKeeper(engine.trends), TrendKeeper(engine.trends)
        await engine.record.submit(board, Batch(["ann"], [1]))
        await old.tick()
        await engine.boards.delete("b")
        await engine.boards.create("b", BoardConfig(shards=2))
        with keeping_at_once():
            for number, keeper in enumerate((old, new, old, new)):
                await engine.trends.submit(trend, TrendBatch(["a"]))
                await keeper.tick()
                assert (await engine.trends.sums(trend)).counted == number + 1
        await link.close()

    asyncio.run(main())
