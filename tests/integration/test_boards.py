"""The registry: make, find, list, change and delete boards."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from hybrid.config import BoardConfig, Subscore
from hybrid.engine import Engine
from hybrid.errors import BoardNotFound, Conflict, InvalidBoard, SchemaTooNew
from hybrid.events import Batch
from hybrid.link import Link
from tests.engines import LossyLink, fresh_prefix, make_engine


def run(link: Link, scenario: Callable[[Engine], Awaitable[None]], prefix: str | None = None) -> None:
    async def main() -> None:
        async with make_engine(link, prefix=prefix) as engine:
            await scenario(engine)

    asyncio.run(main())


async def all_keys(engine: Engine) -> set[bytes]:
    """Every key under the engine's prefix, on every node."""
    pattern = f"{engine.record._schema.prefix}:*"
    link = engine.link.link if isinstance(engine.link, LossyLink) else engine.link
    nodes = await link.masters() if hasattr(link, "masters") else [link]
    found: set[bytes] = set()
    for node in nodes:
        (keys,) = await node.run("", [("KEYS", pattern)])
        found |= set(keys)
    return found


def test_making_the_same_board_again_finds_it_and_another_is_a_conflict_naming_the_fields(link: Link) -> None:
    async def scenario(engine: Engine) -> None:
        board, is_new = await engine.boards.create("game-1", BoardConfig(top_n=50))
        again, is_again_new = await engine.boards.create("game-1", BoardConfig(top_n=50))
        assert (is_new, is_again_new) == (True, False)
        assert again == board == await engine.boards.describe("game-1")
        with pytest.raises(Conflict, match="other top_n, strategy") as error:
            await engine.boards.create("game-1", BoardConfig(strategy="latest"))
        assert error.value.fields == ["top_n", "strategy"]

    run(link, scenario)


def test_of_two_who_make_a_board_at_once_both_get_the_same_one(link: Link) -> None:
    async def scenario(engine: Engine) -> None:
        made = await asyncio.gather(*(engine.boards.create("b", BoardConfig(shards=2)) for _ in range(8)))
        assert len({board.id for board, _ in made}) == 1
        assert sum(is_new for _, is_new in made) == 1
        # the losers left nothing behind: one hash of boards, two metas, one state
        assert len(await all_keys(engine)) == 4

    run(link, scenario)


def test_a_deleted_board_is_gone_with_all_its_keys(link: Link) -> None:
    async def scenario(engine: Engine) -> None:
        config = BoardConfig(windows=("alltime", "daily", "weekly", "monthly"))
        board, _ = await engine.boards.create("b", config)
        players = [f"p{i}" for i in range(40)]
        await engine.record.submit(board, Batch(players, list(range(40)), ids=players))
        assert len(await all_keys(engine)) > 40
        await engine.boards.delete("b")
        left = {key for key in await all_keys(engine) if b":min:" not in key}  # those expire within minutes
        assert left == {f"{engine.record._schema.prefix}:boards".encode()}
        for ask in (engine.boards.describe, engine.boards.delete):
            with pytest.raises(BoardNotFound, match="'b'"):
                await ask("b")
        assert await engine.boards.list() == []

    run(link, scenario)


def test_a_deletion_that_was_cut_short_is_finished_by_the_next_sweep(link: Link) -> None:
    async def scenario(engine: Engine) -> None:
        board, _ = await engine.boards.create("b", BoardConfig(shards=1))
        await engine.record.submit(board, Batch(["ann"], [1]))
        key = engine.boards._schema.boards
        await engine.link.run(key, [("HDEL", key, "b"), ("HSET", key, f"!{board.id}", msgspec.json.encode(board))])
        assert await engine.boards.list() == []
        assert await engine.boards.sweep() == 1
        assert {k for k in await all_keys(engine) if b":min:" not in k} == {key.encode()}
        assert await engine.boards.sweep() == 0

    run(link, scenario)


def test_boards_are_listed_by_name_with_prefix_and_pages(link: Link) -> None:
    async def scenario(engine: Engine) -> None:
        names = [f"{game}-{i:02}" for game in ("chess", "go") for i in range(15)]
        for name in reversed(names):
            await engine.boards.create(name, BoardConfig(shards=1))
        first = await engine.boards.list("go-", limit=10)
        second = await engine.boards.list("go-", limit=10, after=first[-1].name)
        assert [board.name for board in first + second] == [name for name in names if name.startswith("go-")]
        assert [board.name for board in await engine.boards.list(limit=100)] == names

    run(link, scenario)


def test_a_page_of_10_000_boards_takes_no_longer_than_a_moment(redis_server: Any) -> None:
    from hybrid.engine import make_link

    async def scenario(engine: Engine) -> None:
        template, _ = await engine.boards.create("template", BoardConfig(shards=1))
        key = engine.boards._schema.boards
        rows = [
            x
            for i in range(10_000)
            for x in (f"b{i:05}", msgspec.json.encode(msgspec.structs.replace(template, name=f"b{i:05}")))
        ]
        for at in range(0, len(rows), 2000):
            await engine.link.run(key, [("HSET", key, *rows[at : at + 2000])])
        started = asyncio.get_running_loop().time()
        page = await engine.boards.list("b", limit=100, after="b04999")
        assert asyncio.get_running_loop().time() - started < 1.0
        assert [board.name for board in page] == [f"b{i:05}" for i in range(5000, 5100)]
        await engine.link.run(key, [("UNLINK", key)])

    run(make_link(redis_server.url), scenario)


def test_only_what_may_change_is_changed(link: Link) -> None:
    async def scenario(engine: Engine) -> None:
        board, _ = await engine.boards.create("b", BoardConfig())
        changed = await engine.boards.patch("b", top_n=20, title="Season 2", retention_days=30)
        assert (changed.config.top_n, changed.config.title, changed.id) == (20, "Season 2", board.id)
        assert await engine.boards.describe("b") == changed
        with pytest.raises(InvalidBoard, match="strategy stays as it was made"):
            await engine.boards.patch("b", strategy="sum")
        with pytest.raises(InvalidBoard, match="top_n goes from 1 to 1000000, not 0"):
            await engine.boards.patch("b", top_n=0)
        assert await engine.boards.describe("b") == changed

    run(link, scenario)


@pytest.mark.parametrize(
    ("config", "field", "quoted"),
    [
        (BoardConfig(top_n=0), "top_n", "0"),
        (BoardConfig(shards=257), "shards", "257"),
        (BoardConfig(score_min=5, score_max=4), "score_min", "5"),
        (BoardConfig(score_max=1.5), "score_max", "1.5"),
        (BoardConfig(score_max=float("nan")), "score_max", "nan"),
        (BoardConfig(score_max=float("inf")), "score_max", "inf"),
        (BoardConfig(score_max=True), "score_max", "True"),
        (BoardConfig(decimals=16), "decimals", "16"),
        (BoardConfig(decimals=6, score_max=10**11), "score_max", "100000000000"),
        (BoardConfig(windows=()), "windows", r"\[\]"),
        (BoardConfig(windows=("daily", "daily")), "windows", "daily"),
        (BoardConfig(windows=("hourly",)), "windows", "hourly"),
        (BoardConfig(time_from_ms=5, time_to_ms=5), "time_from_ms", "5"),
        (BoardConfig(resolution_ms=0), "resolution_ms", "0"),
        (BoardConfig(score_max=2**62), "score_max", "63 bits for scores"),
        (BoardConfig(strategy="latest", tie_break="none"), "tie_break", "latest"),
        (BoardConfig(strategy="sum", subscore=Subscore()), "subscore", "sum"),
        (BoardConfig(subscore=Subscore(min=2, max=1)), "subscore.min", "2"),
        (BoardConfig(title="x" * 201), "title", "201"),
        (BoardConfig(retention_days=0), "retention_days", "0"),
    ],
)
def test_a_board_that_cannot_be_is_refused_quoted_and_not_made(
    link: Link, config: BoardConfig, field: str, quoted: str
) -> None:
    async def scenario(engine: Engine) -> None:
        with pytest.raises(InvalidBoard, match=quoted) as error:
            await engine.boards.create("b", config)
        assert error.value.field == field
        assert await engine.boards.list() == []

    run(link, scenario)


@pytest.mark.parametrize("name", ["", "a b", "é", "x" * 65, "{a}", "..", "a/b", "!schema", None])
def test_a_name_that_cannot_be_is_refused(link: Link, name: str) -> None:
    async def scenario(engine: Engine) -> None:
        with pytest.raises(InvalidBoard, match="1 to 64"):
            await engine.boards.create(name, BoardConfig())

    run(link, scenario)


def test_data_of_a_newer_release_is_refused(link: Link) -> None:
    prefix = fresh_prefix()

    async def scenario(engine: Engine) -> None:
        key = engine.boards._schema.boards
        await engine.link.run(key, [("HSET", key, "!schema", 2)])
        with pytest.raises(SchemaTooNew, match=r"schema 2; this release knows 1"):
            await engine.boards.open()

    run(link, scenario, prefix)
