"""Laws of standings: first of views and samples alone, against sorted lists; then of whole boards, on a real Redis."""

import asyncio
import random
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from hybrid import tail, top
from hybrid.config import Board, BoardConfig
from hybrid.embedded import EmbeddedRedis
from hybrid.engine import Engine
from hybrid.events import Batch
from hybrid.keeper import Keeper, KeeperSettings
from hybrid.link import Link
from hybrid.orderkey import NOTHING, Axis, OrderKey
from hybrid.samples import Samples, heavy_bounds, is_missing, make_samples, parse_samples, score_bounds
from hybrid.standing import Estimate, Exact, Standing, render_top_percent
from hybrid.view import Counts, View, digest_of
from tests.engines import Clock, make_engine
from tests.interleaving import BlockingLink
from tests.oracle import NaiveBoard, NaiveEvent
from tests.standings_oracle import check, check_order, naive_newcomer, naive_standings

Row = tuple[float, bytes]

PLAYERS = [name.encode() for name in ("a", "ab", "b", "~", "é", "日", "\U0001f600", *map(str, range(60)))]


# Samples and views, without Redis.


@dataclass(frozen=True)
class Sampled:
    """The rows of one shard in order, and what a sampler wrote down of them."""

    rows: list[Row]
    samples: Samples


@st.composite
def order_keys(draw: st.DrawFn) -> OrderKey:
    """Codecs with few scores, or with more than doubles can count; with few times, or none."""
    low, high = draw(st.sampled_from([(0, 6), (-3, 40), (0, 2**58), (-(2**57), 2**57)]))
    time = draw(st.sampled_from([NOTHING, Axis(0, 3), Axis(0, 3, True)]))
    return OrderKey(Axis(low, high, draw(st.booleans())), NOTHING, time)


@st.composite
def sampled_shards(draw: st.DrawFn) -> tuple[OrderKey, list[Sampled]]:
    """Shards with mass ties, down to equal keys, sampled at some of their ranks, the first and the last among them."""
    key, shards = draw(order_keys()), []
    names = draw(st.permutations(PLAYERS))
    scores = st.one_of(st.integers(key.score.low, min(key.score.low + 4, key.score.high)), _scores(key))
    for _ in range(draw(st.integers(1, 3))):
        mine, names = names[:20], names[20:]
        points = draw(st.lists(scores, max_size=len(mine)))
        ticks = [draw(st.integers(0, key.time.high)) for _ in points]
        rows = sorted((key.encode(p, t), name) for p, t, name in zip(points, ticks, mine, strict=False))
        ranks = sorted({0, len(rows) - 1, *draw(st.lists(st.integers(0, len(rows) - 1)))}) if rows else []
        counted = draw(st.lists(st.sampled_from(points), max_size=3)) if points else []
        bounds = score_bounds(np.array(counted, np.int64), key).tolist() if counted else []
        shards.append(Sampled(rows, parse_samples(render_samples(rows, ranks, bounds))))
    return key, shards


def _scores(key: OrderKey) -> st.SearchStrategy[int]:
    return st.integers(key.score.low, key.score.high)


def render_samples(rows: Sequence[Row], ranks: Sequence[int], bounds: Sequence[float]) -> bytes:
    """What lua/sample.lua publishes."""
    keys = [rows[rank][0] for rank in ranks]
    gaps = [rank - before for before, rank in zip([0, *ranks], ranks, strict=False)]
    counts = [sum(key < bound for key, _ in rows) for bound in bounds]
    lines = [" ".join(map(repr, column)).encode() for column in (gaps, keys, bounds, counts)]
    return b"\n".join([b"7-1 1000 %d" % len(rows), *lines, b"\n".join(rows[rank][1] for rank in ranks)])


def naive_before(shard: Sampled, x: float) -> tuple[int, int]:
    """How many have a key below x, at least and at most, from what was sampled."""
    samples = shard.samples
    known = zip(samples.ranks.tolist(), samples.keys.tolist(), strict=True)
    counted = zip(samples.bounds.tolist(), samples.counts.tolist(), strict=True)
    lows, highs = [0], [samples.players]
    for rank, key in known:
        (lows if key < x else highs).append(rank + (key < x))
    for bound, count in counted:
        if bound <= x:
            lows.append(count)
        if bound >= x:
            highs.append(count)
    return max(lows), min(highs)


@given(sampled_shards())
def test_a_view_knows_what_all_its_samples_know(made: tuple[OrderKey, list[Sampled]]) -> None:
    key, shards = made
    view = View.of_samples([shard.samples for shard in shards], key)
    rows = sorted(row for shard in shards for row in shard.rows)
    keys = sorted({row[0] for row in rows} | {key.best(key.score.low), key.worst(key.score.high)})
    x = np.unique([near for k in keys for near in (np.nextafter(k, 0), k, np.nextafter(k, np.inf))])
    found = view.before(x)
    assert (view.players, view.seq) == (len(rows), 7 * len(shards))
    for number, at in enumerate(x.tolist()):
        bounds = [naive_before(shard, at) for shard in shards]
        assert (found.low[number], found.high[number]) == (sum(b[0] for b in bounds), sum(b[1] for b in bounds))
        assert found.low[number] <= bisect_left(rows, (at, b"")) <= found.high[number]
    check_counts(found)
    assert [column.tolist() for column in view.up_to(x)] == [c.tolist() for c in view.before(np.nextafter(x, np.inf))]


@given(sampled_shards())
def test_a_place_is_known_to_within_a_gap_of_each_shard_also_among_equal_keys(
    made: tuple[OrderKey, list[Sampled]],
) -> None:
    key, shards = made
    view = View.of_samples([shard.samples for shard in shards], key)
    rows = sorted(row for shard in shards for row in shard.rows)
    places = sorted({(k, name) for k, _ in rows for name in PLAYERS[::9]} | set(rows))
    if not places:
        return
    found = view.ahead(np.array([k for k, _ in places]), [name for _, name in places])
    for number, place in enumerate(places):
        assert found.low[number] <= bisect_left(rows, place) <= found.high[number]
        assert found.high[number] - found.low[number] <= sum(_gap_around(shard, place) for shard in shards), place
    check_climbs((found.low, found.high))


def _gap_around(shard: Sampled, place: Row) -> int:
    """The players between the samples around a place, who may stand on either side of it."""
    ranks, at = shard.samples.ranks.tolist(), bisect_left(shard.rows, place)
    low = max((rank + 1 for rank in ranks if rank < at), default=0)
    return min((rank for rank in ranks if rank >= at), default=len(shard.rows)) - low


@given(sampled_shards())
def test_a_digest_contains_the_truth_on_any_side_of_any_score(made: tuple[OrderKey, list[Sampled]]) -> None:
    key, shards = made
    view = View.of_digest(digest_of([shard.samples for shard in shards], key), key, seq=3, as_of_ms=5)
    rows = sorted(row for shard in shards for row in shard.rows)
    scores = {int(key.decode(k).points) for k, _ in rows} | {key.score.low, key.score.high}
    near = {p + d for p in scores for d in (-1, 0, 1)}
    points = np.array([p for p in near if key.score.low <= p <= key.score.high], np.int64)
    assert (view.players, view.seq, view.as_of_ms) == (len(rows), 3, 5)
    keys, best, worst = np.array([k for k, _ in rows]), np.sort(key.best(points)), np.sort(key.worst(points))
    for found, truth in (
        (view.before(best), np.searchsorted(keys, best, "left")),
        (view.up_to(worst), np.searchsorted(keys, worst, "right")),
    ):
        assert (found.low <= truth).all()
        assert (truth <= found.high).all()
        check_counts(found)


@given(st.lists(st.integers(0, 12), max_size=60), st.booleans())
def test_a_digest_of_whole_samples_says_who_has_the_best_and_the_worst_score(points: list[int], is_high: bool) -> None:
    """Nobody is said to be where nobody can be: beyond the ends there are none, at most and at least."""
    key = OrderKey(Axis(0, 12, is_high))
    keys = np.sort(key.encode(np.array(points, np.int64)))
    view = View.of_digest(
        digest_of([make_samples(keys, [b"p"] * len(keys), last="1-1", as_of_ms=0)], key), key, seq=1, as_of_ms=0
    )
    if not points:
        return
    best, worst = (max(points), min(points)) if is_high else (min(points), max(points))
    assert view.before(key.best(np.array([best]))).high.tolist() == [0]
    assert view.up_to(key.worst(np.array([worst]))).low.tolist() == [len(points)]


def check_counts(found: Counts) -> None:
    """An estimate lies within its interval, and nothing ever falls along the line."""
    assert (found.low <= found.estimate).all()
    assert (found.estimate <= found.high).all()
    check_climbs(found)


def check_climbs(columns: Sequence[NDArray[Any]]) -> None:
    for column in columns:
        assert (np.diff(column) >= 0).all()


@given(sampled_shards())
def test_scores_that_many_share_are_counted_from_then_on(made: tuple[OrderKey, list[Sampled]]) -> None:
    key, shards = made
    for shard in shards:
        before = shard.samples
        bounds = heavy_bounds(before, key)
        again = parse_samples(render_samples(shard.rows, before.ranks.tolist(), bounds.tolist()))
        assert not is_missing(again, key)
        assert again.names == before.names
        assert (again.keys == before.keys).all()
        for bound, count in zip(again.bounds.tolist(), again.counts.tolist(), strict=True):
            assert count == sum(k < bound for k, _ in shard.rows)


@given(st.integers(1, 10**12).flatmap(lambda n: st.tuples(st.integers(1, n), st.just(n))))
def test_top_percent_never_claims_too_much_and_has_two_digits(made: tuple[int, int]) -> None:
    at_least, players = made
    (shown,) = render_top_percent(np.array([at_least]), players).tolist()
    digits = Decimal(repr(shown))
    exact, said = Fraction(100 * at_least, players), Fraction(digits)
    assert said >= exact
    assert shown == 100 or len(digits.normalize().as_tuple().digits) <= 2
    # And not more than it must: one less in the second digit would be too little.
    unit = Fraction(10) ** (digits.adjusted() - 1)
    assert said - unit < exact


# Boards, on a real Redis.


@dataclass
class Case:
    """A board with players, and the oracle's idea of it."""

    engine: Engine
    board: Board
    oracle: NaiveBoard

    async def submit(self, scores: dict[str, int], at_ms: int) -> None:
        await self.engine.record.submit(
            self.board, Batch(list(scores), list(scores.values()), at_ms=[at_ms] * len(scores))
        )
        for name, points in scores.items():
            self.oracle.submit(NaiveEvent(name, points, at_ms), at_ms)

    async def settle(self) -> None:
        keeper = Keeper(self.engine, KeeperSettings(share=1e6))
        await self.engine.standings.of_players(self.board, ["nobody"])
        await keeper.tick()

    async def move_floor(self) -> None:
        """Leaders go, and the top is filled up again after the samples were taken: they count another score exactly."""
        for player in self.oracle.ranking("alltime")[:2]:
            await self.engine.remove_player(self.board, player)
            self.oracle.remove(player)
        await self.settle()
        await self.engine.top.refill(self.board, "alltime")

    async def answers(self, *, ranking: str = "unique", is_exact: bool = False) -> list[Standing]:
        """Everybody's, in order of rank; each one true."""
        truth = naive_standings(self.oracle, "alltime")
        rows = await self.engine.standings.of_players(self.board, list(truth), ranking=ranking, is_exact=is_exact)
        found = [row for row in rows if row is not None]
        for got, standing in zip(found, truth.values(), strict=True):
            check(self.board, got, standing, ranking=ranking)
        return found


async def make_case(link: Link, config: BoardConfig) -> Case:
    engine = make_engine(link, Clock(), fresh_s=0.0)
    await engine.boards.open()
    board, _ = await engine.boards.create("game", config)
    return Case(engine, board, NaiveBoard(board.config))


def random_scores(dice: random.Random, top_n: int) -> dict[str, int]:
    """Scores in small heaps; or a few, then one big block of ties that goes on over the floor, and others below."""
    if dice.random() < 0.4:
        heaps = [dice.randint(0, 30) for _ in range(dice.randint(3, 12))]
        points = [dice.choice([*heaps, dice.randint(0, 30)]) for _ in range(dice.randint(20, 90))]
    else:
        better = dice.randint(0, top_n - 1) if dice.random() < 0.8 else dice.randint(top_n, top_n + 3)
        points = [dice.randint(21, 30) for _ in range(better)] + [20] * dice.randint(top_n + 1, 60)
        points += [dice.choice([19, 19, dice.randint(0, 19)]) for _ in range(dice.randint(0, 40))]
    names = [f"p{number}" for number in range(len(points))]
    dice.shuffle(names)
    return dict(zip(names, points, strict=True))


def random_case(dice: random.Random) -> BoardConfig:
    return BoardConfig(
        top_n=dice.randint(1, 8),
        shards=dice.randint(1, 3),
        direction="high",
        tie_break=dice.choice(["earliest", "latest", "none"]),
        score_max=30,
        resolution_ms=60_000,
    )


async def look_at_ties(redis: EmbeddedRedis, seeds: range) -> int:
    """How many of these boards had a block of ties on both sides of the seam."""
    seams = 0
    async with BlockingLink(redis.url) as link:
        for seed in seeds:
            dice = random.Random(seed)
            parts, slope = dice.choice([(5, 3), (3, 2), (2, 1), (12, 4)])
            spare = dice.randint(0, 3)
            with (
                patch.multiple(tail, PARTS=parts, SLOPE=slope),
                patch.object(top, "sizes", lambda board, spare=spare: (board.config.top_n + spare, 1)),
            ):
                case = await make_case(link, random_case(dice))
                scores = random_scores(dice, case.board.config.top_n)
                for _ in range(dice.randint(1, 3)):  # at several times, so that some ties are equal keys and some not
                    part = {name: scores.pop(name) for name in dice.sample(sorted(scores), len(scores) // 2)}
                    await case.submit(part, Clock().now_ms - dice.choice([0, 60_000, 120_000]))
                await case.submit(scores, Clock().now_ms)
                try:
                    seams += await check_case(case)
                except AssertionError as error:
                    raise AssertionError(f"board {seed}: {error}") from error
                await case.engine.boards.delete("game")
    return seams


async def check_case(case: Case) -> bool:
    """All laws of one board; whether players of one score are on both sides of the seam."""
    for prepare in (None, case.settle, case.move_floor):
        if prepare is not None:
            await prepare()
        answers = await case.answers()
        check_order(answers)
        check_order(await case.answers(is_exact=True))
        check_order(await case.answers(ranking="competition"))
        await check_newcomers(case)
    await check_list(case, answers)
    leaders = {got.score for got in answers if isinstance(got, Exact)}
    return any(isinstance(got, Estimate) and got.score in leaders for got in answers)


async def check_newcomers(case: Case) -> None:
    """A better score never stands worse, whether anybody has it or not; nor does a newcomer's beside a player's."""
    scores = list(range(30, -1, -1))
    rows = list(await case.engine.standings.of_scores(case.board, scores))
    found = [row for row in rows if row is not None]
    assert len(found) == len(scores)
    for points, got in zip(scores, found, strict=True):
        check(case.board, got, naive_newcomer(case.oracle, "alltime", points))
    check_order(found)


async def check_list(case: Case, answers: Sequence[Standing]) -> None:
    """List and player agree on ranks, wherever both have one."""
    page = await case.engine.pages.page(case.board, limit=1000)
    exact = await case.answers(is_exact=True)
    assert [(row.rank, row.place.player.decode()) for row in page.entries] == [
        (got.rank, got.player) for got in exact if isinstance(got, Exact)
    ]
    for entry, got in zip(page.entries, answers, strict=True):
        assert not isinstance(got, Exact) or got.rank == entry.rank
        assert not isinstance(got, Estimate) or got.rank_low <= entry.rank <= got.rank_high


def test_a_block_of_ties_over_the_seam_has_one_percentile_and_no_better_score_stands_worse(
    redis_server: EmbeddedRedis,
) -> None:
    assert asyncio.run(look_at_ties(redis_server, range(50))) >= 30


@pytest.mark.slow
def test_a_block_of_ties_over_the_seam_has_one_percentile_on_a_thousand_boards(redis_server: EmbeddedRedis) -> None:
    assert asyncio.run(look_at_ties(redis_server, range(1000, 2000))) >= 600


@pytest.mark.parametrize("seed", range(4))
def test_the_number_of_shards_never_changes_an_exact_answer(redis_server: EmbeddedRedis, seed: int) -> None:
    async def run() -> None:
        async with BlockingLink(redis_server.url) as link:
            seen = [await answers_of(link, shards) for shards in (1, 3, 8)]
        assert seen[0] == seen[1] == seen[2]
        assert len(seen[0]) > 100

    async def answers_of(link: Link, shards: int) -> list[object]:
        dice = random.Random(seed)
        config = BoardConfig(top_n=dice.randint(3, 20), shards=shards, strategy="latest", score_max=30)
        case = await make_case(link, config)
        names = [f"p{number}" for number in range(80)]
        for _ in range(4):
            await case.submit({name: dice.randint(0, 30) for name in dice.sample(names, 60)}, Clock().now_ms)
            gone = dice.choice(names)
            await case.engine.remove_player(case.board, gone)
            case.oracle.remove(gone)
        seen: list[object] = []
        for ranking in ("unique", "competition"):
            seen += await case.answers(ranking=ranking, is_exact=True)
        await case.settle()
        seen += [got for got in await case.answers() if isinstance(got, Exact)]
        leaders = case.oracle.ranking("alltime")[: config.top_n]
        seen += list(await case.engine.standings.of_players(case.board, leaders, ranking="dense"))
        seen += list(await case.engine.standings.of_scores(case.board, list(range(31)), is_exact=True))
        seen += (await case.engine.pages.page(case.board, limit=1000)).entries
        return [_without_time(answer) for answer in seen]

    asyncio.run(run())


def _without_time(answer: object) -> object:
    """When it was sampled differs from board to board."""
    if isinstance(answer, Exact):
        return (answer.player, answer.score, answer.rank, answer.percentile, answer.top_percent, answer.players)
    return answer
