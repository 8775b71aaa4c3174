"""Scores and events to experiment with: drawn by a seed, or found on the machine.

Scores are whole points of 10^-decimals, in the order in which they came, as a board has them. Drawn shapes are the same
for the same seed. What is found is not: the sizes of the files of the Python that runs this, and the words of its
standard library, are about the same on every machine with that version, and honest in a way that no formula is.
"""

import os
import re
import sysconfig
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from experiments.bench.workloads import LOGNORMAL, PARETO, SORTED, zipf_stream
from sketches.values import Floats, Ints

ZIPF = "Zipf"  # how the names of drawn streams begin
MOST_POINTS = 2**40  # beside them a key has room for the time of a million players

_WORD = re.compile(r"[A-Za-z]{2,}")


@dataclass(frozen=True, slots=True)
class Scores:
    """What players scored, in points."""

    name: str
    points: Ints
    decimals: int = 0
    note: str = ""

    def __len__(self) -> int:
        return len(self.points)

    @property
    def values(self) -> Floats:
        values: Floats = self.points / 10**self.decimals
        return values

    def take(self, n: int) -> "Scores":
        """The first n of them."""
        return Scores(self.name, self.points[:n], self.decimals, self.note)


@dataclass(frozen=True, slots=True)
class Items:
    """What was counted, an item an event, in the order in which it came."""

    name: str
    events: pa.LargeStringArray
    note: str = ""

    def __len__(self) -> int:
        return len(self.events)


class Shape(NamedTuple):
    """A named distribution of scores."""

    name: str
    decimals: int
    draw: Callable[[np.random.Generator, int], Floats]

    def make(self, rng: np.random.Generator, n: int) -> Scores:
        points = np.clip(np.rint(self.draw(rng, n) * 10**self.decimals), -MOST_POINTS, MOST_POINTS)
        return Scores(self.name, points.astype(np.int64), self.decimals)


def _tied(rng: np.random.Generator, n: int) -> Floats:
    return np.where(rng.random(n) < 0.4, 0.0, rng.integers(0, 201, n))


def _signed(rng: np.random.Generator, n: int) -> Floats:
    return rng.normal(0, 250, n)


def _drifting(rng: np.random.Generator, n: int) -> Floats:
    """Everybody scores more as time goes on: what came last is e^3 times what came first."""
    return 100 * LOGNORMAL.make(rng, n) * np.exp(3 * np.arange(n) / n)


SHAPES = (
    Shape("lognormal", 2, lambda rng, n: 100 * LOGNORMAL.make(rng, n)),
    Shape("Pareto 1.5", 2, lambda rng, n: 100 * PARETO.make(rng, n)),
    Shape("201 values, 40 % zeros", 0, _tied),
    Shape("negatives, decimals", 3, _signed),
    Shape("rising with time", 2, _drifting),
    Shape("sorted", 2, lambda rng, n: 100 * SORTED.make(rng, n)),
)


def find_sizes() -> Scores:
    """The sizes of the files of this Python and its packages, in bytes."""
    sizes = [os.path.getsize(path) for path in _files(Path(sysconfig.get_paths()["stdlib"]))]
    note = f"sizes in bytes of the {len(sizes):,} files that belong to this Python"
    return Scores("file sizes", np.array(sizes, np.int64), 0, note)


def find_words(most: int) -> Items:
    """The words of the sources of this Python's standard library, in the order of the files' names."""
    words: list[str] = []
    root = Path(sysconfig.get_paths()["stdlib"])
    for path in sorted(root.glob("*.py")):
        words += _WORD.findall(path.read_text(encoding="utf-8", errors="replace"))
        if len(words) >= most:
            break
    note = f"the first {min(len(words), most):,} words of the standard library's sources"
    return Items("words of the library", pa.array(words[:most], pa.large_string()), note)


def draw_zipf(rng: np.random.Generator, events: int, items: int, exponent: float) -> Items:
    """A stream in which the item of rank r has a chance of r^-exponent."""
    return Items(f"{ZIPF} {exponent:g}", zipf_stream(rng, events, items, exponent).events)


def _files(root: Path) -> Iterator[str]:
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        yield from (path for name in sorted(files) if not os.path.islink(path := os.path.join(folder, name)))
