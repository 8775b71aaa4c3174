"""The spec of a board that takes given scores: what `PUT /v1/boards/{board}` is sent.

Only what differs from the defaults is in it, and whatever is in it was tried: the planner has laid out the keys.
"""

import json
from decimal import Decimal
from typing import Any

import msgspec

from experiments.study.workloads import Scores
from hybrid.config import MAX_EXACT, BoardConfig, complete
from hybrid.errors import InvalidBoard

HEADROOM = 10  # times what was seen: a board's range is for ever

URL = "http://127.0.0.1:8080"


def make_config(scores: Scores, **options: Any) -> BoardConfig:
    """A board for these scores and others like them, up to ten times as far from zero if that fits."""
    low, high = int(scores.points.min()), int(scores.points.max())
    for room in (HEADROOM, 1):
        ends = (_widen(low, room) if low < 0 else 0, _widen(high, room) if high > 0 else 0)
        if scores.decimals and max(map(abs, ends)) > MAX_EXACT:
            continue
        config = BoardConfig(
            score_min=_score(ends[0], scores.decimals),
            score_max=_score(ends[1], scores.decimals),
            decimals=scores.decimals,
            **options,
        )
        try:
            return complete(config)
        except InvalidBoard:
            continue
    # No room for the time beside such scores: ties are then broken by the player's name.
    return complete(
        BoardConfig(
            score_min=_score(low, scores.decimals),
            score_max=_score(high, scores.decimals),
            decimals=scores.decimals,
            tie_break="none",
            **options,
        )
    )


def render_spec(config: BoardConfig) -> str:
    """The fields that are not what they are by default, as JSON."""
    given = msgspec.to_builtins(config)
    usual = msgspec.to_builtins(BoardConfig())
    spec = {name: value for name, value in given.items() if value != usual[name] and name != "resolution_ms"}
    return json.dumps(spec)


def render_curl(spec: str, board: str = "my-board") -> str:
    return f"curl -X PUT {URL}/v1/boards/{board} -H 'Content-Type: application/json' -d '{spec}'"


def _widen(points: int, room: int) -> int:
    """So many times as much, rounded away from zero to one digit."""
    if room == 1:
        return points
    digits = int(10 ** (len(str(abs(points))) - 1))
    widened = -(-abs(points) * room // digits) * digits
    return widened if points > 0 else -widened


def _score(points: int, decimals: int) -> int | float:
    return float(Decimal(points).scaleb(-decimals)) if decimals else points
