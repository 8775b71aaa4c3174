"""Races of the top that are too narrow to come up by chance, each played call by call.

A scene is played twice: with the rule that it is about, and the top stays right; and without, and it must go wrong.
The invariant is looked at after every call (top_world.py).
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from hybrid import top as top_module
from hybrid.config import BoardConfig
from hybrid.embedded import EmbeddedRedis
from hybrid.engine import Engine
from hybrid.errors import OutcomeUnknown
from hybrid.events import Batch
from hybrid.link import Script
from hybrid.outcomes import Outcomes
from tests.property.top_rules import AS_FAR_AS_THE_ROWS, ENOUGH_ROWS, IN_THE_LOG, RULES
from tests.property.top_world import WINDOW, Broken, World, small_tops

Deed = Callable[[Engine], Coroutine[Any, Any, Any]]


class Play(World):
    """A board of one shard, and deeds in words."""

    def submit(self, **scores: int) -> Deed:
        batch = Batch(list(scores), list(scores.values()))
        return lambda engine: engine.record.submit(self.board, batch)

    def remove(self, player: str) -> Deed:
        return lambda engine: engine.record.remove(self.board, player)

    def refill(self) -> Deed:
        return lambda engine: engine.top.refill(self.board, WINDOW)

    def reset(self) -> Deed:
        return lambda engine: engine.top.reset(self.board)

    async def floor_at_thirty(self) -> None:
        """Engine 0 has seen the floor at 30; then two leaders leave, and the top wants to be refilled."""
        await self.start_deed(self.submit(p1=10, p2=20, p3=30, p4=40, p5=50, p6=60, p7=70)).finish()
        await self.start_deed(self.remove("p7")).finish()
        await self.start_deed(self.remove("p6")).finish()


Scene = Callable[[Play], Awaitable[None]]


def script(name: str) -> Script:
    """A script of the top as it is now: a rule may have been taken out of it."""
    found: Script = getattr(top_module, name)
    return found


async def the_floor_moved_out_since_it_was_seen(play: Play) -> None:
    await play.floor_at_thirty()
    assert await play.start_deed(play.refill()).finish()
    await play.start_deed(play.submit(q=25), engine=0).finish()


async def a_row_behind_the_floor_changes_while_a_refill_has_read_it(play: Play) -> None:
    await play.floor_at_thirty()
    refill = play.start_deed(play.refill())
    await refill.go_before(script("REFILL"))
    await play.start_deed(play.submit(p2=25), engine=0).finish()
    await refill.finish()


async def the_top_fails_over_before_a_refill_ends(play: Play) -> None:
    refill = play.start_deed(play.refill())
    await refill.go_past(script("_BEGIN_REFILL"))
    await play.copy_slot(None)
    await play.start_deed(play.submit(p1=10)).finish()
    await refill.go_before(script("_MAKE_READY"))
    await play.fail_over(None)
    await refill.finish()


async def a_helper_dies_half_way_and_stops_another(play: Play) -> None:
    for player in ("p1", "p2"):
        writer = play.start_deed(play.submit(**{player: 10}))
        await writer.go_before(script("APPLY"))
        await writer.die()
    refills = [play.start_deed(play.refill()), play.start_deed(play.refill())]
    for refill in refills:
        await refill.go_past(script("_BEGIN_REFILL"))
    for refill in refills:
        await refill.go_before(script("APPLY"))
    await refills[0].go_past(script("APPLY"))
    await refills[0].die()
    await refills[1].finish()


async def a_refill_has_read_what_a_failover_takes_back(play: Play) -> None:
    await play.copy_slot(0)
    refill = play.start_deed(play.refill())
    await refill.go_past(script("_BEGIN_REFILL"))
    writer = play.start_deed(play.submit(p1=10))
    await writer.go_before(script("APPLY"))
    await writer.die()
    await refill.go_past(script("SNAPSHOT"))
    await play.fail_over(0)
    await play.start_deed(play.submit(p2=20)).finish()  # its entry has the number of the one that was lost
    await refill.finish()


SCENES = [
    (ENOUGH_ROWS, the_floor_moved_out_since_it_was_seen),
    (ENOUGH_ROWS, a_row_behind_the_floor_changes_while_a_refill_has_read_it),
    (AS_FAR_AS_THE_ROWS, the_top_fails_over_before_a_refill_ends),
    (AS_FAR_AS_THE_ROWS, a_helper_dies_half_way_and_stops_another),
    (IN_THE_LOG, a_refill_has_read_what_a_failover_takes_back),
]


async def stage(url: str, scene: Scene) -> None:
    """Play a scene, and see that all is well in the end."""
    async with small_tops(url) as link:
        play = Play(link, random.Random(0), BoardConfig(shards=1, tie_break="earliest", top_n=3))
        await play.start()
        await scene(play)
        await play.check_against_records()


@pytest.mark.parametrize(("rule", "scene"), SCENES)
def test_with_its_rule_the_top_stays_right(redis_server: EmbeddedRedis, rule: str, scene: Scene) -> None:
    assert rule in RULES
    asyncio.run(stage(redis_server.url, scene))


@pytest.mark.parametrize(("rule", "scene"), SCENES)
def test_without_its_rule_the_top_goes_wrong(redis_server: EmbeddedRedis, rule: str, scene: Scene) -> None:
    with RULES[rule](), pytest.raises(Broken):
        asyncio.run(stage(redis_server.url, scene))


def test_what_is_acknowledged_while_there_is_no_top_is_in_it_once_there_is(redis_server: EmbeddedRedis) -> None:
    async def scene(play: Play) -> None:
        await play.start_deed(play.submit(p1=10)).finish()
        reset = play.start_deed(play.reset())
        await reset.go_past(script("SNAPSHOT"))
        await play.start_deed(play.submit(p2=20)).finish()
        await reset.finish()

    asyncio.run(stage(redis_server.url, scene))


def test_a_writer_whose_entry_is_lost_says_that_it_does_not_know(redis_server: EmbeddedRedis) -> None:
    async def scene(play: Play) -> None:
        await play.start_deed(play.submit(p1=10)).finish()
        await play.copy_slot(0)
        first, second = play.start_deed(play.submit(p2=20)), play.start_deed(play.submit(p3=30))
        await first.go_before(script("APPLY"))
        await second.go_before(script("APPLY"))
        await play.fail_over(0)
        outcomes: Outcomes = await second.finish()
        assert isinstance(outcomes.error, OutcomeUnknown)
        await first.die()

    asyncio.run(stage(redis_server.url, scene))


def test_a_refill_that_read_lost_rows_does_not_end_when_the_top_failed_over_too(redis_server: EmbeddedRedis) -> None:
    async def scene(play: Play) -> None:
        await play.copy_slot(0)
        refill = play.start_deed(play.refill())
        await refill.go_past(script("_BEGIN_REFILL"))
        await play.copy_slot(None)
        await play.start_deed(play.submit(p1=10)).finish()
        await refill.go_before(script("REFILL"))
        await play.fail_over(0)
        await play.fail_over(None)
        await play.start_deed(play.submit(p2=20)).finish()  # its entry has the number of the one that was lost
        assert not await refill.finish()

    asyncio.run(stage(redis_server.url, scene))
