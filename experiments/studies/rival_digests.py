"""The sketches of numbers at two sizes, wrapped as the benchmark wraps them (experiments/bench/digests.py).

The settings make each as large as ours when it is saved; REQ knows few sizes, and its smaller one is a fifth larger.
REQ holds single precision: values beyond 3.4e38 cannot enter, and `make_digests` leaves it out.

DDSketch promises values, not ranks: every value of a bin is alike to it. Its rank of x is what its bins say: all below
x, and of x's own bin the part below x as if values were spread evenly in it, or half where they are known to repeat.
It is told beforehand the range of the values, so that its bins just cover it: the kindest setting there is.
"""

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import datasketches
import numpy as np
from ddsketch import DDSketch

from experiments.bench.digests import Contestant, DataSketches, FastDigest, Toptail
from experiments.studies.rivals import DD, FAST, KLL, LARGE, OURS, REQ, SMALL, TDIGEST
from sketches.values import Floats

BIN_BYTES = 8

_ABOVE_KEYS = 2.0**40  # added to keys, so that their sign is free for that of the value
_SINGLE_MAX = float(np.finfo(np.float32).max)


class Settings(NamedTuple):
    """What makes each sketch as large as the others."""

    ours: int
    tdigest: int
    kll: int
    req: int
    fast: int
    bins: int


SIZES = {
    SMALL: Settings(ours=120, tdigest=166, kll=156, req=6, fast=240, bins=490),
    LARGE: Settings(ours=500, tdigest=740, kll=680, req=26, fast=1000, bins=2000),
}


def make_digests(size: str, values: Floats, *, is_tied: bool = False) -> dict[str, Contestant]:
    """All sketches that can take the values, by name."""
    settings = SIZES[size]
    digests: dict[str, Contestant] = {
        OURS: Toptail(settings.ours),
        TDIGEST: DataSketches("tdigest_double", settings.tdigest),
        KLL: DataSketches("kll_doubles_sketch", settings.kll),
        REQ: Req(settings.req),
        FAST: FastDigest(settings.fast),
        DD: DdSketch(fit_accuracy(values, settings.bins), inside="half" if is_tied else "spread"),
    }
    if np.abs(values).max() > _SINGLE_MAX:
        del digests[REQ]
    return digests


class Req:
    """datasketches' REQ, accurate at high ranks; it takes and is asked single precision."""

    thin = 1

    def __init__(self, k: int) -> None:
        self._k = k
        self.name = f"datasketches req({k})"

    def take(self, numbers: Floats) -> Any:
        return numbers.astype(np.float32)

    def build(self, batches: Sequence[Any]) -> Any:
        sketch = datasketches.req_floats_sketch(self._k)
        for batch in batches:
            sketch.update(batch)
        return sketch

    def ranks(self, digest: Any, points: Any) -> Floats:
        distinct, place = np.unique(points, return_inverse=True)
        return np.array(digest.get_cdf(distinct))[place]

    def merge(self, shards: Sequence[Any]) -> Any:
        sketch = datasketches.req_floats_sketch(self._k)
        for shard in shards:
            sketch.merge(shard)
        return sketch

    def reload(self, digest: Any) -> tuple[Any, int]:
        blob = digest.serialize()
        return datasketches.req_floats_sketch.deserialize(blob), len(blob)


class DdSketch:
    """Datadog's sketch with bins of one relative width; its bytes are its bins, 8 each."""

    thin = 1

    def __init__(self, accuracy: float, *, inside: Literal["spread", "half"] = "spread") -> None:
        self._accuracy, self._is_spread = accuracy, inside == "spread"
        self.name = f"ddsketch DDSketch({accuracy:.2g})"

    def take(self, numbers: Floats) -> Floats:
        return numbers

    def build(self, batches: Sequence[Floats]) -> Any:
        """Values of one bin are added at once, as one of them with a weight: the sketch cannot tell."""
        sketch = DDSketch(self._accuracy)
        for batch in batches:
            _, first, counts = np.unique(_keys(sketch, batch), return_index=True, return_counts=True)
            for value, count in zip(batch[first].tolist(), counts.tolist(), strict=True):
                sketch.add(value, count)
        return sketch

    def ranks(self, digest: Any, points: Floats) -> Floats:
        low, high, counts = _bins(digest)
        below = np.concatenate(([0.0], np.cumsum(counts)))
        place = np.minimum(np.searchsorted(high, points), len(high) - 1)
        width = high[place] - low[place]
        part = np.full(len(points), 0.5)
        if self._is_spread:
            np.divide(points - low[place], width, out=part, where=width > 0)
        return np.asarray((below[place] + np.clip(part, 0, 1) * counts[place]) / below[-1])

    def merge(self, shards: Sequence[Any]) -> Any:
        sketch = DDSketch(self._accuracy)
        for shard in shards:
            sketch.merge(shard)
        return sketch

    def reload(self, digest: Any) -> tuple[Any, int]:
        return digest, BIN_BYTES * len(_bins(digest)[2])


def fit_accuracy(values: Floats, bins: int) -> float:
    """The relative accuracy at which the range of the values takes just so many bins."""
    sizes = np.abs(values[values != 0])
    sides = [sizes[values[values != 0] > 0], sizes[values[values != 0] < 0]]
    span = sum(math.log(side.max() / side.min()) for side in sides if len(side))
    return max(math.tanh(span / (bins - 4) / 2), 1e-9)  # each side may touch one bin more than its range fills


def _keys(sketch: Any, values: Floats) -> Floats:
    """A number a bin: what DDSketch's mapping computes, for a whole array, with the sign of the value."""
    size = np.abs(values)
    keys = np.ceil(np.log2(size, out=np.zeros_like(size), where=size > 0) * sketch._mapping._multiplier)
    return np.asarray(np.sign(values) * (keys + _ABOVE_KEYS))


def _bins(sketch: Any) -> tuple[Floats, Floats, Floats]:
    """Where each bin begins and ends, ascending, and its count; there is no call for ranks, so the stores are read."""
    above, below = _side(sketch, sketch._store), _side(sketch, sketch._negative_store)
    zero = np.array([0.0] if sketch._zero_count else [])
    low = np.concatenate((-below[1][::-1], zero, above[0]))
    high = np.concatenate((-below[0][::-1], zero, above[1]))
    return low, high, np.concatenate((below[2][::-1], zero + sketch._zero_count, above[2]))


def _side(sketch: Any, store: Any) -> tuple[Floats, Floats, Floats]:
    if not store.count:
        return np.empty(0), np.empty(0), np.empty(0)
    keys = np.arange(store.min_key, store.max_key + 1)
    counts = np.array(store.bins)[keys - store.offset]
    step = 1 / sketch._mapping._multiplier
    return np.exp2((keys - 1) * step), np.exp2(keys * step), counts
