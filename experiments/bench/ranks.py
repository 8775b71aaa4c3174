"""Exact ranks by sorting, and how far answers lie from them.

A value that occurs often has no single rank: the share of values below it ("min"), up to it ("max"), and the mean of
the two ("mid") are all in use. An answer is judged by one of them.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sketches.values import Floats


class RankError(NamedTuple):
    """Of many questions: the largest and the mean distance to the true rank, and the convention it was judged by."""

    max: float
    mean: float
    rule: str


class Truth(NamedTuple):
    """For each point the share of all values below it, and up to it."""

    below: Floats
    upto: Floats


def true_ranks(ordered: Floats, points: Floats) -> Truth:
    n = len(ordered)
    return Truth(np.searchsorted(ordered, points, "left") / n, np.searchsorted(ordered, points, "right") / n)


def rank_errors(answers: Floats, truth: Truth) -> list[RankError]:
    """The error by each of the three conventions."""
    rules = {"min": truth.below, "mid": (truth.below + truth.upto) / 2, "max": truth.upto}
    gaps = {rule: np.abs(answers - ranks) for rule, ranks in rules.items()}
    return [RankError(float(gap.max()), float(gap.mean()), rule) for rule, gap in gaps.items()]


def worst(errors: Sequence[RankError], rule: str) -> RankError:
    """The worst of several runs by one convention."""
    judged = [error for error in errors if error.rule == rule]
    return RankError(max(error.max for error in judged), max(error.mean for error in judged), rule)


def kindest(errors: Sequence[RankError]) -> RankError:
    """The worst of several runs by the convention that makes it least; of equal ones, mid."""
    return min((worst(errors, rule) for rule in ("mid", "min", "max")), key=lambda error: error.max)
