"""Orders: does the error depend on the order in which scores come, or on how far apart they lie?

The same lognormal scores at random, ascending, descending, zooming in (lowest, highest, second lowest, ...) and
drifting upwards; scores even on a log scale from 10^-150 to 10^150, the known weakness of t-digests; and the sizes
of the files of this Python, a real set with ties and a long tail. They come in batches of 1,000, so that order matters.
"""

from collections.abc import Callable

import numpy as np
from matplotlib.figure import Figure

from experiments.bench.budgets import Budget
from experiments.bench.tables import Table
from experiments.bench.workloads import LOG_UNIFORM, LOGNORMAL
from experiments.studies import rivals
from experiments.studies.rivals import LARGE, OURS, SKETCHES
from experiments.study import plots
from experiments.study.budgets import Budgets
from experiments.study.study import Job, Row, Study, Tables, distinct, make_table, rows_of
from experiments.study.workloads import find_sizes
from sketches.values import Floats

VALUES, FAST_VALUES = 500_000, 50_000
ASKED = 20_000
SEEDS, FAST_SEEDS = 3, 1
BATCH = 1_000
ZOOMING, SPREAD, SIZES = "zooming in", "log-uniform 10^±150", "file sizes"


def zoom_in(values: Floats) -> Floats:
    """Lowest, highest, second lowest, second highest, and so on to the middle."""
    ordered = np.sort(values)
    half = (len(values) + 1) // 2
    zoomed = np.empty_like(ordered)
    zoomed[::2], zoomed[1::2] = ordered[:half], ordered[half:][::-1]
    return zoomed


def drift(values: Floats) -> Floats:
    """What comes last is e^3 times what it would have been at first."""
    return np.asarray(values * np.exp(3 * np.arange(len(values)) / len(values)))


ORDERS: dict[str, Callable[[Floats], Floats]] = {
    "as they come": lambda values: values,
    "ascending": np.sort,
    "descending": lambda values: np.sort(values)[::-1],
    "drifting up": drift,
    ZOOMING: zoom_in,
}


def measure(job: Job) -> Tables:
    names = [*ORDERS, *([] if job.scores else [SPREAD, SIZES])]
    steps = [(name, seed) for name in names for seed in range(FAST_SEEDS if job.is_fast else SEEDS)]
    rows = [row for name, seed in job.track(steps, "orders: cases") for row in _measure_order(job, name, seed)]
    return {"orders": make_table(rows)}


def _measure_order(job: Job, name: str, seed: int) -> list[Row]:
    rng = job.rng(seed)
    values = _draw(job, name, rng)
    asked, rows = rivals.ask(values, ASKED, rng), []
    for sketch, contestant in rivals.load_digests(LARGE, values, is_tied=name == SIZES).items():
        digest, size_bytes = rivals.digest_of(contestant, values, BATCH)
        common = {"scores": rivals.name_scores(job), "values": len(values), "order": name, "seed": seed}
        common |= {"sketch": sketch, "size_bytes": size_bytes}
        rows.append(common | rivals.judge_digest(sketch, contestant, digest, asked))
    return rows


def _draw(job: Job, name: str, rng: np.random.Generator) -> Floats:
    count = FAST_VALUES if job.is_fast else VALUES
    if name == SPREAD:
        return LOG_UNIFORM.make(rng, count)
    if name == SIZES:
        return rng.permutation(find_sizes().values)
    return ORDERS[name](job.scores.values if job.scores else LOGNORMAL.make(rng, count))


def draw(tables: Tables) -> Figure:
    """A row an order, a mark a sketch."""
    table = tables["orders"]
    figure, (axes,) = plots.make_axes(1, height_in=5.6)
    orders = distinct(table, "order")
    for place, sketch in enumerate(SKETCHES):
        rows = [(at, rivals.worst_error(table, order=order, sketch=sketch)) for at, order in enumerate(orders)]
        known = [(at, max(error, rivals.LEAST_PERCENT)) for at, error in rows if error is not None]
        heights = [-at + 0.1 * (2.5 - place) for at, _ in known]
        axes.plot([error for _, error in known], heights, **plots.line_of(place), linestyle="none", label=sketch)
    axes.set_yticks([-at for at in range(len(orders))], orders)
    plots.use_log(axes, "x")
    plots.label(axes, "largest error of a rank, % of values (log)", "")
    plots.add_legend(figure, axes, columns=3)
    return figure


def judge(tables: Tables, budgets: Budgets) -> list[Budget]:
    ours = [row for row in rows_of(tables["orders"], sketch=OURS) if row["order"] in ORDERS and row["order"] != ZOOMING]
    error = max(row["max_error_percent"] for row in ours)
    return [
        *([budgets.judge("orders.error", error, at_any_size=False)] if rivals.is_drawn(tables["orders"]) else []),
        budgets.judge("orders.outside", rivals.outside_of(tables["orders"])),
    ]


def say(tables: Tables) -> list[str]:
    table = tables["orders"]
    lines = [f"{order.capitalize()}: {rivals.compare(table, order=order)}." for order in distinct(table, "order")]
    if SPREAD in distinct(table, "order"):
        lines.append(
            "REQ takes no part where values leave single precision. DDSketch was told the range of all values."
        )
    return lines


def fails(tables: Tables) -> list[str]:
    table = tables["orders"]
    return [
        line for order in distinct(table, "order") for line in rivals.beaten(order.capitalize(), table, order=order)
    ]


def tabulate(tables: Tables) -> list[Table]:
    table = tables["orders"]
    rows = [[order, *rivals.cells(table, order=order)] for order in distinct(table, "order")]
    return [Table("Largest error of a rank by order", ("order", *SKETCHES), rows)]


STUDY = Study(
    name="orders",
    title="Order and adversary, beside the others",
    claim="Sorted, reversed or drifting values cost a TDigest nothing. What closes in on the middle from both ends, "
    "and values that span many orders of magnitude, spoil its guess; there others are better, but the proof holds.",
    takes="scores",
    measure=measure,
    draw=draw,
    judge=judge,
    say=say,
    tabulate=tabulate,
    fails=fails,
)
