"""Samples: what is known of one shard of a window, each player's place known to within one gap.

A ZSET says who stands at rank i in O(log n), so about 1,200 exact ranks say nearly everything about a shard of any
size (lua/sample.lua). They are taken closer together among the best:

    gap <= players / 1024      0.098 % of the players: the greatest width of an interval
    gap <= rank / 50           "top 0.3 %" is right to 2 % of itself
    gap <= rank / 12           above the top's floor, where samples are for plots only

A score that more players share than a gap holds is counted exactly, from end to end, and so is the score at the floor
of the top. Which scores these are is known from the samples before; a new one costs a second look.

Not handled: sampling itself is an exact picture of one moment of one shard; View (view.py) adds shards up.
"""

from dataclasses import dataclass

import numpy as np

from hybrid.orderkey import Ints, Keys, OrderKey

PARTS = 1024
SLOPE = 50
STEEP = 12
MOST_HEAVY = 256  # scores that are counted exactly in a shard

_SEEN, _SURE = 2, 3  # samples in a row of one score: counted from now on, and worth a second look


@dataclass(frozen=True, slots=True)
class Samples:
    """One shard of a window at one entry of its log: players, exact places, exact counts.

    keys[i] and names[i] are the place at rank ranks[i], counted from 0; exactly counts[j] players have a key below
    bounds[j].
    """

    last: str
    as_of_ms: int
    players: int
    ranks: Ints
    keys: Keys
    bounds: Keys
    counts: Ints
    names: list[bytes]

    @property
    def seq(self) -> int:
        return int(self.last.partition("-")[0])


def parse_samples(text: bytes) -> Samples:
    """Samples as lua/sample.lua publishes them."""
    head, *columns, names = text.split(b"\n", 5)
    last, as_of_ms, players = head.decode().split(" ")
    gaps, keys, bounds, counts = (np.fromstring(column, sep=" ") for column in columns)
    return Samples(
        last,
        int(as_of_ms),
        int(players),
        np.cumsum(gaps).astype(np.int64),
        keys,
        bounds,
        counts.astype(np.int64),
        names.split(b"\n") if names else [],
    )


def make_samples(keys: Keys, names: list[bytes], *, last: str, as_of_ms: int) -> Samples:
    """Samples that leave nobody out: all places, best first."""
    return Samples(last, as_of_ms, len(keys), np.arange(len(keys)), keys, np.empty(0), np.empty(0, np.int64), names)


def heavy_bounds(samples: Samples, key: OrderKey) -> Keys:
    """The ends of scores that many share, to be counted exactly from now on."""
    return _ends(*_runs(samples, key, _SEEN), key)


def is_missing(samples: Samples, key: OrderKey) -> bool:
    """Whether a score is shared by so many that it should have been counted, and was not."""
    return bool(np.setdiff1d(_ends(*_runs(samples, key, _SURE), key), samples.bounds).size)


def score_bounds(points: Ints, key: OrderKey) -> Keys:
    """Keys between which a score lies: those below the first are better, those from the second on worse."""
    return np.unique(np.concatenate((key.best(points), np.nextafter(key.worst(points), np.inf))))


def _runs(samples: Samples, key: OrderKey, least: int) -> tuple[Ints, Ints]:
    """Scores that so many samples in a row have, and how many they are."""
    points, lengths = np.unique(np.asarray(key.decode(samples.keys).points), return_counts=True)
    return points[lengths >= least], lengths[lengths >= least]


def _ends(points: Ints, lengths: Ints, key: OrderKey) -> Keys:
    return score_bounds(points[np.argsort(-lengths, kind="stable")[:MOST_HEAVY]], key)
