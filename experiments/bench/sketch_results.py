"""What a run finds about the sketches: plain rows, saved as sketches.json (results.py)."""

import json
from dataclasses import dataclass
from pathlib import Path

from experiments.bench.results import Stamp

SETTLED, ALONE = "settled process", "new process"  # see races.py


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    values: int = 1_000_000
    batch: int = 65_536
    queries: int = 20_000
    seeds: int = 5
    shards: int = 64
    repeats: int = 9
    random_digests: int = 1_000
    events: int = 4_000_000
    items: int = 2_000_000
    event_repeats: int = 5
    grid_events: int = 1_000_000


FULL = Sizes()
FAST = Sizes(
    values=20_000,
    batch=4_096,
    queries=1_000,
    seeds=1,
    shards=8,
    repeats=1,
    random_digests=20,
    events=40_000,
    items=20_000,
    event_repeats=1,
    grid_events=20_000,
)


@dataclass(frozen=True, slots=True)
class DigestSpeed:
    """Times scaled to Sizes.values and Sizes.queries where fewer were measured (`values` says how many)."""

    contestant: str
    process: str
    values: int
    update_s: float
    first_query_s: float
    query_s: float
    merge_s: float
    size_bytes: int


@dataclass(frozen=True, slots=True)
class DigestError:
    """The worst over all seeds; `rule` is the convention that it was judged by, `merged_` after merging the shards."""

    contestant: str
    workload: str
    values: int
    rule: str
    max_error: float
    mean_error: float
    merged_rule: str
    merged_max_error: float
    merged_mean_error: float
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Interval:
    """Our proved intervals: how wide, and how often the truth lay outside."""

    workload: str
    max_width: float
    mean_width: float
    merged_max_width: float
    merged_mean_width: float
    questions: int
    violations: int


@dataclass(frozen=True, slots=True)
class Proof:
    """Random digests with every question checked by sorting."""

    digests: int
    questions: int
    violations: int


@dataclass(frozen=True, slots=True)
class HitterSpeed:
    """One pass of a summary and a Count-Min over the stream; errors are those of the true top 100."""

    contestant: str
    feed: str
    seconds: float
    precision: float
    relative_error: float
    count_min_error: float
    checked: int
    violations: int
    summary_bytes: int
    count_min_bytes: int


@dataclass(frozen=True, slots=True)
class HitterAccuracy:
    """A summary after one pass; `batch` is 1 where items go in one by one. No peer says what is guaranteed."""

    contestant: str
    distribution: str
    capacity: int
    batch: int
    precision: float
    relative_error: float
    floor_share: float
    guaranteed: int | None
    violations: int


@dataclass(frozen=True, slots=True)
class Results:
    stamp: Stamp
    sizes: Sizes
    seed: int
    digest_speed: list[DigestSpeed]
    digest_error: list[DigestError]
    intervals: list[Interval]
    proof: Proof
    hitter_speed: list[HitterSpeed]
    hitter_accuracy: list[HitterAccuracy]


def parse_results(text: str) -> Results:
    raw = json.loads(text)
    return Results(
        stamp=Stamp(**raw["stamp"]),
        sizes=Sizes(**raw["sizes"]),
        seed=raw["seed"],
        digest_speed=[DigestSpeed(**row) for row in raw["digest_speed"]],
        digest_error=[DigestError(**row) for row in raw["digest_error"]],
        intervals=[Interval(**row) for row in raw["intervals"]],
        proof=Proof(**raw["proof"]),
        hitter_speed=[HitterSpeed(**row) for row in raw["hitter_speed"]],
        hitter_accuracy=[HitterAccuracy(**row) for row in raw["hitter_accuracy"]],
    )


def load_results(path: Path) -> Results:
    return parse_results(path.read_text(encoding="utf-8"))
