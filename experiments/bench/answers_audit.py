"""The audit: standings as they are served beside exact ones, on boards that went through updates and removals.

An interval is true of the state that it was made from; `seq` numbers it. A change moves a rank by one place at most, so
an exact answer of d changes later may lie d places outside, and no more. At rest d is 0.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from experiments.bench.answers_crowds import Crowd, Writer, make_crowd, writing
from experiments.bench.answers_results import Audit
from experiments.bench.answers_shapes import SHAPES, Shape
from experiments.bench.answers_sizes import Sizes
from experiments.bench.answers_stands import keeping, open_stand
from experiments.bench.batches import name_of
from experiments.bench.flights import fly
from experiments.bench.parts import Job
from experiments.bench.progress import Track
from experiments.bench.timing import now_s, wall_clock_ms
from hybrid.standing import Places, Rows
from sketches.values import Floats, Ints

Bools = NDArray[np.bool_]

_ROUNDING = 1e-9  # of percentiles, in percent
_REMOVERS = 64


async def measure_audits(sizes: Sizes, job: Job, track: Track) -> list[Audit]:
    return [audit for shape in track(SHAPES, "answers: audit") for audit in await _audit_shape(shape, sizes, job)]


async def _audit_shape(shape: Shape, sizes: Sizes, job: Job) -> list[Audit]:
    """At rest, and while scores are written."""
    async with open_stand(job) as stand:
        crowd = await make_crowd(stand, shape, sizes.players, strategy="latest", top_n=sizes.top_n)
        await crowd.fill(sizes.updates, is_spread=True)
        await _remove(crowd, round(sizes.players * sizes.removed_share))
        async with keeping(stand.engine, sizes.keeper):
            await crowd.settle()
            return [await _audit(crowd, sizes, is_written) for is_written in (False, True)]


async def _remove(crowd: Crowd, n: int) -> None:
    names = [name_of(number) for number in crowd.rng.choice(crowd.players, n, replace=False).tolist()]
    await fly(lambda name: crowd.engine.remove_player(crowd.board, name), names, _REMOVERS)


async def _audit(crowd: Crowd, sizes: Sizes, is_written: bool) -> Audit:
    began_s, found = now_s(), []
    async with _maybe_writing(crowd, is_written) as writer:
        if is_written:
            await asyncio.sleep(2 * sizes.keeper_pause_s)
        for _ in range(sizes.audited // sizes.audit_batch):
            found.append(await _compare(crowd, crowd.draw(sizes.audit_batch)))
            if is_written:
                await asyncio.sleep(sizes.audit_pause_s)
        scores, seconds = writer.scores, now_s() - writer.began_s
    return _sum_up(crowd, found, is_written, (scores, seconds if is_written else now_s() - began_s))


@asynccontextmanager
async def _maybe_writing(crowd: Crowd, is_written: bool) -> AsyncIterator[Writer]:
    if not is_written:
        yield Writer(now_s())
        return
    async with writing([crowd]) as writer:
        yield writer


@dataclass(frozen=True, slots=True)
class Compared:
    """Served and exact answers to one question, a row for each player whose record did not change between them."""

    asked: int
    is_leader: Bools
    is_first: Bools
    allowed: Ints
    is_rank_true: Bools
    is_percentile_true: Bools
    percentile_width: Floats
    rank_width: Floats
    error: Floats
    age_s: Floats


async def _compare(crowd: Crowd, players: Sequence[str]) -> Compared:
    served = await crowd.engine.standings.of_players(crowd.board, players)
    now_ms = wall_clock_ms()
    exact = await crowd.engine.standings.of_players(crowd.board, players, is_exact=True)
    return compare(served, exact, now_ms)


def compare(served: Rows, exact: Rows, now_ms: int) -> Compared:
    """How far the served answers, given at `now_ms`, are from the exact ones that were asked for right after."""
    here = np.flatnonzero(served.keys == exact.keys)  # nobody's NaN equals another
    places, truth = _take(served.places, here), _take(exact.places, here)
    players, as_of_ms, seq = (column[here] for column in served.moment)
    exact_players, _, exact_seq = (column[here] for column in exact.moment)
    allowed = exact_seq - seq
    # One change moves a percentile by one player in all others at most, whether it adds, removes or moves somebody.
    others = np.maximum(np.minimum(players, exact_players) - 1 - allowed, 1)
    slack = 100 * allowed / others + _ROUNDING
    top_n = served.board.config.top_n
    return Compared(
        len(served),
        served.is_exact[here],
        truth.rank_low <= top_n,
        allowed,
        (places.rank_low - allowed <= truth.rank_low) & (truth.rank_low <= places.rank_high + allowed),
        (places.percentile_low - slack <= truth.percentile) & (truth.percentile <= places.percentile_high + slack),
        (places.percentile_high - places.percentile_low) / 100,
        (places.rank_high - places.rank_low) / players,
        np.abs(places.percentile - truth.percentile) / 100,
        (now_ms - as_of_ms) / 1000,
    )


def _take(places: Places, rows: Ints) -> Places:
    """These rows."""
    percentile, low, high, rank_low, rank_high, top_percent = places
    return Places(percentile[rows], low[rows], high[rows], rank_low[rows], rank_high[rows], top_percent[rows])


def _sum_up(crowd: Crowd, found: Sequence[Compared], is_written: bool, written: tuple[int, float]) -> Audit:
    def join(column: str) -> NDArray[np.float64]:
        return np.concatenate([getattr(compared, column) for compared in found])

    is_leader, allowed = join("is_leader").astype(bool), join("allowed")
    is_wrong_rank, is_wrong_percentile = ~join("is_rank_true").astype(bool), ~join("is_percentile_true").astype(bool)
    is_misnamed = (is_leader != join("is_first").astype(bool)) & (allowed == 0)
    width, rank_width, error, age_s = (
        join(column)[~is_leader] for column in ("percentile_width", "rank_width", "error", "age_s")
    )
    return Audit(
        shape=crowd.shape.name,
        is_written=is_written,
        players=crowd.players,
        compared=len(is_leader),
        leaders=int(is_leader.sum()),
        moved=sum(compared.asked for compared in found) - len(is_leader),
        rank_violations=int((is_wrong_rank & ~is_leader).sum()),
        percentile_violations=int(is_wrong_percentile.sum()),
        leader_violations=int(((is_wrong_rank & is_leader) | is_misnamed).sum()),
        allowed=int(allowed.max()),
        percentile_width=float(width.max()),
        rank_width=float(rank_width.max()),
        mean_error=float(error.mean()),
        max_error=float(error.max()),
        p50_age_s=float(np.quantile(age_s, 0.5)),
        p99_age_s=float(np.quantile(age_s, 0.99)),
        max_age_s=float(age_s.max()),
        scores=written[0],
        seconds=written[1],
    )
