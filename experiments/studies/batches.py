"""Batches: how much Space-Saving finds, by how many events it absorbs at once.

A batch is counted exactly before it is absorbed, so the larger it is, the less is thrown away. The summary is the same
size whatever the batch; the trend's keeper absorbs what it reads in a tick, up to 65,536 rows.

Drawn streams go on as they began. Words of a library do not: each file has its own, and what is heavy only for a while
is found less well, though within its bounds.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from matplotlib.figure import Figure

from experiments.bench.budgets import Budget
from experiments.bench.tables import Table
from experiments.study import plots
from experiments.study.budgets import Budgets, show_percent
from experiments.study.study import Job, Row, Study, Tables, distinct, make_table, rows_of
from experiments.study.workloads import ZIPF, Items, draw_zipf, find_words
from sketches import SpaceSaving

CAPACITY = 256
K = 100
SIZES = (1, 10, 100, 1_000, 10_000, 100_000, 1_000_000)
EVENTS, FAST_EVENTS = 1_000_000, 10_000
TICK = 10_000  # events of a batch from which on everything must be found, if the stream goes on as it began


def measure(job: Job) -> Tables:
    steps = [(items, size) for items, sizes in _streams(job) for size in sizes]
    rows = [_measure_size(items, size) for items, size in job.track(steps, "batches: sizes")]
    return {"batches": make_table(rows)}


def _streams(job: Job) -> list[tuple[Items, list[int]]]:
    """Streams, and the sizes of batches to cut them into; batches of one take long, and one stream shows them."""
    if job.items:
        return [(job.items, _sizes(job.items, 10 if len(job.items) <= EVENTS else 1_000))]
    events = FAST_EVENTS if job.is_fast else EVENTS
    distinct_items = events // 10
    zipf = [draw_zipf(job.rng(place), events, distinct_items, each) for place, each in enumerate((0.8, 1.1))]
    streams = [zipf[0]] if job.is_fast else [*zipf, find_words(events)]
    return [(items, _sizes(items, 1 if items is zipf[0] else 10)) for items in streams]


def _sizes(items: Items, least: int) -> list[int]:
    """Sizes up to the whole stream."""
    fitting = [size for size in SIZES if least <= size < len(items)]
    return [*fitting, len(items)]


def _measure_size(items: Items, size: int) -> Row:
    sketch = SpaceSaving(CAPACITY)
    for at in range(0, len(items), size):
        sketch.update(items.events[at : at + size])
    counted = pc.value_counts(items.events)
    names, counts = counted.field(0), counted.field(1).to_numpy()
    low, high = sketch.bounds(names)
    found = sketch.top(K)
    truth = counts[
        pc.index_in(pa.array([heavy.item for heavy in found], pa.large_string()), value_set=names).to_numpy()
    ]
    least = np.sort(counts)[-min(K, len(counts))]
    excess = np.array([heavy.count for heavy in found]) / truth - 1
    return {
        "stream": items.name,
        "is_steady": items.name.startswith(ZIPF),
        "events": len(items),
        "items": len(names),
        "batch": size,
        "precision": float((truth >= least).sum() / min(K, len(counts))),
        "floor_percent": 100 * sketch.floor / len(items),
        "mean_excess_percent": float(100 * excess.mean()),
        "outside": int(((counts < low) | (counts > high)).sum()),
    }


def draw(tables: Tables) -> Figure:
    """What is found, and what may be missed, by size of batch."""
    table = tables["batches"]
    figure, (precision, floor) = plots.make_axes(2)
    for place, stream in enumerate(distinct(table, "stream")):
        rows = rows_of(table, stream=stream)
        sizes = [row["batch"] for row in rows]
        precision.plot(sizes, [row["precision"] for row in rows], **plots.line_of(place), label=stream)
        floor.plot(sizes, [row["floor_percent"] for row in rows], **plots.line_of(place))
    plots.mark_budget(floor, 100 / CAPACITY)
    precision.set_ylim(0, 1.05)
    plots.use_log(precision, "x")
    plots.use_log(floor, "xy")
    for axes in (precision, floor):
        axes.set_xticks([1, 100, 10_000, 1_000_000], ["1", "100", "10 k", "1 M"])
    plots.label(precision, "events a batch (log)", f"share of the true top {K}", f"Found with {CAPACITY} counters")
    plots.label(floor, "events a batch (log)", "% of all events (log)", "Floor (dashed: proved limit)")
    plots.add_legend(figure, precision)
    return figure


def judge(tables: Tables, budgets: Budgets) -> list[Budget]:
    rows = tables["batches"].to_pylist()
    large = [row["precision"] for row in rows if row["batch"] >= TICK and row["is_steady"]]
    beyond = max(row["floor_percent"] * CAPACITY / 100 for row in rows)
    return [
        budgets.judge("batches.outside", sum(row["outside"] for row in rows)),
        budgets.judge("batches.floor", beyond),
        *([budgets.judge("batches.precision", min(large), at_any_size=False)] if large else []),
    ]


def say(tables: Tables) -> list[str]:
    lines = []
    for stream in distinct(tables["batches"], "stream"):
        rows = rows_of(tables["batches"], stream=stream)
        parts = [f"{row['precision']:.2f} in batches of {row['batch']:,}" for row in rows]
        lines.append(f"{stream}, {rows[0]['events']:,} events: of the true top {K} it finds {', '.join(parts)}.")
    return lines


def fails(tables: Tables) -> list[str]:
    rows = [row for row in tables["batches"].to_pylist() if row["batch"] >= TICK and row["precision"] < 1]
    return [
        f"{row['stream']}: what is heavy only for a while is found less well, {row['precision']:.2f} of the true top "
        f"{K} in batches of {row['batch']:,}."
        for row in rows
    ]


def tabulate(tables: Tables) -> list[Table]:
    rows = [
        [
            row["stream"],
            f"{row['batch']:,}",
            f"{row['precision']:.2f}",
            show_percent(row["floor_percent"]),
            show_percent(row["mean_excess_percent"]),
            f"{row['outside']:,}",
        ]
        for row in tables["batches"].to_pylist()
    ]
    columns = (
        "stream",
        "events a batch",
        f"found of top {K}",
        "floor, of all events",
        "mean excess of counts",
        "outside",
    )
    return [Table(f"Space-Saving with {CAPACITY} counters", columns, rows)]


STUDY = Study(
    name="batches",
    title="Large batches find more",
    claim="Absorbed in large batches Space-Saving finds far more with the same counters than item by item; its bounds "
    "hold at any size, and what is not listed occurred at most total / capacity times.",
    takes="items",
    measure=measure,
    draw=draw,
    judge=judge,
    say=say,
    tabulate=tabulate,
    fails=fails,
)
