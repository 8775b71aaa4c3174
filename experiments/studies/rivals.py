"""Who is compared with whom, and how: the same bytes, the same questions, the rule of ties that suits each.

The libraries themselves are wrapped in rival_digests.py and loaded only to measure: a stored run is drawn and judged
without them.

A value that occurs often has no single rank: the share below it (min), up to it (max) or the mean of both (mid). Ours
is always judged by mid; every other sketch by the one that makes its largest error least. KLL and REQ toss coins of
their own that no seed reaches, so their figures change a little from run to run.
"""

from collections.abc import Iterable
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from matplotlib.axes import Axes

from experiments.bench.ranks import Truth, kindest, rank_errors, true_ranks, worst
from experiments.bench.workloads import LOGNORMAL
from experiments.study import plots
from experiments.study.budgets import show_percent
from experiments.study.study import Job, Row, rows_of
from sketches.values import Floats

OURS, TDIGEST, KLL, REQ, FAST, DD = "toptail", "datasketches t-digest", "KLL", "REQ", "fastdigest", "DDSketch"
SKETCHES = (OURS, TDIGEST, KLL, REQ, FAST, DD)
SMALL, LARGE = "4 KB", "16 KB"
BATCH = 65_536
MUCH = 1.5  # times the error: less is no reason to choose another sketch
LEAST_PERCENT = 1e-4  # errors below are drawn as this much: 1 ppm, a value in a million


class MissingPeer(ModuleNotFoundError):
    """A library to compare with is not installed."""


def name_scores(job: Job) -> str:
    return job.scores.name if job.scores else LOGNORMAL.name


def is_drawn(table: pa.Table) -> bool:
    """Whether a run was on scores of ours: only there is an error promised."""
    return bool(table["scores"][0].as_py() == LOGNORMAL.name)


class Asked(NamedTuple):
    """Points to ask about, and their true ranks."""

    points: Floats
    truth: Truth


def load_digests(size: str, values: Floats, *, is_tied: bool = False) -> dict[str, Any]:
    """The sketches at one size, by name; DDSketch is told the range of the values, and whether they repeat."""
    try:
        module = import_module("experiments.studies.rival_digests")
    except ModuleNotFoundError as missing:
        text = f"this study compares with other libraries: pip install 'toptail[peers]' ({missing.name} is missing)"
        raise MissingPeer(text) from missing
    found: dict[str, Any] = module.make_digests(size, values, is_tied=is_tied)
    return found


def ask(values: Floats, count: int, rng: np.random.Generator) -> Asked:
    """So many of the values, drawn with their own frequency."""
    points = rng.choice(values, count)
    return Asked(points, true_ranks(np.sort(values), points))


def digest_of(contestant: Any, values: Floats, batch: int = BATCH) -> tuple[Any, int]:
    """The sketch of the values in batches, as it comes back from its own bytes, and how many they are."""
    parts = [contestant.take(values[at : at + batch]) for at in range(0, len(values), batch)]
    digest, size_bytes = contestant.reload(contestant.build(parts))
    return digest, size_bytes


def judge_digest(name: str, contestant: Any, digest: Any, asked: Asked) -> Row:
    """The largest and the mean error in percent of all values, the rule, and how often a proved interval was wrong."""
    answers = np.asarray(contestant.ranks(digest, contestant.take(asked.points)))
    errors = rank_errors(answers, asked.truth)
    error = worst(errors, "mid") if name == OURS else kindest(errors)
    return {
        "max_error_percent": 100 * error.max,
        "mean_error_percent": 100 * error.mean,
        "rule": error.rule,
        "outside": count_outside(digest, asked) if name == OURS else None,
    }


def count_outside(digest: Any, asked: Asked) -> int:
    """Points whose true share of values, below or up to them, is not in the proved interval."""
    sides = (("left", asked.truth.below), ("right", asked.truth.upto))
    bounds = [(*digest.bounds(asked.points, side), truth) for side, truth in sides]
    return sum(int(((truth < low) | (truth > high)).sum()) for low, high, truth in bounds)


def outside_of(table: pa.Table) -> int:
    return sum(int(row["outside"]) for row in rows_of(table, sketch=OURS))


def worst_error(table: pa.Table, **wanted: object) -> float | None:
    """The largest error of the rows that have these values; None where a sketch could not take part."""
    return max((row["max_error_percent"] for row in rows_of(table, **wanted)), default=None)


def best_rival(table: pa.Table, **wanted: object) -> tuple[str, float]:
    """The other sketch whose largest error is least."""
    found = [(name, worst_error(table, sketch=name, **wanted)) for name in SKETCHES if name != OURS]
    return min(((name, error) for name, error in found if error is not None), key=lambda pair: pair[1])


def compare(table: pa.Table, **wanted: object) -> str:
    """Ours and the best of the others, in half a sentence."""
    ours, (rival, error) = worst_error(table, sketch=OURS, **wanted), best_rival(table, **wanted)
    if ours is None:
        raise ValueError(f"no row of ours has {wanted}")
    verdict = "better than ours" if error < ours else "the best of the others"
    return f"{show_percent(ours)} ({rival}, {verdict}: {show_percent(error)})"


def beaten(name: str, table: pa.Table, **wanted: object) -> list[str]:
    """A sentence where another sketch is much closer than ours."""
    ours, (rival, error) = worst_error(table, sketch=OURS, **wanted), best_rival(table, **wanted)
    if ours is None or ours < MUCH * error:
        return []
    return [f"{name}: a TDigest's rank is off by up to {show_percent(ours)}, {rival}'s by {show_percent(error)}."]


def cells(table: pa.Table, **wanted: object) -> list[str]:
    """The largest error of every sketch; a dash where one could not take part."""
    found = []
    for name in SKETCHES:
        error = worst_error(table, sketch=name, **wanted)
        found.append("-" if error is None else show_percent(error))
    return found


def draw_lines(axes: Axes, table: pa.Table, column: str, **wanted: object) -> None:
    """The largest error of each sketch over a column, on a log axis."""
    for place, name in enumerate(SKETCHES):
        steps = steps_of(table, column, sketch=name, **wanted)
        errors = [worst_error(table, sketch=name, **wanted, **{column: each}) for each in steps]
        axes.plot(steps, _drawable(errors), **plots.line_of(place), label=name)
    axes.set_yscale("log")


def steps_of(table: pa.Table, column: str, **wanted: object) -> list[Any]:
    """The values of a column in the rows that have these values, each once."""
    return list(dict.fromkeys(row[column] for row in rows_of(table, **wanted)))


def _drawable(errors: Iterable[float | None]) -> list[float]:
    return [max(error or 0.0, LEAST_PERCENT) for error in errors]
