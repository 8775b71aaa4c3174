"""Two ways to the heaviest items that come from papers, not from a package: Count-Min with a heap, and HeavyKeeper.

Both take one event at a time, and items as numbers: the names of all items are hashed beforehand, with a key, to a cell
in each row and a fingerprint. What they would take when saved: 4 bytes a cell of Count-Min, 6 a bucket of HeavyKeeper
(16 bits of fingerprint, 32 of count), and a name, its length and a count of 8 bytes for each entry of the heap.

Reference: G. Cormode, S. Muthukrishnan, "An improved data stream summary: the count-min sketch", 2005; J. Gong, T. Yang
et al., "HeavyKeeper: an accurate algorithm for finding top-k elephant flows", USENIX ATC 2018. This is the basic
HeavyKeeper of section 3: every row is updated, decay 1.08^-count, a heap of k; not its later optimisations.
"""

import heapq
from collections.abc import Iterable
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sketches.siphash import siphash
from sketches.values import Ints

CELL_BYTES, BUCKET_BYTES = 4, 6
COUNT_MIN_DEPTH, HEAVY_KEEPER_DEPTH = 4, 2
DECAY_BASE = 1.08

_DECAY = [DECAY_BASE**-count for count in range(400)]  # beyond, a bucket decays once in 10^13 events: never


class TopK:
    """The k items of the largest estimates that were offered; an estimate never shrinks."""

    def __init__(self, k: int) -> None:
        self._k = k
        self._heap: list[tuple[int, int]] = []  # an entry an item, which may lag behind `counts`
        self.counts: dict[int, int] = {}

    def offer(self, item: int, count: int) -> None:
        counts = self.counts
        if item in counts:
            counts[item] = max(counts[item], count)
        elif len(counts) < self._k:
            self._put(item, count)
        elif count > self._heap[0][0] and count > self._least():
            del counts[heapq.heappop(self._heap)[1]]
            self._put(item, count)

    def top(self, k: int) -> list[int]:
        """The items, largest estimate first."""
        return sorted(self.counts, key=lambda item: (-self.counts[item], item))[:k]

    def _put(self, item: int, count: int) -> None:
        self.counts[item] = count
        heapq.heappush(self._heap, (count, item))

    def _least(self) -> int:
        """The smallest estimate, once the root has caught up."""
        while self._heap[0][0] != self.counts[self._heap[0][1]]:
            item = self._heap[0][1]
            heapq.heapreplace(self._heap, (self.counts[item], item))
        return self._heap[0][0]


class CountMinHeap:
    """A plain Count-Min, and a heap of the k items whose estimate was largest when they came."""

    def __init__(self, names: pa.LargeStringArray, width: int, k: int, *, key: bytes) -> None:
        self.size_bytes = CELL_BYTES * width * COUNT_MIN_DEPTH + heap_bytes(names, k)
        self.heap = TopK(k)
        self._cells = [0] * (width * COUNT_MIN_DEPTH)
        self._places = _places(names, width, COUNT_MIN_DEPTH, key)

    def update(self, events: Iterable[int]) -> None:
        cells, places, offer = self._cells, self._places, self.heap.offer
        for item in events:
            mine = places[item]
            for place in mine:
                cells[place] += 1
            offer(item, min([cells[place] for place in mine]))

    def estimate(self, item: int) -> int:
        return min(self._cells[place] for place in self._places[item])


class HeavyKeeper:
    """Rows of buckets, each with the fingerprint of one item; whoever else comes wears its count down."""

    def __init__(self, names: pa.LargeStringArray, width: int, k: int, *, key: bytes, random: Random) -> None:
        self.size_bytes = BUCKET_BYTES * width * HEAVY_KEEPER_DEPTH + heap_bytes(names, k)
        self.heap = TopK(k)
        self._counts = [0] * (width * HEAVY_KEEPER_DEPTH)
        self._owners = [0] * (width * HEAVY_KEEPER_DEPTH)
        self._places = _places(names, width, HEAVY_KEEPER_DEPTH, key)
        self._fingerprints: list[int] = (siphash(names, key[::-1]) >> np.uint64(48)).tolist()
        self._random = random

    def update(self, events: Iterable[int]) -> None:
        for item in events:
            fingerprint, found = self._fingerprints[item], 0
            for place in self._places[item]:
                found = max(found, self._count(place, fingerprint))
            if found:
                self.heap.offer(item, found)

    def _count(self, place: int, fingerprint: int) -> int:
        """Count an event in one bucket: what the bucket then says of its item, 0 when it belongs to another."""
        count = self._counts[place]
        if count and self._owners[place] != fingerprint:
            if count >= len(_DECAY) or self._random.random() >= _DECAY[count]:
                return 0
            self._counts[place] = count = count - 1
            if count:
                return 0
        self._owners[place] = fingerprint
        self._counts[place] = count + 1
        return count + 1

    def estimate(self, item: int) -> int:
        """What the heap or else the buckets say, 0 for an item that has neither."""
        mine = [place for place in self._places[item] if self._owners[place] == self._fingerprints[item]]
        return self.heap.counts.get(item, max((self._counts[place] for place in mine), default=0))


def heap_bytes(names: pa.LargeStringArray, k: int) -> int:
    """Of k entries: a name of the mean length, 2 bytes for its length, 8 for its count."""
    return round(k * (10 + name_bytes(names)))


def name_bytes(names: pa.LargeStringArray) -> float:
    """The mean length of a name."""
    return float(np.mean(pc.binary_length(names).to_numpy()))


def _places(names: pa.LargeStringArray, width: int, depth: int, key: bytes) -> list[list[int]]:
    """For each item its cell in every row, in one list of all rows."""
    rows: list[Ints] = []
    for row in range(depth):
        hashes = siphash(names, bytes([row + 1]) + key[1:])
        rows.append((hashes % np.uint64(width)).astype(np.int64) + row * width)
    found: list[list[int]] = np.stack(rows, axis=1).tolist()
    return found
