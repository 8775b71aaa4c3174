"""Centroids that carry their range, and how many of them become few.

A centroid stands for `weight` values with a known mean, all of them known to lie in [lo, hi]. An *atom* is a centroid
with lo == hi: it stands for one value, however often it occurred, and is exact. Replacing neighbours by one centroid
over their joint range loses detail but never truth, which is what makes the bounds of a t-digest a proof.

Compressing to a number of cells:

    atoms of one value become one            10 10 10 12 15 15   ->   10(3) 12(1) 15(2)
    what fits the budget stays as it is      a cell pays for one range, or for two atoms
    heavy atoms stay alone                   those that alone fill a cell of the scale
    the rest is cut at the scale's cells     by the middle of each centroid's weight; two atoms in one cell stay two

So up to 2 x cells distinct values are kept exactly, and no compressed list costs more than `cells`.
All of it is `searchsorted` and `reduceat` over whole arrays: no loop over values.
"""

from collections.abc import Sequence
from typing import NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from sketches.scales import Scale
from sketches.values import Floats, Ints


class Centroids(NamedTuple):
    """Parallel arrays, ordered by mean; of equal means the atoms come last."""

    mean: Floats
    weight: Floats
    lo: Floats
    hi: Floats

    @property
    def is_atom(self) -> NDArray[np.bool_]:
        return np.equal(self.lo, self.hi)

    @property
    def cost(self) -> float:
        """In cells: an atom, stored as value and weight, takes half the bytes of a range."""
        return len(self.mean) - np.count_nonzero(self.is_atom) / 2


SAFE_TO_SUM = 1e290  # below it no sum of doubles that fit into memory overflows

EMPTY = Centroids(np.empty(0), np.empty(0), np.empty(0), np.empty(0))


def summarise(values: Floats, weights: Floats | None, cells: int, scale: Scale) -> Centroids:
    """A batch of values, with weights or 1 each, compressed; it sorts the values in place."""
    if weights is None:
        values.sort()
        if len(values) > 2 * cells and _has_no_repeats(values) and max(-values[0], values[-1]) < SAFE_TO_SUM:
            return _cut_distinct(values, cells, scale)
        return compress(Centroids(values, np.ones(len(values)), values, values), cells, scale)
    order = np.argsort(values, kind="stable")
    values = values[order]
    return compress(Centroids(values, weights[order], values, values), cells, scale)


def join(parts: Sequence[Centroids]) -> Centroids:
    """All centroids of all parts, in order."""
    mean, weight, lo, hi = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.lexsort((lo == hi, mean))
    return Centroids(mean[order], weight[order], lo[order], hi[order])


def is_ordered(centroids: Centroids) -> bool:
    """Whether means ascend and, of equal means, atoms come last: what `join` makes."""
    mean, is_atom = centroids.mean, centroids.is_atom
    is_tie = mean[1:] == mean[:-1]
    return bool(((mean[1:] > mean[:-1]) | (is_tie & (is_atom[1:] >= is_atom[:-1]))).all())


def compress(centroids: Centroids, cells: int, scale: Scale) -> Centroids:
    """At most `cells` worth of centroids that stand for the same values."""
    merged = _merge_equal_atoms(centroids)
    if merged.cost <= cells:
        return merged
    return _merge_groups(merged, _cell_starts(merged, cells, scale))


def _merge_equal_atoms(centroids: Centroids) -> Centroids:
    mean, weight, lo, hi = centroids
    is_atom = centroids.is_atom
    is_repeat = (mean[1:] == mean[:-1]) & is_atom[1:] & is_atom[:-1]
    if not is_repeat.any():
        return centroids
    starts = np.flatnonzero(np.concatenate(([True], ~is_repeat)))
    return Centroids(mean[starts], np.add.reduceat(weight, starts), lo[starts], hi[starts])


def _cell_starts(centroids: Centroids, cells: int, scale: Scale) -> Ints:
    """The index at which each group to be merged begins."""
    is_atom, weight = centroids.is_atom, centroids.weight
    heavy = _heavy_atoms(centroids, cells, scale)
    # A heavy atom costs half a cell, and may cut a cell in two: that many cells fewer are left for the light ones.
    left = cells - (3 * len(heavy) + 1) // 2
    light = weight.copy()
    light[heavy] = 0
    ends = np.cumsum(light)
    grid = scale.share(_phase(centroids.mean) + np.arange(left - 1.0), left, ends[-1]) * ends[-1]
    cuts = np.searchsorted(ends - light / 2, grid)
    starts = np.unique(np.concatenate(([0], cuts, heavy, heavy + 1)))
    starts = starts[starts < len(weight)]
    pairs = starts[np.diff(starts, append=len(weight)) == 2]
    pairs = pairs[is_atom[pairs] & is_atom[pairs + 1]]
    all_starts: Ints = np.union1d(starts, pairs + 1)
    return all_starts


def _phase(values: Floats) -> float:
    """Where the first cut falls, 0.5 to 1.5 cells from the start, by the values themselves.

    Digests of alike streams (one sorted stream dealt round robin, say) would else all be cut at the same places, and
    their merger would know no more of what lies between than each of them: 0.06 % of error where it now has 0.01 %.
    """
    return 0.5 + crc32(values[:: max(1, len(values) // 64)].tobytes()) / 2**32


def _heavy_atoms(centroids: Centroids, cells: int, scale: Scale) -> Ints:
    """Indexes of the atoms that fill a cell each; of too many, the heaviest, so that cells are left for the rest."""
    weight = centroids.weight
    ends = np.cumsum(weight)
    total = float(ends[-1])
    grid = scale.share(np.arange(1.0, cells), cells, total) * total
    # Who fills a cell crosses a boundary, so only the few that do need the scale's position.
    atoms = np.unique(np.minimum(np.searchsorted(ends, grid), len(ends) - 1))
    atoms = atoms[centroids.is_atom[atoms]]
    above = scale.position(np.minimum(ends[atoms] / total, 1), cells, total)
    below = scale.position(np.maximum(ends[atoms] - weight[atoms], 0) / total, cells, total)
    heavy = atoms[above - below >= 1]
    most = 2 * (cells - 1) // 3
    if len(heavy) > most:
        heavy = np.sort(heavy[np.argsort(-weight[heavy], kind="stable")[:most]])
    return np.asarray(heavy, np.int64)


def _merge_groups(centroids: Centroids, starts: Ints) -> Centroids:
    mean, weight, lo, hi = centroids
    weights = np.add.reduceat(weight, starts)
    sizes = np.diff(starts, append=len(weight))
    lows, highs = np.minimum.reduceat(lo, starts), np.maximum.reduceat(hi, starts)
    # Shares of the weight first: a sum of products would overflow for values near the largest double.
    with np.errstate(over="ignore", under="ignore"):
        means = np.add.reduceat(mean * (weight / np.repeat(weights, sizes)), starts)
    merged = Centroids(np.clip(means, lows, highs), weights, lows, highs)
    # Rounding can swap two means that lie one ulp apart.
    return merged if is_ordered(merged) else join([merged])


def _has_no_repeats(values: Floats) -> bool:
    return bool((values[1:] != values[:-1]).all())


def _cut_distinct(values: Floats, cells: int, scale: Scale) -> Centroids:
    """What `compress` makes of sorted values that occur once each, without an array of weights for them all."""
    n = len(values)
    grid = scale.share(_phase(values) + np.arange(cells - 1.0), cells, n) * n
    starts = np.unique(np.concatenate(([0.0], np.ceil(grid - 0.5)))).astype(np.int64)
    starts = starts[starts < n]
    sizes = np.diff(starts, append=n)
    lo, hi = values[starts], values[starts + sizes - 1]
    return Centroids(np.clip(np.add.reduceat(values, starts) / sizes, lo, hi), sizes.astype(np.float64), lo, hi)
