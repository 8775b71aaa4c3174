"""Quantiles and bins against counting by hand."""

import asyncio
import random

import pytest

from hybrid import tail
from hybrid.config import BoardConfig
from hybrid.engine import Engine
from hybrid.errors import InvalidField
from hybrid.events import Batch
from hybrid.link import Link
from tests.engines import make_engine

SHARES = [0.0, 0.01, 0.25, 0.5, 0.9, 0.99, 1.0]


async def make_board(link: Link, scores: list[float], **config: object) -> Engine:
    engine = make_engine(link, fresh_s=0.0)
    await engine.boards.open()
    options = {"top_n": 5, "shards": 3, "score_max": 1000, **config}
    board, _ = await engine.boards.create("game", BoardConfig(**options))  # type: ignore[arg-type]
    await engine.record.submit(board, Batch([f"p{number}" for number in range(len(scores))], scores))
    return engine


@pytest.fixture(params=[5, 1024])
def parts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Coarse samples, with intervals, and fine ones, which are exact on small boards."""
    monkeypatch.setattr(tail, "PARTS", request.param)
    return int(request.param)


@pytest.mark.parametrize("direction", ["high", "low"])
@pytest.mark.parametrize("top_n", [5, 500])
def test_a_quantile_is_the_least_score_that_is_proved_to_reach_it(
    link: Link, direction: str, top_n: int, parts: int
) -> None:
    async def run() -> None:
        dice = random.Random(8)
        scores = [float(dice.choice([0, 0, 7, dice.randrange(500)])) for _ in range(150)]
        engine = await make_board(link, scores, direction=direction, top_n=top_n, decimals=1)
        board = await engine.boards.describe("game")
        sign = -1 if direction == "high" else 1
        for answer in await engine.distribution.quantiles(board, SHARES):
            if answer.score is None:
                best = float(board.config.score_max if direction == "high" else board.config.score_min)
                assert sum(sign * best < sign * s for s in scores) < answer.q * len(scores) or parts == 5
                continue
            worse = sum(sign * answer.score < sign * s for s in scores)
            assert worse >= answer.q * len(scores) - 1e-9
            assert answer.low is not None
            assert answer.high is not None
            assert answer.low <= answer.score <= answer.high
            if parts == 1024 or top_n == 500:  # exact: the next worse score is not enough
                next_worse = answer.score + 0.1 * sign
                if board.config.score_min <= next_worse <= board.config.score_max:
                    assert sum(sign * next_worse < sign * s - 1e-6 for s in scores) < answer.q * len(scores)
        await engine.link.close()

    asyncio.run(run())


@pytest.mark.parametrize("scale", ["linear", "log"])
@pytest.mark.parametrize("direction", ["high", "low"])
def test_bins_count_everybody_once_and_contain_the_truth(link: Link, scale: str, direction: str, parts: int) -> None:
    async def run() -> None:
        dice = random.Random(9)
        scores = [float(round(min(dice.lognormvariate(3, 1.5), 1000))) for _ in range(200)]
        engine = await make_board(link, scores, direction=direction)
        board = await engine.boards.describe("game")
        bins = await engine.distribution.bins(board, 12, scale=scale)
        assert sum(row.count for row in bins) == len(scores)
        assert (bins[0].start, bins[-1].end) == (min(scores), max(scores))
        for row in bins:
            is_last = row is bins[-1]
            truth = sum(row.start <= s < row.end or (is_last and s == row.end) for s in scores)
            assert row.low <= truth <= row.high, (row, truth)
            assert row.low <= row.count <= row.high
            if parts == 1024:
                assert row.low == row.high
        await engine.link.close()

    asyncio.run(run())


def test_an_empty_board_has_no_bins_and_no_quantiles(link: Link) -> None:
    async def run() -> None:
        engine = await make_board(link, [])
        board = await engine.boards.describe("game")
        assert await engine.distribution.bins(board) == []
        (median,) = await engine.distribution.quantiles(board, [0.5])
        assert median.score is None
        await engine.link.close()

    asyncio.run(run())


def test_everybody_with_one_score_is_one_bin(link: Link) -> None:
    async def run() -> None:
        engine = await make_board(link, [7.0] * 40)
        board = await engine.boards.describe("game")
        (row,) = await engine.distribution.bins(board)
        assert (row.start, row.end, row.count, row.low, row.high) == (7, 7, 40, 40, 40)
        await engine.link.close()

    asyncio.run(run())


@pytest.mark.parametrize(("share", "shown"), [(1.5, "1.5"), (-0.1, "-0.1"), (float("nan"), "nan"), (True, "True")])
def test_a_share_that_is_none_is_refused_and_quoted(link: Link, share: float, shown: str) -> None:
    async def run() -> None:
        engine = await make_board(link, [1.0])
        board = await engine.boards.describe("game")
        with pytest.raises(InvalidField, match=shown):
            await engine.distribution.quantiles(board, [share])
        with pytest.raises(InvalidField, match="'cubic'"):
            await engine.distribution.bins(board, scale="cubic")
        with pytest.raises(InvalidField, match="0"):
            await engine.distribution.bins(board, 0)
        await engine.link.close()

    asyncio.run(run())
