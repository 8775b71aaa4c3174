"""The rank error of the quantile digests, and the width of our proved intervals.

Where values repeat, peers are judged by the rank convention that suits each of them best on that workload, ours
always by mid.
"""

from typing import Any, NamedTuple

import numpy as np

from experiments.bench.digests import CONTESTANTS, OURS, PURE, Contestant, cut_batches, make_shards
from experiments.bench.progress import Track
from experiments.bench.ranks import RankError, Truth, kindest, rank_errors, true_ranks, worst
from experiments.bench.sketch_results import DigestError, Interval, Sizes
from experiments.bench.workloads import WORKLOADS, Workload
from sketches import TDigest
from sketches.curve import Side
from sketches.values import Floats


class _Sample(NamedTuple):
    """One seed's values, the points asked, and the true ranks of those."""

    values: Floats
    points: Floats
    truth: Truth


def measure_errors(sizes: Sizes, seed: int, track: Track) -> tuple[list[DigestError], list[Interval]]:
    errors: list[DigestError] = []
    intervals: list[Interval] = []
    for workload in track(WORKLOADS, "digests: error"):
        samples = [_sample(workload, sizes, seed + i) for i in range(sizes.seeds)]
        entered = [c for c in CONTESTANTS if workload.is_continuous or c is not PURE]
        errors += [_error(c, workload, samples, sizes) for c in entered]
        intervals.append(_interval(workload, samples, sizes))
    return errors, intervals


def _sample(workload: Workload, sizes: Sizes, seed: int) -> _Sample:
    rng = np.random.default_rng(seed)
    values = workload.make(rng, sizes.values)
    points = rng.choice(values, sizes.queries)
    return _Sample(values, points, true_ranks(np.sort(values), points))


def _thinned(sample: _Sample, thin: int) -> _Sample:
    if thin == 1:
        return sample
    values, points = sample.values[::thin], sample.points[::thin]
    return _Sample(values, points, true_ranks(np.sort(values), points))


def _error(contestant: Contestant, workload: Workload, samples: list[_Sample], sizes: Sizes) -> DigestError:
    alone: list[RankError] = []
    together: list[RankError] = []
    size_bytes = 0
    for sample in (_thinned(sample, contestant.thin) for sample in samples):
        asked = contestant.take(sample.points)
        digest, saved_bytes = _whole(contestant, sample.values, sizes.batch)
        merged = contestant.merge(make_shards(contestant, sample.values, sizes.shards))
        size_bytes = max(size_bytes, saved_bytes)
        alone += rank_errors(np.asarray(contestant.ranks(digest, asked)), sample.truth)
        together += rank_errors(np.asarray(contestant.ranks(merged, asked)), sample.truth)
    is_mid = workload.is_continuous or contestant is OURS
    one, many = ((worst(errors, "mid") if is_mid else kindest(errors)) for errors in (alone, together))
    return DigestError(
        contestant=contestant.name,
        workload=workload.name,
        values=len(samples[0].values[:: contestant.thin]),
        rule=one.rule,
        max_error=one.max,
        mean_error=one.mean,
        merged_rule=many.rule,
        merged_max_error=many.max,
        merged_mean_error=many.mean,
        size_bytes=size_bytes,
    )


def _whole(contestant: Contestant, values: Floats, batch: int) -> tuple[Any, int]:
    """The digest of all values as it comes back from its bytes, and how many they are."""
    return contestant.reload(contestant.build(cut_batches(contestant, values, batch)))


def _interval(workload: Workload, samples: list[_Sample], sizes: Sizes) -> Interval:
    alone: list[Floats] = []
    together: list[Floats] = []
    violations = 0
    for sample in samples:
        digest, _ = _whole(OURS, sample.values, sizes.batch)
        merged, _ = OURS.reload(OURS.merge(make_shards(OURS, sample.values, sizes.shards)))
        for found, widths in ((digest, alone), (merged, together)):
            width, outside = _check_bounds(found, sample)
            widths.append(width)
            violations += outside
    return Interval(
        workload=workload.name,
        max_width=max(float(width.max()) for width in alone),
        mean_width=max(float(width.mean()) for width in alone),
        merged_max_width=max(float(width.max()) for width in together),
        merged_mean_width=max(float(width.mean()) for width in together),
        questions=sum(width.size for width in alone + together),
        violations=violations,
    )


def _check_bounds(digest: TDigest, sample: _Sample) -> tuple[Floats, int]:
    """The widths of all intervals, for the share below and up to each point, and how many miss the truth."""
    sides: tuple[tuple[Side, Floats], ...] = (("left", sample.truth.below), ("right", sample.truth.upto))
    widths, violations = [], 0
    for side, truth in sides:
        low, high = digest.bounds(sample.points, side)
        widths.append(high - low)
        violations += int(((truth < low) | (truth > high)).sum())
    return np.concatenate(widths), violations
