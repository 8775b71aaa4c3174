"""Laws of the t-digest, for any stream, any cut into batches and any merge tree."""

import math
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sketches import TDigest
from sketches.values import Floats
from tests.oracle import shares

FINITE = st.floats(allow_nan=False, allow_infinity=False)
NUMBERS = st.one_of(
    st.integers(-5, 5).map(float),
    st.floats(0, 1),
    st.integers(-(10**6), 10**6).map(float),
    FINITE,
)
LARGEST = np.finfo(float).max
SCALE = st.sampled_from(["k1", "k2", "k3"])


@dataclass
class Stream:
    """What was fed, and the digest that it was fed to, by some plan."""

    values: list[float] = field(repr=False)
    weights: list[float] = field(repr=False)
    digest: TDigest

    def points(self) -> Floats:
        """Every value, its neighbours in floating point, and points between and beyond."""
        values = np.unique(self.values)
        middle = values[:-1] / 2 + values[1:] / 2
        around = (np.nextafter(values, -LARGEST), values, np.nextafter(values, LARGEST))
        return np.unique(np.concatenate((*around, middle, [-LARGEST, 0.0, LARGEST])))


def numbers(kind: str, size: int, random: np.random.Generator) -> Floats:
    if kind == "ties":
        return random.integers(0, 30, size).astype(float)
    if kind == "uniform":
        return random.random(size)
    if kind == "signed magnitudes":
        return random.choice([-1.0, 1.0], size) * 10 ** random.uniform(-300, 300, size)
    return np.repeat(random.normal(size=size), random.integers(1, 9, size))[:size]


@st.composite
def streams(draw: st.DrawFn, max_batches: int = 8) -> Stream:
    """Batches dealt to leaf digests of several compressions; leaves merged in an arbitrary tree.

    The bulk is seeded, a few values are hypothesis' own: those it can shrink.
    """
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scale, is_weighted = draw(SCALE), draw(st.booleans())
    kind = draw(st.sampled_from(["ties", "uniform", "signed magnitudes", "runs"]))
    batches = [draw(st.lists(NUMBERS, min_size=1, max_size=5))]
    batches += [
        numbers(kind, size, random).tolist() for size in draw(st.lists(st.integers(0, 80), max_size=max_batches))
    ]
    forest = [TDigest(draw(st.sampled_from([10, 11, 25])), scale=scale) for _ in range(draw(st.integers(1, 4)))]
    values: list[float] = []
    weights: list[float] = []
    for batch in batches:
        loads = random.integers(1, 1000, len(batch)).astype(float) if is_weighted else np.ones(len(batch))
        forest[random.integers(len(forest))].update(batch, loads.tolist() if is_weighted else None)
        values += batch
        weights += loads.tolist()
    while len(forest) > 1:
        size = min(int(random.integers(1, 4)), len(forest) - 1)
        taken = [forest.pop() for _ in range(size)]
        forest[random.integers(len(forest))].merge(*taken)
    return Stream(values, weights, forest[0])


def assert_bounds_hold(digest: TDigest, x: Floats, below: Floats, up_to: Floats) -> None:
    low, high = digest.bounds(x, "left")
    assert ((low <= below) & (below <= high)).all()
    low, high = digest.bounds(x, "right")
    assert ((low <= up_to) & (up_to <= high)).all()


@given(streams())
def test_bounds_contain_the_truth_for_any_stream_and_merge_tree(stream: Stream) -> None:
    x = stream.points()
    assert_bounds_hold(stream.digest, x, *shares(stream.values, stream.weights, x))


@given(streams())
def test_weights_sum_and_ends_are_exact(stream: Stream) -> None:
    assert stream.digest.count == sum(stream.weights)
    assert stream.digest.min == min(stream.values)
    assert stream.digest.max == max(stream.values)
    assert stream.digest.quantile([0, 1]).tolist() == [min(stream.values), max(stream.values)]


@given(streams())
def test_cdf_is_monotone_and_inside_the_proof(stream: Stream) -> None:
    x = stream.points()
    least, middle, most = (stream.digest.cdf(x, rule) for rule in ("min", "mid", "max"))
    for guess in (least, middle, most):
        assert (np.diff(guess) >= 0).all()
    assert (least <= middle).all()
    assert (middle <= most).all()
    assert_bounds_hold(stream.digest, x, least, most)


@given(streams(), st.lists(st.floats(0, 1), min_size=1))
def test_quantile_is_monotone_and_between_the_ends(stream: Stream, q: list[float]) -> None:
    found = stream.digest.quantile(np.sort(np.array([*q, 0.0, 1e-300, 0.5, 1.0])))
    assert (np.diff(found) >= 0).all()
    assert found[0] == stream.digest.min
    assert found[-1] == stream.digest.max


@given(streams())
def test_quantile_and_cdf_undo_each_other(stream: Stream) -> None:
    q = np.linspace(0.001, 1, 50)
    found = stream.digest.quantile(q)
    assert (stream.digest.cdf(found, "min") <= q + 1e-9).all()
    assert (stream.digest.cdf(np.nextafter(found, LARGEST), "max") >= q - 1e-9).all()


@given(streams())
def test_a_round_trip_is_bit_equal_and_answers_alike(stream: Stream) -> None:
    blob = stream.digest.to_bytes()
    loaded = TDigest.from_bytes(blob)
    x = stream.points()
    assert loaded.to_bytes() == blob
    assert np.array_equal(loaded.cdf(x), stream.digest.cdf(x))
    assert loaded.count == stream.digest.count
    assert len(blob) <= 32 * loaded.compression + 2 * loaded.compression // 8 + 73


@given(streams(), streams())
def test_merge_never_changes_its_argument(first: Stream, second: Stream) -> None:
    before = second.digest.to_bytes()
    first.digest.merge(second.digest, second.digest)
    first.digest.update([1.0, 2.0])
    assert second.digest.to_bytes() == before


@given(st.lists(st.sampled_from(np.linspace(-1, 1, 20).tolist()), min_size=1), st.integers(1, 7), SCALE)
def test_up_to_twice_compression_distinct_values_are_exact(values: list[float], cut: int, scale: str) -> None:
    digest = TDigest(10, scale=scale)
    for at in range(0, len(values), cut):
        digest.update(values[at : at + cut])
    x = np.unique(values)
    below, up_to = shares(values, [1.0] * len(values), x)
    assert np.array_equal(digest.bounds(x, "left"), (below, below))
    assert np.array_equal(digest.cdf(x, "max"), up_to)


@given(st.lists(NUMBERS, min_size=1, max_size=300), st.data())
def test_rank_samples_keep_the_proof_also_when_merged(values: list[float], data: st.DataObject) -> None:
    parts = [values[0::2], values[1::2]]
    digests = []
    for part in (sorted(part) for part in parts if part):
        last = len(part) - 1
        ranks = sorted({0, last, *data.draw(st.sets(st.integers(0, last), max_size=40))})
        digests.append(TDigest.from_rank_samples([part[rank] for rank in ranks], ranks, len(part), compression=12))
    merged = TDigest(10)
    merged.merge(*digests)
    x = np.unique(values)
    assert_bounds_hold(merged, x, *shares(values, [1.0] * len(values), x))
    assert merged.count == len(values)


@given(st.lists(st.tuples(NUMBERS, st.floats(1e-6, 1e6)), min_size=1, max_size=200))
@example([(0.0, 0.1)] * 30 + [(1.0, 0.3)])
def test_fractional_weights_hold_up_to_rounding(pairs: list[tuple[float, float]]) -> None:
    values, weights = [v for v, _ in pairs], [w for _, w in pairs]
    digest = TDigest(10)
    for at in range(0, len(pairs), 50):
        digest.update(values[at : at + 50], weights[at : at + 50])
    x = np.unique(values)
    below, _ = shares(values, weights, x)
    low, high = digest.bounds(x)
    assert (low <= below + 1e-12).all()
    assert (below <= high + 1e-12).all()
    assert math.isclose(digest.count, sum(weights), rel_tol=1e-12)
    assert 0 <= digest.cdf(min(values)) <= digest.cdf(max(values), "max") == 1


@pytest.mark.slow
@settings(max_examples=3000)
@given(streams(max_batches=40))
def test_bounds_contain_the_truth_in_many_long_streams(stream: Stream) -> None:
    x = stream.points()
    assert_bounds_hold(stream.digest, x, *shares(stream.values, stream.weights, x))
