"""Shapes of scores: how many players share a score, and how far apart the best are."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from sketches.values import Ints

_UNIT = 1_000_000


class Shape(NamedTuple):
    """A named distribution of whole scores."""

    name: str
    draw: Callable[[np.random.Generator, int], Ints]


def _lognormal(rng: np.random.Generator, n: int) -> Ints:
    return np.rint(_UNIT * rng.lognormal(size=n)).astype(np.int64)


def _elo(rng: np.random.Generator, n: int) -> Ints:
    return np.clip(np.rint(rng.normal(1500, 300, n)), 0, None).astype(np.int64)


def _zeros(rng: np.random.Generator, n: int) -> Ints:
    return np.where(rng.random(n) < 0.4, 0, _lognormal(rng, n))


LOGNORMAL = Shape("lognormal", _lognormal)
ELO = Shape("Elo integers", _elo)
ZEROS = Shape("40 % zeros", _zeros)
SHAPES = (LOGNORMAL, ELO, ZEROS)
