"""The record against the naive oracle: submits, removals, time jumps, deletions, lost replies, on a real Redis.

Each run is a board of random make and a few dozen steps; after each step answers are compared, and now and then every
record of every window. Dice are seeded, so a failing run repeats.
"""

import asyncio
import random
from dataclasses import dataclass, field

import pytest

from hybrid.config import Board, BoardConfig, Strategy, Subscore, TieBreak
from hybrid.embedded import EmbeddedRedis
from hybrid.engine import Engine, make_link
from hybrid.errors import BoardNotFound
from hybrid.events import Batch
from hybrid.outcomes import Outcomes
from tests.engines import NOON_MS, Clock, LossyLink, make_engine
from tests.oracle import NaiveBoard, NaiveEvent

DAY_MS = 86_400_000
LOSSES: tuple[list[str], ...] = ([], [], [], ["applied"], ["lost"], ["unavailable", "applied"], ["applied", "applied"])


def random_config(dice: random.Random) -> BoardConfig:
    strategies: list[Strategy] = ["best", "latest", "sum"]
    strategy = dice.choice(strategies)
    tie_break: TieBreak = dice.choice(
        ["earliest", "latest"] if strategy == "latest" else ["earliest", "latest", "none"]
    )
    windows = tuple(dice.sample(["alltime", "daily", "weekly", "monthly"], dice.randrange(1, 5)))
    has_subscore = strategy != "sum" and dice.random() < 0.3
    return BoardConfig(
        strategy=strategy,
        tie_break=tie_break,
        windows=windows,
        direction=dice.choice(["high", "low"]),
        score_min=dice.choice([0, -20]),
        score_max=dice.choice([30, 2**31 - 1]),
        subscore=Subscore(min=0, max=3, direction=dice.choice(["high", "low"])) if has_subscore else None,
        shards=dice.choice([1, 3]),
        resolution_ms=dice.choice([None, 60_000]),
    )


@dataclass
class Machine:
    """One run: the engine under test beside the oracle."""

    engine: Engine
    link: LossyLink
    clock: Clock
    dice: random.Random
    checks: int = 0
    board: Board = field(init=False)
    oracle: NaiveBoard = field(init=False)

    async def start(self) -> None:
        self.board, _ = await self.engine.boards.create("b", random_config(self.dice))
        self.oracle = NaiveBoard(self.board.config)

    async def step(self) -> None:
        action = self.dice.choices(
            [
                self.submit,
                self.submit_twice,
                self.submit_into_the_void,
                self.remove,
                self.jump,
                self.compare,
                self.remake,
            ],
            [60, 8, 6, 10, 10, 8, 2],
        )[0]
        await action()

    def random_events(self) -> list[NaiveEvent]:
        low, high = int(self.board.config.score_min), min(int(self.board.config.score_max), 30)
        needs_id = self.board.config.strategy == "sum"
        return [
            NaiveEvent(
                self.dice.choice(["ann", "bob", "cy", "dé", "{e}"]),
                self.dice.randint(low, high),
                self.clock.now_ms
                - self.dice.choice([0, 0, 0, 500, 70_000, 3_000_000, DAY_MS, 8 * DAY_MS, 40 * DAY_MS]),
                str(self.dice.randrange(40)) if needs_id or self.dice.random() < 0.4 else None,
                self.dice.randint(0, 3) if self.board.config.subscore else 0,
            )
            for _ in range(self.dice.randrange(1, 9))
        ]

    def to_batch(self, events: list[NaiveEvent]) -> Batch:
        return Batch(
            [e.player for e in events],
            [e.points for e in events],
            subscores=[e.subpoints for e in events] if self.board.config.subscore else None,
            at_ms=[e.at_ms for e in events],
            ids=[e.id for e in events],
        )

    async def submit(self) -> None:
        """With losses that our own retries must get over."""
        events = self.random_events()
        self.link.losses = list(self.dice.choice(LOSSES))
        outcomes = await self.engine.record.submit(self.board, self.to_batch(events))
        self.link.losses = []
        self.expect(events, outcomes)

    async def submit_twice(self) -> None:
        """Concurrent callers of one loop turn are written in the order in which they came."""
        batches = [self.random_events() for _ in range(2)]
        answers = await asyncio.gather(*(self.engine.record.submit(self.board, self.to_batch(b)) for b in batches))
        for events, outcomes in zip(batches, answers, strict=True):
            self.expect(events, outcomes)

    async def submit_into_the_void(self) -> None:
        """No answer before the deadline, though it may have been applied; then the same tokens again."""
        events = [e for e in self.random_events()[:1] if e.id is not None]
        if not events:
            return
        is_applied = self.dice.random() < 0.5
        self.link.losses = ["applied" if is_applied else "lost", *["lost"] * 10**6]
        outcomes = await self.impatient.record.submit(self.board, self.to_batch(events))
        self.link.losses = []
        if outcomes.is_certain:  # nothing had to be sent: refused by the rule, or a duplicate in the batch
            self.expect(events, outcomes)
            return
        if is_applied:
            for event in events:
                self.oracle.submit(event, self.clock.now_ms)
        again = await self.engine.record.submit(self.board, self.to_batch(events))
        self.expect(events, again)

    @property
    def impatient(self) -> Engine:
        """A second engine on the same keys, which gives up after a moment."""
        engine = make_engine(
            self.link, self.clock, prefix=self.engine.record._schema.prefix, seed=self.dice.randrange(2**60)
        )
        object.__setattr__(engine.record._settings, "timeout_s", 0.25)
        return engine

    async def remove(self) -> None:
        player = self.dice.choice(["ann", "bob", "cy", "nobody"])
        self.link.losses = list(self.dice.choice(LOSSES))
        found = await self.engine.record.remove(self.board, player)
        self.link.losses = []
        assert found == self.oracle.remove(player)

    async def jump(self) -> None:
        self.clock.now_ms += self.dice.choice([1000, 60_000, 3_600_000, DAY_MS // 2, DAY_MS, 7 * DAY_MS])

    async def remake(self) -> None:
        """A deleted board refuses its old handle; one made again is empty."""
        old = self.board
        await self.engine.boards.delete("b")
        with pytest.raises(BoardNotFound):
            await self.engine.record.submit(old, Batch(["ann"], [1], request="late", subscores=self.zero_subscores()))
        await self.start()
        assert self.board.id != old.id

    def zero_subscores(self) -> list[int] | None:
        return [0] if self.board.config.subscore else None

    async def compare(self) -> None:
        """Every record of every window, and their order."""
        self.checks += 1
        for name, view in self.oracle.views.items():
            players = ["ann", "bob", "cy", "dé", "{e}"]
            keys = await self.engine.record.lookup_many(self.board, name, players)
            found = {player: key for player, key in zip(players, keys, strict=True) if key is not None}
            assert found.keys() == view.keys(), name
            for player, key in found.items():
                parts = self.board.key.decode(key)
                assert (parts.points, parts.subpoints) == (view[player].points, view[player].subpoints), (name, player)
                if self.board.key.has_time:
                    assert parts.ticks == self.oracle.tick(view[player].at_ms), (name, player)
            assert sorted(found, key=lambda player: (found[player], player.encode())) == self.oracle.ranking(name)

    def expect(self, events: list[NaiveEvent], outcomes: Outcomes) -> None:
        assert outcomes.error is None
        for event, outcome in zip(events, outcomes, strict=True):
            want = self.oracle.submit(event, self.clock.now_ms)
            got = (outcome.status.name, outcome.score, outcome.previous, outcome.closed)
            # A duplicate is answered with the record as it stands once the whole batch is written.
            is_same = got == want or (got[0] == want[0] == "DUPLICATE" and got[3] == want[3])
            assert is_same, (event, got, want, self.board.config)


async def play_one(redis: EmbeddedRedis, seed: int, steps: int) -> int:
    """One run; returns how often everything was compared."""
    link, clock = LossyLink(make_link(redis.url)), Clock(NOON_MS + seed * 3_700_000)
    async with make_engine(link, clock, seed=seed) as engine:
        machine = Machine(engine, link, clock, random.Random(seed))
        await machine.start()
        for _ in range(steps):
            await machine.step()
        await machine.compare()
        await engine.boards.delete("b")
    return machine.checks


async def play(redis: EmbeddedRedis, seeds: range, steps: int) -> int:
    """Many runs, some of them at a time: most of a run is waiting for replies that were lost on purpose."""
    turns = asyncio.Semaphore(16)

    async def play_in_turn(seed: int) -> int:
        async with turns:
            return await play_one(redis, seed, steps)

    return sum(await asyncio.gather(*map(play_in_turn, seeds)))


def test_the_record_does_what_the_oracle_does(redis_server: EmbeddedRedis) -> None:
    assert asyncio.run(play(redis_server, range(40), steps=50)) >= 40


@pytest.mark.slow
def test_the_record_does_what_the_oracle_does_in_500_runs(redis_server: EmbeddedRedis) -> None:
    assert asyncio.run(play(redis_server, range(1000, 1500), steps=50)) >= 500
