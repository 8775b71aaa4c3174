"""Trends when things go wrong: keepers that die at every call, answers that are lost, keepers that do not know of each
other, entries that a failover has lost. In the end every event that was taken in is counted once (trends_world.py).

Where a rule of the protocol is what saves the day, the same is played without it, and must go wrong.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import pytest

from hybrid.config import BoardConfig
from hybrid.embedded import EmbeddedRedis
from hybrid.errors import OutcomeUnknown, RedisUnavailable
from hybrid.events import Batch
from hybrid.link import TIMEOUT_S, Command, Link, Script
from hybrid.scripts import TREND_ADD, TREND_KEEP
from hybrid.trends import intake, partition, sources
from hybrid.trends.config import Source, TrendConfig
from hybrid.trends.intake import IntakeSettings
from tests.engines import LossyLink
from tests.interleaving import Actor, BlockingLink, Scheduler, SteppedLink
from tests.property.answers_world import MortalLink
from tests.trends_oracle import Event, NaiveTrend
from tests.trends_world import Watched, World, keeping_at_once, play

TWO_PARTITIONS = TrendConfig(capacity=16, partitions=2)
MOST_CALLS = 200


# Keepers that die, and calls that fail


@pytest.mark.parametrize("is_last_done", [True, False], ids=["after", "before"])
def test_a_keeper_that_dies_at_any_call_loses_nothing_and_counts_nothing_twice(
    redis_server: EmbeddedRedis, is_last_done: bool
) -> None:
    """The keeper of before has kept something; this one dies at its n-th call, and the next takes over."""
    calls: list[int] = []

    async def scene(world: World) -> None:
        await world.submit(world.make_events())
        await world.make_keeper().keeper.tick()
        for calls_left in range(MOST_CALLS):
            await world.submit(world.make_events(), f"request {calls_left}")
            mortal = MortalLink(world.link, calls_left, is_last_done)
            with suppress(asyncio.CancelledError):
                await world.make_keeper(mortal).keeper.tick()
            await world.check()
            if not mortal.is_dead:
                calls.append(calls_left)
                break
            heir = world.make_keeper()
            if calls_left % 3 == 0:  # else it is left to the next one that dies
                await heir.keeper.tick()
                assert heir.seen == world.naive.events
        await world.check()

    with keeping_at_once():
        play(BlockingLink(redis_server.url), scene, TWO_PARTITIONS)
    assert calls[0] > 10  # it really died at every one of them


@dataclass
class FailingLink:
    """Fails its n-th call: before it arrives, or after it was carried out."""

    link: Link
    calls_left: int
    error: Exception
    is_done: bool

    async def run(self, key: str, commands: Sequence[Command], *, timeout_s: float = TIMEOUT_S) -> list[Any]:
        self.calls_left -= 1
        if self.calls_left == -1 and not self.is_done:
            raise self.error
        replies = await self.link.run(key, commands, timeout_s=timeout_s)
        if self.calls_left == -1:
            raise self.error
        return replies

    async def close(self) -> None:
        """The link below is shared; whoever made it closes it."""


@pytest.mark.parametrize(
    ("error", "is_done"),
    [
        (RedisUnavailable("failed on purpose"), False),
        (OutcomeUnknown("failed on purpose"), False),
        (OutcomeUnknown("failed on purpose"), True),
    ],
    ids=["unavailable", "lost", "applied"],
)
def test_a_keeper_whose_call_fails_has_everything_again_after_its_next_ticks(
    redis_server: EmbeddedRedis, error: Exception, is_done: bool
) -> None:
    """Also when nothing more comes in that would tell it to look."""

    async def scene(world: World) -> None:
        for calls_left in range(MOST_CALLS):
            link = FailingLink(world.link, MOST_CALLS, error, is_done)
            watched = world.make_keeper(link)
            await world.submit(world.make_events())
            with patch.object(partition, "KEEP_S", 1e9):
                await watched.keeper.tick()  # folded and not kept
            link.calls_left = calls_left
            for _ in range(4):
                with suppress(RedisUnavailable, OutcomeUnknown):
                    await watched.keeper.tick()
            assert watched.seen == world.naive.events
            await world.check()
            if link.calls_left >= 0:
                return
        raise AssertionError(f"{MOST_CALLS} calls were not enough")

    with keeping_at_once():
        play(BlockingLink(redis_server.url), scene, TWO_PARTITIONS)


LOSSES = [["lost"], ["applied"], ["unavailable"], ["lost", "applied"], ["applied", "lost"], ["unavailable", "applied"]]


@pytest.mark.parametrize("losses", LOSSES, ids=",".join)
def test_a_lost_answer_of_the_intake_is_asked_for_again_and_counted_once(
    redis_server: EmbeddedRedis, losses: list[str]
) -> None:
    async def scene(world: World) -> None:
        lossy = LossyLink(world.link)
        engine = world.make_engine(lossy)
        for request in (None, "named"):
            lossy.losses = list(losses)
            await world.submit(world.make_events(), request, engine=engine)
            assert lossy.losses == []
            await world.check()

    play(BlockingLink(redis_server.url), scene, TWO_PARTITIONS)


@pytest.mark.parametrize("is_applied", [True, False])
def test_a_request_of_unknown_outcome_is_sent_again_and_counted_once(
    redis_server: EmbeddedRedis, is_applied: bool
) -> None:
    async def scene(world: World) -> None:
        lossy = LossyLink(world.link)
        impatient = world.make_engine(lossy)
        impatient.trends._intake._settings = IntakeSettings(timeout_s=0.1)
        events = world.make_events()
        lossy.losses = ["applied" if is_applied else "lost", *["lost"] * 1000]
        with pytest.raises(OutcomeUnknown):
            await world.send(events, "named", engine=impatient)
        await world.submit(events, "named")
        await world.check()
        await world.send(events, "named")
        await world.check()

    play(BlockingLink(redis_server.url), scene, TWO_PARTITIONS)


# Keepers that do not know of each other


@contextmanager
def without(module: Any, name: str, rule: str) -> Iterator[None]:
    """The protocol without a line of one of its scripts."""
    script: Script = getattr(module, name)
    assert rule in script.text
    with patch.object(module, name, Script(script.text.replace(rule, ""))):
        yield


@contextmanager
def without_looking_for_the_entry() -> Iterator[None]:
    async def read_after(link: Link, key: str, position: str) -> Any:
        (entries,) = await link.run(key, [("XRANGE", key, f"({position}", "+")])
        return [(entry_id, sources._fields(flat)) for entry_id, flat in entries]

    with patch.object(sources, "_read_after", read_after):
        yield


class Stage(World):
    """Keepers whose calls are carried out one by one."""

    scheduler: Scheduler

    async def start(self, config: TrendConfig | None = None) -> None:
        await super().start(config)
        self.scheduler = Scheduler(self.dice)

    def start_tick(self) -> tuple[Watched, Actor]:
        """The tick of a new keeper, that goes on as far as it is told."""
        link = SteppedLink(self.link, self.scheduler)
        watched = self.make_keeper(link)
        return watched, Actor(link, asyncio.create_task(watched.keeper.tick()))

    async def fold(self, watched: Watched) -> None:
        """A tick after which nothing is kept yet; it must have seen everything."""
        with patch.object(partition, "KEEP_S", 1e9):
            await watched.keeper.tick()
        assert watched.seen == self.naive.events


def keep_script() -> Script:
    """As it is now: a rule may have been taken out of it."""
    found: Script = vars(partition)["TREND_KEEP"]
    return found


Scene = Callable[[Stage], Coroutine[Any, Any, None]]


async def one_is_frozen_before_it_writes(stage: Stage) -> None:
    """What it folded, another one folds and keeps, and more; then it wakes up and writes."""
    recently = [Event("a", 3, stage.clock.now_ms)]
    await stage.submit(recently)
    await stage.make_keeper().keeper.tick()
    await stage.submit([Event("b", 5, stage.clock.now_ms - 20_000)])
    _, frozen = stage.start_tick()
    await frozen.go_before(keep_script())
    await stage.submit(recently)
    await stage.make_keeper().keeper.tick()
    await frozen.finish()


async def one_is_frozen_between_two_pages(stage: Stage) -> None:
    """What it has read of, another one folds, keeps and trims; then it reads on."""
    with patch.object(sources, "_PAGE", 1):
        for _ in range(4):
            await stage.submit(stage.make_events())
        watched, frozen = stage.start_tick()
        stream = stage.engine.schema.partition(stage.trend.tags[0]).stream
        while (call := await frozen._next_call()).key != stream:
            await stage.scheduler.let_through(call)
        await stage.scheduler.let_through(call)  # the first page
        await stage.make_keeper().keeper.tick()
        await stage.submit(stage.make_events())
        with patch.object(partition, "KEEP_S", 1e9):
            await frozen.finish()
        assert watched.seen == stage.naive.events


async def one_is_asleep_while_another_keeps(stage: Stage) -> None:
    """It has kept all that it knows; another one goes on, and then it wakes up and goes on too."""
    sleeper, other = stage.make_keeper(), stage.make_keeper()
    await stage.submit(stage.make_events())
    await sleeper.keeper.tick()
    for awake in (other, sleeper, other, other, sleeper):
        await stage.submit(stage.make_events())
        await stage.fold(awake)
        await awake.keeper.tick()
        await stage.check()


async def one_is_asleep_from_the_start(stage: Stage) -> None:
    """It has looked when there was nothing yet; what came since, another one keeps and trims."""
    sleeper = stage.make_keeper()
    await sleeper.keeper.tick()
    for _ in range(3):
        await stage.submit(stage.make_events())
    await stage.make_keeper().keeper.tick()
    await stage.fold(sleeper)


async def both_write_in_turns(stage: Stage) -> None:
    first, second = stage.make_keeper(), stage.make_keeper()
    for number in range(12):
        await stage.submit(stage.make_events())
        for watched, is_its_turn in ((first, number % 4), (second, number % 3)):
            if is_its_turn:
                await watched.keeper.tick()
                assert watched.seen == stage.naive.events


async def an_entry_is_lost_that_was_folded(stage: Stage) -> None:
    """A failover takes back an entry that is in memory and not kept; another one gets its number."""
    await stage.submit(stage.make_events())
    watched = stage.make_keeper()
    await watched.keeper.tick()
    keys = stage.engine.schema.partition(stage.trend.tags[0])
    names = [keys.meta, keys.stream, keys.position]
    copies = await stage.link.run(keys.meta, [("DUMP", name) for name in names])
    events = stage.make_events(6)
    await stage.send(events)
    with patch.object(partition, "KEEP_S", 1e9):
        await watched.keeper.tick()
    restored = [("RESTORE", name, 0, copy, "REPLACE") for name, copy in zip(names, copies, strict=True)]
    await stage.link.run(keys.meta, restored)
    # Of two entries of one number the nonce decides which comes first: this one is behind the lost one, so that
    # whoever reads on from there finds it.
    with patch.object(stage.engine.random, "getrandbits", return_value=2**63 - 1):
        await stage.submit([event._replace(item=f"instead of {number}") for number, event in enumerate(events)])
    await stage.submit(stage.make_events())
    await stage.fold(watched)


MOVED = "if redis.call('HGET', KEYS[2], 'at') ~= ARGV[2] then return {'moved'} end"
SCENES: list[tuple[Scene, Callable[[], AbstractContextManager[None]] | None]] = [
    (one_is_frozen_before_it_writes, None),
    (one_is_frozen_between_two_pages, None),
    (one_is_asleep_while_another_keeps, None),
    (one_is_asleep_from_the_start, None),
    (both_write_in_turns, None),
    (an_entry_is_lost_that_was_folded, without_looking_for_the_entry),
]


def stage(redis: EmbeddedRedis, scene: Scene, rule: AbstractContextManager[None]) -> None:
    async def main() -> None:
        async with BlockingLink(redis.url) as link:
            world = Stage(link)
            await world.start(TrendConfig(capacity=16))
            await scene(world)
            await world.check()

    with keeping_at_once(), rule:
        asyncio.run(main())


@pytest.mark.parametrize(("scene", "rule"), SCENES, ids=[scene.__name__ for scene, _ in SCENES])
def test_keepers_that_do_not_know_of_each_other_count_everything_once(
    redis_server: EmbeddedRedis, scene: Scene, rule: Callable[[], AbstractContextManager[None]] | None
) -> None:
    stage(redis_server, scene, nullcontext())
    if rule is not None:
        with pytest.raises(AssertionError):
            stage(redis_server, scene, rule())


def test_of_two_keepers_of_a_trend_that_a_board_feeds_the_stale_one_is_refused(redis_server: EmbeddedRedis) -> None:
    """A board's log is not trimmed for a trend: here the position alone tells that somebody else was quicker."""

    async def scene(world: Stage) -> None:
        board, _ = await world.engine.boards.create("b", BoardConfig(shards=1))
        world.trend, _ = await world.engine.trends.create("fed", TrendConfig(capacity=16, source=Source("b")))
        world.naive = NaiveTrend(world.trend)

        async def play(player: str, ago_ms: int) -> None:
            event = Event(player, 1, world.clock.now_ms - ago_ms)
            await world.engine.record.submit(board, Batch([player], [1], at_ms=[event.at_ms]))
            world.naive.add([event])

        await play("ann", 0)
        await world.make_keeper().keeper.tick()
        await play("bob", 20_000)
        _, frozen = world.start_tick()
        await frozen.go_before(keep_script())
        await play("ann", 0)
        await world.make_keeper().keeper.tick()
        await frozen.finish()

    stage(redis_server, scene, nullcontext())
    with pytest.raises(AssertionError):
        stage(redis_server, scene, without(partition, "TREND_KEEP", MOVED))


def test_without_tokens_a_request_that_is_sent_again_would_count_twice(redis_server: EmbeddedRedis) -> None:
    async def scene(world: Stage) -> None:
        events = world.make_events()
        await world.submit(events, "named")
        await world.send(events, "named")

    stage(redis_server, scene, nullcontext())
    with pytest.raises(AssertionError):
        stage(redis_server, scene, without(intake, "TREND_ADD", "if #known > 1 then return known end"))


def test_scripts_refuse_before_their_first_write() -> None:
    """Every way out but the last one comes before anything is changed."""
    for script in (TREND_ADD, TREND_KEEP):
        writes = [
            script.text.index(name)
            for name in ("'SADD'", "'XADD'", "'HSET'", "'XTRIM'", "'SET'")
            if name in script.text
        ]
        refusals = [
            script.text.rindex(f"{{'{name}'")
            for name in ("gone", "moved", "lost", "known")
            if f"'{name}'" in script.text
        ]
        assert max(refusals) < min(writes)
