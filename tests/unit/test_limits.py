"""Rate limits on a real Redis: what is taken, who waits how long, and that a refusal takes nothing."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from hybrid.config import Board, BoardConfig
from hybrid.embedded import EmbeddedRedis
from hybrid.engine import Engine, make_link
from hybrid.errors import OutcomeUnknown, RedisUnavailable
from hybrid.link import Link
from service.errors import ApiError, render_error
from service.limits import Limits, Rate, make_limits
from service.settings import make_settings
from tests.engines import LossyLink, make_engine

Test = Callable[[Engine, Board], Awaitable[None]]


def on_a_board(redis: EmbeddedRedis, test: Test, wrap: Callable[[Link], Link] = lambda link: link) -> None:
    async def run() -> None:
        async with make_engine(wrap(make_link(redis.url))) as engine:
            board, _ = await engine.boards.create("game", BoardConfig(shards=4))
            await test(engine, board)

    asyncio.run(run())


def limit_players(engine: Engine, per_s: float) -> Limits:
    return Limits(engine, per_key=None, per_player=Rate(per_s))


async def refusal(taking: Awaitable[None]) -> ApiError:
    with pytest.raises(ApiError) as caught:
        await taking
    return caught.value


def test_a_seconds_worth_may_come_at_once_and_then_one_waits(redis_server: EmbeddedRedis) -> None:
    async def test(engine: Engine, _board: Board) -> None:
        limits = Limits(engine, per_key=Rate(0.5), per_player=None)
        await limits.take_request("key-a")
        error = await refusal(limits.take_request("key-a"))
        assert error.code == "rate_limited"
        status, _, headers = render_error(error, "id")
        assert (status, headers["Retry-After"]) == (429, "2")
        await limits.take_request("key-b")

    on_a_board(redis_server, test)


def test_all_of_a_burst_is_taken_and_no_more(redis_server: EmbeddedRedis) -> None:
    async def test(engine: Engine, board: Board) -> None:
        limits, taken, began_s = limit_players(engine, 50), 0, time.monotonic()
        while time.monotonic() - began_s < 0.5:
            try:
                await limits.take_scores(board, ["ann"])
                taken += 1
            except ApiError:
                pass
        assert 50 <= taken <= 50 + 50 * (time.monotonic() - began_s) + 1

    on_a_board(redis_server, test)


def test_who_waits_as_long_as_told_is_let_in(redis_server: EmbeddedRedis) -> None:
    async def test(engine: Engine, board: Board) -> None:
        limits = limit_players(engine, 20)
        await limits.take_scores(board, ["ann"] * 20)
        began_s = time.monotonic()
        told = str(await refusal(limits.take_scores(board, ["ann"] * 4)))
        wait_s = float(told.rpartition("try again in ")[2].removesuffix(" s"))
        assert 0.1 < wait_s <= 0.2
        while True:
            asked_s = time.monotonic()
            try:
                await limits.take_scores(board, ["ann"] * 4)
                break
            except ApiError:
                assert asked_s - began_s < wait_s + 0.002  # what is told is rounded to milliseconds
        assert time.monotonic() - began_s >= wait_s - 0.002

    on_a_board(redis_server, test)


def test_players_are_counted_each_for_himself_in_one_call_a_shard(redis_server: EmbeddedRedis) -> None:
    links: list[CountingLink] = []

    def counting(link: Link) -> Link:
        links.append(CountingLink(link))
        return links[-1]

    async def test(engine: Engine, board: Board) -> None:
        limits = limit_players(engine, 1)
        players = [f"p{number}" for number in range(2000)]
        await limits.take_scores(board, players[:1])  # the script is known from now on, on this server
        before = links[0].calls
        await limits.take_scores(board, players[1:])
        assert links[0].calls - before == len(board.tags)
        error = await refusal(limits.take_scores(board, ["new", "p7"]))
        assert "player 'p7' may get 1 scores a second" in str(error)

    on_a_board(redis_server, test, counting)


def test_a_refused_batch_takes_nothing_in_its_shard(redis_server: EmbeddedRedis) -> None:
    async def test(engine: Engine, board: Board) -> None:
        limits = limit_players(engine, 0.001)
        shard = board.shard_hash.of(b"ann")
        mates = [name for name in map(str, range(100)) if board.shard_hash.of(name.encode()) == shard]
        await limits.take_scores(board, ["ann"])
        await refusal(limits.take_scores(board, [*mates, "ann"]))
        await limits.take_scores(board, mates)

    on_a_board(redis_server, test)


def test_more_at_once_than_can_ever_be_taken_is_too_large(redis_server: EmbeddedRedis) -> None:
    async def test(engine: Engine, board: Board) -> None:
        error = await refusal(limit_players(engine, 3).take_scores(board, ["ann"] * 4))
        assert error.code == "too_large"
        assert "at most 3 scores of one player, not 4 of 'ann'" in str(error)

    on_a_board(redis_server, test)


def test_whoever_is_paid_off_is_forgotten(redis_server: EmbeddedRedis) -> None:
    async def test(engine: Engine, board: Board) -> None:
        limits = limit_players(engine, 1000)
        for number in range(100):
            await limits.take_scores(board, [f"p{number}"])
        for tag in board.tags:
            key = f"{engine.schema.shard(tag).stem}:rate"
            kept, lives_ms = await engine.link.run(key, [("ZCARD", key), ("PTTL", key)])
            assert kept < 20
            assert lives_ms <= 2100

    on_a_board(redis_server, test)


def test_a_limit_that_cannot_be_checked_refuses(redis_server: EmbeddedRedis) -> None:
    links: list[LossyLink] = []

    def lossy(link: Link) -> Link:
        links.append(LossyLink(link))
        return links[-1]

    async def test(engine: Engine, board: Board) -> None:
        limits = limit_players(engine, 1)
        for loss in ("unavailable", "lost", "applied"):
            links[0].losses.append(loss)
            with pytest.raises(RedisUnavailable) as caught:
                await limits.take_scores(board, [loss])
            assert not isinstance(caught.value, OutcomeUnknown)

    on_a_board(redis_server, test, lossy)


def test_there_are_no_limits_unless_they_are_set(redis_server: EmbeddedRedis) -> None:
    async def test(engine: Engine, board: Board) -> None:
        assert make_limits(engine, make_settings({})) is None
        limits = make_limits(engine, make_settings({"rate_per_key": 1.0}))
        assert limits is not None
        await limits.take_scores(board, ["ann"] * 10)

    on_a_board(redis_server, test)


class CountingLink:
    """Counts what goes over it."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self.calls = 0

    async def run(self, key: str, commands: Any, **options: Any) -> list[Any]:
        self.calls += 1
        return await self._link.run(key, commands, **options)

    async def close(self) -> None:
        await self._link.close()
