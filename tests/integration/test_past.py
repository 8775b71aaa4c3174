"""Windows by name, while they are whole and when only leaders and digest are left."""

import asyncio
import random

import pytest

from hybrid.config import Board, BoardConfig
from hybrid.engine import Engine
from hybrid.errors import InvalidField
from hybrid.events import Batch
from hybrid.keeper import Keeper
from hybrid.link import Link
from hybrid.past import LET_GO_MS
from hybrid.standing import Estimate, Exact
from hybrid.windows import DAY_MS
from tests.engines import NOON_MS, Clock, make_engine
from tests.oracle import NaiveBoard, NaiveEvent
from tests.standings_oracle import check, naive_newcomer, naive_standings

YESTERDAY = "daily:2037-11-16"
HOUR_MS = 3_600_000


async def make_past_board(link: Link, players: int = 60, scores: int = 20) -> tuple[Engine, Clock, Board, NaiveBoard]:
    """A board whose players all had a score yesterday, and some have one today."""
    clock, dice = Clock(NOON_MS - DAY_MS), random.Random(3)
    engine = make_engine(link, clock, fresh_s=0.0)
    await engine.boards.open()
    config = BoardConfig(top_n=5, shards=3, score_max=100, windows=("alltime", "daily"))
    board, _ = await engine.boards.create("game", config)
    oracle = NaiveBoard(board.config)
    for count in (players, players // 2):
        names = [f"p{number}" for number in range(count)]
        points = [dice.randrange(scores) for _ in names]
        await engine.record.submit(board, Batch(names, points))
        for name, score in zip(names, points, strict=True):
            oracle.submit(NaiveEvent(name, score, clock.now_ms), clock.now_ms)
        clock.now_ms += DAY_MS
    clock.now_ms -= DAY_MS
    return engine, clock, board, oracle


async def check_whole(engine: Engine, board: Board, oracle: NaiveBoard, window: str) -> None:
    truth = naive_standings(oracle, window)
    rows = await engine.standings.of_players(board, list(truth), window=window)
    for name, standing in zip(truth, rows, strict=True):
        assert standing is not None
        assert standing.window == window
        check(board, standing, truth[name])


def test_a_window_by_name_answers_like_any_other_while_it_is_whole(link: Link) -> None:
    async def run() -> None:
        engine, _, board, oracle = await make_past_board(link)
        for window in (YESTERDAY, "daily:2037-11-17", "alltime"):
            await check_whole(engine, board, oracle, window)
        now = await engine.standings.of_player(board, "p1", window="daily")
        by_name = await engine.standings.of_player(board, "p1", window="daily:2037-11-17")
        assert now == by_name
        assert await engine.standings.of_player(board, "p1", window="daily:2026-11-01") is None
        await engine.link.close()

    asyncio.run(run())


@pytest.mark.parametrize("window", ["weekly", "daily:2026-13-01", "daily:yesterday", "hourly"])
def test_a_window_that_the_board_does_not_have_is_refused_and_quoted(link: Link, window: str) -> None:
    async def run() -> None:
        engine, _, board, _ = await make_past_board(link, players=2)
        with pytest.raises(InvalidField, match=repr(window)):
            await engine.standings.of_player(board, "p1", window=window)
        await engine.link.close()

    asyncio.run(run())


def test_a_window_long_past_keeps_its_leaders_and_its_digest_for_ever(link: Link) -> None:
    async def run() -> None:
        engine, clock, board, oracle = await make_past_board(link)
        keeper = Keeper(engine)
        clock.now_ms = NOON_MS + HOUR_MS * 2
        await keeper.round()  # it is over: written down, and still whole
        await check_whole(engine, board, oracle, YESTERDAY)
        clock.now_ms = NOON_MS + 9 * DAY_MS
        await keeper.round()
        await check_leaders_and_scores(engine, board, oracle)
        clock.now_ms += LET_GO_MS
        await keeper.round()
        await check_leaders_and_scores(engine, board, oracle)
        for tag in board.tags:
            keys = engine.schema.shard(tag)
            found = await engine.link.run(
                keys.meta, [("EXISTS", keys.record(YESTERDAY)), ("HEXISTS", keys.meta, f"v:{YESTERDAY}")]
            )
            assert found == [0, 0]
        await keeper.round()  # again changes nothing
        await check_leaders_and_scores(engine, board, oracle)
        await check_whole(engine, board, oracle, "alltime")
        await engine.link.close()

    async def check_leaders_and_scores(engine: Engine, board: Board, oracle: NaiveBoard) -> None:
        truth = naive_standings(oracle, YESTERDAY)
        for ranking in ("unique", "competition", "dense"):
            rows = await engine.standings.of_players(board, list(truth), window=YESTERDAY, ranking=ranking)
            for name, standing in zip(truth, rows, strict=True):
                if truth[name].unique > board.config.top_n:
                    assert standing is None
                else:
                    assert isinstance(standing, Exact)
                    check(board, standing, truth[name], ranking=ranking)
        scores = list(range(25))
        answers = list(await engine.standings.of_scores(board, scores, window=YESTERDAY))
        for points, standing in zip(scores, answers, strict=True):
            assert standing is not None
            check(board, standing, naive_newcomer(oracle, YESTERDAY, points))
        assert any(isinstance(answer, Estimate) for answer in answers)
        page = await engine.pages.page(board, window=YESTERDAY, limit=3)
        rest = await engine.pages.page(board, window=YESTERDAY, limit=3, cursor=page.cursor)
        assert rest.cursor is None
        names = [entry.place.player.decode() for entry in (*page.entries, *rest.entries)]
        assert names == oracle.ranking(YESTERDAY)[:5]
        bins = await engine.distribution.bins(board, 5, window=YESTERDAY)
        assert sum(row.count for row in bins) == len(truth)

    asyncio.run(run())


def test_a_player_removed_later_is_gone_from_past_leaders_too(link: Link) -> None:
    async def run() -> None:
        engine, clock, board, oracle = await make_past_board(link)
        clock.now_ms = NOON_MS + 9 * DAY_MS
        await Keeper(engine).round()
        first, second = oracle.ranking(YESTERDAY)[:2]
        assert await engine.remove_player(board, first)
        assert not await engine.remove_player(board, first)
        assert await engine.standings.of_player(board, first, window=YESTERDAY) is None
        standing = await engine.standings.of_player(board, second, window=YESTERDAY)
        assert isinstance(standing, Exact)
        assert (standing.rank, standing.players) == (1, 59)
        await engine.link.close()

    asyncio.run(run())


def test_two_keepers_write_one_window_down_once(link: Link) -> None:
    async def run() -> None:
        engine, clock, board, oracle = await make_past_board(link)
        clock.now_ms = NOON_MS + 9 * DAY_MS
        await asyncio.gather(*(Keeper(engine).round() for _ in range(2)))
        key = engine.schema.board(board.id).past
        (windows,) = await engine.link.run(key, [("HKEYS", key)])
        assert windows == [YESTERDAY.encode()] or sorted(windows) == [YESTERDAY.encode(), b"daily:2037-11-17"]
        leader = oracle.ranking(YESTERDAY)[0]
        standing = await engine.standings.of_player(board, leader, window=YESTERDAY)
        assert isinstance(standing, Exact)
        assert standing.rank == 1
        await engine.link.close()

    asyncio.run(run())
