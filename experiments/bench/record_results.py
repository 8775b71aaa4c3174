"""What a run finds about the record: plain rows, saved as record.json (results.py).

`python_s` and `redis_s` are processor seconds of this process and of the whole redis-server, its fsync thread included.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from experiments.bench.results import Stamp

SHARDS = 8


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    players: int = 100_000
    scores: int = 400_000
    batch: int = 1_000
    in_flight: int = 32
    few_in_flight: int = 8
    repeats: int = 7
    callers: int = 64
    single_submits: int = 40_000
    lone_submits: int = 4_000
    submit_repeats: int = 5
    stored_players: int = 200_000
    stored_singly: int = 28_000
    few_players: int = 800


FULL = Sizes()
FAST = Sizes(
    players=500,
    scores=2_000,
    batch=100,
    in_flight=8,
    few_in_flight=2,
    repeats=1,
    callers=16,
    single_submits=160,
    lone_submits=20,
    submit_repeats=1,
    stored_players=2_000,
    stored_singly=100,
    few_players=80,
)


@dataclass(frozen=True, slots=True)
class WriteSpeed:
    """All scores once through one contestant, in batches; `missing` were not acknowledged, or are not stored."""

    contestant: str
    in_flight: int
    scores: int
    seconds: float
    python_s: float
    redis_s: float
    missing: int


@dataclass(frozen=True, slots=True)
class SubmitSpeed:
    """Submits of `batch` scores each, from so many callers; written in so many groups, by so many scripts."""

    fsync: str
    callers: int
    batch: int
    submits: int
    seconds: float
    python_s: float
    p50_s: float
    p99_s: float
    groups: int
    scripts: int
    missing: int


@dataclass(frozen=True, slots=True)
class KeyBytes:
    """The keys of one kind after `events` events of as many players, one each, written in so many groups.

    `usage_bytes` is what MEMORY USAGE says of them, `freed_bytes` by how much used_memory falls when they are deleted.
    """

    fill: str
    kind: str
    events: int
    groups: int
    keys: int
    usage_bytes: int
    freed_bytes: int


@dataclass(frozen=True, slots=True)
class Results:
    """`log_bytes` are those of a log entry per event, `fsync_s` the median of small appends to the same disk."""

    stamp: Stamp
    server: str
    sizes: Sizes
    seed: int
    log_bytes: float
    fsync_s: float
    writes: list[WriteSpeed]
    submits: list[SubmitSpeed]
    memory: list[KeyBytes]


def parse_results(text: str) -> Results:
    raw = json.loads(text)
    return Results(
        stamp=Stamp(**raw["stamp"]),
        server=raw["server"],
        sizes=Sizes(**raw["sizes"]),
        seed=raw["seed"],
        log_bytes=raw["log_bytes"],
        fsync_s=raw["fsync_s"],
        writes=[WriteSpeed(**row) for row in raw["writes"]],
        submits=[SubmitSpeed(**row) for row in raw["submits"]],
        memory=[KeyBytes(**row) for row in raw["memory"]],
    )


def load_results(path: Path) -> Results:
    return parse_results(path.read_text(encoding="utf-8"))
