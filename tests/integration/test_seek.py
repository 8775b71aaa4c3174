"""Exact places at any depth, against a sorted list: ranks, pages, neighbours, all rows; with mass ties over shards."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from hybrid.config import Board, BoardConfig
from hybrid.engine import Engine
from hybrid.events import Batch
from hybrid.link import Link
from hybrid.seek import ROWS_A_CALL, START, Entry, Place
from tests.engines import NOON_MS, make_engine


def run(link: Link, scenario: Callable[[Engine], Awaitable[None]]) -> None:
    async def main() -> None:
        async with make_engine(link) as engine:
            await scenario(engine)

    asyncio.run(main())


async def fill(engine: Engine, name: str, shards: int, players: int, seed: int) -> tuple[Board, list[Place]]:
    """A board with most players on few scores and times, and its line of places by plain sorting."""
    dice = random.Random(seed)
    board, _ = await engine.boards.create(name, BoardConfig(shards=shards))
    names = [dice.choice(["a", "é", "z", "{"]) + str(dice.randrange(10**9)) for _ in range(players)]
    scores = [0 if dice.random() < 0.6 else dice.randrange(5) for _ in names]
    times = [NOON_MS - 1000 * dice.randrange(3) for _ in names]
    await engine.record.submit(board, Batch(names, scores, at_ms=times))
    keys = await engine.record.lookup_many(board, "alltime", names)
    return board, sorted({Place(key, name.encode()) for key, name in zip(keys, names, strict=True) if key is not None})


@pytest.mark.parametrize("shards", [1, 3, 8])
def test_ranks_are_exact_at_any_depth_and_never_depend_on_the_number_of_shards(link: Link, shards: int) -> None:
    async def scenario(engine: Engine) -> None:
        board, line = await fill(engine, "b", shards, 300, seed=1)
        for rank in range(1, len(line) + 1, 7):
            around = await engine.seek.around(board, "alltime", line[rank - 1])
            assert (around.rank, around.players, around.seq) == (rank, len(line), 300)
            assert await engine.seek.at_rank(board, "alltime", rank) == line[rank - 1]
        for rank in (0, -1, len(line) + 1):
            assert await engine.seek.at_rank(board, "alltime", rank) is None

    run(link, scenario)


@pytest.mark.parametrize("reach", [0, 1, 5, 400])
def test_neighbours_are_right_in_the_middle_and_at_both_ends(link: Link, reach: int) -> None:
    async def scenario(engine: Engine) -> None:
        board, line = await fill(engine, "b", 3, 120, seed=2)
        for at in (0, 1, 4, 60, len(line) - 2, len(line) - 1):
            around = await engine.seek.around(board, "alltime", line[at], before=reach, after=reach + 1)
            assert around.above == line[max(at - reach, 0) : at]
            assert around.below == line[at : at + reach + 1]

    run(link, scenario)


@pytest.mark.parametrize("limit", [1, 7, 50, 1000])
def test_pages_by_cursor_show_every_row_once_with_its_rank(link: Link, limit: int) -> None:
    async def scenario(engine: Engine) -> None:
        board, line = await fill(engine, "b", 3, 90, seed=3)
        seen: list[Entry] = []
        after = START
        while True:
            page, _ = await engine.seek.page(board, "alltime", after, limit)
            if not page:
                break
            assert len(page) <= limit
            seen += page
            after = page[-1].place
        assert seen == [Entry(rank, place) for rank, place in enumerate(line, 1)]

    run(link, scenario)


def test_a_cursor_whose_player_moved_away_neither_skips_nor_repeats_others(link: Link) -> None:
    async def scenario(engine: Engine) -> None:
        board, line = await fill(engine, "b", 3, 60, seed=4)
        page, _ = await engine.seek.page(board, "alltime", START, 20)
        await engine.record.remove(board, page[-1].place.player.decode())
        rest, _ = await engine.seek.page(board, "alltime", page[-1].place, 1000)
        assert [entry.place for entry in rest] == line[20:]
        assert rest[0].rank == 20

    run(link, scenario)


def test_all_rows_stream_in_order_over_many_calls(link: Link) -> None:
    async def scenario(engine: Engine) -> None:
        board, line = await fill(engine, "b", 2, 2 * ROWS_A_CALL + 700, seed=5)
        assert [row async for row in engine.seek.rows(board, "alltime")] == line
        assert [row async for row in engine.seek.rows(board, "alltime", line[9])] == line[10:]
        assert [row async for row in engine.seek.rows(board, "daily:2037-11-17")] == []

    run(link, scenario)


def test_an_empty_board_has_no_places(link: Link) -> None:
    async def scenario(engine: Engine) -> None:
        board, _ = await engine.boards.create("b", BoardConfig())
        around = await engine.seek.around(board, "alltime", Place(1.5, b"x"), before=5, after=5)
        assert (around.rank, around.players, around.above, around.below) == (1, 0, [], [])
        assert (await engine.seek.page(board, "alltime", START, 10))[0] == []

    run(link, scenario)
