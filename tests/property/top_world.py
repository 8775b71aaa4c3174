"""One board whose engines live, die, and lose what they wrote: the world in which the top must always be right.

Invariant, after every single call to Redis: with the logs of the shards replayed up to where the top stands, the rows
better than the floor are exactly the rows of the top; and the top stands no earlier than what was acknowledged, unless
a failover took that back. In the end, when somebody wrote to every shard again, it must say what the records say.
"""

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from hybrid import top as top_module
from hybrid.config import Board, BoardConfig
from hybrid.engine import Engine
from hybrid.errors import OutcomeUnknown
from hybrid.events import Batch
from hybrid.link import Link, Script
from hybrid.log import LogEntry, parse_entry
from hybrid.scripts import REMOVE, WRITE
from hybrid.seek import Place
from hybrid.top import NEVER, NO_FLOOR, seq_of
from tests.engines import Clock, make_engine
from tests.interleaving import Actor, BlockingLink, NeverEnds, Scheduler, SteppedLink

WINDOW = "alltime"
PLAYERS = [f"p{i}" for i in range(14)]
KEEP, SLACK = 4, 2
ROUNDS = 8
DEATHS, TRIMS = "deaths", "trims"
SHARD_FAILOVERS, TOP_FAILOVERS = "failovers of a shard", "failovers of the top"
STUCK_S = 10.0  # a run takes a fiftieth of a second


class Broken(AssertionError):
    """The invariant does not hold."""


class Ledger:
    """The rows of every shard at every entry that its log ever had, also at those that were trimmed or lost since."""

    def __init__(self, shards: int) -> None:
        self._rows: list[dict[str, dict[bytes, float]]] = [{NEVER: {}} for _ in range(shards)]

    def note(self, shard: int, page: list[Any]) -> None:
        """Learn what a log says."""
        known = self._rows[shard]
        for reply in page:
            if reply[0].decode() not in known:
                entry = parse_entry(reply)
                known[entry.id] = _rows_after(known[entry.previous], entry)

    def knows(self, entries: list[str]) -> bool:
        return all(entry in known for entry, known in zip(entries, self._rows, strict=True))

    def line(self, entries: list[str]) -> list[Place]:
        """All rows, best first, with each shard at one of its entries."""
        shards = (known[entry] for entry, known in zip(entries, self._rows, strict=True))
        return sorted(Place(key, player) for rows in shards for player, key in rows.items())


@dataclass
class World:
    """One board, engines that come and go, and the means to look at all of it."""

    link: Link
    dice: random.Random
    config: BoardConfig
    god: Engine = field(init=False)  # an engine outside the play
    board: Board = field(init=False)
    scheduler: Scheduler = field(init=False)
    ledger: Ledger = field(init=False)
    engines: list[tuple[SteppedLink, Engine]] = field(default_factory=list)
    copies: dict[str, dict[str, bytes | None]] = field(default_factory=dict)
    acknowledged: dict[int, int] = field(default_factory=dict)
    events: Counter[str] = field(default_factory=Counter)

    async def start(self) -> None:
        await self.link.run("", [("FLUSHDB",)])
        self.god = make_engine(self.link, Clock(), prefix="t", seed=self.dice.randrange(2**60))
        self.board, _ = await self.god.boards.create("b", self.config)
        self.ledger = Ledger(len(self.board.tags))
        self.scheduler = Scheduler(self.dice, after_call=self.after_call)

    def make_engine(self) -> tuple[SteppedLink, Engine]:
        """An engine whose calls are scheduled, and of which it is known what it acknowledged."""
        link = SteppedLink(self.link, self.scheduler)
        engine = make_engine(link, Clock(), prefix="t", seed=self.dice.randrange(2**60))

        async def follow(board: Board, shard: int, entry: LogEntry) -> None:
            await engine.top.follow(board, shard, entry)
            self.acknowledged[shard] = max(self.acknowledged.get(shard, 0), entry.seq)

        engine.record._follow = follow
        return link, engine

    def start_deed(self, deed: Callable[[Engine], Coroutine[Any, Any, Any]], engine: int | None = None) -> Actor:
        """A deed of a new engine, or of an earlier one by its number, that goes on as far as it is told."""
        if engine is None:
            self.engines.append(self.make_engine())
        link, doer = self.engines[-1 if engine is None else engine]
        return Actor(link, asyncio.create_task(deed(doer)))

    async def after_call(self, key: str) -> None:
        """The invariant is looked at after every call that may have changed the top."""
        if key == self.state_key:
            await self.check_against_logs()

    async def copy_slot(self, slot: int | None) -> None:
        """What a replica has by now of a shard, or, with None, of the top."""
        names = self._names(slot)
        dumps = await self.link.run(names[0], [("DUMP", name) for name in names])
        self.copies[names[0]] = dict(zip(names, dumps, strict=True))

    async def fail_over(self, slot: int | None) -> None:
        """A replica takes over, and what came after its copy is lost."""
        copy = self.copies.pop(self._names(slot)[0], None)
        if copy is None:
            return
        await self.read_logs()
        await self.link.run(self._names(slot)[0], [("UNLINK", *copy)])
        kept = {name: dump for name, dump in copy.items() if dump is not None}
        await self.link.run(self._names(slot)[0], [("RESTORE", name, 0, dump) for name, dump in kept.items()])
        self.events[TOP_FAILOVERS if slot is None else SHARD_FAILOVERS] += 1

    async def trim_log(self, shard: int, left: int) -> None:
        await self.read_logs()
        log = self._names(shard)[1]
        (trimmed,) = await self.link.run(log, [("XTRIM", log, "MAXLEN", left)])
        self.events[TRIMS] += trimmed > 0

    async def read_logs(self) -> None:
        """Whatever is cut or lost from now on, the ledger has it."""
        logs = [self._names(shard)[1] for shard in range(len(self.board.tags))]
        for shard, page in enumerate(await self.link.run(logs[0], [("XRANGE", log, "-", "+") for log in logs])):
            self.ledger.note(shard, page)

    async def check_against_logs(self) -> None:
        """The top has what the shards had at the entries where it stands."""
        state, top = await self._look()
        if not _is_proved(state):
            return
        applied = [state[f"a:{shard}"] for shard in range(len(self.board.tags))]
        if not self.ledger.knows(applied):
            await self.read_logs()
        _compare(self.ledger.line(applied), state, top)
        if not (self.events[SHARD_FAILOVERS] or self.events[TOP_FAILOVERS]):
            self._check_acknowledged(applied)

    def _check_acknowledged(self, applied: list[str]) -> None:
        for shard, seq in self.acknowledged.items():
            if seq_of(applied[shard]) < seq:
                raise Broken(f"shard {shard} has acknowledged {seq}, the top stands at {applied[shard]}")

    async def check_against_records(self) -> None:
        """Somebody new writes to every shard, so all is helped along; then the top must say what the records say."""
        if not _is_proved((await self._look())[0]):  # somebody died in a reset: the keeper does it again
            await self.god.top.reset(self.board)
        for _ in range(2):  # the first write may find that the top must be made anew, and do so
            for name in _newcomers(self.board):
                await self.god.record.submit(self.board, Batch([name], [0], request=str(self.dice.random())))
        line = [row async for row in self.god.seek.rows(self.board, WINDOW)]
        state, top = await self._look()
        if not _is_proved(state):
            raise Broken("nothing is proved, although everybody wrote")
        _compare(line, state, top)

    @property
    def state_key(self) -> str:
        return self._names(None)[0]

    async def _look(self) -> tuple[dict[str, str], list[Place]]:
        """State and rows of the top."""
        state, top, _ = self._names(None)
        fields, rows = await self.link.run(state, [("HGETALL", state), ("ZRANGE", top, 0, -1, "WITHSCORES")])
        named = {name.decode(): value.decode() for name, value in fields.items()}
        return named, sorted(Place(float(key), player) for player, key in rows)

    def _names(self, slot: int | None) -> list[str]:
        """The keys of a shard (its log second), or, with None, of the top; they are copied and lost together."""
        if slot is None:
            board = self.god.top._schema.board(self.board.id)
            return [board.state, board.top(WINDOW), board.touched(WINDOW)]
        shard = self.god.top._schema.shard(self.board.tags[slot])
        return [shard.meta, shard.log, shard.record(WINDOW)]


@dataclass
class RandomWorld(World):
    """A world in which the dice decide what everybody does and what goes wrong, also between any two calls."""

    has_shard_failovers: bool = False
    has_top_failovers: bool = False
    has_trims: bool = False

    async def round(self) -> None:
        """A few engines at once, each doing one thing; they live on, with what they remember, until they die."""
        self.engines = [(link, engine) for link, engine in self.engines if not link.is_dead]
        while len(self.engines) < 4:
            self.engines.append(self.make_engine())
        chosen = self.dice.sample(self.engines, self.dice.randrange(1, 5))
        await self.scheduler.play([(link, self.do_something(engine)) for link, engine in chosen])

    async def do_something(self, engine: Engine) -> None:
        with suppress(OutcomeUnknown):  # the entry was lost before it was read: that is what it should say
            await self.deed(engine)

    def deed(self, engine: Engine) -> Coroutine[Any, Any, Any]:
        kind = self.dice.choices(["submit", "remove", "refill", "reset"], [60, 15, 22, 3])[0]
        if kind == "remove":
            return engine.record.remove(self.board, self.dice.choice(PLAYERS))
        if kind == "refill":
            return engine.top.refill(self.board, WINDOW)
        if kind == "reset":
            return engine.top.reset(self.board)
        players = [self.dice.choice(PLAYERS) for _ in range(self.dice.randrange(1, 4))]
        scores = [self.dice.choice([0, 0, 1, 2, 3, 50]) for _ in players]
        return engine.record.submit(self.board, Batch(players, scores, request=str(self.dice.random())))

    async def after_call(self, key: str) -> None:
        await super().after_call(key)
        if self.has_shard_failovers:
            await self._copy_or_fail_over(self.dice.randrange(len(self.board.tags)))
        if self.has_top_failovers:
            await self._copy_or_fail_over(None)
        if self.has_trims and self.dice.random() < 0.03:
            await self.trim_log(self.dice.randrange(len(self.board.tags)), self.dice.randrange(1, 4))

    async def _copy_or_fail_over(self, slot: int | None) -> None:
        luck = self.dice.random()
        if luck < 0.1:
            await self.copy_slot(slot)
        elif luck < 0.14:
            await self.fail_over(slot)
            await self.check_against_logs()


def _is_proved(state: dict[str, str]) -> bool:
    return "a:0" in state and "r" not in state


def _newcomers(board: Board) -> list[str]:
    """For every shard the name of somebody new."""
    found: dict[int, str] = {}
    numbers = itertools.count()
    while len(found) < len(board.tags):
        name = f"q{next(numbers)}"
        found.setdefault(board.shard_hash.of(name.encode()), name)
    return list(found.values())


def _rows_after(rows: dict[bytes, float], entry: LogEntry) -> dict[bytes, float]:
    after = dict(rows)
    for change in entry.rows[WINDOW].changes() if WINDOW in entry.rows else ():
        if change.new is None:
            after.pop(change.player, None)
        else:
            after[change.player] = change.new
    return after


def _compare(line: list[Place], state: dict[str, str], top: list[Place]) -> None:
    """The top has the rows better than the floor; others only while a refill is running."""
    floor = NO_FLOOR
    if f"f:{WINDOW}" in state:
        key, _, player = state[f"f:{WINDOW}"].partition("\n")
        floor = Place(float(key), player.encode())
    kept = [row for row in top if row < floor] if f"x:{WINDOW}" in state else top
    if [row for row in line if row < floor] != kept:
        raise Broken(f"better than {floor}: records {line[:8]}, top {top[:8]}")


async def play_one(link: Link, seed: int) -> Counter[str]:
    """One run; returns what happened in it."""
    dice = random.Random(seed)
    strategy = dice.choice(["best", "latest", "sum"])
    config = BoardConfig(shards=dice.choice([1, 2, 3]), strategy=strategy, tie_break="earliest", top_n=3)  # type: ignore[arg-type]
    world = RandomWorld(link, dice, config)
    world.has_shard_failovers, world.has_top_failovers = dice.random() < 0.25, dice.random() < 0.25
    world.has_trims = dice.random() < 0.2
    await world.start()
    world.scheduler.death_rate = dice.choice([0, 0, 0.02, 0.1])
    for _ in range(ROUNDS):
        await world.round()
    await world.check_against_records()
    world.events[DEATHS] = world.scheduler.deaths
    return world.events


@asynccontextmanager
async def small_tops(url: str) -> AsyncIterator[Link]:
    """A link to Redis, with tops so small that a few players make them trim and refill.

    The scripts are loaded: one that Redis does not know takes a call more, and no run may depend on those before it.
    """
    scripts = [script for script in (*vars(top_module).values(), WRITE, REMOVE) if isinstance(script, Script)]
    with patch.object(top_module, "sizes", lambda _board: (KEEP, SLACK)):
        async with BlockingLink(url) as link:
            await link.run("", [("SCRIPT", "LOAD", script.text) for script in scripts])
            yield link


async def play(url: str, seeds: range) -> Counter[str]:
    """Many runs; returns in how many of them each thing happened."""
    runs: Counter[str] = Counter()
    async with small_tops(url) as link:
        for seed in seeds:
            try:
                async with asyncio.timeout(STUCK_S):
                    happened = +await play_one(link, seed)
            except (TimeoutError, NeverEnds):
                raise Broken(f"run {seed} never ends") from None
            except Broken as error:
                raise Broken(f"run {seed}: {error}") from error
            runs.update(happened.keys())
    return runs
