"""The record over a real Redis: what a submit does, answers and refuses."""

import asyncio
import random
import re
from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import Any

import pytest

from hybrid.config import BoardConfig, Number, Subscore
from hybrid.engine import Engine
from hybrid.errors import AtOutOfRange, BoardNotFound, InvalidField
from hybrid.events import Batch
from hybrid.link import Link
from hybrid.log import parse_entry
from hybrid.outcomes import Outcome, Status
from tests.engines import NOON_MS, Clock, LossyLink, make_engine
from tests.oracle import NaiveBoard, NaiveEvent

DAY_MS = 86_400_000
ALL_WINDOWS = ("alltime", "daily", "weekly", "monthly")


def run(link: Link, scenario: Callable[[Engine], Awaitable[None]], clock: Clock | None = None) -> None:
    async def main() -> None:
        async with make_engine(link, clock) as engine:
            await scenario(engine)

    asyncio.run(main())


def brief(outcome: Outcome) -> tuple[str, Any, Any]:
    return outcome.status.name, outcome.score, outcome.previous


async def members(engine: Engine, board: Any, window: str) -> list[str]:
    """All players of a window, best first, of all shards together."""
    rows = []
    for tag in board.tags:
        key = engine.record._schema.shard(tag).record(window)
        (flat,) = await engine.link.run(key, [("ZRANGE", key, 0, -1, "WITHSCORES")])
        pairs = flat if flat and isinstance(flat[0], list) else list(zip(flat[::2], flat[1::2], strict=True))
        rows += [(float(score), player) for player, score in pairs]
    return [player.decode() for _, player in sorted(rows)]


def test_a_best_is_added_improved_and_kept(link: Link) -> None:
    async def scenario(engine: Engine) -> None:
        board, _ = await engine.boards.create("b", BoardConfig())
        seen = []
        for score in (10, 20, 15, 20):
            seen.append(brief((await engine.record.submit(board, Batch(["ann"], [score])))[0]))
        assert seen == [("ADDED", 10, None), ("IMPROVED", 20, 10), ("KEPT", 20, 20), ("KEPT", 20, 20)]

    run(link, scenario)


def test_an_equal_score_keeps_the_earlier_time(link: Link) -> None:
    async def scenario(engine: Engine) -> None:
        board, _ = await engine.boards.create("b", BoardConfig())
        await engine.record.submit(board, Batch(["ann"], [10], at_ms=[NOON_MS - 60_000]))
        first = await engine.record.lookup(board, "alltime", "ann")
        await engine.record.submit(board, Batch(["ann"], [10]))
        assert await engine.record.lookup(board, "alltime", "ann") == first
        await engine.record.submit(board, Batch(["ann"], [10], at_ms=[NOON_MS - 120_000]))
        moved = await engine.record.lookup(board, "alltime", "ann")
        assert moved is not None
        assert first is not None
        assert moved < first

    run(link, scenario)


def test_a_late_event_never_overwrites_a_newer_one(link: Link) -> None:
    async def scenario(engine: Engine) -> None:
        board, _ = await engine.boards.create("b", BoardConfig(strategy="latest"))
        await engine.record.submit(board, Batch(["ann"], [10]))
        late = await engine.record.submit(board, Batch(["ann"], [99], at_ms=[NOON_MS - 5000]))
        same_tick = await engine.record.submit(board, Batch(["ann"], [7]))
        assert [brief(late[0]), brief(same_tick[0])] == [("KEPT", 10, 10), ("LOWERED", 7, 10)]

    run(link, scenario)


def test_a_sum_adds_up_and_refuses_alone_what_leaves_the_range(link: Link) -> None:
    async def scenario(engine: Engine) -> None:
        board, _ = await engine.boards.create("b", BoardConfig(strategy="sum", score_max=100))
        outcomes = await engine.record.submit(
            board, Batch(["ann", "bob", "ann", "ann"], [60, 1, 60, 40], ids=["1", "1", "2", "3"])
        )
        assert [brief(o) for o in outcomes] == [
            ("ADDED", 60, None),
            ("ADDED", 1, None),
            ("REFUSED", 60, 60),
            ("IMPROVED", 100, 60),
        ]

    run(link, scenario)


def test_a_sum_without_any_token_is_refused(link: Link) -> None:
    async def scenario(engine: Engine) -> None:
        board, _ = await engine.boards.create("b", BoardConfig(strategy="sum"))
        with pytest.raises(InvalidField, match="an id, or a token for the request") as error:
            await engine.record.submit(board, Batch(["ann", "bob"], [1, 2], ids=["x", None]))
        assert error.value.index == 1
        assert await engine.record.lookup(board, "alltime", "ann") is None

    run(link, scenario)


def test_a_known_id_is_a_duplicate_and_the_first_wins(link: Link) -> None:
    async def scenario(engine: Engine) -> None:
        board, _ = await engine.boards.create("b", BoardConfig(strategy="sum"))
        first = await engine.record.submit(board, Batch(["ann", "bob"], [5, 7], ids=["x", "x"]))
        again = await engine.record.submit(board, Batch(["ann", "bob", "ann"], [500, 9, 1], ids=["x", "y", "z"]))
        twice = await engine.record.submit(board, Batch(["cy", "cy"], [1, 2], ids=["x", "x"]))
        assert [brief(o) for o in first] == [("ADDED", 5, None), ("ADDED", 7, None)]
        assert [brief(o) for o in again] == [("DUPLICATE", 6, 6), ("IMPROVED", 16, 7), ("IMPROVED", 6, 5)]
        assert [brief(o) for o in twice] == [("ADDED", 1, None), ("DUPLICATE", 1, 1)]
        assert again.accepted == 2

    run(link, scenario)


def test_a_request_token_covers_the_whole_batch(link: Link) -> None:
    async def scenario(engine: Engine) -> None:
        board, _ = await engine.boards.create("b", BoardConfig(strategy="sum"))
        batch = Batch([f"p{i}" for i in range(50)], [1] * 50, request="order-66")
        assert (await engine.record.submit(board, batch)).accepted == 50
        again = await engine.record.submit(board, batch)
        assert {o.status for o in again} == {Status.DUPLICATE}
        assert {o.score for o in again} == {1}

    run(link, scenario)


def test_one_event_counts_for_every_window_by_its_own_time(link: Link) -> None:
    async def scenario(engine: Engine) -> None:
        board, _ = await engine.boards.create("b", BoardConfig(windows=ALL_WINDOWS))
        monday_night_ms = NOON_MS - DAY_MS // 2 - 1000
        await engine.record.submit(board, Batch(["ann", "bob"], [1, 2], at_ms=[None, monday_night_ms]))
        # NOON is a Tuesday; Monday's daily window closes one hour after midnight, so bob is late for it.
        assert await members(engine, board, "alltime") == ["bob", "ann"]
        assert await members(engine, board, "daily:2037-11-17") == ["ann"]
        assert await members(engine, board, "daily:2037-11-16") == []
        assert await members(engine, board, "weekly:2037-W47") == ["bob", "ann"]
        assert await members(engine, board, "monthly:2037-11") == ["bob", "ann"]

    run(link, scenario)


def test_an_event_for_a_closed_window_counts_for_the_others_and_says_so(link: Link) -> None:
    async def scenario(engine: Engine) -> None:
        board, _ = await engine.boards.create("b", BoardConfig(windows=("daily", "alltime")))
        yesterday = await engine.record.submit(board, Batch(["ann"], [5], at_ms=[NOON_MS - DAY_MS]))
        assert yesterday[0].closed == ("daily:2037-11-16",)
        assert yesterday[0].status is Status.KEPT
        assert await members(engine, board, "alltime") == ["ann"]

    run(link, scenario)


def test_a_late_event_inside_the_grace_still_counts(link: Link) -> None:
    async def scenario(engine: Engine) -> None:
        board, _ = await engine.boards.create("b", BoardConfig(windows=("daily",)))
        clock.now_ms = NOON_MS + DAY_MS // 2 + 3_599_000
        late = await engine.record.submit(board, Batch(["ann"], [5], at_ms=[NOON_MS]))
        assert (late[0].status, late[0].closed) == (Status.ADDED, ())
        clock.now_ms += 1000
        too_late = await engine.record.submit(board, Batch(["bob"], [5], at_ms=[NOON_MS]))
        assert too_late[0].closed == ("daily:2037-11-17",)

    clock = Clock()
    run(link, scenario, clock)


def test_a_windows_record_expires_and_the_alltime_one_does_not(link: Link) -> None:
    async def scenario(engine: Engine) -> None:
        board, _ = await engine.boards.create("b", BoardConfig(shards=1, windows=("alltime", "daily")))
        await engine.record.submit(board, Batch(["ann"], [5]))
        keys = engine.record._schema.shard(board.tags[0])
        daily, alltime = keys.record("daily:2037-11-17"), keys.record("alltime")
        (expires,) = await engine.link.run(daily, [("PTTL", daily)])
        (never,) = await engine.link.run(alltime, [("PTTL", alltime)])
        assert expires > 0
        assert never == -1

    run(link, scenario, Clock(NOON_MS))


def test_a_removed_player_is_gone_from_every_window_and_logged(link: Link) -> None:
    async def scenario(engine: Engine) -> None:
        board, _ = await engine.boards.create("b", BoardConfig(shards=1, windows=ALL_WINDOWS))
        await engine.record.submit(board, Batch(["ann", "bob"], [5, 6]))
        assert await engine.record.remove(board, "ann") is True
        assert await engine.record.remove(board, "ann") is False
        for window in ("alltime", "daily:2037-11-17", "weekly:2037-W47", "monthly:2037-11"):
            assert await members(engine, board, window) == ["bob"]
        log = engine.record._schema.shard(board.tags[0]).log
        (entries,) = await engine.link.run(log, [("XRANGE", log, "-", "+")])
        last = parse_entry(entries[-1])
        assert last.events.kind == "remove"
        assert [(c.player, c.new) for c in last.rows["alltime"].changes()] == [(b"ann", None)]

    run(link, scenario)


def test_the_log_is_contiguous_names_its_predecessors_and_replays_to_the_record(link: Link) -> None:
    async def scenario(engine: Engine) -> None:
        board, _ = await engine.boards.create("b", BoardConfig(strategy="sum", shards=3, windows=ALL_WINDOWS))
        dice = random.Random(5)
        for turn in range(20):
            players = [f"p{dice.randrange(9)}" for _ in range(dice.randrange(1, 12))]
            scores = [dice.randrange(9) for _ in players]
            times = [NOON_MS - dice.randrange(DAY_MS * 9) for _ in players]
            await engine.record.submit(board, Batch(players, scores, at_ms=times, request=str(turn)))
            if turn % 5 == 4:
                await engine.record.remove(board, f"p{dice.randrange(9)}")
        for tag in board.tags:
            keys = engine.record._schema.shard(tag)
            (entries,) = await engine.link.run(keys.log, [("XRANGE", keys.log, "-", "+")])
            previous = "0-0"
            replayed: dict[str, dict[bytes, float | None]] = {}
            for entry in map(parse_entry, entries):
                assert entry.previous == previous
                assert entry.seq == int(previous.split("-")[0]) + len(entry.events.players)
                previous = entry.id
                for window in entry.rows:
                    view = replayed.setdefault(window, {})
                    for change in entry.rows[window].changes():
                        assert view.get(change.player) == change.old
                        view[change.player] = change.new
            for window, view in replayed.items():
                key = keys.record(window)
                (flat,) = await engine.link.run(key, [("ZRANGE", key, 0, -1, "WITHSCORES")])
                pairs = flat if flat and isinstance(flat[0], list) else zip(flat[::2], flat[1::2], strict=True)
                assert {player: float(score) for player, score in pairs} == {
                    p: k for p, k in view.items() if k is not None
                }

    run(link, scenario)


@pytest.mark.parametrize(
    ("batch", "field", "quoted"),
    [
        (Batch(["ann", ""], [1, 2]), "player", "''"),
        (Batch(["ann", "a\x00b"], [1, 2]), "player", r"x00"),
        (Batch(["ann", "a\nb"], [1, 2]), "player", r"\\n"),
        (Batch(["ann", ".."], [1, 2]), "player", r"'\.\.'"),
        (Batch(["ann", "x" * 129], [1, 2]), "player", "x{99}"),
        (Batch(["ann", 7], [1, 2]), "player", "7"),  # type: ignore[list-item]
        (Batch(["ann", "\ud800"], [1, 2]), "player", "ud800"),
        (Batch(["ann", "bob"], [1, -1]), "score", "-1"),
        (Batch(["ann", "bob"], [1, 2**31]), "score", "2147483648"),
        (Batch(["ann", "bob"], [1, 2**80]), "score", str(2**80)),
        (Batch(["ann", "bob"], [1, 1.5]), "score", "1.5"),
        (Batch(["ann", "bob"], [1, float("nan")]), "score", "nan"),
        (Batch(["ann", "bob"], [1, float("inf")]), "score", "inf"),
        (Batch(["ann", "bob"], [1, True]), "score", "True"),
        (Batch(["ann", "bob"], [1, "2"]), "score", "'2'"),  # type: ignore[list-item]
        (Batch(["ann", "bob"], [1, None]), "score", "None"),  # type: ignore[list-item]
        (Batch(["ann", "bob"], [1, 2], subscores=[1, 2]), "subscore", "no subscore"),
        (Batch(["ann", "bob"], [1, 2], at_ms=[None, 5]), "at", "5"),
        (Batch(["ann", "bob"], [1, 2], at_ms=[None, NOON_MS + 300_001]), "at", str(NOON_MS + 300_001)),
        (Batch(["ann", "bob"], [1, 2], at_ms=[None, 1.5]), "at", "1.5"),  # type: ignore[list-item]
        (Batch(["ann", "bob"], [1, 2], ids=[None, ""]), "id", "''"),
        (Batch(["ann", "bob"], [1, 2], tags=[None, "\t"]), "tag", r"\\t"),
        (Batch(["ann", "bob"], [1]), "scores", "2 players"),
        (Batch(["ann"], [1], request=""), "request", "''"),
    ],
)
def test_a_bad_item_is_quoted_and_nothing_at_all_is_written(link: Link, batch: Batch, field: str, quoted: str) -> None:
    async def scenario(engine: Engine) -> None:
        board, _ = await engine.boards.create("b", BoardConfig())
        with pytest.raises(InvalidField, match=quoted) as error:
            await engine.record.submit(board, batch)
        assert error.value.field == field
        assert isinstance(error.value, AtOutOfRange) == (field == "at" and "1.5" not in quoted)
        assert await members(engine, board, "alltime") == []

    run(link, scenario)


def test_decimals_are_exact_and_too_many_are_refused(link: Link) -> None:
    async def scenario(engine: Engine) -> None:
        config = BoardConfig(decimals=3, score_min=-10, score_max=10, direction="low")
        board, _ = await engine.boards.create("b", config)
        scores: list[Number] = [1.005, -9.999, Decimal("0.3"), 7]
        outcomes = await engine.record.submit(board, Batch(["a", "b", "c", "d"], scores))
        assert [o.score for o in outcomes] == [1.005, -9.999, 0.3, 7]
        assert await members(engine, board, "alltime") == ["b", "c", "a", "d"]
        for score in (0.1 + 0.2, Decimal("0.0001")):
            with pytest.raises(InvalidField, match=re.escape(f"at most 3 decimals, not {score!r}")):
                await engine.record.submit(board, Batch(["a"], [score]))

    run(link, scenario)


def test_a_subscore_breaks_ties_before_time(link: Link) -> None:
    async def scenario(engine: Engine) -> None:
        config = BoardConfig(score_max=1000, subscore=Subscore(max=500, direction="low"))
        board, _ = await engine.boards.create("b", config)
        times = [NOON_MS, NOON_MS - 9000, NOON_MS - 5000]
        await engine.record.submit(board, Batch(["a", "b", "c"], [5, 5, 5], subscores=[10, 30, 20], at_ms=times))
        assert await members(engine, board, "alltime") == ["a", "c", "b"]

    run(link, scenario)


def test_a_write_to_a_deleted_board_is_refused_also_with_an_old_handle(link: Link) -> None:
    async def scenario(engine: Engine) -> None:
        board, _ = await engine.boards.create("b", BoardConfig())
        await engine.record.submit(board, Batch(["ann"], [5]))
        await engine.boards.delete("b")
        with pytest.raises(BoardNotFound, match="deleted"):
            await engine.record.submit(board, Batch(["ann"], [6]))
        again, is_new = await engine.boards.create("b", BoardConfig())
        assert is_new
        assert again.id != board.id
        assert await engine.record.lookup(again, "alltime", "ann") is None

    run(link, scenario)


def test_concurrent_single_submits_become_one_call_a_shard(link: Link) -> None:
    class CountingLink(LossyLink):
        scripts = 0

        async def run(self, key: str, commands: Any, *, timeout_s: float = 5.0) -> list[Any]:
            self.scripts += str(commands[0][0]).startswith("EVAL")
            return await super().run(key, commands, timeout_s=timeout_s)

    counting = CountingLink(link)

    async def scenario(engine: Engine) -> None:
        board, _ = await engine.boards.create("b", BoardConfig(shards=4))
        await asyncio.gather(*(engine.record.submit(board, Batch([f"w{i}"], [i])) for i in range(40)))
        counting.scripts = 0
        outcomes = await asyncio.gather(*(engine.record.submit(board, Batch([f"p{i}"], [i])) for i in range(200)))
        assert all(o[0].status is Status.ADDED for o in outcomes)
        assert counting.scripts == 8  # one to write, one to bring it to the top
        found = await asyncio.gather(*(engine.record.lookup(board, "alltime", f"p{i}") for i in range(200)))
        assert None not in found

    run(counting, scenario)


@pytest.mark.parametrize("losses", [["applied"], ["lost"], ["applied", "lost", "applied"], ["unavailable", "applied"]])
@pytest.mark.parametrize("strategy", ["best", "latest", "sum"])
def test_a_lost_answer_is_asked_for_again_and_nothing_happens_twice(
    link: Link, losses: list[str], strategy: Any
) -> None:
    lossy = LossyLink(link)

    async def scenario(engine: Engine) -> None:
        board, _ = await engine.boards.create("b", BoardConfig(strategy=strategy, shards=1))
        await engine.record.submit(board, Batch(["ann", "bob"], [5, 5], ids=["0", "0"]))
        lossy.losses = list(losses)
        outcomes = await engine.record.submit(board, Batch(["ann", "bob", "ann"], [7, 3, 1], ids=["1", "1", "2"]))
        oracle = NaiveBoard(board.config)
        for at, (player, points) in enumerate([("ann", 5), ("bob", 5), ("ann", 7), ("bob", 3), ("ann", 1)]):
            want = oracle.submit(NaiveEvent(player, points, NOON_MS, str(at)), NOON_MS)
            if at >= 2:
                assert brief(outcomes[at - 2]) == want[:3]
        assert lossy.lost == len(losses)

    run(lossy, scenario)


def test_an_answer_that_never_comes_is_unknown_and_the_token_settles_it(link: Link) -> None:
    lossy = LossyLink(link)

    async def scenario(engine: Engine) -> None:
        board, _ = await engine.boards.create("b", BoardConfig(strategy="sum", shards=1))
        lossy.losses = ["applied", *["lost"] * 1_000_000]
        unknown = await engine.record.submit(board, Batch(["ann"], [7], ids=["1"]))
        assert unknown[0].status is Status.UNKNOWN
        assert unknown[0].score is None
        assert not unknown.is_certain
        lossy.losses = []
        again = await engine.record.submit(board, Batch(["ann"], [7], ids=["1"]))
        assert brief(again[0]) == ("DUPLICATE", 7, 7)

    run(lossy, scenario)
