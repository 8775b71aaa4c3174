"""SpaceSaving: the heaviest items of a stream, found with a fixed number of counters.

Batches are first counted exactly (items.py) and then absorbed whole, as one merges two summaries:

    in both           counts add, errors add
    in one only       the other may have seen it up to its floor: that is added to count and error
    floor             the floors add; when counters are dropped, it rises to the largest count dropped

A batch has floor 0, so nothing is lost by it. Absorbing 10,000 events at once finds far more than 100 times 100: feed
it large batches.

Why floor <= total / capacity: by induction sum(count - floor) + capacity x floor <= total. Absorbing adds both sides.
Dropping all but the `capacity` largest, with d the largest dropped, takes capacity x (d - floor) from the first term
and adds it to the second. With several capacities in a merge tree the smallest one holds.

Reference: A. Metwally et al., "Efficient computation of frequent and top-k elements in data streams", 2005; merging
after P. Agarwal et al., "Mergeable summaries", 2013.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Self, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sketches import blob
from sketches.errors import CorruptBlob, Incompatible, TooLarge
from sketches.items import Items, Tally, parse_items, tally
from sketches.values import MAX_TOTAL, Ints, Numbers, exact_sum, parse_size

MAX_CAPACITY = 2**24


class Heavy(NamedTuple):
    """A tracked item: it occurred at most `count` times, and at least `count - error`."""

    item: str
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody asks a counter for
    error: int


class Counters(NamedTuple):
    """All tracked items in columns."""

    items: pa.LargeStringArray
    counts: Ints
    errors: Ints


_NONE = Counters(pa.array([], pa.large_string()), np.empty(0, np.int64), np.empty(0, np.int64))


class SpaceSaving:
    """The heaviest items of a stream, in a fixed number of counters.

    Guarantee   count - error <= true count <= count for every tracked item; an item absent from the summary occurred
                at most `floor` times. Holds for any input and any merge tree;
                floor <= total / (smallest capacity in the tree).
    Basis       Metwally et al. 2005; merging after Agarwal et al. 2013. Batches are merged as exact summaries.
    Merge       Any capacities; the result keeps this one's. Bounds add.
    Does not    forget: windows come from a ring of panes. Nor find a top k with k counters: give it several times k.
    Cost        see docs/benchmarks.md.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = parse_size(capacity, "capacity", 1, MAX_CAPACITY)
        self._counters = _NONE
        self._is_ranked = True
        self._floor = 0
        self._total = 0

    def __repr__(self) -> str:
        return f"SpaceSaving(capacity={self._capacity}, items={len(self)}, floor={self._floor}, total={self._total})"

    def __len__(self) -> int:
        """The number of items tracked now."""
        return len(self._counters.counts)

    @property
    def capacity(self) -> int:
        return self._capacity

    @property
    def floor(self) -> int:
        """The most that an item which is not tracked can have occurred."""
        return self._floor

    @property
    def total(self) -> int:
        """The sum of all counts taken in."""
        return self._total

    def update(self, items: Items | Tally, counts: Numbers | None = None) -> None:
        """Absorb a batch of items, or a Tally of them, as one exact summary."""
        batch = tally(items, counts)
        self._absorb(Counters(batch.items, batch.counts, np.zeros(len(batch), np.int64)), 0, batch.total)

    def merge(self, *others: "SpaceSaving") -> None:
        """Absorb other summaries; they stay as they are."""
        for other in others:
            if not isinstance(other, SpaceSaving):
                raise Incompatible(f"a SpaceSaving merges with SpaceSavings only, not {other!r}")
        summaries = [(other._counters, other._floor, other._total) for other in others]
        self._check_total(sum(total for _, _, total in summaries))
        for summary in summaries:
            self._absorb(*summary)

    def counters(self) -> Counters:
        """Everything that is tracked, in top order; to be read only."""
        return self._ranked()

    def top(self, k: int) -> list[Heavy]:
        """The k items of the largest counts, largest first; of equal counts the smaller item (by bytes) first."""
        k = parse_size(k, "k", 0, MAX_CAPACITY)
        items, count, error = self._ranked()
        return list(map(Heavy, items[:k].to_pylist(), count[:k].tolist(), error[:k].tolist()))

    def guaranteed(self, k: int) -> list[bool]:
        """For each of top(k): is it surely among the k most frequent, whatever the errors hide?

        It is when even its least possible count is no less than the most that any item outside may have: the count
        of number k + 1, and the floor for those that are not tracked.
        """
        k = parse_size(k, "k", 0, MAX_CAPACITY)
        _, count, error = self._ranked()
        rival = max(self._floor, int(count[k]) if len(count) > k else 0)
        return [bool(low >= rival) for low in (count[:k] - error[:k]).tolist()]

    @overload
    def bounds(self, items: str) -> tuple[int, int]: ...  # type: ignore[overload-overlap]  # a str is a Sequence[str]
    @overload
    def bounds(self, items: Items) -> tuple[Ints, Ints]: ...
    def bounds(self, items: Items) -> tuple[Any, Any]:
        """The least and the greatest number of times that each item occurred; two ints for a single string."""
        asked = parse_items([items] if isinstance(items, str) else items)
        tracked, count, error = self._counters
        at = pc.index_in(asked, value_set=tracked)
        is_tracked = at.is_valid().to_numpy(zero_copy_only=False)
        low, high = np.zeros(len(asked), np.int64), np.full(len(asked), self._floor)
        found = at.drop_null().to_numpy()
        low[is_tracked], high[is_tracked] = count[found] - error[found], count[found]
        return (int(low[0]), int(high[0])) if isinstance(items, str) else (low, high)

    def to_bytes(self) -> bytes:
        """The summary as one checked blob (blob.py).

        Payload: total and floor; all counts; all errors; the items' lengths in 2 bytes each; the items, in top order.
        """
        items, count, error = self._ranked()
        lengths = pc.binary_length(items).to_numpy()
        numbers = np.concatenate(([self._total, self._floor], count, error)).astype("<i8")
        text = "".join(items.to_pylist()).encode()
        payload = numbers.tobytes() + lengths.astype("<u2").tobytes() + text
        return blob.seal(blob.SPACE_SAVING, (self._capacity, len(self), 0), payload)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The summary that `to_bytes` wrote; anything else raises CorruptBlob."""
        (capacity, n, zero), payload = blob.unseal(data, blob.SPACE_SAVING)
        if not 1 <= capacity <= MAX_CAPACITY or n > capacity or zero:
            raise CorruptBlob(f"not a space-saving summary: {n} items in a capacity of {capacity}")
        if len(payload) < 16 + 18 * n:
            raise CorruptBlob(f"not a space-saving summary: {len(payload)} bytes for {n} items")
        numbers = np.frombuffer(payload[: 16 + 16 * n], "<i8").astype(np.int64)
        items = _parse_text(payload[16 + 16 * n :], n)
        summary = cls(capacity)
        summary._total, summary._floor = int(numbers[0]), int(numbers[1])
        summary._counters = Counters(items, numbers[2 : 2 + n], numbers[2 + n :])
        summary._check_sound()
        return summary

    def _absorb(self, other: Counters, floor: int, total: int) -> None:
        self._check_total(total)
        mine = self._counters
        at = pc.index_in(other.items, value_set=mine.items)
        is_known = at.is_valid().to_numpy(zero_copy_only=False)
        known, new = at.drop_null().to_numpy(), np.flatnonzero(~is_known)
        counts = np.concatenate((mine.counts + floor, other.counts[new] + self._floor))
        errors = np.concatenate((mine.errors + floor, other.errors[new] + self._floor))
        counts[known] += other.counts[is_known] - floor
        errors[known] += other.errors[is_known] - floor

        def items_at(indexes: Ints) -> pa.LargeStringArray:
            """The items behind ascending indexes into `counts`, where mine come first."""
            is_mine = indexes < len(mine.counts)
            from_other = new[indexes[~is_mine] - len(mine.counts)]
            return pa.concat_arrays(
                [mine.items.take(pa.array(indexes[is_mine])), other.items.take(pa.array(from_other))]
            )

        kept, dropped = self._choose(counts, items_at)
        self._counters = Counters(items_at(kept), counts[kept], errors[kept])
        self._is_ranked = False
        self._floor = max(self._floor + floor, dropped)
        self._total += total

    def _choose(self, counts: Ints, items_at: Callable[[Ints], pa.LargeStringArray]) -> tuple[Ints, int]:
        """The indexes of the largest counts (of equal ones, the smaller items), and the largest count dropped."""
        excess = len(counts) - self._capacity
        if excess <= 0:
            return np.arange(len(counts)), 0
        largest_dropped, least_kept = np.partition(counts, (excess - 1, excess))[excess - 1 : excess + 1]
        above, ties = np.flatnonzero(counts > least_kept), np.flatnonzero(counts == least_kept)
        wanted = self._capacity - len(above)
        if wanted < len(ties):
            ties = ties[pc.partition_nth_indices(items_at(ties), pivot=wanted).to_numpy()[:wanted]]
        return np.sort(np.concatenate((above, ties))), int(largest_dropped)

    def _ranked(self) -> Counters:
        """The counters by count, largest first, then by item."""
        if not self._is_ranked:
            items, count, error = self._counters
            table = pa.table({"item": items, "count": count})
            order = pc.sort_indices(table, sort_keys=[("count", "descending"), ("item", "ascending")]).to_numpy()
            self._counters = Counters(items.take(pa.array(order)), count[order], error[order])
            self._is_ranked = True
        return self._counters

    def _check_total(self, added: int) -> None:
        if self._total + added > MAX_TOTAL:
            raise TooLarge(f"a space-saving summary counts to 2^63 - 1, not to {self._total + added}")

    def _check_sound(self) -> None:
        """Refuse counters, fresh from a blob, that no stream can have left behind."""
        items, count, error = self._counters
        is_sound = (
            0 <= self._floor <= self._total
            and ((count >= 1) & (count >= self._floor) & (count <= self._total)).all()
            and ((error >= 0) & (error <= self._floor) & (error <= count)).all()
            and exact_sum(count - error) <= self._total
            and pc.count_distinct(items).as_py() == len(items)
        )
        self._is_ranked = False
        if not is_sound or not self._ranked().items.equals(items):
            raise CorruptBlob("not a space-saving summary: its counters contradict each other or are out of order")


def _parse_text(payload: memoryview, n: int) -> pa.LargeStringArray:
    """n lengths of 2 bytes each, then the text they cut up."""
    lengths = np.frombuffer(payload[: 2 * n], "<u2").astype(np.int64)
    text = payload[2 * n :]
    if int(lengths.sum()) != len(text):
        raise CorruptBlob(
            f"not a space-saving summary: {len(text)} bytes of text for lengths that sum to {lengths.sum()}"
        )
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    items = pa.LargeStringArray.from_buffers(n, pa.py_buffer(offsets), pa.py_buffer(bytes(text)))
    try:
        items.validate(full=True)
    except pa.ArrowInvalid as error:
        raise CorruptBlob(f"not a space-saving summary: {error}") from error
    return items
