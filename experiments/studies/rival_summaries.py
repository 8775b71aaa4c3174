"""Summaries of the heaviest items at equal bytes, and what each says of a stream in one form.

Bytes are the most that a summary can take when it is saved. datasketches' map has few sizes, so they are the measure of
the others: SpaceSaving's counters, the cells of Count-Min and the buckets of HeavyKeeper beside their heaps.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import datasketches
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from experiments.bench.counters import ALL_TRACKED, exhaust
from experiments.studies import rival_counters as peers
from experiments.study.study import Row
from sketches import SpaceSaving
from sketches.values import Ints

K = 100
LARGE, SMALL = "SpaceSaving, 65,536 a batch", "SpaceSaving, 1,000 a batch"
FREQUENT, COUNT_MIN, HEAVY_KEEPER = "datasketches frequent items", "Count-Min + heap", "HeavyKeeper"
SUMMARIES = (LARGE, SMALL, FREQUENT, COUNT_MIN, HEAVY_KEEPER)
BATCHES = {LARGE: 65_536, SMALL: 1_000}

_COUNTER_BYTES, _BLOB_BYTES = 18, 72  # of a saved SpaceSaving: a counter without its name, and all around
_FREQUENT_BYTES = 12  # of a saved item of datasketches, without its name


@dataclass(frozen=True, slots=True)
class Coded:
    """A stream as numbers: event i is item `events[i]`, which is called names[events[i]] and occurred `truth` times."""

    names: pa.LargeStringArray
    events: Ints
    truth: Ints


@dataclass(frozen=True, slots=True)
class Answer:
    """What a summary says, in numbers of items."""

    top: list[int]
    tracked: set[int]
    estimates: Ints
    outside: int | None = None


def code(events: pa.LargeStringArray) -> Coded:
    coded = events.dictionary_encode()
    numbers = coded.indices.to_numpy().astype(np.int64)
    return Coded(coded.dictionary, numbers, np.bincount(numbers))


def judge_answer(answer: Answer, truth: Ints, heaviest: Ints) -> Row:
    """Precision, recall and relative error; with fewer than 100 items there are fewer to find."""
    least, true = truth[heaviest[-1]], truth[heaviest]
    return {
        "precision": float((truth[answer.top] >= least).sum()) / len(heaviest),
        "recall": float(np.mean([item in answer.tracked for item in heaviest.tolist()])),
        "relative_error_percent": 100 * float((np.abs(answer.estimates - true) / true).mean()),
    }


def make_summaries(coded: Coded, map_size: int, rng: np.random.Generator) -> dict[str, Callable[[Ints], Answer]]:
    """All summaries that take as many bytes as a full map of this size."""
    most_bytes = map_bytes(coded, map_size)
    left_bytes = most_bytes - peers.heap_bytes(coded.names, K)
    capacity = int((most_bytes - _BLOB_BYTES) / (_COUNTER_BYTES + peers.name_bytes(coded.names)))
    cells = int(left_bytes / peers.CELL_BYTES / peers.COUNT_MIN_DEPTH)
    buckets = int(left_bytes / peers.BUCKET_BYTES / peers.HEAVY_KEEPER_DEPTH)
    key, random = rng.bytes(16), Random(int(rng.integers(2**32)))
    return {
        LARGE: lambda asked: ask_space_saving(coded, capacity, BATCHES[LARGE], asked),
        SMALL: lambda asked: ask_space_saving(coded, capacity, BATCHES[SMALL], asked),
        FREQUENT: lambda asked: ask_frequent(coded, map_size, asked),
        COUNT_MIN: lambda asked: _heap(coded, peers.CountMinHeap(coded.names, cells, K, key=key), asked),
        HEAVY_KEEPER: lambda asked: _heap(
            coded, peers.HeavyKeeper(coded.names, buckets, K, key=key, random=random), asked
        ),
    }


def map_bytes(coded: Coded, map_size: int) -> float:
    """What datasketches' map of 2^map_size slots takes when as many are used as may be, three quarters."""
    return float(3 * 2**map_size // 4) * (_FREQUENT_BYTES + peers.name_bytes(coded.names))


def ask_space_saving(coded: Coded, capacity: int, batch: int, asked: Ints) -> Answer:
    summary = SpaceSaving(capacity)
    events = coded.names.take(pa.array(coded.events))
    for at in range(0, len(events), batch):
        summary.update(events.slice(at, batch))
    tracked = _numbers(coded, summary.counters().items)
    low, high = summary.bounds(coded.names)
    outside = int(((coded.truth < low) | (coded.truth > high)).sum())
    return Answer(tracked[:K], set(tracked), high[asked], outside)


def ask_frequent(coded: Coded, map_size: int, asked: Ints) -> Answer:
    summary, names = datasketches.frequent_strings_sketch(map_size), coded.names.to_pylist()
    exhaust(map(summary.update, map(names.__getitem__, coded.events.tolist())))
    rows = sorted(summary.get_frequent_items(ALL_TRACKED), key=lambda row: (-row[1], row[0]))
    tracked = _numbers(coded, pa.array([row[0] for row in rows], pa.large_string()))
    estimates = np.array([summary.get_estimate(names[item]) for item in asked.tolist()], np.int64)
    return Answer(tracked[:K], set(tracked), estimates)


def _heap(coded: Coded, summary: peers.CountMinHeap | peers.HeavyKeeper, asked: Ints) -> Answer:
    summary.update(coded.events.tolist())
    estimates = np.array([summary.estimate(item) for item in asked.tolist()], np.int64)
    return Answer(summary.heap.top(K), set(summary.heap.counts), estimates)


def _numbers(coded: Coded, items: pa.LargeStringArray) -> list[int]:
    found: list[int] = pc.index_in(items, value_set=coded.names).to_pylist()
    return found
