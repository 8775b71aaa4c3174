"""What is said of items against what is true."""

from collections.abc import Sequence

import numpy as np

from experiments.bench.trends_sizes import K
from experiments.bench.workloads import Stream
from hybrid.trends.publishing import Row
from hybrid.trends.trends import Found, Top


def rows_of(top: Top) -> list[Row]:
    return [each.row for each in top.rows]


def count_outside(said: Sequence[Row | Found], truth: Sequence[int]) -> int:
    """How many did not occur as often as is said."""
    return sum(not each.low <= count <= each.high for each, count in zip(said, truth, strict=True))


def count_wrong(said: Sequence[Row | Found], stream: Stream) -> int:
    """The same for items of a stream."""
    return count_outside(said, stream.truth_of([each.item for each in said]).tolist()) if said else 0


def count_untrue(top: Top, stream: Stream) -> int:
    """Items that are said to be surely among the first K, and are not."""
    surely = [each.row.item for each in top.rows if each.is_guaranteed]
    least = np.sort(stream.truth)[-K]
    return int((stream.truth_of(surely) < least).sum()) if surely else 0


def median_interval(top: Top, stream: Stream) -> float:
    """By what share of its count an item may differ from what is said, in the middle of all."""
    rows = rows_of(top)
    widths = np.array([row.high - row.low for row in rows])
    return float(np.median(widths / stream.truth_of([row.item for row in rows])))
