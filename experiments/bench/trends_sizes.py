"""How much is measured about trends, in a full run and in a fast one."""

from dataclasses import dataclass

CAPACITY, PARTITIONS = 1_024, 8  # of the trends that are judged
K = 100  # places of a top


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured.

    An Arrow body is just below the largest that is taken. `ticks` of the keeper are spread evenly over one hour.
    """

    items: int = 2_000_000
    events: int = 20_000_000
    sketch_batch: int = 65_536
    sketch_rounds: int = 3
    arrow_events: int = 500_000
    arrow_rounds: int = 3
    json_events: int = 50_000
    json_rounds: int = 1
    in_flight: int = 4
    pace: int = 10_000
    paced_s: float = 60.0
    request_events: int = 100
    hour_events: int = 20_000_000
    ticks: int = 3_600
    looked_up: int = 10_000
    questions: int = 2_000
    fair_events: int = 5_000_000
    fair_actors: int = 200_000
    actor_cap: int = 50
    keeper_kills: int = 100
    redis_kills: int = 20
    kill_items: int = 500
    senders: int = 8
    fed_players: int = 20_000
    fed_stars: int = 100
    fed_kills: int = 20


FULL = Sizes()
FAST = Sizes(
    items=50_000,
    events=40_000,
    sketch_batch=10_000,
    sketch_rounds=1,
    arrow_events=20_000,
    arrow_rounds=1,
    json_events=10_000,
    pace=1_000,
    paced_s=1.0,
    hour_events=12_000,
    ticks=30,
    looked_up=50,
    questions=50,
    fair_events=12_000,
    fair_actors=20_000,
    actor_cap=2,
    keeper_kills=2,
    redis_kills=1,
    senders=2,
    fed_players=2_000,
    fed_kills=2,
)
