"""Random digests, every question checked: does the proved interval contain the truth?

Each digest has its own distribution, number of values (1 to 5,000), compressions, scales, cuts into updates and tree of
merges, in which some digests go through their bytes and some are built from rank samples. It is asked at every value,
just below and above each, between neighbours and beyond both ends, for the share below and the share up to the point;
sorting gives the truth, and no tolerance is allowed.
"""

from collections.abc import Callable

import numpy as np

from experiments.bench.progress import Track
from experiments.bench.sketch_results import Proof
from sketches import TDigest
from sketches.curve import Side
from sketches.values import Floats

MAX_VALUES = 5_000
COMPRESSIONS = (10, 20, 50, 100, 500)
SCALES = ("k1", "k2", "k3")
SIDES: tuple[Side, Side] = ("left", "right")

_SHAPES: tuple[Callable[[np.random.Generator, int], Floats], ...] = (
    lambda rng, n: rng.normal(size=n),
    lambda rng, n: rng.lognormal(sigma=3, size=n),
    lambda rng, n: np.asarray(10.0 ** rng.uniform(-300, 300, n)) * rng.choice([-1.0, 1.0], n),
    lambda rng, n: rng.integers(0, rng.integers(1, 300), n).astype(np.float64),
    lambda rng, n: np.where(rng.random(n) < rng.random(), 0.0, rng.standard_cauchy(n)),
    lambda rng, n: np.floor(rng.pareto(1.1, n)),
    lambda rng, n: 1 + rng.integers(0, 50, n) * np.finfo(np.float64).eps,
    lambda rng, n: np.sort(rng.exponential(size=n))[:: rng.choice([-1, 1])],
)


def check_random_digests(digests: int, seed: int, track: Track) -> Proof:
    rng = np.random.default_rng(seed)
    questions = violations = 0
    for _ in track(range(digests), "digests: random, every question"):
        values = _SHAPES[rng.integers(len(_SHAPES))](rng, int(rng.integers(1, MAX_VALUES + 1)))
        asked, outside = count_violations(make_random_digest(rng, values), values)
        questions += asked
        violations += outside
    return Proof(digests, questions, violations)


def count_violations(digest: TDigest, values: Floats) -> tuple[int, int]:
    """The number of questions, and of those whose interval misses the truth."""
    ordered = np.sort(values)
    points = _questions(ordered)
    violations = 0
    for side in SIDES:
        truth = np.searchsorted(ordered, points, side) / len(ordered)
        low, high = digest.bounds(points, side)
        violations += int(((truth < low) | (truth > high)).sum())
    return len(SIDES) * len(points), violations


def make_random_digest(rng: np.random.Generator, values: Floats) -> TDigest:
    """The digest of these values by a random tree of merges."""
    digests = [_leaf(rng, part) for part in _cut(rng, values, most=8)]
    while len(digests) > 1:
        rng.shuffle(digests)
        taken = int(rng.integers(1, len(digests)))
        digests[0].merge(*digests[1 : 1 + taken])
        digests = [digests[0], *digests[1 + taken :]]
        if rng.random() < 0.5:
            digests[0] = TDigest.from_bytes(digests[0].to_bytes())
    return digests[0]


def _leaf(rng: np.random.Generator, values: Floats) -> TDigest:
    compression, scale = int(rng.choice(COMPRESSIONS)), str(rng.choice(SCALES))
    if rng.random() < 0.15:
        inner = rng.choice(len(values), int(rng.integers(1, len(values) + 1)), replace=False)
        ranks = np.union1d(inner, [0, len(values) - 1])
        return TDigest.from_rank_samples(
            np.sort(values)[ranks], ranks, len(values), compression=compression, scale=scale
        )
    digest = TDigest(compression, scale=scale)
    for batch in _cut(rng, values, most=20):
        digest.update(batch)
    return digest


def _cut(rng: np.random.Generator, values: Floats, *, most: int) -> list[Floats]:
    """At most `most` consecutive pieces, none of them empty."""
    cuts = rng.integers(1, len(values) + 1, int(rng.integers(0, most)))
    return [piece for piece in np.split(values, np.unique(cuts)) if len(piece)]


def _questions(ordered: Floats) -> Floats:
    distinct = np.unique(ordered)
    ends = [distinct[0] - abs(distinct[0]) - 1, distinct[-1] + abs(distinct[-1]) + 1]
    between = distinct[:-1] / 2 + distinct[1:] / 2
    return np.concatenate((distinct, np.nextafter(distinct, -np.inf), np.nextafter(distinct, np.inf), between, ends))
