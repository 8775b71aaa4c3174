"""Surge: is an item counted more often than it usually is, given how much is counted altogether? Pure.

    z = (x - mu) / sqrt(mu + (c mu)^2 + 10)

x is the item's least count in the window, mu what one would expect: its share of the windows before (by its greatest
count there, so that nothing seems new that is not) of what is counted now. A count varies by chance with its mean, and
beyond that from window to window by the share c. It is taken from the items themselves, of those that are counted often
enough to tell: what all but one in twenty keep to. Without the scaling and c every morning would be an alarm.

Why not the median: then half of the items vary by more than is allowed for. Of items that vary by 0.3, 24 in 100,000
would have z > 5 by themselves; like this fewer than one has (tests/property/test_trends_surge.py). And one in twenty
may have had a burst of its own in the windows before without hiding somebody else's.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hybrid.orderkey import Ints
from hybrid.trends.ladder import LEAST_HISTORY

Floats = NDArray[np.float64]

LEAST_COUNT = 10  # fewer than that is never a surge, however new an item is
_PRIOR = 10.0
_TELLING = 20.0  # a mean from which on the variation of an item can be told from chance
_USUAL = 0.95  # of the items vary by no more than what is usual


@dataclass(frozen=True, slots=True)
class Surge:
    """What was expected of each item, and how far beyond it is; NaN where that cannot be said."""

    expected: Floats
    z: Floats


def find_surges(low: Ints, total: int, history: Ints, totals: Ints) -> Surge:
    """Items now (least counts, and the total) against windows before: greatest counts by row, and their totals."""
    unknown = np.full(len(low), np.nan)
    if len(totals) < LEAST_HISTORY:
        return Surge(unknown, unknown)
    share = history.sum(axis=0) / max(int(totals.sum()), 1)
    expected = np.minimum(share, 1.0) * total
    spread = np.sqrt(expected + (usual_variation(history, totals) * expected) ** 2 + _PRIOR)
    z = np.where(low >= LEAST_COUNT, (low - expected) / spread, np.nan)
    return Surge(expected, z)


def usual_variation(history: Ints, totals: Ints) -> float:
    """By what share of itself a count usually varies from what is expected, beyond chance and traffic."""
    share = history.sum(axis=0) / max(int(totals.sum()), 1)
    means = share * totals[:, np.newaxis]
    is_telling = means.mean(axis=0) >= _TELLING
    if not is_telling.any():
        return 0.0
    means, counts = means[:, is_telling], history[:, is_telling]
    beyond = ((counts - means) ** 2 - means).sum(axis=0) / (means**2).sum(axis=0)
    # Variation around a mean of the same n windows is too small by one of them, and the next count varies around the
    # true mean, which that one misses by an nth.
    n = len(totals)
    return float(np.sqrt(max(np.quantile(beyond, _USUAL, method="lower"), 0.0) * (n + 1) / (n - 1)))
