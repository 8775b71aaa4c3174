"""Traffic for the study of surges: hours of counts, drawn or cut from one's own events, with surges put in.

    steady         the same traffic every hour
    diurnal        five times as much by day as by night, all items alike
    two rhythms    the same, but half of the items have their day when the others have their night

Events of one's own have no times here: they are cut into as many parts of equal size, which stand for hours.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiments.study.workloads import Items
from hybrid.trends.ladder import HISTORY
from sketches.values import Floats, Ints

STEADY, DIURNAL, TWO = "steady", "diurnal", "two rhythms"
SCENARIOS = (STEADY, DIURNAL, TWO)
ITEMS = 300
BUSIEST = 5_000.0  # events an hour of the busiest item, on the mean
DAY = 24

_SWING = 2 / 3  # (1 + s) / (1 - s) = 5
_EXPONENT = 0.9

Bools = NDArray[np.bool_]


class Hours(NamedTuple):
    """Counts by hour and item, and where a surge was put in."""

    counts: Ints
    is_surge: Bools


def make_rates(scenario: str, hours: int) -> Floats:
    """What is expected of each item in each hour: a row an hour."""
    base = BUSIEST * np.arange(1, ITEMS + 1) ** -_EXPONENT
    if scenario == STEADY:
        return np.tile(base, (hours, 1))
    phase = np.where((np.arange(ITEMS) % 2 == 1) & (scenario == TWO), np.pi, 0.0)
    turn = 2 * np.pi * np.arange(hours)[:, np.newaxis] / DAY
    return np.asarray(base * (1 + _SWING * np.sin(turn + phase)))


def draw_counts(rates: Floats, noise: float, rng: np.random.Generator) -> Ints:
    """Counts around these rates: by chance, and by a share of themselves."""
    wobble = rng.gamma(noise**-2, noise**2, rates.shape) if noise else 1.0
    return rng.poisson(rates * wobble)


def cut_events(items: Items, hours: int) -> Ints:
    """The counts of the heaviest items in parts of equal size: a row a part."""
    coded = items.events.dictionary_encode()
    codes = coded.indices.to_numpy()
    heaviest = np.argsort(-np.bincount(codes), kind="stable")[:ITEMS]
    column = np.full(len(coded.dictionary), -1)
    column[heaviest] = np.arange(len(heaviest))
    counts = np.zeros((hours, len(heaviest)), np.int64)
    row, chosen = np.arange(len(codes)) * hours // len(codes), column[codes]
    np.add.at(counts, (row[chosen >= 0], chosen[chosen >= 0]), 1)
    return counts


def add_surges(counts: Ints, factor: float, surges: int, rng: np.random.Generator) -> Hours:
    """The same counts, but so many, of hours that have a history, are raised to about so many times themselves.

    At most one in ten is: the others are there to be told from them.
    """
    is_surge = np.zeros(counts.shape, bool)
    possible = (len(counts) - HISTORY) * counts.shape[1]
    places = rng.permutation(possible)[: min(surges, possible // 10)]
    is_surge[HISTORY + places // counts.shape[1], places % counts.shape[1]] = True
    return Hours(counts + np.where(is_surge, rng.poisson((factor - 1) * counts), 0), is_surge)
