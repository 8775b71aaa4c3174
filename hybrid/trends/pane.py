"""One pane: the sketches of what one partition counted within one slice of time.

    heavy      Space-Saving over items: the heaviest, with the least and the most that they can have occurred
    cells      Count-Min over items: an upper bound for any item, often below Space-Saving's
    visitors   a HyperLogLog over the actors of each heavy item, from when on it was heavy
    actors     Space-Saving over actors, where the trend caps what one of them may add

Everything is absorbed in whole batches. An item that was not heavy from the start has visitors that were not seen: at
most as many as its count may be wrong by, which is why `error` belongs to the upper bound of its actors.

Late and capped events are counted here too, so that a window can say what it does not contain.
"""

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from datasketches import hll_sketch, hll_union, tgt_hll_type

from hybrid.orderkey import Ints
from hybrid.trends.config import DEPTH, WIDTH_SHARE, Trend
from hybrid.trends.events import Rows
from sketches import CountMin, SpaceSaving, tally
from sketches.siphash import siphash

VISITORS_LG_K = 10  # 1,024 registers: a standard error of 3.3 %
_SIGMAS = 2  # the interval around a number of actors is two standard errors wide on each side
_zstd = pa.Codec("zstd", 1)


class _Saved(msgspec.Struct, array_like=True):
    """A pane as bytes."""

    heavy: bytes
    cells: bytes
    visitors: dict[str, bytes]
    actors: bytes | None
    late: int
    capped: int


class Pane:
    """The sketches of one pane."""

    def __init__(self, trend: Trend) -> None:
        self._capacity, self._key = trend.config.capacity, trend.secret
        self.heavy = SpaceSaving(self._capacity)
        self.cells = CountMin(width_of(self._capacity), DEPTH, key=self._key)
        self.visitors: dict[str, hll_sketch] = {}
        self.late = 0
        self.capped = 0
        self._actors: SpaceSaving | None = None

    @property
    def total(self) -> int:
        """Events that were counted."""
        return self.heavy.total

    def absorb(self, batch: "PaneBatch") -> None:
        """Count a batch, as one exact summary."""
        self.heavy.update(batch.tally)
        self.cells.merge(batch.cells)
        if batch.rows.has_actors or self.visitors:
            self._welcome(batch.rows, batch.counts)

    def cap(self, actors: pa.LargeStringArray, counts: Ints, cap: int) -> Ints:
        """How much of each row its actor may still add; the rows are all of this pane, and have an actor."""
        self._actors = self._actors or SpaceSaving(self._capacity)
        batch = tally(actors, counts)
        surely, _ = self._actors.bounds(batch.items)  # never more than he really sent: nobody is capped too early
        left = np.maximum(cap - surely, 0)
        self._actors.update(batch)
        of_row = pc.index_in(actors, value_set=batch.items).to_numpy()
        allowed = counts.copy()
        for actor in np.flatnonzero(batch.counts > left).tolist():
            rows = np.flatnonzero(of_row == actor)
            # Shares of what is left, rounded so that they sum to it. Python's ints: products may pass 63 bits.
            shares = [
                int(sent) * int(left[actor]) // int(batch.counts[actor]) for sent in np.cumsum(counts[rows]).tolist()
            ]
            allowed[rows] = np.diff(shares, prepend=0)
        return allowed

    def _welcome(self, rows: Rows, counts: Ints) -> None:
        """Count the actors of what is heavy now, and forget those of what is no longer."""
        heavy = self.heavy.counters().items
        is_seen = pc.and_(pc.is_in(rows.items, value_set=heavy), rows.actors.is_valid()).to_numpy(zero_copy_only=False)
        seen = pa.array(np.flatnonzero(is_seen & (counts > 0)))
        hashes = siphash(rows.actors.take(seen), self._key)
        for item, actor in zip(rows.items.take(seen).to_pylist(), hashes.tolist(), strict=True):
            known = self.visitors.get(item)
            if known is None:
                known = self.visitors[item] = hll_sketch(VISITORS_LG_K, tgt_hll_type.HLL_4)
            known.update(actor - 2**63)  # as a signed number
        if len(self.visitors) > len(heavy):
            kept = set(heavy.to_pylist())
            self.visitors = {item: known for item, known in self.visitors.items() if item in kept}

    def to_bytes(self) -> bytes:
        saved = _Saved(
            self.heavy.to_bytes(),
            self.cells.to_bytes(),
            {item: bytes(known.serialize_compact()) for item, known in self.visitors.items()},
            None if self._actors is None else self._actors.to_bytes(),
            self.late,
            self.capped,
        )
        plain = msgspec.msgpack.encode(saved)
        return len(plain).to_bytes(8, "little") + bytes(_zstd.compress(plain))

    @classmethod
    def from_bytes(cls, trend: Trend, data: bytes) -> "Pane":
        plain = _zstd.decompress(data[8:], int.from_bytes(data[:8], "little"))
        saved = msgspec.msgpack.decode(plain, type=_Saved)
        pane = cls(trend)
        pane.heavy = SpaceSaving.from_bytes(saved.heavy)
        pane.cells = CountMin.from_bytes(saved.cells, key=trend.secret)
        pane.visitors = {item: hll_sketch.deserialize(known) for item, known in saved.visitors.items()}
        pane._actors = None if saved.actors is None else SpaceSaving.from_bytes(saved.actors)
        pane.late, pane.capped = saved.late, saved.capped
        return pane


class PaneBatch:
    """So much of each of these rows, ready to be absorbed by any number of panes: each item is hashed once for all."""

    def __init__(self, trend: Trend, rows: Rows, counts: Ints) -> None:
        self.rows, self.counts = rows, counts
        self.tally = tally(rows.items, counts)
        self.cells = CountMin(width_of(trend.config.capacity), DEPTH, key=trend.secret)
        self.cells.update(self.tally)


def count_visitors(panes: list[Pane], item: str) -> tuple[int, float, float] | None:
    """At least, about and at most how many actors an item had in these panes, by what was seen; None if in none."""
    seen = [pane.visitors[item] for pane in panes if item in pane.visitors]
    if not seen:
        return None
    union = hll_union(VISITORS_LG_K)
    for known in seen:
        union.update(known)
    return int(union.get_lower_bound(_SIGMAS)), union.get_estimate(), union.get_upper_bound(_SIGMAS)


def width_of(capacity: int) -> int:
    """Cells in a row of Count-Min: a power of two."""
    return 1 << (WIDTH_SHARE * capacity - 1).bit_length()
