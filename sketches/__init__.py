"""Mergeable summaries of streams that say how wrong they can be.

    TDigest       distribution of numbers: share below x with a proved interval, quantiles
    SpaceSaving   the heaviest items, each with the least and the most that it can have occurred
    CountMin      an upper bound for the count of any item

Pure: numpy and Arrow in, numbers out. No I/O, no clock, no randomness: what must be random (the hash key of a CountMin)
is an argument. The sketches are not safe for concurrent use; give each thread its own and merge.
"""

from sketches.centroids import Centroids
from sketches.countmin import CountMin, ErrorBound
from sketches.errors import CorruptBlob, EmptySketch, Incompatible, InvalidInput, SketchError, TooLarge
from sketches.items import Tally, tally
from sketches.spacesaving import Counters, Heavy, SpaceSaving
from sketches.tdigest import TDigest

__all__ = [
    "Centroids",
    "CorruptBlob",
    "CountMin",
    "Counters",
    "EmptySketch",
    "ErrorBound",
    "Heavy",
    "Incompatible",
    "InvalidInput",
    "SketchError",
    "SpaceSaving",
    "TDigest",
    "Tally",
    "TooLarge",
    "tally",
]
