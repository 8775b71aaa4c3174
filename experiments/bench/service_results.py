"""What a run finds about the service: plain rows, saved as service.json (results.py).

Every round is a row; medians are worked out from them.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from experiments.bench.results import Stamp
from experiments.bench.service_sizes import Sizes


@dataclass(frozen=True, slots=True)
class Round:
    """One round of wrk: so many requests in so many seconds, `batch` players or scores in each.

    `failed` had no answer, or one that is not 2xx. Meanwhile another process wrote `scores_s` scores a second.
    """

    who: str
    players: int
    is_written: bool
    connections: int
    batch: int
    requests: int
    seconds: float
    p50_s: float
    p99_s: float
    failed: int
    scores_s: float


@dataclass(frozen=True, slots=True)
class Bulk:
    """All scores once, in large batches, many of them in flight; `missing` were not accepted."""

    way: str
    scores: int
    seconds: float
    missing: int


@dataclass(frozen=True, slots=True)
class Load:
    """One `toptail load`, from start to end of its process; `missing` rows have no record afterwards."""

    rows: int
    file_bytes: int
    seconds: float
    peak_bytes: int
    missing: int


@dataclass(frozen=True, slots=True)
class Results:
    stamp: Stamp
    server: str
    wrk: str
    sizes: Sizes
    seed: int
    standings: list[Round]
    boards: list[Round]
    bulks: list[Bulk]
    submits: list[Round]
    load: Load


def parse_results(text: str) -> Results:
    raw = json.loads(text)
    return Results(
        stamp=Stamp(**raw["stamp"]),
        server=raw["server"],
        wrk=raw["wrk"],
        sizes=Sizes(**raw["sizes"] | {"boards": tuple(raw["sizes"]["boards"])}),
        seed=raw["seed"],
        standings=[Round(**row) for row in raw["standings"]],
        boards=[Round(**row) for row in raw["boards"]],
        bulks=[Bulk(**row) for row in raw["bulks"]],
        submits=[Round(**row) for row in raw["submits"]],
        load=Load(**raw["load"]),
    )


def load_results(path: Path) -> Results:
    return parse_results(path.read_text(encoding="utf-8"))
