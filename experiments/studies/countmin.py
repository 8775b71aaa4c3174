"""Count-Min: how often is an estimate further off than promised?

A plain Count-Min promises that an item's estimate exceeds its count by more than e / width x total with a chance of at
most exp(-depth), over the choice of the hash key. Observed: the share of all items for which it does, mean over keys.
Ours takes batches of 10,000, plain and conservative; datasketches' count_min_sketch, which is plain, has equal shape.
"""

from itertools import product

import datasketches
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.bench.budgets import Budget, show_ratio
from experiments.bench.counters import exhaust
from experiments.bench.tables import Table
from experiments.study import plots
from experiments.study.budgets import Budgets
from experiments.study.study import Job, Row, Study, Tables, distinct, make_table, rows_of
from experiments.study.workloads import Items, draw_zipf
from sketches import CountMin, Tally, tally
from sketches.values import Ints

PLAIN, CONSERVATIVE, PEER = "plain (toptail)", "conservative (toptail)", "datasketches"
SKETCHES = (PLAIN, CONSERVATIVE, PEER)
EXPONENTS = {"Zipf 0.8": 0.8, "Zipf 1.1": 1.1, "uniform": 0.0}
EVENTS, FAST_EVENTS = 200_000, 50_000
ITEMS, FAST_ITEMS = 20_000, 5_000
WIDTHS, FAST_WIDTHS = (256, 2_048, 16_384), (256, 2_048, 16_384)
DEPTHS, FAST_DEPTHS = (1, 2, 3, 4, 5, 6), (1, 3, 5)
SEEDS, FAST_SEEDS = 5, 1
BATCH = 10_000
ENOUGH = 50  # failures that would keep the promise: where fewer are allowed, one more or less is chance

_LEAST = 1e-5  # a share below is drawn as this much


def measure(job: Job) -> Tables:
    streams = [job.items] if job.items else _draw(job)
    widths, depths = (FAST_WIDTHS, FAST_DEPTHS) if job.is_fast else (WIDTHS, DEPTHS)
    steps = list(product(streams, widths, depths))
    rows = [row for step in job.track(steps, "countmin: shapes") for row in _measure_shape(job, *step)]
    return {"failures": make_table(rows)}


def _draw(job: Job) -> list[Items]:
    events, items = (FAST_EVENTS, FAST_ITEMS) if job.is_fast else (EVENTS, ITEMS)
    drawn = {name: draw_zipf(job.rng(), events, items, exponent) for name, exponent in EXPONENTS.items()}
    return [Items(name, stream.events) for name, stream in drawn.items()]


def _measure_shape(job: Job, stream: Items, width: int, depth: int) -> list[Row]:
    batches = [tally(stream.events.slice(at, BATCH)) for at in range(0, len(stream), BATCH)]
    whole = tally(stream.events)
    excess: dict[str, list[Ints]] = {sketch: [] for sketch in SKETCHES}
    for seed in range(FAST_SEEDS if job.is_fast else SEEDS):
        rng = job.rng(width, depth, seed)
        key = rng.bytes(16)
        for sketch in (PLAIN, CONSERVATIVE):
            excess[sketch].append(
                _excess(batches, whole, CountMin(width, depth, key=key, conservative=sketch == CONSERVATIVE))
            )
        excess[PEER].append(_peer_excess(whole, width, depth, int(rng.integers(1, 2**31))))
    limit = float(np.e) / width * len(stream)
    common = {"stream": stream.name, "events": len(stream), "items": len(whole), "width": width, "depth": depth}
    return [
        common | {"sketch": sketch} | _sum_up(found, whole.counts, limit, depth) for sketch, found in excess.items()
    ]


def _excess(batches: list[Tally], whole: Tally, sketch: CountMin) -> Ints:
    for batch in batches:
        sketch.update(batch)
    return np.asarray(sketch.estimate(whole.items) - whole.counts)


def _peer_excess(whole: Tally, width: int, depth: int, seed: int) -> Ints:
    sketch, names = datasketches.count_min_sketch(depth, width, seed), whole.items.to_pylist()
    exhaust(map(sketch.update, names, whole.counts.astype(np.float64).tolist()))
    return np.array(list(map(sketch.get_estimate, names)), np.int64) - whole.counts


def _sum_up(runs: list[Ints], truth: Ints, limit: float, depth: int) -> Row:
    """The share of estimates beyond the limit, what was promised, and how far off an estimate is on the mean."""
    excess = np.stack(runs)
    return {
        "keys": len(runs),
        "predicted": float(np.exp(-depth)),
        "observed": float((excess > limit).mean()),
        "mean_excess_percent": 100 * float((excess / truth).mean()),
        "under": int((excess < 0).sum()),
    }


def draw(tables: Tables) -> Figure:
    """A row a stream, a column a width: promised and observed by depth."""
    table = tables["failures"]
    streams, widths = distinct(table, "stream"), distinct(table, "width")
    figure = Figure(figsize=(plots.WIDTH_IN, 1.4 + 2.5 * len(streams)), layout="constrained")
    grid = figure.subplots(len(streams), len(widths), sharex=True, sharey=True, squeeze=False)
    for axes, (stream, width) in zip(grid.ravel(), product(streams, widths), strict=True):
        _draw_shape(axes, rows_of(table, stream=stream, width=width))
        axes.set_title(f"{stream}, width {width:,}", fontsize=11)
    for axes in grid[:, 0]:
        axes.set_ylabel("items beyond, %")
    for axes in grid[-1]:
        axes.set_xlabel("depth")
    plots.add_legend(figure, grid[0][0], columns=4)
    return figure


def _draw_shape(axes: Axes, rows: list[Row]) -> None:
    depths = sorted({row["depth"] for row in rows})
    for place, sketch in enumerate(SKETCHES):
        observed = [100 * max(row["observed"], _LEAST) for row in rows if row["sketch"] == sketch]
        axes.plot(depths, observed, **plots.line_of(place), label=sketch)
    promised = [100 * float(np.exp(-depth)) for depth in depths]
    axes.plot(depths, promised, "--", color=plots.BLACK, label="promised: at most")
    plots.use_log(axes, "y")
    axes.set_xticks(depths)


def judge(tables: Tables, budgets: Budgets) -> list[Budget]:
    ours = [row for row in tables["failures"].to_pylist() if row["sketch"] != PEER]
    ratios = [_ratio(row) for row in ours if row["items"] * row["keys"] * row["predicted"] >= ENOUGH]
    return [
        *([budgets.judge("countmin.failure", max(ratios))] if ratios else []),
        budgets.judge("countmin.under", sum(row["under"] for row in ours)),
    ]


def say(tables: Tables) -> list[str]:
    rows = tables["failures"].to_pylist()
    worst = {sketch: max((row for row in rows if row["sketch"] == sketch), key=_ratio) for sketch in SKETCHES}
    return [
        f"Failures observed / promised, where that is most, {sketch}: {show_ratio(_ratio(row))} ({row['stream']}, "
        f"width {row['width']:,}, depth {row['depth']})."
        for sketch, row in worst.items()
    ]


def _ratio(row: Row) -> float:
    return float(row["observed"] / row["predicted"])


def tabulate(tables: Tables) -> list[Table]:
    table = tables["failures"]
    rows = []
    for stream, width, depth in product(distinct(table, "stream"), distinct(table, "width"), distinct(table, "depth")):
        found = {row["sketch"]: row for row in rows_of(table, stream=stream, width=width, depth=depth)}
        shares = [f"{found[sketch]['observed']:.4%}" for sketch in SKETCHES]
        excess = [f"{found[sketch]['mean_excess_percent']:,.1f} %" for sketch in SKETCHES]
        rows.append([stream, f"{width:,}", str(depth), f"{np.exp(-depth):.2%}", *shares, *excess])
    columns = ("stream", "width", "depth", "promised", *SKETCHES, *(f"excess, {sketch}" for sketch in SKETCHES))
    return [Table("Items beyond the promised error, and the mean excess of an estimate", columns, rows)]


STUDY = Study(
    name="countmin",
    title="Count-Min: failures, predicted and observed",
    claim="Estimates are never too small, and fewer of them exceed e / width of all events than exp(-depth) promises; "
    "a conservative update makes fewer still. datasketches' plain sketch fails as rarely as our plain one.",
    takes="items",
    measure=measure,
    draw=draw,
    judge=judge,
    say=say,
    tabulate=tabulate,
)
