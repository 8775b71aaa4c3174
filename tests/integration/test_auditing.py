"""Audits of live boards: they find nothing where nothing is wrong, and what is wrong where it is."""

import asyncio
import random
from typing import Any

from hybrid import view
from hybrid.config import BoardConfig
from hybrid.embedded import EmbeddedRedis
from hybrid.engine import make_link
from hybrid.events import Batch
from hybrid.keeper import Keeper, KeeperSettings
from hybrid.standing import Exact
from service.auditing import audit_board, is_true, measure_boards
from service.metrics import Metrics
from tests.engines import make_engine


def test_an_audit_finds_nothing_on_a_sound_board_and_notes_its_size(redis_server: EmbeddedRedis) -> None:
    async def run() -> None:
        async with make_engine(make_link(redis_server.url), fresh_s=0.0) as engine:
            board, _ = await engine.boards.create("game", BoardConfig(top_n=5, shards=3))
            await engine.record.submit(board, Batch([f"p{n}" for n in range(200)], list(range(200))))
            await engine.standings.of_player(board, "p1")
            keeper, metrics = Keeper(engine, KeeperSettings(share=1e6)), Metrics()
            await keeper.tick()
            await measure_boards(engine, await keeper.wanted(), metrics)
            shown = metrics.render().decode()
            assert "toptail_audit_violations_total 0.0" in shown
            assert 'toptail_board_players{board="game"} 200.0' in shown
            assert "toptail_audited_standings_total" in shown

    asyncio.run(run())


def test_an_audit_sees_answers_that_are_not_true(redis_server: EmbeddedRedis, monkeypatch: Any) -> None:
    async def run() -> None:
        async with make_engine(make_link(redis_server.url), fresh_s=0.0) as engine:
            board, _ = await engine.boards.create("game", BoardConfig(top_n=5, shards=3))
            await engine.record.submit(board, Batch([f"p{n}" for n in range(200)], list(range(200))))
            await engine.standings.of_player(board, "p1")
            await Keeper(engine, KeeperSettings(share=1e6)).tick()
            ahead = view.View.ahead
            shifted = lambda *args: view.Bounds(*(column + 9 for column in ahead(*args)))  # noqa: E731
            monkeypatch.setattr(view.View, "ahead", shifted)
            found = await audit_board(engine, board, "alltime", dice=random.Random(1), players=50)
            assert found.violations > 0

    asyncio.run(run())


def test_events_in_between_are_allowed_for() -> None:
    answer = Exact("ann", 5, None, None, "alltime", 7, 50.0, 51.0, 100, 0, 1000)
    for rank, seq, is_so in ((7, 1000, True), (8, 1000, False), (8, 1001, True), (9, 1001, False)):
        truth = Exact("ann", 5, None, None, "alltime", rank, 50.0, 51.0, 100, 0, seq)
        assert is_true(answer, truth) == is_so


def test_a_silent_engine_leaves_no_trace_of_what_it_asks(redis_server: EmbeddedRedis) -> None:
    async def run() -> None:
        link = make_link(redis_server.url)
        async with make_engine(link, fresh_s=0.0, is_silent=True) as engine:
            board, _ = await engine.boards.create("game", BoardConfig(top_n=5, shards=3))
            await engine.record.submit(board, Batch(["ann"], [1]))
            assert await engine.standings.of_player(board, "ann") is not None
            assert await Keeper(engine).wanted() == []

    asyncio.run(run())
