"""The distribution function of a list of centroids: what is proved of it, and the best guess inside the proof.

Proved. Of the values below x there are at least those of every centroid that ends below x (hi < x), and at most those
of every centroid that begins below x (lo < x). Both are running sums over sorted ends: a staircase each.

Guessed. Half of a centroid's values lie on each side of its mean, and atoms are jumps; between these points the curve
is straight. Where the guess leaves the proof it is moved back, so the two never contradict each other.

    share  1 |            ____----o        The curve is stored at every lo, mean and hi ("knots") by its limits from
             |       o----  <- mean        the left (values < knot) and from the right (values <= knot). Between two
             |   |o--  <- atom: a jump     knots it is straight and the staircases are flat: one binary search
           0 |---|------------------ x     answers a query.

Not handled: NaN and infinite x; the way in refuses them.
"""

from typing import Literal

import numpy as np

from sketches.centroids import Centroids
from sketches.values import Floats, Ints

Side = Literal["left", "right"]
Rule = Literal["min", "mid", "max"]

LARGEST = np.finfo(np.float64).max
SMALLEST = np.finfo(np.float64).smallest_subnormal
SORT_FROM = 4096  # needles; above, sorting them first makes the binary searches three times as fast


class Staircases:
    """Least and greatest share of the values below a point (side "left") or up to it ("right")."""

    def __init__(self, centroids: Centroids) -> None:
        self._ends, self._ended = _running(centroids.hi, centroids.weight)
        self._begins, self._begun = _running(centroids.lo, centroids.weight)

    def at(self, x: Floats, side: Side) -> tuple[Floats, Floats]:
        return self._ended[_locate(self._ends, x, side)], self._begun[_locate(self._begins, x, side)]


class Curve:
    """The guessed share of the values below or up to a point, inside the staircases."""

    def __init__(self, centroids: Centroids, staircases: Staircases) -> None:
        ends = [-LARGEST, LARGEST]
        self._knots = np.unique(np.concatenate((centroids.lo, centroids.mean, centroids.hi, ends)))
        points, heights = _guess_points(centroids)
        # Halved, because a difference of two doubles can overflow. The left limits are those of the mirrored curve.
        x, xp = self._knots / 2, points / 2
        right = np.interp(x, xp, heights)
        left = -np.interp(-x, -xp[::-1], -heights[::-1])
        self._left = np.clip(left, *staircases.at(self._knots, "left"))
        self._right = np.clip(right, *staircases.at(self._knots, "right"))
        climb = np.maximum.accumulate(np.stack((self._left, self._right), axis=1).ravel())
        self._left, self._right = climb[0::2].copy(), climb[1::2].copy()
        self._climb = climb
        self._gap = np.maximum(np.diff(x, append=LARGEST), SMALLEST)
        self._next = np.append(self._left[1:], self._right[-1])

    def at(self, x: Floats, rule: Rule) -> Floats:
        """The share of the values below x ("min"), up to x ("max"), or the mean of the two ("mid")."""
        j = _locate(self._knots, x, "right") - 1
        knots, base, top = self._knots[j], self._right[j], self._next[j]
        part = np.minimum((x / 2 - knots / 2) / self._gap[j], 1)
        between = np.minimum(base + part * (top - base), top)
        on_knot = {"min": self._left[j], "mid": (self._left[j] + base) / 2, "max": base}[rule]
        return np.where(knots == x, on_knot, between)

    def inverse(self, share: Floats) -> Floats:
        """The smallest x up to which at least this share of the values lies; it must be more than none."""
        j = np.searchsorted(self._climb, share, "left")
        below, above = self._knots[(j - 1) // 2], self._knots[j // 2]
        part = (share - self._climb[j - 1]) / (self._climb[j] - self._climb[j - 1])
        with np.errstate(over="ignore"):  # beyond the largest double is beyond `above`
            found: Floats = np.clip((below / 2 + part * (above / 2 - below / 2)) * 2, below, above)
        return found


def _running(ends: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """The ends in order, and the share of all weight before and at each; divided last, so whole weights stay exact."""
    order = np.argsort(ends, kind="stable")
    sums = np.concatenate(([0.0], np.cumsum(weight[order])))
    return ends[order], sums / sums[-1]


def _guess_points(centroids: Centroids) -> tuple[Floats, Floats]:
    """Where the guess is pinned: a range at its mean, an atom before and after its jump, both ends of it all."""
    before = np.cumsum(centroids.weight) - centroids.weight
    after = before + centroids.weight
    is_atom = centroids.is_atom
    copies = 1 + is_atom
    first = np.cumsum(copies) - copies
    heights = np.empty(copies.sum())
    heights[first] = np.where(is_atom, before, before + centroids.weight / 2)
    heights[first[is_atom] + 1] = after[is_atom]
    points = np.concatenate(([centroids.lo.min()], np.repeat(centroids.mean, copies), [centroids.hi.max()]))
    return points, np.concatenate(([0.0], heights, [after[-1]])) / after[-1]


def _locate(sorted_points: Floats, x: Floats, side: Side) -> Ints:
    """`searchsorted` that sorts many needles first, which keeps the haystack's path in the cache."""
    if x.size < SORT_FROM:
        return np.searchsorted(sorted_points, x, side)
    order = np.argsort(x)
    found = np.empty(x.size, np.int64)
    found[order] = np.searchsorted(sorted_points, x[order], side)
    return found
