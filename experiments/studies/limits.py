"""Limits: where the sketches fail, measured. No promise is broken here: the answers are true, but say little.

spread      t-digest: values even on a log scale from 10^-s to 10^s; inside a cell the guess has nothing to go by
closing in  t-digest: values that close in on the middle from both ends, by the size of the batches
counters    SpaceSaving: a top 100 from 100 counters and more, and how many of it are sure
crowding    Count-Min: mean excess of an estimate by items a cell, depth 4
"""

import numpy as np
import pyarrow as pa
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.bench.budgets import Budget
from experiments.bench.tables import Table
from experiments.bench.workloads import LOGNORMAL
from experiments.studies import rivals
from experiments.studies.orders import zoom_in
from experiments.studies.rivals import LARGE, OURS, SKETCHES
from experiments.study import plots
from experiments.study.budgets import Budgets
from experiments.study.study import Job, Row, Study, Tables, distinct, make_table, rows_of
from experiments.study.workloads import draw_zipf
from sketches import CountMin, SpaceSaving, tally
from sketches.values import Floats

SPREAD, CLOSING = "spread", "closing in"
DECADES, FAST_DECADES = (1, 5, 15, 50, 150), (1, 15, 150)
SIZES, FAST_SIZES = (100, 1_000, 10_000, 100_000), (1_000, 10_000)
VALUES, FAST_VALUES = 300_000, 50_000
ASKED = 20_000

K, TRAFFIC = 100, {"Zipf 1.1": 1.1, "uniform": 0.0}
CAPACITIES, FAST_CAPACITIES = (100, 200, 400, 1_000, 4_000), (100, 400, 4_000)
BATCHES, FAST_BATCHES = (100, 10_000), (1_000, 10_000)
EVENTS, FAST_EVENTS = 200_000, 50_000
WIDTHS = (512, 2_048, 8_192, 32_768, 131_072)
ITEMS, DEPTH = 50_000, 4

_LEAST_PERCENT = 0.01  # an excess below is drawn as this much


def measure(job: Job) -> Tables:
    decades, sizes = (FAST_DECADES, FAST_SIZES) if job.is_fast else (DECADES, SIZES)
    cases = [*((SPREAD, step) for step in decades), *((CLOSING, step) for step in sizes)]
    digests = [row for case in job.track(cases, "limits: t-digest") for row in _measure_digests(job, *case)]
    counters = [
        row for name in job.track(tuple(TRAFFIC), "limits: SpaceSaving") for row in _measure_counters(job, name)
    ]
    cells = [row for name in job.track(tuple(TRAFFIC), "limits: Count-Min") for row in _measure_cells(job, name)]
    return {"digests": make_table(digests), "counters": make_table(counters), "cells": make_table(cells)}


def _measure_digests(job: Job, case: str, step: int) -> list[Row]:
    rng = job.rng(step)
    count = FAST_VALUES if job.is_fast else VALUES
    values: Floats = 10.0 ** rng.uniform(-step, step, count) if case == SPREAD else zoom_in(LOGNORMAL.make(rng, count))
    batch = step if case == CLOSING else rivals.BATCH
    asked, rows = rivals.ask(values, ASKED, rng), []
    for sketch, contestant in rivals.load_digests(LARGE, values).items():
        digest, _ = rivals.digest_of(contestant, values, batch)
        common = {"case": case, "step": step, "values": count, "sketch": sketch}
        rows.append(common | rivals.judge_digest(sketch, contestant, digest, asked))
    return rows


def _measure_counters(job: Job, traffic: str) -> list[Row]:
    events = draw_zipf(job.rng(), FAST_EVENTS if job.is_fast else EVENTS, ITEMS, TRAFFIC[traffic]).events
    whole = tally(events)
    least = np.sort(whole.counts)[-K]
    heavy = set(whole.items.filter(pa.array(whole.counts >= least)).to_pylist())
    capacities, batches = (FAST_CAPACITIES, FAST_BATCHES) if job.is_fast else (CAPACITIES, BATCHES)
    rows = []
    for batch, capacity in ((batch, capacity) for batch in batches for capacity in capacities):
        summary = SpaceSaving(capacity)
        for at in range(0, len(events), batch):
            summary.update(events.slice(at, batch))
        low, high = summary.bounds(whole.items)
        row = {
            "traffic": traffic,
            "batch": batch,
            "capacity": capacity,
            "precision": sum(entry.item in heavy for entry in summary.top(K)) / K,
            "guaranteed": sum(summary.guaranteed(K)) / K,
            "outside": int(((whole.counts < low) | (whole.counts > high)).sum()),
        }
        rows.append(row)
    return rows


def _measure_cells(job: Job, traffic: str) -> list[Row]:
    whole = tally(draw_zipf(job.rng(), FAST_EVENTS if job.is_fast else EVENTS, ITEMS, TRAFFIC[traffic]).events)
    rows = []
    for width in WIDTHS:
        sketch = CountMin(width, DEPTH, key=job.rng(width).bytes(16))
        sketch.update(whole)
        excess = sketch.estimate(whole.items) - whole.counts
        row = {"traffic": traffic, "width": width, "items": len(whole), "under": int((excess < 0).sum())}
        rows.append(row | {"mean_excess_percent": 100 * float((excess / whole.counts).mean())})
    return rows


def draw(tables: Tables) -> Figure:
    """What is hard for which sketch, a panel each."""
    figure = Figure(figsize=(plots.WIDTH_IN, 9.0), layout="constrained")
    (spread, closing), (counters, cells) = figure.subplots(2, 2)
    for axes, case in ((spread, SPREAD), (closing, CLOSING)):
        rivals.draw_lines(axes, tables["digests"], "step", case=case)
        plots.use_log(axes, "xy")
    plots.label(spread, "s, of values from 10^-s to 10^s", "largest error, % of values", "t-digest: values far apart")
    plots.label(closing, "values a batch", "largest error, % of values", "t-digest: values that close in")
    _draw_counters(counters, tables["counters"])
    _draw_cells(cells, tables["cells"])
    plots.add_legend(figure, spread, columns=3)
    return figure


def _draw_counters(axes: Axes, table: pa.Table) -> None:
    large, small = max(distinct(table, "batch")), min(distinct(table, "batch"))
    for place, (traffic, batch) in enumerate((("Zipf 1.1", large), ("Zipf 1.1", small), ("uniform", large))):
        rows, look = rows_of(table, traffic=traffic, batch=batch), plots.line_of(place)
        counters = [row["capacity"] for row in rows]
        axes.plot(counters, [row["precision"] for row in rows], **look, label=f"{traffic}, {batch:,} a batch")
        axes.plot(counters, [row["guaranteed"] for row in rows], **look, linestyle="--")
    plots.use_log(axes, "x")
    axes.set_xticks([100, 1_000])
    axes.set_ylim(-0.05, 1.75)
    axes.set_yticks([0, 0.5, 1])
    axes.legend(loc="upper left", fontsize=11)
    plots.label(axes, "counters", "share of the top 100", "SpaceSaving: right (dashed: sure)")


def _draw_cells(axes: Axes, table: pa.Table) -> None:
    for place, traffic in enumerate(distinct(table, "traffic")):
        rows = rows_of(table, traffic=traffic)
        heights = [max(row["mean_excess_percent"], _LEAST_PERCENT) for row in rows]
        axes.plot([row["items"] / row["width"] for row in rows], heights, **plots.line_of(place), label=traffic)
    plots.use_log(axes, "xy")
    axes.legend(loc="lower right")
    plots.label(axes, "items a cell", "mean excess, % of the count", f"Count-Min, depth {DEPTH}")


def judge(tables: Tables, budgets: Budgets) -> list[Budget]:
    guess = max(row["max_error_percent"] for row in rows_of(tables["digests"], sketch=OURS, case=SPREAD))
    return [budgets.judge("limits.broken", count_broken(tables)), budgets.judge("limits.guess", guess)]


def count_broken(tables: Tables) -> int:
    """Answers outside what was proved, of all three sketches."""
    counters, cells = tables["counters"].to_pylist(), tables["cells"].to_pylist()
    counted = sum(int(row["outside"]) for row in counters) + sum(int(row["under"]) for row in cells)
    return rivals.outside_of(tables["digests"]) + counted


def say(tables: Tables) -> list[str]:
    digests, counters, cells = (tables[name] for name in ("digests", "counters", "cells"))
    asked = ASKED * len(rows_of(digests, sketch=OURS))
    return [
        f"Bounds that were wrong: {count_broken(tables)}, of {asked:,} ranks asked of a TDigest, {len(counters)} "
        f"summaries and {len(cells)} Count-Mins with all of their items. The answers were poor all the same: see "
        "`Where it fails`."
    ]


def fails(tables: Tables) -> list[str]:
    """The worst of each, in a sentence."""
    digests, counters, cells = tables["digests"], tables["counters"], tables["cells"]
    small = min(rivals.steps_of(digests, "step", case=CLOSING))
    few = rows_of(counters, traffic="Zipf 1.1", capacity=K, batch=max(distinct(counters, "batch")))[0]
    tiny = rows_of(counters, traffic="Zipf 1.1", capacity=400, batch=min(distinct(counters, "batch")))[0]
    uniform = [row["guaranteed"] for row in rows_of(counters, traffic="uniform")]
    crowded = rows_of(cells, traffic="uniform", width=WIDTHS[0])[0]
    return [
        f"Values from 10^-150 to 10^150: the guess is off by {rivals.compare(digests, case=SPREAD, step=150)}.",
        f"Values that close in on the middle, {small:,} a batch: {rivals.compare(digests, case=CLOSING, step=small)}.",
        f"SpaceSaving with {K} counters for a top {K}, Zipf 1.1: {few['precision']:.0%} are right, "
        f"{few['guaranteed']:.0%} sure. With 400 counters and {tiny['batch']:,} events a batch: "
        f"{tiny['precision']:.0%} right.",
        f"SpaceSaving on uniform traffic, up to {max(distinct(counters, 'capacity')):,} counters for {ITEMS:,} items: "
        f"{max(uniform):.0%} of the top {K} are sure.",
        f"Count-Min on uniform traffic, {crowded['items'] / crowded['width']:.0f} items a cell: estimates exceed "
        f"the truth by {crowded['mean_excess_percent']:,.0f} % on the mean.",
    ]


def tabulate(tables: Tables) -> list[Table]:
    digests, counters = tables["digests"], tables["counters"]
    found = [
        [case, f"{step:,}", *rivals.cells(digests, case=case, step=step)]
        for case in (SPREAD, CLOSING)
        for step in rivals.steps_of(digests, "step", case=case)
    ]
    sure = [
        [
            row["traffic"],
            f"{row['batch']:,}",
            f"{row['capacity']:,}",
            f"{row['precision']:.2f}",
            f"{row['guaranteed']:.2f}",
        ]
        for row in counters.to_pylist()
    ]
    crowd = [
        [
            row["traffic"],
            f"{row['width']:,}",
            f"{row['items'] / row['width']:.1f}",
            f"{row['mean_excess_percent']:,.2f} %",
        ]
        for row in tables["cells"].to_pylist()
    ]
    return [
        Table("Largest error of a rank: 10^±s, or values a batch", ("case", "step", *SKETCHES), found),
        Table(f"SpaceSaving, top {K}", ("traffic", "batch", "counters", "right", "sure"), sure),
        Table(f"Count-Min, depth {DEPTH}", ("traffic", "width", "items a cell", "mean excess"), crowd),
    ]


STUDY = Study(
    name="limits",
    title="What the sketches are no good for",
    claim="Values over many orders of magnitude or closing in from both ends, too few counters, tiny batches, traffic "
    "without heavy items, crowded cells: answers say little there, and others may say more. No bound is ever wrong.",
    takes=None,
    measure=measure,
    draw=draw,
    judge=judge,
    say=say,
    tabulate=tabulate,
    fails=fails,
)
