"""Standings, quantiles, bins and pages against counting by hand, on a server, on a cluster and on fakeredis."""

import asyncio
import itertools
import random
from dataclasses import dataclass, field

import pytest

from hybrid import tail
from hybrid.config import Board, BoardConfig
from hybrid.engine import Engine
from hybrid.errors import InvalidField, RankingUnavailable
from hybrid.events import Batch
from hybrid.keeper import Keeper, KeeperSettings
from hybrid.link import Link
from hybrid.standing import Estimate, Exact, Standing
from tests.engines import Clock, make_engine
from tests.oracle import NaiveBoard, NaiveEvent
from tests.standings_oracle import check, naive_newcomer, naive_standings

ALL_BUDGET = KeeperSettings(share=1e6)


@pytest.fixture(autouse=True)
def coarse_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gaps of a fifth of a shard: small boards then have wide intervals, like big ones."""
    monkeypatch.setattr(tail, "PARTS", 5)
    monkeypatch.setattr(tail, "SLOPE", 3)


@dataclass
class Case:
    """A board with players, and the oracle's idea of it."""

    engine: Engine
    board: Board
    oracle: NaiveBoard
    keeper: Keeper
    clock: Clock
    dice: random.Random = field(default_factory=lambda: random.Random(5))

    async def add(self, players: int, scores: int, *, prefix: str = "p") -> None:
        names = [f"{prefix}{number}" for number in range(players)]
        points = [self.dice.randrange(scores) for _ in names]
        await self.submit(names, points)

    async def submit(self, names: list[str], points: list[int]) -> None:
        ids = [f"e{self.dice.getrandbits(60)}" for _ in names]
        await self.engine.record.submit(self.board, Batch(names, points, ids=ids))
        for name, score in zip(names, points, strict=True):
            self.oracle.submit(NaiveEvent(name, score, self.clock.now_ms), self.clock.now_ms)

    async def settle(self) -> None:
        """What was asked for is sampled, and looked at again."""
        await self.ask(["nobody"])
        await self.keeper.tick()

    async def ask(self, names: list[str], **options: object) -> dict[str, Standing | None]:
        rows = await self.engine.standings.of_players(self.board, names, **options)  # type: ignore[arg-type]
        return dict(zip(names, rows, strict=True))

    async def check_all(self, *, ranking: str = "unique", is_exact: bool = False) -> list[Standing]:
        """Every player's answer is true; returns them in order of rank."""
        truth = naive_standings(self.oracle, "alltime")
        got = await self.ask(list(truth), ranking=ranking, is_exact=is_exact)
        answers = []
        for name, standing in got.items():
            assert standing is not None, name
            assert standing.player == name
            check(self.board, standing, truth[name], ranking=ranking)
            answers.append(standing)
        return answers


async def make_case(link: Link, **config: object) -> Case:
    clock = Clock()
    engine = make_engine(link, clock, fresh_s=0.0)
    await engine.boards.open()
    options = {"top_n": 5, "shards": 3, "score_max": 1000, **config}
    board, _ = await engine.boards.create("game", BoardConfig(**options))  # type: ignore[arg-type]
    return Case(engine, board, NaiveBoard(board.config), Keeper(engine, ALL_BUDGET), clock)


def test_a_small_board_is_exact_for_everybody(link: Link) -> None:
    async def run() -> None:
        case = await make_case(link, top_n=50)
        await case.add(40, 12)
        for ranking in ("unique", "competition", "dense"):
            answers = await case.check_all(ranking=ranking)
            assert all(isinstance(answer, Exact) for answer in answers)
        await case.engine.link.close()

    asyncio.run(run())


def test_a_lone_player_has_percentile_100_and_nobody_else_has_a_standing(link: Link) -> None:
    async def run() -> None:
        case = await make_case(link)
        assert await case.engine.standings.of_player(case.board, "ann") is None
        await case.submit(["ann"], [7])
        ann = await case.engine.standings.of_player(case.board, "ann")
        assert isinstance(ann, Exact)
        assert (ann.rank, ann.percentile, ann.top_percent, ann.players, ann.score) == (1, 100.0, 100.0, 1, 7)
        assert ann.at_ms == case.clock.now_ms // 1000 * 1000
        assert await case.engine.standings.of_player(case.board, "bob") is None
        await case.engine.link.close()

    asyncio.run(run())


@pytest.mark.parametrize("scores", [1, 4, 30, 1000])
def test_leaders_are_exact_and_the_tail_is_within_its_interval(link: Link, scores: int) -> None:
    async def run() -> None:
        case = await make_case(link)
        await case.add(150, scores)
        await case.check_all()  # nothing is sampled yet: counted
        await case.settle()
        for ranking in ("unique", "competition"):
            answers = await case.check_all(ranking=ranking)
            assert sum(isinstance(answer, Exact) for answer in answers) == 5
        tail_answers = [answer for answer in await case.check_all() if isinstance(answer, Estimate)]
        if scores > 1:
            assert any(answer.rank_low < answer.rank_high for answer in tail_answers)
        exact = await case.check_all(is_exact=True)
        assert all(isinstance(answer, Exact) for answer in exact)
        await case.engine.link.close()

    asyncio.run(run())


def test_a_better_score_never_stands_worse_also_over_the_seam(link: Link) -> None:
    async def run() -> None:
        case = await make_case(link)
        await case.add(200, 25)
        await case.settle()
        answers = await case.check_all()
        for better, worse in itertools.pairwise(answers):
            assert better.percentile >= worse.percentile
            if better.score == worse.score:
                assert better.percentile == worse.percentile, (better, worse)
            assert better.top_percent <= worse.top_percent
        await case.engine.link.close()

    asyncio.run(run())


def test_dense_ranks_are_for_leaders_only(link: Link) -> None:
    async def run() -> None:
        case = await make_case(link)
        await case.add(100, 40)
        await case.settle()
        order = case.oracle.ranking("alltime")
        truth = naive_standings(case.oracle, "alltime")
        leaders = await case.ask(order[:5], ranking="dense")
        for name, standing in leaders.items():
            assert isinstance(standing, Exact)
            assert standing.rank == truth[name].dense
        with pytest.raises(RankingUnavailable):
            await case.ask([order[50]], ranking="dense")
        with pytest.raises(InvalidField, match="'olympic'"):
            await case.ask([order[0]], ranking="olympic")
        await case.engine.link.close()

    asyncio.run(run())


def test_alone_and_among_others_a_player_gets_the_same_answer(link: Link) -> None:
    async def run() -> None:
        case = await make_case(link)
        await case.add(120, 15)
        await case.settle()
        names = [*case.oracle.ranking("alltime"), "nobody"]
        many = list((await case.ask(names)).values())
        together = await asyncio.gather(*(case.engine.standings.of_player(case.board, name) for name in names))
        alone = [await case.engine.standings.of_player(case.board, name) for name in names[::10]]
        assert list(together) == many
        assert alone == many[::10]
        await case.engine.link.close()

    asyncio.run(run())


@pytest.mark.parametrize("direction", ["high", "low"])
def test_a_newcomer_stands_last_among_equals(link: Link, direction: str) -> None:
    async def run() -> None:
        case = await make_case(link, direction=direction)
        scores = list(range(31))
        await case.add(3, 30)
        await check_newcomers(case, scores)
        await case.add(150, 30)
        await check_newcomers(case, scores)
        await case.settle()
        await check_newcomers(case, scores)
        await case.engine.link.close()

    async def check_newcomers(case: Case, scores: list[int]) -> None:
        for ranking in ("unique", "competition"):
            for is_exact in (False, True):
                rows = await case.engine.standings.of_scores(case.board, scores, ranking=ranking, is_exact=is_exact)
                for points, standing in zip(scores, rows, strict=True):
                    assert standing is not None
                    assert (standing.score, standing.at_ms, standing.player) == (points, None, None)
                    check(case.board, standing, naive_newcomer(case.oracle, "alltime", points), ranking=ranking)

    asyncio.run(run())


def test_standings_follow_writes_removals_and_refills(link: Link) -> None:
    async def run() -> None:
        case = await make_case(link, strategy="latest", top_n=8)
        await case.add(120, 40)
        await case.settle()
        for turn in range(12):
            case.clock.now_ms += 1000
            leaders = case.oracle.ranking("alltime")[:4]
            await case.submit(leaders, [case.dice.randrange(5) for _ in leaders])  # leaders fall
            gone = case.dice.choice(case.oracle.ranking("alltime"))
            assert await case.engine.remove_player(case.board, gone)
            case.oracle.remove(gone)
            if turn % 3 == 2:
                await case.settle()
                await case.check_all()
        await case.settle()
        await case.check_all()
        await case.engine.link.close()

    asyncio.run(run())
