"""The naive oracle: sorted lists and Counters, no cleverness. It judges everything."""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from sketches.values import Floats


def shares(values: Sequence[float], weights: Sequence[float], x: Floats) -> tuple[Floats, Floats]:
    """The true share of weight below each x, and up to it."""
    ordered = sorted(zip(values, weights, strict=True))
    points = np.array([value for value, _ in ordered])
    sums = np.concatenate(([0.0], np.cumsum([weight for _, weight in ordered])))
    return (
        sums[np.searchsorted(points, x, "left")] / sums[-1],
        sums[np.searchsorted(points, x, "right")] / sums[-1],
    )


def tallied(batches: Iterable[Iterable[tuple[str, int]]]) -> Counter[str]:
    """The true count of every item."""
    counts: Counter[str] = Counter()
    for batch in batches:
        for item, count in batch:
            counts[item] += count
    return +counts
