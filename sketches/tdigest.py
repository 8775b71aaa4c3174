"""TDigest: a merging t-digest that proves an interval for every answer.

Reference: T. Dunning, O. Ertl, "Computing extremely accurate quantiles using t-digests", 2019. Added here: centroids
carry the range of their values (centroids.py), from which `bounds` follows as a proof (curve.py), repeated values
stay exact, and a digest can be built from exact rank samples.

Not handled: taking values away. A digest that is fed every update of a player counts updates, not players; rebuild it
from the current values instead (`from_rank_samples`).
"""

from typing import Any, Self, overload

import numpy as np

from sketches import blob
from sketches.centroids import EMPTY, Centroids, compress, is_ordered, join, summarise
from sketches.curve import SMALLEST, Curve, Rule, Side, Staircases
from sketches.errors import CorruptBlob, EmptySketch, Incompatible, InvalidInput, TooLarge
from sketches.scales import SCALES, parse_scale
from sketches.values import Floats, Ints, Numbers, parse_counts, parse_numbers, parse_size, parse_values

MIN_COMPRESSION, MAX_COMPRESSION = 10, 10_000
MAX_COUNT = 2**53  # beyond it a double no longer counts one by one
BATCH = 4  # times `compression` cells for a batch by itself, before it is merged
FINE = 2  # while values stream in, this many times `compression` cells: merging again and again then adds no error
PENDING = 8  # times `compression`: small updates wait until so many centroids make one compression worth it


class TDigest:
    """The distribution of a stream of numbers, in at most 32 x compression bytes.

    Guarantee   `bounds` contains the true share of values below x, for any stream, any cut into updates and any merge
                tree; `cdf` lies inside it. Up to 2 x compression distinct values everything is exact, and a value that
                repeats often enough to fill a cell is kept apart from then on. Whole weights are summed exactly.
    Basis       Dunning & Ertl 2019, merging variant; k1 scale: a cell holds at most pi / (2 compression) of the values.
    Merge       Any compressions and scales; the result keeps this one's. Bounds stay proved.
    Does not    forget or subtract. Nor guess well inside a cell whose values spread over many orders of magnitude.
    Cost        see docs/benchmarks.md for time and error beside the alternatives.
    """

    def __init__(self, compression: int = 500, *, scale: str = "k1") -> None:
        self._compression = parse_size(compression, "compression", MIN_COMPRESSION, MAX_COMPRESSION)
        self._scale = parse_scale(scale)
        self._fine = EMPTY
        self._pending: list[Centroids] = []
        self._count = 0.0
        self._packed: Centroids | None = None
        self._staircases: Staircases | None = None
        self._curve: Curve | None = None

    @classmethod
    def from_rank_samples(
        cls, values: Numbers, ranks: Numbers, count: int, *, compression: int = 500, scale: str = "k1"
    ) -> Self:
        """The digest of `count` values of which some are known: values[i] stands at 0-based rank ranks[i], ascending.

        The first and the last must be among them, so that every value lies between two known ones. The values in
        between are a range each, and repeated samples an atom: all bounds stay proved.
        """
        digest = cls(compression, scale=scale)
        known, _ = parse_values(values)
        places = parse_counts(ranks, "ranks")
        count = parse_size(count, "count", 0, MAX_COUNT)
        _check_samples(known, places, count)
        if count:
            digest._take(_between_samples(known, places), float(count))
        return digest

    def __repr__(self) -> str:
        return f"TDigest(compression={self._compression}, scale={self._scale.name!r}, count={self._count:.17g})"

    @property
    def compression(self) -> int:
        return self._compression

    @property
    def scale(self) -> str:
        return self._scale.name

    @property
    def count(self) -> float:
        """The sum of all weights: the number of values where none were given."""
        return self._count

    @property
    def min(self) -> float:
        return float(self._require_centroids().lo.min())

    @property
    def max(self) -> float:
        return float(self._require_centroids().hi.max())

    @property
    def centroids(self) -> Centroids:
        """Means, weights and ranges, as they are saved and asked."""
        if self._packed is None:
            self._settle()
            self._packed = compress(self._fine, self._compression, self._scale)
        return self._packed

    def update(self, values: float | Numbers, weights: float | Numbers | None = None) -> None:
        """Take in a batch of values, each with its weight, or 1."""
        numbers, loads = parse_values(values, weights)
        if numbers.size:
            count = len(numbers) if loads is None else float(loads.sum())
            self._take(summarise(numbers, loads, BATCH * self._compression, self._scale), count)

    def merge(self, *others: "TDigest") -> None:
        """Take in other digests, all at once; they stay as they are."""
        for other in others:
            if not isinstance(other, TDigest):
                raise Incompatible(f"a TDigest merges with TDigests only, not {other!r}")
        parts = [part for other in others for part in (other._fine, *other._pending) if len(part.mean)]
        if parts:
            self._take(join(parts), sum(other.count for other in others))

    @overload
    def cdf(self, x: float, rule: Rule = "mid") -> float: ...
    @overload
    def cdf(self, x: Numbers, rule: Rule = "mid") -> Floats: ...
    def cdf(self, x: float | Numbers, rule: Rule = "mid") -> float | Floats:
        """The estimated share of values below x (rule "min"), up to x ("max"), or the mean of both ("mid")."""
        if rule not in ("min", "mid", "max"):
            raise InvalidInput(f"rule must be min, mid or max, not {rule!r}")
        points = parse_numbers(x, "x")
        if not points.size:
            return points
        return _like(self._require_curve().at(points.ravel(), rule), points)

    @overload
    def quantile(self, q: float) -> float: ...
    @overload
    def quantile(self, q: Numbers) -> Floats: ...
    def quantile(self, q: float | Numbers) -> float | Floats:
        """The estimated value up to which a share q of the values lies; 0 and 1 give min and max exactly."""
        shares = parse_numbers(q, "q")
        if not shares.size:
            return shares
        if shares.min() < 0 or shares.max() > 1:
            raise InvalidInput(f"q must lie from 0 to 1, not {shares.min() if shares.min() < 0 else shares.max()}")
        flat = shares.ravel()
        inner = np.clip(self._require_curve().inverse(np.maximum(flat, SMALLEST)), self.min, self.max)
        return _like(np.where(flat == 0, self.min, np.where(flat == 1, self.max, inner)), shares)

    @overload
    def bounds(self, x: float, side: Side = "left") -> tuple[float, float]: ...
    @overload
    def bounds(self, x: Numbers, side: Side = "left") -> tuple[Floats, Floats]: ...
    def bounds(self, x: float | Numbers, side: Side = "left") -> tuple[Any, Any]:
        """The proved least and greatest share of values below x (side "left") or up to x ("right")."""
        if side not in ("left", "right"):
            raise InvalidInput(f"side must be left or right, not {side!r}")
        points = parse_numbers(x, "x")
        if not points.size:
            return points, points
        low, high = self._require_staircases().at(points.ravel(), side)
        return _like(low, points), _like(high, points)

    def to_bytes(self) -> bytes:
        """Everything the digest answers from, as one checked blob (blob.py).

        Payload: the count; one bit a centroid, set for ranges; all means; all weights; lo and hi of the ranges.
        """
        mean, weight, lo, hi = self.centroids
        is_range = ~self.centroids.is_atom
        columns = (np.array([self._count]), mean, weight, lo[is_range], hi[is_range])
        payload = np.packbits(is_range).tobytes() + b"".join(column.astype("<f8").tobytes() for column in columns)
        return blob.seal(blob.TDIGEST, (self._compression, self._scale.code, len(mean)), payload)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The digest that `to_bytes` wrote; anything else raises CorruptBlob."""
        (compression, code, n), payload = blob.unseal(data, blob.TDIGEST)
        scale = next((name for name, scale in SCALES.items() if scale.code == code), None)
        if scale is None or not MIN_COMPRESSION <= compression <= MAX_COMPRESSION or n > 2 * compression:
            raise CorruptBlob(f"not a t-digest: compression {compression}, scale code {code}, {n} centroids")
        digest = cls(compression, scale=scale)
        digest._count, digest._fine = _parse_payload(payload, n)
        if n and digest.centroids is not digest._fine:
            raise CorruptBlob("not a t-digest: its centroids are not in compressed form")
        return digest

    def _take(self, centroids: Centroids, count: float) -> None:
        """Add ordered centroids of this weight: at once when they are many, else when enough wait."""
        if self._count + count > MAX_COUNT:
            raise TooLarge(f"a digest counts to 2^53, not to {self._count + count:.17g}")
        self._pending.append(centroids)
        self._count += count
        self._packed = self._staircases = self._curve = None
        if sum(len(part.mean) for part in self._pending) >= PENDING * self._compression:
            self._settle()

    def _settle(self) -> None:
        if not self._pending:
            return
        self._fine = compress(join([self._fine, *self._pending]), FINE * self._compression, self._scale)
        self._pending = []

    def _require_centroids(self) -> Centroids:
        if not self._count:
            raise EmptySketch("an empty digest has no values to ask about")
        return self.centroids

    def _require_staircases(self) -> Staircases:
        if self._staircases is None:
            self._staircases = Staircases(self._require_centroids())
        return self._staircases

    def _require_curve(self) -> Curve:
        if self._curve is None:
            self._curve = Curve(self._require_centroids(), self._require_staircases())
        return self._curve


def _like(answers: Floats, asked: Floats) -> float | Floats:
    """A float for a scalar question, an array of its shape for an array."""
    return answers.reshape(asked.shape) if asked.ndim else float(answers[0])


def _check_samples(values: Floats, ranks: Ints, count: int) -> None:
    if len(values) != len(ranks):
        raise InvalidInput(f"{len(values)} values need as many ranks, not {len(ranks)}")
    if (len(values) == 0) != (count == 0):
        raise InvalidInput(f"{len(values)} samples cannot stand for {count} values")
    if (values[1:] < values[:-1]).any() or (ranks[1:] <= ranks[:-1]).any():
        raise InvalidInput("samples must be in order: values ascending, ranks strictly ascending")
    if count and (ranks[0] != 0 or ranks[-1] != count - 1):
        raise InvalidInput(f"samples must span ranks 0 to {count - 1}, not {ranks[0]} to {ranks[-1]}")


def _between_samples(values: Floats, ranks: Ints) -> Centroids:
    """Each sample as an atom of one value, and what lies between two samples as a range."""
    between = np.diff(ranks) - 1
    lo, hi = values[:-1][between > 0], values[1:][between > 0]
    middle = np.clip(lo / 2 + hi / 2, lo, hi)
    atoms = Centroids(values, np.ones(len(values)), values, values)
    return join([atoms, Centroids(middle, between[between > 0].astype(np.float64), lo, hi)])


def _parse_payload(payload: memoryview, n: int) -> tuple[float, Centroids]:
    """Count and centroids, every invariant checked; the caller has bounded n."""
    flag_bytes = (n + 7) // 8
    flags = np.unpackbits(np.frombuffer(payload[:flag_bytes], np.uint8))
    is_range, padding = flags[:n].astype(bool), flags[n:]
    ranges = int(is_range.sum())
    if len(payload) != flag_bytes + 8 * (1 + 2 * n + 2 * ranges) or padding.any():
        raise CorruptBlob(f"not a t-digest: {len(payload)} bytes for {n} centroids, {ranges} of them ranges")
    numbers = np.frombuffer(payload[flag_bytes:], "<f8").astype(np.float64)
    count, mean, weight = float(numbers[0]), numbers[1 : 1 + n], numbers[1 + n : 1 + 2 * n]
    lo, hi = mean.copy(), mean.copy()
    lo[is_range], hi[is_range] = numbers[1 + 2 * n :].reshape(2, ranges)
    centroids = Centroids(mean, weight, lo, hi)
    is_sound = (
        np.isfinite(numbers).all()
        and (weight > 0).all()
        and ((lo < hi) == is_range).all()
        and ((lo <= mean) & (mean <= hi)).all()
        and is_ordered(centroids)
        and 0 <= count <= MAX_COUNT
        and abs(float(weight.sum()) - count) <= count * 1e-9
    )
    if not is_sound:
        raise CorruptBlob("not a t-digest: its centroids contradict each other")
    return count, centroids
