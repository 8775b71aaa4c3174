"""Seeded data: numbers for the digests, streams of strings for the heavy hitters.

Every generator takes its randomness as an argument; the same seed gives the same data.
Not here: real traces. These are shapes that are known to be hard for one sketch or another.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sketches.values import Floats, Ints


class Workload(NamedTuple):
    """A named distribution of numbers; `is_continuous` says that no value repeats by design."""

    name: str
    make: Callable[[np.random.Generator, int], Floats]
    is_continuous: bool


def _lognormal(rng: np.random.Generator, n: int) -> Floats:
    return rng.lognormal(size=n)


def _pareto(rng: np.random.Generator, n: int) -> Floats:
    return rng.pareto(1.5, n) + 1


def _tied(rng: np.random.Generator, n: int) -> Floats:
    return rng.integers(0, 201, n).astype(np.float64)


def _zeros(rng: np.random.Generator, n: int) -> Floats:
    return np.where(rng.random(n) < 0.4, 0.0, rng.lognormal(size=n))


def _sorted(rng: np.random.Generator, n: int) -> Floats:
    return np.sort(rng.lognormal(size=n))


def _log_uniform(rng: np.random.Generator, n: int) -> Floats:
    return np.asarray(10.0 ** rng.uniform(-150, 150, n))


LOGNORMAL = Workload("lognormal", _lognormal, True)
PARETO = Workload("Pareto 1.5", _pareto, True)
TIED = Workload("201 tied values", _tied, False)
ZEROS = Workload("40 % zeros", _zeros, False)
SORTED = Workload("sorted input", _sorted, True)
LOG_UNIFORM = Workload("log-uniform, 10^±150", _log_uniform, True)
WORKLOADS = (LOGNORMAL, PARETO, TIED, ZEROS, SORTED, LOG_UNIFORM)


class Stream(NamedTuple):
    """Events, and how often each item occurred: item number i is called "item-i"."""

    events: pa.LargeStringArray
    truth: Ints

    def truth_of(self, items: list[str]) -> Ints:
        return self.truth[[int(item[len(_PREFIX) :]) for item in items]]

    def occurred(self) -> tuple[pa.LargeStringArray, Ints]:
        """All distinct items of the stream, and their counts."""
        numbers = np.flatnonzero(self.truth)
        return _names(numbers), self.truth[numbers]

    def heaviest(self, k: int) -> list[str]:
        found: list[str] = _names(np.argsort(-self.truth, kind="stable")[:k]).to_pylist()
        return found


_PREFIX = "item-"


def zipf_stream(rng: np.random.Generator, events: int, items: int, exponent: float) -> Stream:
    """Items drawn with a chance ~ rank^-exponent (0 is uniform); an item's number says nothing about its rank."""
    ends = np.cumsum(np.arange(1.0, items + 1) ** -exponent)
    ranks = np.searchsorted(ends / ends[-1], rng.random(events))
    numbers = rng.permutation(items)[ranks]
    names = _names(np.arange(items))
    return Stream(names.take(pa.array(numbers)), np.bincount(numbers, minlength=items))


def _names(numbers: Ints) -> pa.LargeStringArray:
    return pa.array([f"{_PREFIX}{number}" for number in numbers.tolist()], pa.large_string())
