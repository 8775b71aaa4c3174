"""The quantile digests that compete, each used in the way that is fastest for it.

Numbers reach a contestant in the form that it takes fastest (`take`, outside the clock): numpy arrays, or plain lists
for fastdigest, which reads them a third faster. Then `build`, `ranks` and `merge` run under the clock and leave nothing
undone. `reload` gives the digest as it comes back from its own bytes, and how many they are.

Two sizes of each peer: compression 500 as ours, and the setting at which its bytes are about ours, because our bytes
also hold the proof. Not handled: quantiles; datasketches 5.2.0 interpolates them backwards, its ranks are right.
"""

import random
from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import Any, Protocol

import crick
import datasketches
import fastdigest
import numpy as np
import tdigest

from sketches import TDigest
from sketches.values import Floats

CENTROID_BYTES = 16  # mean and weight, where a library has no byte format


class Contestant(Protocol):
    """What the benchmark asks of a digest; `thin` = k means that it sees every k-th value and question only."""

    name: str
    thin: int

    def take(self, numbers: Floats) -> Any: ...
    def build(self, batches: Sequence[Any]) -> Any: ...
    def ranks(self, digest: Any, points: Any) -> Any: ...
    def merge(self, shards: Sequence[Any]) -> Any: ...
    def reload(self, digest: Any) -> tuple[Any, int]: ...


class Toptail:
    thin = 1

    def __init__(self, compression: int) -> None:
        self._compression = compression
        self.name = f"toptail TDigest({compression})"

    def take(self, numbers: Floats) -> Floats:
        return numbers

    def build(self, batches: Sequence[Floats]) -> TDigest:
        digest = TDigest(self._compression)
        for batch in batches:
            digest.update(batch)
        return _settled(digest)

    def ranks(self, digest: TDigest, points: Floats) -> Floats:
        return digest.cdf(points)

    def merge(self, shards: Sequence[TDigest]) -> TDigest:
        digest = TDigest(self._compression)
        digest.merge(*shards)
        return _settled(digest)

    def reload(self, digest: TDigest) -> tuple[TDigest, int]:
        blob = digest.to_bytes()
        return TDigest.from_bytes(blob), len(blob)


def _settled(digest: TDigest) -> TDigest:
    """Asking for the centroids does the work that updates may put off."""
    _ = digest.centroids
    return digest


class DataSketches:
    """Its t-digest and its KLL: the same calls. `get_cdf` is the vectorised `get_rank`; it wants sorted points."""

    thin = 1

    def __init__(self, kind: str, k: int) -> None:
        self._make, self._k = getattr(datasketches, kind), k
        self.name = f"datasketches {kind.removesuffix('_sketch')}({k})"

    def take(self, numbers: Floats) -> Floats:
        return numbers

    def build(self, batches: Sequence[Floats]) -> Any:
        sketch = self._make(self._k)
        for batch in batches:
            sketch.update(batch)
        return _compressed(sketch)

    def ranks(self, digest: Any, points: Floats) -> Floats:
        distinct, place = np.unique(points, return_inverse=True)
        return np.array(digest.get_cdf(distinct))[place]

    def merge(self, shards: Sequence[Any]) -> Any:
        sketch = self._make(self._k)
        for shard in shards:
            sketch.merge(shard)
        return _compressed(sketch)

    def reload(self, digest: Any) -> tuple[Any, int]:
        blob = digest.serialize()
        return self._make.deserialize(blob), len(blob)


def _compressed(sketch: Any) -> Any:
    if hasattr(sketch, "compress"):
        sketch.compress()
    return sketch


class FastDigest:
    thin = 1

    def __init__(self, max_centroids: int) -> None:
        self._max_centroids = max_centroids
        self.name = f"fastdigest TDigest({max_centroids})"

    def take(self, numbers: Floats) -> list[float]:
        taken: list[float] = numbers.tolist()
        return taken

    def build(self, batches: Sequence[list[float]]) -> fastdigest.TDigest:
        digest = fastdigest.TDigest(max_centroids=self._max_centroids)
        for batch in batches:
            digest.batch_update(batch)
        return digest

    def ranks(self, digest: fastdigest.TDigest, points: list[float]) -> list[float]:
        return digest.cdf_vec(points)

    def merge(self, shards: Sequence[fastdigest.TDigest]) -> fastdigest.TDigest:
        return fastdigest.merge_all(shards, max_centroids=self._max_centroids)

    def reload(self, digest: fastdigest.TDigest) -> tuple[fastdigest.TDigest, int]:
        blob = digest.to_bytes()
        return fastdigest.TDigest.from_bytes(blob), len(blob)


class Crick:
    thin = 1

    def __init__(self, compression: int) -> None:
        self._compression = compression
        self.name = f"crick TDigest({compression})"

    def take(self, numbers: Floats) -> Floats:
        return numbers

    def build(self, batches: Sequence[Floats]) -> Any:
        digest = crick.TDigest(self._compression)
        for batch in batches:
            digest.update(batch)
        digest.centroids()  # takes in what is still buffered
        return digest

    def ranks(self, digest: Any, points: Floats) -> Any:
        return digest.cdf(points)

    def merge(self, shards: Sequence[Any]) -> Any:
        digest = crick.TDigest(self._compression)
        digest.merge(*shards)
        digest.centroids()
        return digest

    def reload(self, digest: Any) -> tuple[Any, int]:
        return digest, CENTROID_BYTES * len(digest.centroids())


class PureTDigest:
    """PyPI's `tdigest` with its default settings. It draws from the global `random`, which is therefore seeded."""

    thin = 50
    name = "tdigest TDigest()"

    def take(self, numbers: Floats) -> list[float]:
        taken: list[float] = numbers.tolist()
        return taken

    def build(self, batches: Sequence[list[float]]) -> Any:
        random.seed(0)
        digest = tdigest.TDigest()
        for batch in batches:
            digest.batch_update(batch)
        return digest

    def ranks(self, digest: Any, points: list[float]) -> list[float]:
        return list(map(digest.cdf, points))

    def merge(self, shards: Sequence[Any]) -> Any:
        return reduce(add, shards)

    def reload(self, digest: Any) -> tuple[Any, int]:
        return digest, CENTROID_BYTES * len(digest)


OURS = Toptail(500)
TDIGEST_DOUBLE = DataSketches("tdigest_double", 500)
FASTDIGEST = FastDigest(500)
PURE = PureTDigest()
CONTESTANTS: tuple[Contestant, ...] = (
    OURS,
    TDIGEST_DOUBLE,
    DataSketches("tdigest_double", 740),
    DataSketches("kll_doubles_sketch", 680),
    FASTDIGEST,
    FastDigest(1000),
    Crick(500),
    Crick(780),
    PURE,
)


def cut_batches(contestant: Contestant, values: Floats, size: int) -> list[Any]:
    """Batches in the form that the contestant takes."""
    return [contestant.take(values[at : at + size]) for at in range(0, len(values), size)]


def make_shards(contestant: Contestant, values: Floats, count: int) -> list[Any]:
    """One digest for each of `count` consecutive pieces, saved and loaded."""
    pieces = np.array_split(values, count)
    return [contestant.reload(contestant.build([contestant.take(piece)]))[0] for piece in pieces]
