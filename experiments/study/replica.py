"""A board in numpy: the order keys, rank samples and served view of a real one, without a Redis.

The ranks at which a shard is sampled are those of hybrid/lua/sample.lua, the rest is hybrid's own code; a test fills a
real board with the same players and holds the samples equal. Here a million players take a second.

Players are numbered in the order in which they came, which also breaks ties.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from experiments.study.workloads import Scores
from hybrid.orderkey import KEY_BITS, Axis, Ints, Keys, OrderKey
from hybrid.samples import PARTS, SLOPE, STEEP, Samples, heavy_bounds, score_bounds
from hybrid.standing import Places, estimated_places
from hybrid.view import View
from sketches.values import Floats

Bools = NDArray[np.bool_]
Spacing = Callable[[int, int], Ints]

ROUNDING = 1e-9  # of percentiles


def sample_ranks(players: int, leaders: int = 0) -> Ints:
    """The ranks, from 0, at which a shard is sampled; so many of its players are better than the top's floor."""
    ranks, exact, rank = [], 0.0, 0
    while rank < players:
        ranks.append(rank)
        if rank == players - 1:
            break
        exact += max(1.0, min(players / PARTS, rank / (STEEP if rank < leaders else SLOPE)))
        rank = min(int(exact), players - 1)
    return np.array(ranks, np.int64)


@dataclass(frozen=True, slots=True)
class Truth:
    """Where players stand, by sorting everybody: rank from 1, and percentile."""

    rank: Ints
    percentile: Floats


@dataclass(frozen=True)
class Replica:
    """A board of these players. `floor` is the key at which the tail begins, 0 if nobody is a leader."""

    key: OrderKey
    keys: Keys
    shard_of: Ints
    shards: int
    floor: float = 0.0
    spacing: Spacing = field(default=sample_ranks)

    @cached_property
    def order(self) -> Ints:
        """All players, best first."""
        return np.argsort(self.keys, kind="stable")

    @cached_property
    def sorted_keys(self) -> Keys:
        return self.keys[self.order]

    @cached_property
    def ranks(self) -> Ints:
        """The rank of each player, from 1."""
        ranks = np.empty(len(self.keys), np.int64)
        ranks[self.order] = np.arange(1, len(self.keys) + 1)
        return ranks

    def samples(self) -> list[Samples]:
        """What is known of each shard once its heavy scores are counted."""
        in_shard = self.shard_of[self.order]
        return [self._sample(self.order[in_shard == shard]) for shard in range(self.shards)]

    def view(self) -> View:
        return View.of_samples(self.samples(), self.key)

    def truth(self, players: Ints) -> Truth:
        """Where these players stand, exactly."""
        n = len(self.keys)
        up_to = self.sorted_keys.searchsorted(self.key.worst(self.key.points(self.keys[players])), "right")
        return Truth(self.ranks[players], 100 * (n - up_to) / max(n - 1, 1))

    def ask(self, view: View, players: Ints) -> Places:
        """What the view says of players whose keys are these, as the tail is answered."""
        keys = self.keys[players]
        up_to = view.up_to(self.key.worst(self.key.points(keys)))
        return estimated_places(view, view.ahead(keys, _names(players)), up_to, own=1)

    def _sample(self, players: Ints) -> Samples:
        keys = self.keys[players]
        ranks = self.spacing(len(keys), int(keys.searchsorted(self.floor, "left")))
        nothing = (np.empty(0), np.empty(0, np.int64))
        known = (len(keys), ranks, keys[ranks])
        bare = Samples("0-0", 0, *known, *nothing, _names(players[ranks]))
        bounds = heavy_bounds(bare, self.key)
        if self.floor:
            bounds = np.union1d(bounds, score_bounds(self.key.points(np.array([self.floor])), self.key))
        return Samples("0-0", 0, *known, bounds, keys.searchsorted(bounds, "left"), bare.names)


def make_replica(
    scores: Scores, rng: np.random.Generator, *, shards: int = 8, top_n: int = 0, spacing: Spacing = sample_ranks
) -> Replica:
    """A board on which each of these scores is a player's; the first `top_n` are leaders."""
    points = scores.points
    score = Axis(int(points.min()), int(points.max()), is_high_best=True)
    came = np.arange(len(points))
    # The order of arrival to the bit, or as finely as there is room for; names decide the rest.
    shift = max(score.bits + int(came[-1]).bit_length() - KEY_BITS, 0)
    ticks = came >> shift
    key = OrderKey(score, time=Axis(0, int(ticks[-1])))
    keys = key.encode(points, ticks)
    floor = float(np.partition(keys, top_n)[top_n]) if 0 < top_n < len(keys) else 0.0
    return Replica(key, keys, rng.integers(0, shards, len(keys)), shards, floor, spacing)


def is_outside(places: Places, truth: Truth) -> Bools:
    """Whose rank or percentile does not lie within its interval."""
    is_rank = (places.rank_low <= truth.rank) & (truth.rank <= places.rank_high)
    low, high = places.percentile_low - ROUNDING, places.percentile_high + ROUNDING
    return ~(is_rank & (low <= truth.percentile) & (truth.percentile <= high))


def _names(players: Ints) -> list[bytes]:
    """Names that sort like the numbers."""
    return [b"%09d" % number for number in players.tolist()]
