"""What is asked of trends: tops, single items, what is hidden; judged by exact counts."""

from collections import Counter
from unittest.mock import patch

import pytest

from hybrid.errors import InvalidField, RedisUnavailable
from hybrid.link import Link
from hybrid.trends import trends as trends_module
from hybrid.trends.config import TrendConfig
from tests.trends_oracle import Event
from tests.trends_world import World, play

SMALL = TrendConfig(capacity=16, partitions=3)
WIDE = TrendConfig(capacity=256, partitions=3)


def test_the_top_is_what_was_counted_most_and_any_item_can_be_asked_for(link: Link) -> None:
    async def scene(world: World) -> None:
        events = [event._replace(at_ms=world.clock.now_ms) for event in world.make_events(300, items=60)]
        await world.submit(events)
        watched = world.make_keeper()
        truth = Counter[str]()
        for event in events:
            truth[event.item] += event.count
        top = await world.ask_top(watched, limit=10)
        want = sorted(truth.items(), key=lambda pair: (-pair[1], pair[0]))[:10]
        assert [(shown.row.item, shown.row.low, shown.row.high) for shown in top.rows] == [(i, c, c) for i, c in want]
        assert all(shown.is_guaranteed for shown in top.rows)
        assert (top.head.total, top.head.floor) == (truth.total(), 0)
        for item in [*truth, "never seen"]:
            found = await world.ask_item(watched, item, "1d")
            assert (found.low, found.high) == (truth[item], truth[item])

    play(link, scene, WIDE)


def test_a_hidden_item_is_on_no_board_at_once_and_is_counted_all_the_same(link: Link) -> None:
    async def scene(world: World) -> None:
        await world.submit([Event("a", 9), Event("b", 5), Event("c", 2)])
        watched = world.make_keeper()
        assert [shown.row.item for shown in (await world.ask_top(watched)).rows] == ["a", "b", "c"]
        await world.engine.trends.hide(world.trend, "a")
        top = await world.engine.trends.top(world.trend, limit=4)  # what was published before is good enough
        assert [shown.row.item for shown in top.rows] == ["b", "c"]
        await watched.keeper.tick()
        assert [shown.row.item for shown in (await world.ask_top(watched)).rows] == ["b", "c"]
        assert (await world.ask_item(watched, "a")).low == 9
        assert await world.engine.trends.hidden(world.trend) == {"a"}
        assert await world.engine.trends.show(world.trend, "a")
        assert not await world.engine.trends.show(world.trend, "a")
        await watched.keeper.tick()
        assert [shown.row.item for shown in (await world.ask_top(watched)).rows] == ["a", "b", "c"]
        await world.check()

    play(link, scene, SMALL)


def test_a_board_by_actors_ranks_who_was_seen_by_most_and_one_bot_does_not_trend(link: Link) -> None:
    async def scene(world: World) -> None:
        now_ms = world.clock.now_ms
        await world.submit([Event("bought", 10_000, now_ms, "bot")])
        await world.submit([Event("liked", 1, now_ms, f"fan {number}") for number in range(40)])
        await world.submit([Event("by nobody in particular", 100, now_ms)])
        watched = world.make_keeper()
        by_actors = await world.ask_top(watched, by="actors")
        assert [(shown.row.item, shown.row.actors_low) for shown in by_actors.rows] == [("liked", 40), ("bought", 1)]
        by_count = await world.ask_top(watched)
        assert by_count.rows[0].row.item == "bought"

    play(link, scene, SMALL)


def test_what_could_not_be_folded_is_not_published_as_if_it_had_been(link: Link) -> None:
    async def scene(world: World) -> None:
        watched = world.make_keeper()
        await world.submit([Event("a", 3)])
        first = await world.ask_top(watched)
        await world.submit([Event("a", 4)])
        world.clock.now_ms += 1_000
        number = world.trend.item_hash.of(b"a")
        partition = watched.keeper._kept[world.trend.id].partitions[number]
        with patch.object(partition._source, "read", side_effect=RedisUnavailable("failed on purpose")):
            stale = await world.ask_top(watched)
        assert stale.head.as_of_ms == first.head.as_of_ms
        await watched.keeper.tick()
        fresh = await world.ask_top(watched)
        assert (fresh.head.as_of_ms, fresh.rows[0].row.low) == (world.clock.now_ms, 7)

    play(link, scene, SMALL)


def test_who_asks_while_nobody_counts_is_told_so(link: Link, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trends_module, "PATIENCE_S", 0.1)

    async def scene(world: World) -> None:
        with pytest.raises(RedisUnavailable, match="no keeper is at work"):
            await world.engine.trends.top(world.trend, limit=1)
        for limit in (0, 5):
            with pytest.raises(InvalidField, match=f"not {limit}"):
                await world.engine.trends.top(world.trend, limit=limit)
        with pytest.raises(InvalidField, match="'2m'"):
            await world.engine.trends.top(world.trend, "2m", limit=1)
        with pytest.raises(InvalidField):
            await world.engine.trends.item(world.trend, "")

    play(link, scene, SMALL)
