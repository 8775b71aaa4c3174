"""Cross-checks against independent implementations on the same input.

datasketches 5.2.0's `tdigest.get_quantile` interpolates backwards, so only its `get_rank` is asked; PyPI's `tdigest` is
far off on ties, so it is asked about continuous data only.
"""

from collections import Counter

import datasketches
import numpy as np
import pytest
from tdigest import TDigest as PeerDigest

from sketches import CountMin, SpaceSaving, TDigest

KEY = b"0123456789abcdef"


@pytest.fixture(scope="module")
def scores() -> np.ndarray:
    return np.random.default_rng(5).lognormal(size=200_000)


@pytest.fixture(scope="module")
def events() -> list[str]:
    return [f"item {i}" for i in np.random.default_rng(6).zipf(1.2, 100_000) % 20_000]


def ours(scores: np.ndarray) -> TDigest:
    digest = TDigest(500)
    for batch in np.array_split(scores, 7):
        digest.update(batch)
    return digest


def test_ranks_agree_with_kll_within_its_own_bound(scores: np.ndarray) -> None:
    """KLL's bound holds with 99 % per query; ten times its normalised error leaves no room for bad luck."""
    kll = datasketches.kll_doubles_sketch(400)
    kll.update(scores)
    asked = np.quantile(scores, np.linspace(0.01, 0.99, 50))
    theirs = np.array([kll.get_rank(x) for x in asked])
    assert np.abs(ours(scores).cdf(asked) - theirs).max() < 10 * kll.normalized_rank_error(False)


def test_ranks_agree_with_the_t_digest_of_datasketches(scores: np.ndarray) -> None:
    peer = datasketches.tdigest_double(500)
    peer.update(scores)
    asked = np.quantile(scores, np.linspace(0.001, 0.999, 200))
    assert np.abs(ours(scores).cdf(asked) - [peer.get_rank(x) for x in asked]).max() < 0.001


def test_ranks_agree_with_the_t_digest_of_pypi_on_continuous_data(scores: np.ndarray) -> None:
    peer, digest = PeerDigest(), TDigest(500)
    peer.batch_update(scores[:5000].tolist())
    digest.update(scores[:5000])
    asked = np.quantile(scores[:5000], np.linspace(0.01, 0.99, 50))
    assert np.abs(digest.cdf(asked) - [peer.cdf(x) for x in asked]).max() < 0.01


def test_intervals_of_counts_overlap_those_of_frequent_strings(events: list[str]) -> None:
    peer, summary = datasketches.frequent_strings_sketch(10), SpaceSaving(1024)
    for event in events:
        peer.update(event)
    summary.update(events)
    truth = Counter(events)
    for item, _ in truth.most_common(300):
        low, high = summary.bounds(item)
        assert max(low, peer.get_lower_bound(item)) <= truth[item] <= min(high, peer.get_upper_bound(item))


def test_count_min_is_as_tight_as_that_of_datasketches(events: list[str]) -> None:
    peer, counts = datasketches.count_min_sketch(4, 1024), CountMin(1024, 4, key=KEY)
    for event in events:
        peer.update(event)
    counts.update(events)
    truth = Counter(events)
    items = sorted(truth)
    true = np.array([truth[item] for item in items])
    excess, theirs = counts.estimate(items) - true, np.array([peer.get_estimate(item) for item in items]) - true
    assert (excess >= 0).all()
    assert excess.mean() < 1.1 * theirs.mean()
