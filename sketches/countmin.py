"""CountMin: how often did any item occur, at most?

`depth` rows of `width` cells. An item is hashed once (siphash.py); row i counts it in the cell

    (hash * odd_i mod 2^64) >> (64 - log2 width)

with one odd multiplier a row, itself drawn from the key. Every cell holds at least the count of each of its items, so
the smallest of an item's cells is never under the truth. (Splitting one hash into pieces, or hash + i * hash2, makes
rows that collide together; multiply-shift does not.)

Cells are 32 bits wide and become 64 the first time that a count needs it, so no count ever wraps around.

Reference: G. Cormode, S. Muthukrishnan, "An improved data stream summary: the count-min sketch", 2005. Conservative
update: C. Estan, G. Varghese, 2002.
"""

from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sketches import blob
from sketches.errors import CorruptBlob, Incompatible, InvalidInput, TooLarge
from sketches.items import Items, Tally, parse_items, tally
from sketches.siphash import check_key, siphash
from sketches.values import MAX_TOTAL, Ints, Numbers, exact_sum, parse_size

MAX_WIDTH, MAX_DEPTH = 2**26, 16
NARROW_MAX = 2**32 - 1

Cells = NDArray[np.integer[Any]]


class ErrorBound(NamedTuple):
    """An estimate exceeds the truth by more than `excess` with a chance of at most `chance`."""

    excess: float
    chance: float


class CountMin:
    """Upper bounds for the counts of all items of a stream, in width x depth cells.

    Guarantee   truth <= estimate, always. For one item, estimate > truth + e / width x total with a chance of at
                most exp(-depth), over the choice of the key.
    Basis       Cormode & Muthukrishnan 2005; rows by multiply-shift of one SipHash-2-4.
    Merge       Equal width, depth, key and kind of update; then it equals one sketch of both streams (conservative:
                its estimates stay upper bounds, but looser than those of one sketch).
    Does not    list items: pair it with a SpaceSaving. Nor take counts back: a conservative sketch could not, because
                its cells hold no sums.
    Cost        see docs/benchmarks.md.
    """

    def __init__(self, width: int, depth: int, *, key: bytes, conservative: bool = False) -> None:
        self._width = parse_size(width, "width", 2, MAX_WIDTH)
        if self._width & (self._width - 1):
            raise InvalidInput(f"width must be a power of two, not {width}")
        self._depth = parse_size(depth, "depth", 1, MAX_DEPTH)
        self._key = check_key(key)
        self._is_conservative = bool(conservative)
        rows = pa.array([f"row {i}" for i in range(self._depth)], pa.large_string())
        self._odd = siphash(rows, key) | np.uint64(1)
        self._cells: Cells = np.zeros((self._depth, self._width), np.uint32)
        self._total = 0

    def __repr__(self) -> str:
        kind = ", conservative=True" if self._is_conservative else ""
        return f"CountMin(width={self._width}, depth={self._depth}{kind}, key=<hidden>, total={self._total})"

    @property
    def width(self) -> int:
        return self._width

    @property
    def depth(self) -> int:
        return self._depth

    @property
    def is_conservative(self) -> bool:
        return self._is_conservative

    @property
    def total(self) -> int:
        """The sum of all counts taken in."""
        return self._total

    def update(self, items: Items | Tally, counts: Numbers | None = None) -> None:
        """Count a batch of items, or a Tally of them."""
        batch = tally(items, counts)
        self._reserve(batch.total)
        places = self._places(batch.items)
        if self._is_conservative:
            # Each cell need only reach the new bound of its own items: the largest of them, not their sum.
            reached = self._smallest(places) + batch.counts
            for row, place in zip(self._cells, places, strict=True):
                np.maximum.at(row, place, reached.astype(row.dtype))
        else:
            for row, place in zip(self._cells, places, strict=True):
                np.add.at(row, place, batch.counts.astype(row.dtype))
        self._total += batch.total

    def estimate(self, items: Items) -> Ints:
        """At most this often did each of these items occur."""
        return self._smallest(self._places(parse_items(items)))

    def places(self, items: Items) -> list[Ints]:
        """For each row the cell of each item: the same in every sketch of this shape and key."""
        return self._places(parse_items(items))

    def estimate_at(self, places: list[Ints]) -> Ints:
        """The estimates of items whose places are known already."""
        return self._smallest(places)

    def error_bound(self) -> ErrorBound:
        """How far an estimate may lie above the truth, and with what chance further."""
        return ErrorBound(float(np.e) * self._total / self._width, float(np.exp(-self._depth)))

    def merge(self, *others: "CountMin") -> None:
        """Add other sketches of the same shape, key and kind; they stay as they are."""
        for other in others:
            self._check_like(other)
        added = [other._cells.copy() if other is self else other._cells for other in others]
        total = sum(other._total for other in others)
        self._reserve(total)
        for cells in added:
            self._cells += cells.astype(self._cells.dtype)
        self._total += total

    def to_bytes(self) -> bytes:
        """The sketch as one checked blob (blob.py), with the id of its key but not the key.

        Payload: the total, then all cells row by row, as wide as they need to be.
        """
        cells = self._cells.astype("<u4" if self._is_narrow(int(self._cells.max())) else "<i8")
        flags = int(self._is_conservative) | (cells.dtype.itemsize << 8)
        payload = self._total.to_bytes(8, "little") + cells.tobytes()
        return blob.seal(blob.COUNT_MIN, (self._width, self._depth, flags), payload, blob.make_key_id(self._key))

    @classmethod
    def from_bytes(cls, data: bytes, *, key: bytes) -> Self:
        """The sketch that `to_bytes` wrote; a damaged one raises CorruptBlob, another key Incompatible."""
        key_id = blob.make_key_id(check_key(key))
        (width, depth, flags), payload = blob.unseal(data, blob.COUNT_MIN, key_id)
        cell_bytes, is_conservative = flags >> 8, bool(flags & 1)
        is_shape = 2 <= width <= MAX_WIDTH and width & (width - 1) == 0 and 1 <= depth <= MAX_DEPTH
        if not is_shape or cell_bytes not in (4, 8) or flags & 0xFE:
            raise CorruptBlob(f"not a count-min sketch: width {width}, depth {depth}, flags {flags:#x}")
        if len(payload) != 8 + width * depth * cell_bytes:
            raise CorruptBlob(f"not a count-min sketch: {len(payload)} bytes for {depth} rows of {width} cells")
        sketch = cls(width, depth, key=key, conservative=is_conservative)
        sketch._total = int.from_bytes(payload[:8], "little")
        cells = np.frombuffer(payload[8:], "<u4" if cell_bytes == 4 else "<i8").reshape(depth, width)
        _check_cells(cells, sketch._total, is_conservative)
        sketch._cells = cells.astype(np.uint32 if cell_bytes == 4 else np.int64)
        return sketch

    def _check_like(self, other: "CountMin") -> None:
        mine = (self._width, self._depth, self._is_conservative, self._key)
        if not isinstance(other, CountMin):
            raise Incompatible(f"a CountMin merges with CountMins only, not {other!r}")
        if mine != (other._width, other._depth, other._is_conservative, other._key):
            raise Incompatible(f"{self!r} and {other!r} differ in shape, kind of update or key")

    def _reserve(self, added: int) -> None:
        """Make room for counts that sum to `added`, before anything is written."""
        if self._total + added > MAX_TOTAL:
            raise TooLarge(f"a count-min sketch counts to 2^63 - 1, not to {self._total + added}")
        if self._cells.dtype == np.uint32 and not self._is_narrow(int(self._cells.max()) + added):
            self._cells = self._cells.astype(np.int64)

    @staticmethod
    def _is_narrow(count: int) -> bool:
        return count <= NARROW_MAX

    def _places(self, strings: pa.LargeStringArray) -> list[Ints]:
        """For each row the cell of each item."""
        hashes = siphash(strings, self._key)
        shift = np.uint64(64 - (self._width.bit_length() - 1))
        return [((hashes * odd) >> shift).astype(np.int64) for odd in self._odd]

    def _smallest(self, places: list[Ints]) -> Ints:
        found: Ints = self._cells[0][places[0]].astype(np.int64)
        for row, place in zip(self._cells[1:], places[1:], strict=True):
            np.minimum(found, row[place], out=found)
        return found


def _check_cells(cells: NDArray[Any], total: int, is_conservative: bool) -> None:
    """A plain row sums to the total, a conservative one to no more; 8-byte cells are there for a reason."""
    is_wide = cells.dtype.itemsize == 8
    if total > MAX_TOTAL or cells.min() < 0 or (is_wide and cells.max() <= NARROW_MAX):
        raise CorruptBlob(f"not a count-min sketch: cells from {cells.min()} to {cells.max()} for a total of {total}")
    for row in cells:
        row_sum = exact_sum(row.astype(np.int64))
        if row_sum > total or (row_sum < total and not is_conservative):
            raise CorruptBlob(f"not a count-min sketch: a row sums to {row_sum}, the total is {total}")
