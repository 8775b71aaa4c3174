"""Trends on a real Redis, on a cluster and on fakeredis: made, fed, counted, asked; judged by exact counts."""

import asyncio
from typing import Any

import pytest

from hybrid.embedded import EmbeddedRedis
from hybrid.engine import make_link
from hybrid.errors import Conflict, InvalidField, Overloaded, RedisUnavailable, TrendNotFound
from hybrid.link import Link
from hybrid.registry import ABANDONED_MS
from hybrid.trends import intake as intake_module
from hybrid.trends.config import TrendConfig
from hybrid.trends.events import TrendBatch
from hybrid.trends.intake import IntakeSettings, Taken
from tests.engines import FakeLink
from tests.redis_cluster import RedisCluster, ask
from tests.trends_oracle import Event
from tests.trends_world import World, keeping_at_once, play, total

SMALL = TrendConfig(capacity=16, partitions=3)


async def keys_of(world: World) -> dict[str, int]:
    """Every key under the prefix, with how long it will stay."""
    (names,) = await world.link.run("", [("KEYS", f"{world.prefix}:*")])
    ttls = await world.link.run("", [("PTTL", name) for name in names])
    return {name.decode(): int(ttl) for name, ttl in zip(names, ttls, strict=True)}


# Made and removed


def test_a_trend_is_made_once_and_one_that_differs_is_a_conflict(link: Link) -> None:
    async def scene(world: World) -> None:
        again, is_new = await world.engine.trends.create("t", SMALL)
        assert (again, is_new) == (world.trend, False)
        with pytest.raises(Conflict) as caught:
            await world.engine.trends.create("t", TrendConfig(capacity=32, partitions=3, title="other"))
        assert caught.value.fields == ["capacity", "title"]
        racing = [world.make_engine().trends.create("race", SMALL) for _ in range(5)]
        made = await asyncio.gather(*racing)
        assert len({trend.id for trend, _ in made}) == 1
        assert sum(is_new for _, is_new in made) == 1
        assert [trend.name for trend in await world.engine.trends.list()] == ["race", "t"]
        assert [trend.name for trend in await world.engine.trends.list("t")] == ["t"]

    play(link, scene, SMALL)


@pytest.mark.parametrize(
    ("field", "config"),
    [
        ("capacity", TrendConfig(capacity=15)),
        ("capacity", TrendConfig(capacity=65_537)),
        ("partitions", TrendConfig(partitions=0)),
        ("partitions", TrendConfig(partitions=65)),
        ("actor_cap", TrendConfig(actor_cap=0)),
        ("windows", TrendConfig(windows=())),
        ("windows", TrendConfig(windows=("1m", "1m"))),
        ("windows", TrendConfig(windows=("1w",))),
        ("title", TrendConfig(title="x" * 201)),
    ],
)
def test_a_trend_that_cannot_be_is_refused_by_its_field(field: str, config: TrendConfig) -> None:
    async def scene(world: World) -> None:
        with pytest.raises(InvalidField) as caught:
            await world.engine.trends.create("other", config)
        assert caught.value.field == field
        with pytest.raises(InvalidField, match="'a/b'"):
            await world.engine.trends.create("a/b", SMALL)

    play(FakeLink(), scene, SMALL)


def test_a_deleted_trend_leaves_nothing_but_tokens_that_expire(redis_server: EmbeddedRedis) -> None:
    async def scene(world: World) -> None:
        watched = world.make_keeper()
        await world.submit(world.make_events(40), "named")
        await world.engine.trends.hide(world.trend, "item 1")
        with keeping_at_once():
            await world.ask_top(watched)
            await world.ask_item(watched, "item 2", "1h")
        await world.engine.trends.delete("t")
        with pytest.raises(TrendNotFound):
            await world.send(world.make_events())
        with pytest.raises(TrendNotFound):
            await world.engine.trends.describe("t")
        await watched.keeper.tick()
        left = await keys_of(world)
        stays = {name for name, ttl in left.items() if ttl < 0}
        assert stays == {f"{world.prefix}:boards", f"{world.prefix}:watched"}
        assert {name.rpartition("}:")[2].partition(":")[0] for name in left.keys() - stays} <= {"day", "min"}

    play(make_link(redis_server.url), scene, SMALL)


def test_a_trend_made_again_under_its_name_is_empty_and_the_old_handle_is_refused(link: Link) -> None:
    async def scene(world: World) -> None:
        old = world.trend
        await world.submit(world.make_events())
        await world.engine.trends.delete("t")
        await world.start(SMALL)
        assert world.trend.id != old.id
        with pytest.raises(TrendNotFound):
            await world.engine.trends.submit(old, TrendBatch(["a"]))
        await world.check()

    play(link, scene, SMALL)


def test_what_was_cut_short_in_the_making_is_swept_after_a_while_and_not_before(redis_server: EmbeddedRedis) -> None:
    async def scene(world: World) -> None:
        await world.engine.trends.delete("t")
        before = await keys_of(world)
        broken = world.make_engine()
        make_keys = broken.trends._registry._make_keys

        async def make_and_die(trend: Any) -> None:
            await make_keys(trend)
            raise RedisUnavailable("died on purpose")

        broken.trends._registry._make_keys = make_and_die
        with pytest.raises(RedisUnavailable):
            await broken.trends.create("half", SMALL)
        assert await world.engine.trends.list() == []
        assert len(await keys_of(world)) > len(before)
        assert await world.engine.trends.sweep() == 0
        world.clock.now_ms += ABANDONED_MS + 1
        assert await world.engine.trends.sweep() == 1
        assert (await keys_of(world)).keys() == before.keys()

    play(make_link(redis_server.url), scene, SMALL)


# Fed


def test_a_request_that_is_sent_again_and_again_counts_once_in_every_partition(link: Link) -> None:
    async def scene(world: World) -> None:
        events = world.make_events(30)
        parts = {world.trend.item_hash.of(event.item.encode()) for event in events}
        assert parts == {0, 1, 2}
        other = world.make_engine()
        taken = await world.submit(events, "named")
        assert taken == Taken(sum(event.count for event in events), 0)
        assert await world.send(events, "named") == taken
        await world.send(events, "named", engine=other)
        await asyncio.gather(*(world.send(events, "named", engine=engine) for engine in (world.engine, other) * 3))
        await world.check()
        same_turn = world.make_events(30)
        world.naive.add(same_turn)
        await asyncio.gather(*(world.send(same_turn, "at once", engine=engine) for engine in (world.engine, other) * 3))
        await world.check()
        await world.submit(events, "another name")
        await world.submit(events)
        await world.check()

    play(link, scene, SMALL)


def test_a_known_request_is_left_out_of_an_entry_and_its_neighbours_are_not(link: Link) -> None:
    async def scene(world: World) -> None:
        batches = [world.make_events(10) for _ in range(5)]
        await world.submit(batches[0], "0")
        await world.submit(batches[3], "3")
        for batch in (batches[1], batches[2], batches[4]):
            world.naive.add(batch)
        await asyncio.gather(*(world.send(batch, str(number)) for number, batch in enumerate(batches)))
        await world.check()
        await asyncio.gather(*(world.send(batch, str(number)) for number, batch in enumerate(batches)))
        await world.check()

    play(link, scene, SMALL)


def test_large_requests_of_one_turn_become_several_entries_and_a_name_in_both_counts_once(
    link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake_module, "ENTRY_ROWS", 5)

    async def scene(world: World) -> None:
        batches = [world.make_events(20) for _ in range(4)]
        for batch in batches:
            world.naive.add(batch)
        named = [(batch, str(number)) for number, batch in enumerate(batches)] * 2
        await asyncio.gather(*(world.send(batch, name) for batch, name in named))
        await world.check()

    play(link, scene, SMALL)


def test_any_split_over_requests_keepers_and_ticks_has_bounds_around_the_truth(link: Link) -> None:
    async def scene(world: World) -> None:
        keepers = [world.make_keeper() for _ in range(2)]
        for step in range(12):
            await asyncio.gather(*(world.submit(world.make_events(world.dice.randint(1, 25))) for _ in range(3)))
            with keeping_at_once():
                await keepers[world.dice.randrange(2)].keeper.tick()
            await world.check()
            world.clock.now_ms += world.dice.choice([0, 1_000, 7_000, 61_000])
            if step == 6:
                await keepers[0].keeper.close()

    play(link, scene, SMALL)


def test_nothing_is_written_of_a_batch_with_anything_wrong_in_it(link: Link) -> None:
    async def scene(world: World) -> None:
        for batch in (TrendBatch(["a", ""]), TrendBatch(["a", "b"], [1, 0]), TrendBatch(["a"], at_ms=[-1])):
            with pytest.raises(InvalidField):
                await world.engine.trends.submit(world.trend, batch)
        with pytest.raises(InvalidField):
            await world.engine.trends.submit(world.trend, TrendBatch(["a"]), "")
        assert await world.engine.trends.submit(world.trend, TrendBatch([])) == Taken(0, 0)
        await world.check()

    play(link, scene, SMALL)


def test_too_much_that_waits_to_be_counted_is_refused_and_nothing_of_it_written(link: Link) -> None:
    async def scene(world: World) -> None:
        world.engine.trends._intake._settings = IntakeSettings(most_waiting=20)
        with pytest.raises(Overloaded):
            await world.send([Event(f"item {number}") for number in range(21)])
        await world.submit([Event("item 0"), Event("item 1")] * 3)
        many = [Event(f"item {number}") for number in range(20)]
        other = world.make_engine()
        for _ in range(4):
            await world.submit(many, engine=other)
        backlog = await world.engine.trends.backlog(world.trend)
        assert backlog > 20
        world.engine.trends._intake._looked.clear()
        with pytest.raises(Overloaded):
            await world.send(many)
        await world.check()
        with keeping_at_once():
            await world.make_keeper().keeper.tick()
        assert await world.engine.trends.backlog(world.trend) == 0
        streams = [world.engine.schema.partition(tag).stream for tag in world.trend.tags]
        assert [(await link.run(stream, [("XLEN", stream)]))[0] for stream in streams] == [1, 1, 1]  # the position
        world.engine.trends._intake._looked.clear()
        await world.submit(many)
        await world.check()

    play(link, scene, SMALL)


def test_what_was_taken_in_and_kept_adds_up_to_what_was_acknowledged(link: Link) -> None:
    async def scene(world: World) -> None:
        accepted, late, levels = 0, 0, world.trend.levels
        for ago_ms in (0, 120_000, 30 * 86_400_000):
            taken = await world.submit([Event(f"item {n}", 3, world.clock.now_ms - ago_ms) for n in range(10)])
            accepted, late = accepted + taken.accepted, late + taken.late
        assert (accepted, late) == (60, 30)
        with keeping_at_once():
            await world.make_keeper().keeper.tick()
        partitions = await world.fold_all()
        counted = {level.pane_ms: sum(each.sums[level.pane_ms].counted for each in partitions) for level in levels}
        assert counted == {5_000: 30, 60_000: 60, 3_600_000: 60, 86_400_000: 60}
        sums = await world.engine.trends.sums(world.trend)
        assert (sums.counted, total(sums)) == (30, world.naive.events)

    play(link, scene, SMALL)


def test_a_late_event_goes_to_its_own_pane_as_long_as_that_lives(link: Link) -> None:
    async def scene(world: World) -> None:
        sent_ms = world.clock.now_ms
        watched = world.make_keeper()
        await world.submit([Event("on time", 1, sent_ms)])
        await watched.keeper.tick()
        world.clock.now_ms = sent_ms + 59_999
        await world.submit([Event("late", 7, sent_ms)])
        top = await world.ask_top(watched)
        assert [(shown.row.item, shown.row.low) for shown in top.rows] == [("late", 7), ("on time", 1)]
        world.clock.now_ms = sent_ms + 60_000
        await world.submit([Event("too late", 9, sent_ms)])
        top = await world.ask_top(watched)
        assert (top.rows, top.head.total, top.head.late) == ([], 0, 9)
        hour = await world.ask_top(watched, "1h")
        assert [(shown.row.item, shown.row.low) for shown in hour.rows] == [
            ("too late", 9),
            ("late", 7),
            ("on time", 1),
        ]
        await world.check()

    play(link, scene, TrendConfig(capacity=16))


def test_capped_events_are_counted_as_such_whoever_folds_them(link: Link) -> None:
    async def scene(world: World) -> None:
        now_ms = world.clock.now_ms
        for number in range(3):
            await world.submit([Event("bought", 40, now_ms, "bot"), Event("liked", 5, now_ms, f"fan {number}")])
            with keeping_at_once():
                await world.make_keeper().keeper.tick()
        await world.check(is_capped=True)
        found = await world.ask_item(world.make_keeper(), "bought")
        assert (found.low, found.high, found.head.capped) == (50, 50, 70)
        assert (await world.ask_item(world.make_keeper(), "liked")).low == 15

    play(link, scene, TrendConfig(capacity=16, partitions=1, actor_cap=50))


def test_the_keys_of_a_partition_share_a_slot_and_partitions_spread_over_a_cluster(
    clean_cluster: RedisCluster,
) -> None:
    async def main() -> None:
        world = World(make_link(clean_cluster.url))
        await world.start(TrendConfig(capacity=16, partitions=6))
        await world.submit(world.make_events(60), "named")
        with keeping_at_once():
            await world.make_keeper().keeper.tick()
        await world.check()
        sizes = [await ask(node, "DBSIZE") for node in clean_cluster.nodes[:3]]
        assert all(sizes)
        await world.link.close()

    asyncio.run(main())
