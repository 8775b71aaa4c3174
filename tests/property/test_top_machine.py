"""The top under any interleaving, with engines that die, failovers that lose entries, and logs that are trimmed.

Invariant, whenever no call is under way: with the logs of the shards replayed up to where the top stands, the rows
better than the floor are exactly the rows of the top. And in the end, when somebody wrote to every shard again, the
same against the records themselves.

Then rules of the protocol are taken away one by one, and the same runs must go wrong: a rule that nothing needs would
be one too many. (Not shown yet: that rows are chosen by a bound no tighter than the floor, and that a refill ends only
when the top is as far as its rows. Both are races too narrow for these runs.)
"""

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import pytest

from hybrid import top as top_module
from hybrid.config import Board, BoardConfig
from hybrid.embedded import EmbeddedRedis
from hybrid.engine import Engine, make_link
from hybrid.events import Batch
from hybrid.link import Link, Script
from hybrid.log import parse_entry
from hybrid.seek import Place
from hybrid.top import NO_FLOOR, Top
from tests.engines import Clock, fresh_prefix, make_engine
from tests.interleaving import Scheduler, SteppedLink

PLAYERS = [f"p{i}" for i in range(14)]
KEEP, SLACK = 4, 2
STUCK_S = 30.0  # a run takes a twentieth of a second


class Broken(AssertionError):
    """The invariant does not hold."""


@dataclass
class World:
    """One board, engines that come and go, and the means to look at all of it."""

    link: Link
    dice: random.Random
    prefix: str = field(default_factory=fresh_prefix)
    copies: dict[int, dict[str, bytes]] = field(default_factory=dict)
    engines: list[tuple[SteppedLink, Engine]] = field(default_factory=list)
    board: Board = field(init=False)

    @property
    def god(self) -> Engine:
        """An engine outside the play."""
        return make_engine(self.link, Clock(), prefix=self.prefix, seed=self.dice.randrange(2**60))

    async def start(self) -> None:
        strategy = self.dice.choice(["best", "latest", "sum"])
        config = BoardConfig(shards=self.dice.choice([1, 2, 3]), strategy=strategy, tie_break="earliest", top_n=3)  # type: ignore[arg-type]
        self.board, _ = await self.god.boards.create("b", config)

    async def round(self, scheduler: Scheduler) -> None:
        """A few engines at once, each doing one thing; they live on, with what they remember, until they die."""
        self.engines = [(link, engine) for link, engine in self.engines if not link.is_dead]
        while len(self.engines) < 4:
            link = SteppedLink(self.link, scheduler)
            engine = make_engine(link, Clock(), prefix=self.prefix, seed=self.dice.randrange(2**60))
            self.engines.append((link, engine))
        chosen = self.dice.sample(self.engines, self.dice.randrange(1, 5))
        await scheduler.play([(link, self.deed(engine)) for link, engine in chosen])

    def deed(self, engine: Engine) -> Coroutine[Any, Any, Any]:
        kind = self.dice.choices(["submit", "remove", "refill", "reset"], [60, 15, 22, 3])[0]
        if kind == "remove":
            return engine.record.remove(self.board, self.dice.choice(PLAYERS))
        if kind == "refill":
            return engine.top.refill(self.board, "alltime")
        if kind == "reset":
            return engine.top.reset(self.board)
        players = [self.dice.choice(PLAYERS) for _ in range(self.dice.randrange(1, 4))]
        scores = [self.dice.choice([0, 0, 1, 2, 3, 50]) for _ in players]
        return engine.record.submit(self.board, Batch(players, scores, request=str(self.dice.random())))

    async def copy_shard(self) -> None:
        """What a replica has by now."""
        shard = self.dice.randrange(len(self.board.tags))
        keys = self.god.record._schema.shard(self.board.tags[shard])
        names = [keys.meta, keys.log, keys.record("alltime")]
        dumps = await self.link.run(keys.meta, [("DUMP", name) for name in names])
        self.copies[shard] = {name: dump for name, dump in zip(names, dumps, strict=True) if dump is not None}

    async def fail_over(self) -> None:
        """A replica takes over, and what came after its copy is lost."""
        if not self.copies:
            return
        shard, dumps = self.copies.popitem()
        keys = self.god.record._schema.shard(self.board.tags[shard])
        await self.link.run(keys.meta, [("UNLINK", keys.log, keys.record("alltime"))])
        await self.link.run(keys.meta, [("RESTORE", name, 0, dump, "REPLACE") for name, dump in dumps.items()])

    async def trim_log(self) -> None:
        keys = self.god.record._schema.shard(self.dice.choice(self.board.tags))
        await self.link.run(keys.log, [("XTRIM", keys.log, "MAXLEN", 1)])

    async def check_against_logs(self) -> None:
        """The invariant, as far as each shard is included. Of a log that was cut nothing can be said."""
        state = await self.state()
        if "a:0" not in state:
            return
        line: list[Place] = []
        for shard, tag in enumerate(self.board.tags):
            log = self.god.record._schema.shard(tag).log
            (page,) = await self.link.run(log, [("XRANGE", log, "-", "+")])
            entries = [parse_entry(reply) for reply in page]
            ids = ["0-0", *(entry.id for entry in entries)]
            if (entries and entries[0].previous != "0-0") or state[f"a:{shard}"] not in ids:
                return
            rows: dict[bytes, float | None] = {}
            for entry in entries[: ids.index(state[f"a:{shard}"])]:
                for change in entry.rows["alltime"].changes() if "alltime" in entry.rows else ():
                    rows[change.player] = change.new
            line += [Place(key, player) for player, key in rows.items() if key is not None]
        await self.compare(sorted(line), state)

    async def check_against_records(self) -> None:
        """Everybody writes once more, so everything is helped along; then the top must say what the records say."""
        if "a:0" not in await self.state():  # somebody died in a reset: the keeper does it again
            await self.god.top.reset(self.board)
        for _ in range(2):  # the first write may find that the top must be made anew, and do so
            for player in [*PLAYERS, "q1", "q2", "q3", "q4", "q5", "q6"]:
                await self.god.record.submit(self.board, Batch([player], [0], request=str(self.dice.random())))
        line = [row async for row in self.god.seek.rows(self.board, "alltime")]
        await self.compare(line, await self.state())
        leaders = await self.god.top.leaders(self.board, "alltime", [row.player for row in line])
        if leaders is None:
            raise Broken("nothing is proved, although everybody wrote")
        for rank, row in enumerate(line, 1):
            if row < leaders.floor and (leaders.ranks[rank - 1], leaders.keys[rank - 1]) != (rank, row.key):
                raise Broken(f"{row} has rank {rank}, the top says {leaders.ranks[rank - 1]}")

    async def compare(self, line: list[Place], state: dict[str, str]) -> None:
        keys = self.god.record._schema.board(self.board.id)
        (flat,) = await self.link.run(keys.state, [("ZRANGE", keys.top("alltime"), 0, -1, "WITHSCORES")])
        floor = NO_FLOOR
        if "f:alltime" in state:
            key, _, player = state["f:alltime"].partition("\n")
            floor = Place(float(key), player.encode())
        top = sorted(Place(float(key), player) for player, key in flat)
        if [row for row in line if row < floor] != [row for row in top if row < floor]:
            raise Broken(f"better than {floor}: records {line[:8]}, top {top[:8]}")

    async def state(self) -> dict[str, str]:
        key = self.god.record._schema.board(self.board.id).state
        (fields,) = await self.link.run(key, [("HGETALL", key)])
        return {name.decode(): value.decode() for name, value in fields.items()}


async def play_one(link: Link, seed: int) -> int:
    """One run; returns how many engines died in it."""
    dice = random.Random(seed)
    world = World(link, dice)
    await world.start()
    scheduler = Scheduler(dice, death_rate=dice.choice([0, 0, 0.02, 0.1]))
    has_failovers, has_trims = dice.random() < 0.3, dice.random() < 0.2
    for _ in range(8):
        await world.round(scheduler)
        await world.check_against_logs()
        if has_failovers:
            await dice.choice([world.copy_shard, world.fail_over])()
        if has_trims and dice.random() < 0.3:
            await world.trim_log()
    await world.check_against_records()
    await world.god.boards.delete("b")
    return scheduler.deaths


async def play(redis: EmbeddedRedis, seeds: range) -> int:
    """Many runs; returns how many engines died."""
    link = make_link(redis.url)
    deaths = 0
    try:
        with patch.object(top_module, "sizes", lambda _board: (KEEP, SLACK)):
            for seed in seeds:
                try:
                    async with asyncio.timeout(STUCK_S):
                        deaths += await play_one(link, seed)
                except TimeoutError:
                    raise Broken(f"run {seed} never ends") from None
    finally:
        await link.close()
    return deaths


def test_the_top_is_right_under_any_interleaving(redis_server: EmbeddedRedis) -> None:
    assert asyncio.run(play(redis_server, range(60))) > 5


@pytest.mark.slow
def test_the_top_is_right_in_four_thousand_runs(redis_server: EmbeddedRedis) -> None:
    assert asyncio.run(play(redis_server, range(100_000, 104_000))) > 400


@contextmanager
def without(script_name: str, rule: str, instead: str) -> Iterator[None]:
    """The protocol with a line of one of its scripts changed."""
    script: Script = getattr(top_module, script_name)
    assert rule in script.text
    with patch.object(top_module, script_name, Script(script.text.replace(rule, instead))):
        yield


@contextmanager
def without_help() -> Iterator[None]:
    async def follow_once(self: Top, board: Board, shard: int, entry: Any) -> None:
        while (await self._apply(board, shard, entry))[0] == b"need":
            pass

    with patch.object(Top, "follow", follow_once):
        yield


@contextmanager
def without_looking_into_the_log() -> Iterator[None]:
    async def believe(*_: Any) -> bool:
        return True

    with patch.object(Top, "_has_entry", believe):
        yield


RULES: dict[str, Callable[[], Any]] = {
    "an entry is applied only after its predecessor": lambda: without(
        "APPLY", "if applied ~= BEFORE then return {'at', applied} end", ""
    ),
    "a row that is no longer better than the floor goes out": lambda: without(
        "APPLY", "redis.call('ZREM', window.top, player)", ""
    ),
    "the floor moves when rows are dropped": lambda: without(
        "APPLY", "redis.call('HSET', KEYS[1], 'f:' .. window.name, first[2] .. '\\n' .. first[1])", ""
    ),
    "the floor is a place, not a key": lambda: without("APPLY", "return is_less(player, other_player)", "return false"),
    "every change reaches a top that is being refilled": lambda: without(
        "APPLY", "if window.is_refilled then window.key, window.player = 'inf', '' else", "do"
    ),
    "a refill leaves alone whom an entry touched": lambda: without(
        "REFILL", "if redis.call('SISMEMBER', KEYS[3], ARGV[i]) == 0 then", "do"
    ),
    "a newer refill wins": lambda: without(
        "REFILL", "if redis.call('HGET', KEYS[1], 'x:' .. WINDOW) ~= REFILL then return 0 end", ""
    ),
    "rows beyond the floor go when a refill ends": lambda: without(
        "REFILL", "redis.call('ZREMRANGEBYRANK', KEYS[2], count_before(KEYS[2], key, player), -1)", ""
    ),
    "whoever comes next helps": without_help,
    "the entry where the top stands must be in the log": without_looking_into_the_log,
}


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
def test_without_this_rule_the_top_goes_wrong(redis_server: EmbeddedRedis, rule: str) -> None:
    with RULES[rule](), pytest.raises(Broken):
        asyncio.run(play(redis_server, range(200_000, 200_400)))
