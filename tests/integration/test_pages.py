"""Pages, neighbours and all rows, with exact ranks; cursors are checked."""

import asyncio
import random

import pytest

from hybrid.config import BoardConfig
from hybrid.engine import Engine
from hybrid.errors import InvalidField
from hybrid.events import Batch
from hybrid.link import Link
from tests.engines import make_engine


async def make_board(link: Link, players: int = 90, scores: int = 9) -> tuple[Engine, list[str]]:
    """A board with many ties, and its players in order."""
    engine, dice = make_engine(link), random.Random(2)
    await engine.boards.open()
    board, _ = await engine.boards.create("game", BoardConfig(top_n=5, shards=3))
    names = [f"p{number}" for number in range(players)]
    points = [dice.randrange(scores) for _ in names]
    await engine.record.submit(board, Batch(names, points))
    ranked = sorted(zip(points, names, strict=True), key=lambda row: (-row[0], row[1].encode()))
    return engine, [name for _, name in ranked]


def test_pages_go_on_past_the_top_to_the_end(link: Link) -> None:
    async def run() -> None:
        engine, order = await make_board(link)
        board = await engine.boards.describe("game")
        seen, cursor, pages = [], None, 0
        while True:
            page = await engine.pages.page(board, limit=20, cursor=cursor)
            seen += page.entries
            cursor, pages = page.cursor, pages + 1
            assert (page.players, page.seq, page.window) == (90, 90, "alltime")
            if cursor is None:
                break
        assert pages == 5
        assert [entry.place.player.decode() for entry in seen] == order
        assert [entry.rank for entry in seen] == list(range(1, 91))
        rows = [entry async for entry in engine.pages.rows(board)]
        assert rows == seen
        await engine.link.close()

    asyncio.run(run())


def test_a_page_begins_at_any_rank(link: Link) -> None:
    async def run() -> None:
        engine, order = await make_board(link)
        board = await engine.boards.describe("game")
        for rank in (1, 2, 5, 6, 47, 90):
            page = await engine.pages.page(board, limit=3, from_rank=rank)
            names = [(entry.rank, entry.place.player.decode()) for entry in page.entries]
            assert names == list(enumerate(order[rank - 1 : rank + 2], rank))
        beyond = await engine.pages.page(board, from_rank=91)
        assert (beyond.entries, beyond.cursor, beyond.players) == ([], None, 90)
        await engine.link.close()

    asyncio.run(run())


def test_neighbours_stand_around_a_player_also_at_the_ends(link: Link) -> None:
    async def run() -> None:
        engine, order = await make_board(link)
        board = await engine.boards.describe("game")
        for place in (0, 1, 4, 5, 50, 88, 89):
            found = await engine.pages.neighbors(board, order[place], reach=3)
            assert found is not None
            rows = [*found.above, found.entry, *found.below]
            first = max(place - 3, 0)
            expected = list(enumerate(order[first : place + 4], first + 1))
            assert [(entry.rank, entry.place.player.decode()) for entry in rows] == expected
            assert found.entry.place.player.decode() == order[place]
        assert await engine.pages.neighbors(board, "nobody") is None
        alone = await engine.pages.neighbors(board, order[7], reach=0)
        assert alone is not None
        assert (alone.above, alone.below) == ([], [])
        await engine.link.close()

    asyncio.run(run())


@pytest.mark.parametrize("cursor", ["", "x", "%%%", "AAAA", "a" * 5000, "é", "AAAAAAAAAAAAIGEgYiBj"])
def test_a_cursor_that_is_none_of_ours_is_refused_and_quoted(link: Link, cursor: str) -> None:
    async def run() -> None:
        engine, _ = await make_board(link, players=3)
        board = await engine.boards.describe("game")
        with pytest.raises(InvalidField, match="cursor"):
            await engine.pages.page(board, cursor=cursor)
        await engine.link.close()

    asyncio.run(run())


def test_a_cursor_of_another_board_is_refused(link: Link) -> None:
    async def run() -> None:
        engine, _ = await make_board(link)
        board = await engine.boards.describe("game")
        cursor = (await engine.pages.page(board, limit=5)).cursor
        other, _ = await engine.boards.create("other", BoardConfig())
        with pytest.raises(InvalidField, match="another board"):
            await engine.pages.page(other, cursor=cursor)
        for options in ({"limit": 0}, {"limit": 1001}, {"from_rank": 0}, {"from_rank": 1, "cursor": cursor}):
            with pytest.raises(InvalidField):
                await engine.pages.page(board, **options)
        await engine.link.close()

    asyncio.run(run())
