"""What a run of the benchmark finds: plain rows, saved as one JSON file.

Times are seconds, errors and widths are shares (0.0001 = 0.01 %). Floats are kept to six digits. What follows from the
rows (ratios, verdicts) is not saved: tables.py and budgets.py work it out, so the file cannot contradict itself.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SETTLED, ALONE = "settled process", "new process"  # see races.py
RESULTS = ROOT / "experiments" / "results" / "bench" / "sketches.json"


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
class Stamp:
    """Where and with what the figures were taken."""

    date: str
    cpu: str
    cores: int
    python: str
    packages: dict[str, str]
    commit: str


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


def render_results(results: Results) -> str:
    return json.dumps(_rounded(asdict(results)), indent=1, ensure_ascii=False) + "\n"


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


def save_results(results: Results, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render_results(results), encoding="utf-8")


def load_results(path: Path) -> Results:
    return parse_results(path.read_text(encoding="utf-8"))


def _rounded(node: Any) -> Any:
    if isinstance(node, dict):
        return {key: _rounded(value) for key, value in node.items()}
    if isinstance(node, list):
        return [_rounded(value) for value in node]
    return float(f"{node:.6g}") if isinstance(node, float) else node
