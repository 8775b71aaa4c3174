"""How much is measured about the service, in a full run and in a fast one."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured. wrk counts in whole seconds; rounds are taken in turns, and their medians count."""

    players: int = 1_000_000
    top_n: int = 10_000
    connections: int = 64
    batch: int = 1_000
    few_connections: int = 8
    rounds: int = 3
    round_s: int = 10
    boards: tuple[int, ...] = (10_000, 100_000, 1_000_000, 3_000_000)
    boards_top_n: int = 1_000
    board_rounds: int = 3
    board_s: int = 12
    scores: int = 1_000_000
    bulk: int = 5_000
    in_flight: int = 8
    write_rounds: int = 3
    rows: int = 1_000_000


FULL = Sizes()
FAST = Sizes(
    players=3_000,
    top_n=100,
    connections=8,
    batch=100,
    few_connections=2,
    rounds=1,
    round_s=1,
    boards=(500, 3_000),
    boards_top_n=50,
    board_rounds=1,
    board_s=1,
    scores=4_000,
    bulk=500,
    write_rounds=1,
    rows=5_000,
)
