"""One board whose answers are compared with the naive oracle's, while engines write, keep house and die.

Two engines and their keepers share the keys, and remember what they like. A third dies between two calls of its own:
its last call may have been carried out or not. What it was about to write is then sent again, under the same ids, by
one that lives, so the oracle knows what is true; the top may stay behind all the same, until somebody helps.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec

from hybrid.config import Board, BoardConfig, Strategy, Subscore, TieBreak
from hybrid.engine import Engine
from hybrid.events import Batch
from hybrid.keeper import Keeper, KeeperSettings
from hybrid.link import TIMEOUT_S, Command, Link
from hybrid.past import Past
from tests.engines import Clock, fresh_prefix, make_engine
from tests.interleaving import Scheduler, SteppedLink
from tests.oracle import NaiveBoard, NaiveEvent

DAY_MS = 86_400_000
# Redis drops records by its own clock long after a window is over: these runs are in a time that is still to come.
YEAR_2040_MS = 2_208_988_800_000
ALL_BUDGET = KeeperSettings(share=1e6)
NAMES = ["ann", "ann2", "an", "Ω", "é", "{e}", "a b", "~", "日本", "\U0001f600"]


@dataclass
class MortalLink:
    """A link that dies after so many calls; its last one is carried out or not, and never answered."""

    link: Link
    calls_left: int
    is_last_done: bool
    is_dead: bool = False

    async def run(self, key: str, commands: Sequence[Command], *, timeout_s: float = TIMEOUT_S) -> list[Any]:
        if self.is_dead:
            raise asyncio.CancelledError
        if self.calls_left > 0:
            self.calls_left -= 1
            return await self.link.run(key, commands, timeout_s=timeout_s)
        self.is_dead = True
        if self.is_last_done:
            await self.link.run(key, commands, timeout_s=timeout_s)
        raise asyncio.CancelledError

    async def close(self) -> None:
        """The link below is shared; whoever made it closes it."""


@dataclass(eq=False)
class EngineLink:
    """The link of an engine that lives: its calls just go through, and in a storm they wait for their turn."""

    link: Link
    stepped: SteppedLink | None = None

    async def run(self, key: str, commands: Sequence[Command], *, timeout_s: float = TIMEOUT_S) -> list[Any]:
        return await (self.stepped or self.link).run(key, commands, timeout_s=timeout_s)

    async def close(self) -> None:
        """The link below is shared; whoever made it closes it."""


@dataclass
class Retired:
    """A window that is answered from what was written down of it.

    `board` has the oracle's rows of that moment. Who is in `gone` was removed since: if he was a leader he is one no
    more, but the digest still counts him.
    """

    window: str
    board: NaiveBoard
    leaders: list[str]
    gone: set[str] = field(default_factory=set)

    @property
    def removed(self) -> set[str]:
        return self.gone.intersection(self.leaders)

    def rest(self, gone: Collection[str]) -> NaiveBoard:
        """The rows without these players."""
        rest = NaiveBoard(self.board.config)
        rest.views[self.window] = {n: row for n, row in self.board.views[self.window].items() if n not in gone}
        return rest


def random_config(dice: random.Random) -> BoardConfig:
    strategies: list[Strategy] = ["best", "latest", "sum"]
    strategy = dice.choice(strategies)
    tie_breaks: list[TieBreak] = ["earliest", "latest"] if strategy == "latest" else ["earliest", "latest", "none"]
    has_subscore = strategy != "sum" and dice.random() < 0.3
    windows = dice.choice([("alltime",), ("alltime", "daily"), ("daily", "weekly"), ("monthly", "alltime", "daily")])
    return BoardConfig(
        top_n=dice.randint(3, 8),
        shards=dice.randint(1, 3),
        strategy=strategy,
        tie_break=dice.choice(tie_breaks),
        windows=windows,
        direction=dice.choice(["high", "low"]),
        score_min=dice.choice([0, -20]),
        score_max=dice.choice([10, 40, 1_000_000]),
        subscore=Subscore(min=0, max=3, direction=dice.choice(["high", "low"])) if has_subscore else None,
        resolution_ms=dice.choice([None, 60_000]),
    )


@dataclass
class World:
    """One run: engines beside the oracle."""

    link: Link
    dice: random.Random
    clock: Clock
    config: BoardConfig
    events: Counter[str] = field(default_factory=Counter)
    retired: dict[str, Retired] = field(default_factory=dict)
    prefix: str = field(default_factory=fresh_prefix)
    board: Board = field(init=False)
    oracle: NaiveBoard = field(init=False)
    players: list[str] = field(init=False)
    links: list[EngineLink] = field(init=False)
    engines: list[Engine] = field(init=False)
    keepers: list[Keeper] = field(init=False)
    _ids: int = 0

    async def start(self) -> None:
        self.links = [EngineLink(self.link) for _ in range(2)]
        self.engines = [self.make_engine(link) for link in self.links]
        self.keepers = [Keeper(engine, ALL_BUDGET) for engine in self.engines]
        await self.engine.boards.open()
        self.board, _ = await self.engine.boards.create("b", self.config)
        self.oracle = NaiveBoard(self.board.config)
        more = [f"p{number}" for number in range(self.dice.randint(0, 45))]
        self.players = [*NAMES, *more]
        await self.submit([self.event(player) for player in self.players if self.dice.random() < 0.9])

    def make_engine(self, link: Link) -> Engine:
        seed = self.dice.randrange(2**60)
        return make_engine(link, self.clock, prefix=self.prefix, seed=seed, fresh_s=0.0)

    @property
    def engine(self) -> Engine:
        """One of those that live."""
        return self.dice.choice(self.engines)

    async def step(self) -> None:
        deeds = {
            self.submit_some: 30,
            self.lower_leaders: 10,
            self.remove_somebody: 8,
            self.jump: 8,
            self.tick: 22,
            self.round: 5,
            self.die_submitting: 8,
            self.die_removing: 4,
            self.die_in_a_tick: 6,
            self.die_in_a_round: 3,
            self.lose_the_top: 1,
        }
        await self.dice.choices(list(deeds), list(deeds.values()))[0]()

    # What everybody does.

    def event(self, player: str, points: int | None = None) -> NaiveEvent:
        """A score of one of a few values, now or a little or far too late."""
        low, high = int(self.config.score_min), int(self.config.score_max)
        if points is None:
            points = self.dice.choice([self.dice.randint(low, min(high, 30)), low, self.dice.choice([1, 2, 3])])
        late_ms = self.dice.choice([0, 0, 0, 0, 500, 70_000, 3_000_000, DAY_MS, 8 * DAY_MS])
        subpoints = self.dice.randint(0, 3) if self.config.subscore else 0
        self._ids += 1
        return NaiveEvent(player, points, self.clock.now_ms - late_ms, f"e{self._ids}", subpoints)

    async def submit(self, events: Sequence[NaiveEvent]) -> None:
        outcomes = await self.engine.record.submit(self.board, self.to_batch(events))
        assert outcomes.error is None
        self.note(events)

    async def submit_some(self) -> None:
        await self.submit([self.event(self.dice.choice(self.players)) for _ in range(self.dice.randint(1, 8))])

    async def lower_leaders(self) -> None:
        """Leaders fall, where the strategy lets them, or go."""
        view = self.dice.choice(sorted(self.oracle.views) or [""])
        leaders = self.oracle.ranking(view)[: self.dice.randint(1, 5)]
        if self.config.strategy == "best":
            for player in leaders[:2]:
                await self.remove(player)
            return
        is_high = self.config.direction == "high"
        low, high = int(self.config.score_min), min(int(self.config.score_max), 30)
        self.clock.now_ms += 1
        await self.submit([self.event(player, low if is_high else high) for player in leaders])

    async def remove(self, player: str) -> None:
        was_there = await self.engine.remove_player(self.board, player)
        is_known = self.note_removal(player)
        # Of a window that was written down there may still be records.
        assert was_there == is_known or (was_there and self.retired), (player, was_there)

    async def remove_somebody(self) -> None:
        await self.remove(self.dice.choice([*self.players, "nobody"]))

    async def jump(self) -> None:
        self.clock.now_ms += self.dice.choice(
            [1000, 20_000, 70_000, 3_600_000, DAY_MS, DAY_MS, 9 * DAY_MS, 40 * DAY_MS]
        )
        self.events["jumps"] += 1

    async def tick(self) -> None:
        await self.dice.choice(self.keepers).tick()

    async def round(self) -> None:
        await self.dice.choice(self.keepers).round()
        await self.see_what_retired()

    async def storm(self, deeds: Sequence[Callable[[Engine], Coroutine[Any, Any, Any]]]) -> None:
        """Deeds at the same time, dealt to the engines in turn; any order of their calls may come up."""
        scheduler, callers = Scheduler(self.dice), []
        for number, deed in enumerate(deeds):
            link = self.links[number % 2]
            link.stepped = link.stepped or SteppedLink(self.link, scheduler)
            callers.append((link.stepped, deed(self.engines[number % 2])))
        try:
            await scheduler.play(callers)
        finally:
            for link in self.links:
                link.stepped = None
        self.events["storms"] += 1

    # What goes wrong.

    async def die(self, deed: Awaitable[Any], link: MortalLink) -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.ensure_future(deed)
        self.events["deaths"] += link.is_dead

    def mortal(self, most_calls: int) -> MortalLink:
        return MortalLink(self.link, self.dice.randrange(most_calls), self.dice.random() < 0.5)

    async def die_submitting(self) -> None:
        players = self.dice.sample(self.players, self.dice.randint(1, 6))
        events, link = [self.event(player) for player in players], self.mortal(10)
        await self.die(self.make_engine(link).record.submit(self.board, self.to_batch(events)), link)
        await self.submit(events)

    async def die_removing(self) -> None:
        player, link = self.dice.choice(self.players), self.mortal(9)
        await self.die(self.make_engine(link).remove_player(self.board, player), link)
        await self.engine.remove_player(self.board, player)
        self.note_removal(player)

    async def die_in_a_tick(self) -> None:
        link = self.mortal(25)
        keeper = Keeper(self.make_engine(link), ALL_BUDGET)

        async def tick() -> None:
            await keeper.tick()
            await keeper.tick()

        await self.die(tick(), link)

    async def die_in_a_round(self) -> None:
        link = self.mortal(30)
        await self.die(Keeper(self.make_engine(link), ALL_BUDGET).round(), link)
        await self.see_what_retired()

    async def lose_the_top(self) -> None:
        keys = self.engine.schema.board(self.board.id)
        await self.link.run(keys.state, [("UNLINK", keys.state)])
        self.events["tops lost"] += 1

    # What the oracle hears of it.

    def note(self, events: Sequence[NaiveEvent]) -> None:
        for event in events:
            self.oracle.submit(event, self.clock.now_ms)

    def note_removal(self, player: str) -> bool:
        was_there = self.oracle.remove(player)
        for window in self.retired.values():
            was_there |= player in window.leaders and player not in window.gone
            window.gone.add(player)
        self.events["removals"] += was_there
        return was_there

    async def see_what_retired(self) -> None:
        """Windows of which only leaders and digest are left are the oracle's no more."""
        key = self.engine.schema.board(self.board.id).past
        (written,) = await self.link.run(key, [("HGETALL", key)])
        for name, text in written.items():
            window, past = name.decode(), msgspec.msgpack.decode(text, type=Past)
            if past.is_whole:
                continue
            kept = self.retired.get(window)
            if kept is None:
                board = NaiveBoard(self.board.config)
                board.views[window] = self.oracle.views.pop(window)
                self.events["windows retired"] += 1
            elif [leader.encode() for leader in kept.leaders if leader not in kept.gone] == past.names:
                continue
            else:  # written again, because somebody was removed before its records were let go
                board = kept.rest(kept.gone)
            self.retired[window] = Retired(window, board, board.ranking(window)[: self.config.top_n])

    async def events_logged(self) -> int:
        """How many events the shards have taken in by now."""
        metas = [self.engine.schema.shard(tag).meta for tag in self.board.tags]
        return sum(map(int, await self.link.run(metas[0], [("HGET", meta, "seq") for meta in metas])))

    def to_batch(self, events: Sequence[NaiveEvent]) -> Batch:
        return Batch(
            [event.player for event in events],
            [event.points for event in events],
            subscores=[event.subpoints for event in events] if self.config.subscore else None,
            at_ms=[event.at_ms for event in events],
            ids=[event.id for event in events],
        )
