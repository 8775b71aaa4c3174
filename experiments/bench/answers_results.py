"""What a run finds about answers: plain rows, saved as answers.json (results.py).

Widths, errors and shares are shares of one. `python_s`, `keeper_s` and `redis_s` are processor seconds of this process,
of a keeper in a process of its own, and of the whole redis-server. `scores` were written meanwhile, in `seconds`.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from experiments.bench.answers_sizes import Sizes
from experiments.bench.results import Stamp


@dataclass(frozen=True, slots=True)
class Audit:
    """Standings as they are served, compared with exact ones asked for right after.

    `moved` had a new score, or none, by then and are not compared. `rank_violations`, `percentile_violations`: the
    truth was outside, though allowed to move by as many places as there were changes meanwhile, `allowed` at most.
    `leader_violations`: a leader's rank was wrong, or the wrong ones were called leaders. Widths and errors are those
    of the tail, ages from its samples to the answer.
    """

    shape: str
    is_written: bool
    players: int
    compared: int
    leaders: int
    moved: int
    rank_violations: int
    percentile_violations: int
    leader_violations: int
    allowed: int
    percentile_width: float
    rank_width: float
    mean_error: float
    max_error: float
    p50_age_s: float
    p99_age_s: float
    max_age_s: float
    scores: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Refresh:
    """Sampling one shard, the median of all calls; `published_bytes` a shard, `view_s` to make the view of all."""

    players: int
    calls: int
    median_s: float
    redis_s: float
    published_bytes: float
    view_s: float


@dataclass(frozen=True, slots=True)
class Load:
    """Boards that are written and asked for a while, with a keeper or without, beside idle ones."""

    name: str
    busy: int
    idle: int
    windows: int
    scores: int
    seconds: float
    redis_s: float
    keeper_s: float
    p50_age_s: float
    p99_age_s: float


@dataclass(frozen=True, slots=True)
class Idle:
    """What one board takes of used_memory that nobody asks for, and what one round over `boards` boards takes."""

    boards: int
    empty_bytes: float
    players: int
    filled_bytes: float
    round_s: float
    round_python_s: float
    round_redis_s: float


@dataclass(frozen=True, slots=True)
class Lookups:
    """Players looked up by so many callers at once, `batch` of them in a call; `missing` had no answer."""

    contestant: str
    is_written: bool
    callers: int
    batch: int
    calls: int
    seconds: float
    python_s: float
    redis_s: float
    p50_s: float
    p99_s: float
    missing: int
    scores: int


@dataclass(frozen=True, slots=True)
class Walk:
    """All rows once, page by page; of the players who did not move, some may be skipped or repeated."""

    pages: int
    rows: int
    seconds: float
    unmoved: int
    skipped: int
    repeated: int
    scores: int


@dataclass(frozen=True, slots=True)
class Export:
    """All rows as a stream; `missing` players are not in it, `peak_bytes` were allocated by Python at most."""

    rows: int
    seconds: float
    missing: int
    peak_bytes: int


@dataclass(frozen=True, slots=True)
class Latency:
    """One caller, one question after the other."""

    what: str
    calls: int
    p50_s: float
    p99_s: float


@dataclass(frozen=True, slots=True)
class Results:
    stamp: Stamp
    server: str
    sizes: Sizes
    seed: int
    audits: list[Audit]
    refreshes: list[Refresh]
    loads: list[Load]
    idle: Idle
    lookups: list[Lookups]
    walk: Walk
    export: Export
    latencies: list[Latency]


def parse_results(text: str) -> Results:
    raw = json.loads(text)
    return Results(
        stamp=Stamp(**raw["stamp"]),
        server=raw["server"],
        sizes=Sizes(**raw["sizes"] | {"boards": tuple(raw["sizes"]["boards"])}),
        seed=raw["seed"],
        audits=[Audit(**row) for row in raw["audits"]],
        refreshes=[Refresh(**row) for row in raw["refreshes"]],
        loads=[Load(**row) for row in raw["loads"]],
        idle=Idle(**raw["idle"]),
        lookups=[Lookups(**row) for row in raw["lookups"]],
        walk=Walk(**raw["walk"]),
        export=Export(**raw["export"]),
        latencies=[Latency(**row) for row in raw["latencies"]],
    )


def load_results(path: Path) -> Results:
    return parse_results(path.read_text(encoding="utf-8"))
