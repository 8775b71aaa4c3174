"""The vectorised rules against the oracle's, one event at a time: any strategy, windows, repeats and tokens."""

import random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hybrid.config import Board, BoardConfig, complete
from hybrid.keys import make_tags
from hybrid.rules import Changes, apply, rounds
from tests.engines import NOON_MS
from tests.oracle import NaiveBoard, NaiveEvent
from tests.property.test_record_machine import random_config


def make_board(config: BoardConfig) -> Board:
    return Board(name="b", id="x", tags=make_tags("x", 1), secret=bytes(16), created_ms=0, config=complete(config))


@given(st.integers(0, 2**32), st.integers(1, 40), st.integers(1, 4))
def test_events_take_effect_one_after_the_other(seed: int, events: int, players: int) -> None:
    dice = random.Random(seed)
    board = make_board(random_config(dice))
    oracle = NaiveBoard(board.config)
    low, high = int(board.config.score_min), min(int(board.config.score_max), 30)
    kinds = board.config.windows
    fed = [
        NaiveEvent(
            f"p{dice.randrange(players)}",
            dice.randint(low, high),
            NOON_MS - dice.randrange(120_000),
            str(dice.randrange(30)),
        )
        for _ in range(events)
    ]
    points = np.array([e.points for e in fed])
    ticks = np.array([board.tick_of(e.at_ms) for e in fed])
    numbers: dict[tuple[str, str | None], int] = {}
    tokens = np.array([numbers.setdefault((e.player, e.id), len(numbers)) for e in fed])
    slots = np.array([int(e.player[1:]) for e in fed])
    is_in = np.ones((len(kinds), events), bool)
    zeros = np.zeros(events, np.int64) if board.config.subscore else 0
    keys = board.key.encode(points, ticks, zeros)
    if board.config.strategy == "best":  # whose duplicates are dropped before: the script alone compares
        first = np.unique(tokens, return_index=True)[1]
        is_first = np.isin(np.arange(events), first)
        fed = [event for event, keep in zip(fed, is_first, strict=True) if keep]
        slots, keys, points, ticks, tokens, is_in = (
            slots[is_first], keys[is_first], points[is_first], ticks[is_first], tokens[is_first], is_in[:, is_first],
        )  # fmt: skip
    effect = apply(board, np.full((len(kinds), players), np.nan), Changes(slots, keys, points, ticks, tokens, is_in))
    for at, event in enumerate(fed):
        status, now, before, _ = oracle.submit(event, NOON_MS)
        assert effect.is_refused[at] == (status == "REFUSED")
        assert effect.is_duplicate[at] == (status == "DUPLICATE")
        after = effect.after[0, at]
        assert (None if np.isnan(after) else board.key.decode(float(after)).points) == now
        was = effect.before[0, at]
        assert (None if np.isnan(was) else board.key.decode(float(was)).points) == before


@given(st.lists(st.integers(0, 6), max_size=40))
def test_rounds_keep_each_players_order_and_repeat_nobody(slots: list[int]) -> None:
    dealt = [turn.tolist() for turn in rounds(np.array(slots, np.int64))]
    assert sorted(event for turn in dealt for event in turn) == list(range(len(slots)))
    for turn in dealt:
        assert len({slots[event] for event in turn}) == len(turn)
    for player in set(slots):
        order = [event for turn in dealt for event in turn if slots[event] == player]
        assert order == sorted(order)
