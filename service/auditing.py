"""Audits of live boards, for the metrics: players drawn at random, what is served of them against what is counted.

A few players of a few boards, of those that are being asked for, now and then: it costs next to nothing, and a number
other than 0 violations is a defect. `toptail verify` does the same from outside, thoroughly.
"""

import random
from dataclasses import dataclass

from hybrid.config import Board
from hybrid.engine import Engine
from hybrid.reading import ask_all
from hybrid.standing import Exact, Standing
from service.metrics import Metrics

PLAYERS = 20
BOARDS = 5

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Audit:
    """What an audit of one board found."""

    compared: int
    violations: int
    error: float


async def audit_board(engine: Engine, board: Board, window: str, *, dice: random.Random, players: int) -> Audit:
    """Compare what is served of random players with what is counted."""
    names = await _draw(engine, board, window, dice, players)
    served = list(await engine.standings.of_players(board, names, window=window))
    exact = list(await engine.standings.of_players(board, names, window=window, is_exact=True))
    pairs = [
        (answer, truth)
        for answer, truth in zip(served, exact, strict=True)
        if answer is not None
        and isinstance(truth, Exact)
        and answer.score == truth.score
        and answer.at_ms == truth.at_ms
    ]
    errors = [abs(answer.percentile - truth.percentile) for answer, truth in pairs]
    return Audit(len(pairs), sum(not is_true(answer, truth) for answer, truth in pairs), max(errors, default=0.0))


def _is_same_record(answer: Standing, truth: Exact) -> bool:
    """Else the player's own score changed in between, and his place is another."""
    return (answer.score, answer.at_ms) == (truth.score, truth.at_ms)


def is_true(answer: Standing, truth: Exact) -> bool:
    """Whether an answer holds, given the events that came between the two."""
    allowed = abs(truth.seq - answer.seq)
    slack = _ROUNDING + 200 * allowed / max(truth.players, 1)
    if isinstance(answer, Exact):
        return abs(answer.rank - truth.rank) <= allowed and abs(answer.percentile - truth.percentile) <= slack
    return (
        answer.rank_low - allowed <= truth.rank <= answer.rank_high + allowed
        and answer.percentile_low - slack <= truth.percentile <= answer.percentile_high + slack
    )


async def measure_boards(engine: Engine, asked: list[tuple[Board, list[str]]], metrics: Metrics) -> None:
    """Audit some of the boards that are being asked for, and note how large they are."""
    dice = random.Random(engine.random.getrandbits(64))  # noqa: S311  which players are looked at is no secret
    for name in ("toptail_audited_error_percent", "toptail_board_players", "toptail_shard_players"):
        metrics.clear(name)
    for board, windows in dice.sample(asked, min(BOARDS, len(asked))):
        window = dice.choice(windows)
        found = await audit_board(engine, board, window, dice=dice, players=PLAYERS)
        metrics.add("toptail_audited_standings", by=found.compared)
        metrics.add("toptail_audit_violations", by=found.violations)
        metrics.set("toptail_audited_error_percent", found.error, board.name)
        sizes = await _sizes(engine, board, window)
        metrics.set("toptail_board_players", sum(sizes), board.name)
        metrics.set("toptail_shard_players", max(sizes), board.name)


async def _draw(engine: Engine, board: Board, window: str, dice: random.Random, players: int) -> list[str]:
    """Players at random places: rows of random shards at random ranks."""
    keys = [engine.schema.shard(tag).record(window) for tag in board.tags]
    sizes = await _sizes(engine, board, window)
    if not sum(sizes):
        return []
    shards = dice.choices(range(len(keys)), sizes, k=players)
    places = [(keys[shard], dice.randrange(sizes[shard])) for shard in shards]
    rows = await ask_all(engine.link, [(key, ("ZRANGE", key, place, place)) for key, place in places])
    return sorted({row[0].decode() for row in rows if row})


async def _sizes(engine: Engine, board: Board, window: str) -> list[int]:
    keys = [engine.schema.shard(tag).record(window) for tag in board.tags]
    return await ask_all(engine.link, [(key, ("ZCARD", key)) for key in keys])
