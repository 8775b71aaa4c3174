"""Ties: scores repeat. How far off are ranks when many players have one score, or when there are few scores at all?

Two series: a share of all scores, 0 to 90 %, is replaced by their median; and scores are rounded to so many levels, 2
to 100,000, each as frequent as the next. A rank is that of a value among repeated ones, by mid for ours and by the rule
that suits best for every other sketch (rivals.py); DDSketch counts half of a value's own bin.
"""

from collections import Counter
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from matplotlib.figure import Figure

from experiments.bench.budgets import Budget
from experiments.bench.tables import Table
from experiments.bench.workloads import LOGNORMAL
from experiments.studies import rivals
from experiments.studies.rivals import LARGE, OURS, SKETCHES
from experiments.study import plots
from experiments.study.budgets import Budgets
from experiments.study.study import Job, Row, Study, Tables, make_table, rows_of
from sketches.values import Floats

SHARE, LEVELS = "share of one value, %", "distinct values"
SHARES, FAST_SHARES = (0, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90), (0, 10, 40, 90)
COUNTS, FAST_COUNTS = (2, 10, 50, 200, 1_000, 2_000, 5_000, 10_000, 30_000, 100_000), (2, 200, 5_000, 100_000)
VALUES, FAST_VALUES = 500_000, 50_000
ASKED = 20_000
SEEDS, FAST_SEEDS = 3, 1


class Case(NamedTuple):
    """A series, and a step of it."""

    series: str
    step: int

    def repeat(self, values: Floats, rng: np.random.Generator) -> Floats:
        if self.series == SHARE:
            return replace_share(values, self.step / 100, rng)
        return round_to_levels(values, self.step)


def measure(job: Job) -> Tables:
    steps = [(case, seed) for case in _cases(job) for seed in range(FAST_SEEDS if job.is_fast else SEEDS)]
    rows = [row for case, seed in job.track(steps, "ties: cases") for row in _measure_case(job, case, seed)]
    return {"ties": make_table(rows)}


def _cases(job: Job) -> list[Case]:
    shares, counts = (FAST_SHARES, FAST_COUNTS) if job.is_fast else (SHARES, COUNTS)
    return [*(Case(SHARE, share) for share in shares), *(Case(LEVELS, count) for count in counts)]


def replace_share(values: Floats, share: float, rng: np.random.Generator) -> Floats:
    """So large a share of the values, drawn at random, becomes their median."""
    return np.where(rng.random(len(values)) < share, np.median(values), values)


def round_to_levels(values: Floats, count: int) -> Floats:
    """Every value becomes the least of its group, of so many groups that are equally large."""
    ordered = np.sort(values)
    ranks = np.searchsorted(ordered, values)
    group = ranks * count // len(values)
    return ordered[-(-group * len(values) // count)]


def _measure_case(job: Job, case: Case, seed: int) -> list[Row]:
    rng = job.rng(case.step, seed)
    drawn = job.scores.values if job.scores else LOGNORMAL.make(rng, FAST_VALUES if job.is_fast else VALUES)
    values = case.repeat(drawn, rng)
    asked = rivals.ask(values, ASKED, rng)
    rows = []
    for sketch, contestant in rivals.load_digests(LARGE, values, is_tied=True).items():
        digest, size_bytes = rivals.digest_of(contestant, values)
        common = {"scores": rivals.name_scores(job), "values": len(values), "series": case.series, "step": case.step}
        common |= {"seed": seed, "sketch": sketch, "size_bytes": size_bytes}
        rows.append(common | rivals.judge_digest(sketch, contestant, digest, asked))
    return rows


def draw(tables: Tables) -> Figure:
    figure, both = plots.make_axes(2, height_in=5.0)
    for axes, series in zip(both, (SHARE, LEVELS), strict=True):
        rivals.draw_lines(axes, tables["ties"], "step", series=series)
        plots.use_log(axes, "y")
    plots.label(both[0], SHARE, "largest error, % of values (log)", "One score that many have")
    plots.label(both[1], f"{LEVELS} (log)", "", f"Few scores ({rivals.LEAST_PERCENT:.4f}: or less)")
    plots.use_log(both[1], "x")
    both[1].set_xticks([10, 1_000, 100_000])
    plots.add_legend(figure, both[0], columns=3)
    return figure


def judge(tables: Tables, budgets: Budgets) -> list[Budget]:
    ours = rows_of(tables["ties"], sketch=OURS)
    error = max(row["max_error_percent"] for row in ours)
    return [
        *([budgets.judge("ties.error", error, at_any_size=False)] if rivals.is_drawn(tables["ties"]) else []),
        budgets.judge("ties.outside", rivals.outside_of(tables["ties"])),
    ]


def say(tables: Tables) -> list[str]:
    table = tables["ties"]
    few = [row["max_error_percent"] for row in rows_of(table, series=LEVELS, sketch=OURS) if row["step"] <= 1_000]
    return [
        f"One value that 0 to 90 % have: {rivals.compare(table, series=SHARE)}.",
        f"2 to 100,000 distinct values: {rivals.compare(table, series=LEVELS)}. Up to 1,000 of them every rank is "
        f"exact: the largest error was {max(few):.4g} %.",
        f"The rule that each was judged by, most often: {', '.join(_rules(table))}.",
    ]


def _rules(table: pa.Table) -> list[str]:
    found = {name: Counter(row["rule"] for row in rows_of(table, sketch=name)) for name in SKETCHES}
    return [f"{name} {rules.most_common(1)[0][0]}" for name, rules in found.items() if rules]


def tabulate(tables: Tables) -> list[Table]:
    table = tables["ties"]
    found = []
    for series in (SHARE, LEVELS):
        steps = rivals.steps_of(table, "step", series=series)
        rows = [[f"{step:,}", *rivals.cells(table, series=series, step=step)] for step in steps]
        found.append(Table(f"Largest error of a rank by {series}", (series, *SKETCHES), rows))
    return found


STUDY = Study(
    name="ties",
    title="Scores that repeat, beside the others",
    claim="A TDigest keeps a value that many share apart: its ranks are off by at most 0.05 %, whether most have one "
    "score or there are two scores or 100,000.",
    takes="scores",
    measure=measure,
    draw=draw,
    judge=judge,
    say=say,
    tabulate=tabulate,
)
