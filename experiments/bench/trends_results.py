"""What a run finds about trends: plain rows, saved as trends.json (results.py)."""

import json
from dataclasses import dataclass
from pathlib import Path

from experiments.bench.results import Stamp
from experiments.bench.trends_sizes import Sizes


@dataclass(frozen=True, slots=True)
class Round:
    """All events once, by one way.

    They were all acknowledged after `acknowledged_s`, and counted in what everybody reads after `counted_s`. `missing`
    were acknowledged and are not in the total; `refused` requests were sent again. The keeper's memory is that after a
    quarter of the events, and at the end. In process, nobody acknowledges and nobody keeps.
    """

    way: str
    events: int
    acknowledged_s: float
    counted_s: float
    refused: int = 0
    missing: int = 0
    quarter_bytes: int = 0
    end_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Pace:
    """A default trend at a steady pace; meanwhile `aof_bytes` were appended, and somebody asked for the top."""

    events: int
    seconds: float
    missing: int
    aof_bytes: int
    keeper_bytes: int
    worker_bytes: int
    asked: int
    p50_s: float
    p99_s: float


@dataclass(frozen=True, slots=True)
class Hour:
    """One hour of events, and what was said of it at its end.

    `violations` of all `rows` and of the `looked_up` items have a truth outside their bounds; `untrue` of the
    `guaranteed` are not in the true top. `interval` is the median of (high - low) / truth in the top. Questions were
    answered from what a worker has in memory, and again each of them from what it read for it.
    """

    shape: str
    events: int
    missing: int
    seconds: float
    precision: float
    rows: int
    looked_up: int
    violations: int
    interval: float
    guaranteed: int
    untrue: int
    floor: int
    p50_s: float
    p99_s: float
    read_p50_s: float
    read_p99_s: float


@dataclass(frozen=True, slots=True)
class Kills:
    """Requests, each sent until it was acknowledged, while processes were killed.

    `retries` were sent again because nobody knew what became of them, `repeats` although they were acknowledged.
    `lost` and `twice` are sums over items: acknowledged and not counted, counted and not acknowledged.
    """

    keeper_kills: int
    redis_kills: int
    seconds: float
    requests: int
    retries: int
    repeats: int
    events: int
    counted: int
    lost: int
    twice: int


@dataclass(frozen=True, slots=True)
class Fed:
    """A trend that a board feeds, beside what the board's log says: `logged` altogether."""

    count: str
    kills: int
    scores: int
    seconds: float
    logged: int
    counted: int
    rows: int
    violations: int


@dataclass(frozen=True, slots=True)
class Fairness:
    """One actor among many: `intruders` are those of his items that are in the top."""

    actor_cap: int | None
    events: int
    missing: int
    from_one: int
    capped: int
    intruders: int
    precision: float
    violations: int


@dataclass(frozen=True, slots=True)
class Results:
    stamp: Stamp
    server: str
    sizes: Sizes
    seed: int
    rounds: list[Round]
    pace: Pace
    hours: list[Hour]
    kills: Kills
    fed: list[Fed]
    fairness: list[Fairness]


def parse_results(text: str) -> Results:
    raw = json.loads(text)
    return Results(
        stamp=Stamp(**raw["stamp"]),
        server=raw["server"],
        sizes=Sizes(**raw["sizes"]),
        seed=raw["seed"],
        rounds=[Round(**row) for row in raw["rounds"]],
        pace=Pace(**raw["pace"]),
        hours=[Hour(**row) for row in raw["hours"]],
        kills=Kills(**raw["kills"]),
        fed=[Fed(**row) for row in raw["fed"]],
        fairness=[Fairness(**row) for row in raw["fairness"]],
    )


def load_results(path: Path) -> Results:
    return parse_results(path.read_text(encoding="utf-8"))
