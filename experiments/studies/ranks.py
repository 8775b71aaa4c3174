"""Ranks: how far off is a rank, from the lowest to the highest, for each sketch at the same bytes?

Scores are drawn anew for every seed (one's own are shuffled), go through the sketch in batches of 65,536, and the same
ranks are asked of all. The fan is the median of the errors over the seeds and 1, 2 and 3 standard deviations around it;
the proved interval of ours is the widest of all seeds. The largest error is that of 20,000 scores of each seed.
"""

from itertools import product

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.bench.budgets import Budget, show_count
from experiments.bench.ranks import Truth, true_ranks
from experiments.bench.tables import Table
from experiments.bench.workloads import LOGNORMAL, PARETO
from experiments.studies import rivals
from experiments.studies.rivals import LARGE, OURS, SKETCHES, SMALL
from experiments.study import plots
from experiments.study.budgets import Budgets, show_percent
from experiments.study.study import Job, Row, Study, Tables, distinct, make_table, rows_of
from sketches.values import Floats

SHAPES = (LOGNORMAL, PARETO)
VALUES, FAST_VALUES = 1_000_000, 50_000
SEEDS, FAST_SEEDS = 30, 30
ASKED, FAST_ASKED = 20_000, 2_000
RANKS = 1 / (1 + np.exp(-np.linspace(-9.2, 9.2, 47)))  # 0.0001 to 0.9999, even on the logit axis
PPM = 1e6
STEPS_PPM = (-10_000, -1_000, -100, 0, 100, 1_000, 10_000)
TICKS = {0.001: "0.1", 0.5: "50", 0.999: "99.9"}


def measure(job: Job) -> Tables:
    names = [job.scores.name] if job.scores else [shape.name for shape in (SHAPES[:1] if job.is_fast else SHAPES)]
    seeds = FAST_SEEDS if job.is_fast else SEEDS
    fan: list[Row] = []
    worst: list[Row] = []
    for place, name in enumerate(names):
        found = [_measure_seed(job, place, seed) for seed in job.track(range(seeds), f"ranks: {name}")]
        for size, sketch in product((SMALL, LARGE), SKETCHES):
            runs = [run[size, sketch] for run in found if (size, sketch) in run]
            common = {"shape": name, "size": size, "sketch": sketch}
            fan += [common | row for row in _fan([run[0] for run in runs])] if runs else []
            worst += [common | _worst([run[1] for run in runs])] if runs else []
    return {"fan": make_table(fan), "worst": make_table(worst)}


def _measure_seed(job: Job, place: int, seed: int) -> dict[tuple[str, str], tuple[Row, Row]]:
    """Errors along the ranks, and the largest ones, of every sketch at both sizes."""
    rng = job.rng(place, seed)
    values = _draw(job, place, rng)
    ordered = np.sort(values)
    points = ordered[(RANKS * len(values)).astype(np.int64)]
    along, asked = rivals.Asked(points, true_ranks(ordered, points)), rivals.ask(values, _asked(job), rng)
    found = {}
    for size in (SMALL, LARGE):
        for sketch, contestant in rivals.load_digests(size, values).items():
            digest, size_bytes = rivals.digest_of(contestant, values)
            row = rivals.judge_digest(sketch, contestant, digest, asked)
            answers = np.asarray(contestant.ranks(digest, contestant.take(points)))
            truth = _by_rule(along.truth, row["rule"])
            proof = digest.bounds(points) if sketch == OURS else (None, None)
            errors = {"error": answers - truth, "low": proof[0], "high": proof[1], "below": along.truth.below}
            found[size, sketch] = (errors, row | {"size_bytes": size_bytes, "values": len(values)})
    return found


def _draw(job: Job, place: int, rng: np.random.Generator) -> Floats:
    if job.scores:
        return rng.permutation(job.scores.values)
    return SHAPES[place].make(rng, FAST_VALUES if job.is_fast else VALUES)


def _asked(job: Job) -> int:
    return FAST_ASKED if job.is_fast else ASKED


def _by_rule(truth: Truth, rule: str) -> Floats:
    return {"min": truth.below, "max": truth.upto, "mid": (truth.below + truth.upto) / 2}[rule]


def _fan(runs: list[Row]) -> list[Row]:
    """A row a rank: median and standard deviation over the seeds, and the widest proved interval around the truth."""
    errors = PPM * np.array([run["error"] for run in runs])
    median, sigma = np.median(errors, axis=0), errors.std(axis=0)
    low: list[float | None] = [None] * len(RANKS)
    high = low
    if runs[0]["low"] is not None:
        low = (PPM * np.min([run["low"] - run["below"] for run in runs], axis=0)).tolist()
        high = (PPM * np.max([run["high"] - run["below"] for run in runs], axis=0)).tolist()
    columns = zip(RANKS.tolist(), median.tolist(), sigma.tolist(), low, high, strict=True)
    names = ("rank", "median_ppm", "sigma_ppm", "proved_low_ppm", "proved_high_ppm")
    return [dict(zip(names, row, strict=True)) for row in columns]


def _worst(rows: list[Row]) -> Row:
    return {
        "values": rows[0]["values"],
        "seeds": len(rows),
        "size_bytes": max(row["size_bytes"] for row in rows),
        "max_error_percent": max(row["max_error_percent"] for row in rows),
        "mean_error_percent": float(np.mean([row["mean_error_percent"] for row in rows])),
        "outside": sum(row["outside"] for row in rows) if rows[0]["outside"] is not None else None,
    }


def draw(tables: Tables) -> Figure:
    """A fan a sketch, those of the small size above those of the large; the first shape only, as all look alike."""
    table = tables["fan"]
    shape = distinct(table, "shape")[0]
    figure = Figure(figsize=(plots.WIDTH_IN, 12.5), layout="constrained")
    grid = figure.subplots(4, 3, sharex=True, sharey=True)
    panels = product((SMALL, LARGE), SKETCHES)
    for place, (axes, (size, sketch)) in enumerate(zip(grid.ravel(), panels, strict=True)):
        _draw_fan(axes, rows_of(table, shape=shape, size=size, sketch=sketch), SKETCHES.index(sketch))
        plots.label(axes, "true rank, %" if place >= 9 else "", "error, ppm (symlog)" if place % 3 == 0 else "")
        axes.set_title(f"{sketch}, {size}", fontsize=12)
    figure.suptitle(f"Error of the rank, {shape}: median, ±1, 2, 3 sigma over seeds; dashed: proved", fontsize=13)
    return figure


def _draw_fan(axes: Axes, rows: list[Row], place: int) -> None:
    rank, median, sigma = (np.array([row[name] for row in rows]) for name in ("rank", "median_ppm", "sigma_ppm"))
    colour = plots.COLOURS[place]
    for times, alpha in ((3, 0.18), (2, 0.25), (1, 0.4)):
        axes.fill_between(rank, median - times * sigma, median + times * sigma, color=colour, alpha=alpha, linewidth=0)
    axes.plot(rank, median, color=plots.BLACK, linewidth=1.2)
    if rows and rows[0]["proved_low_ppm"] is not None:
        for name in ("proved_low_ppm", "proved_high_ppm"):
            axes.plot(rank, [row[name] for row in rows], color=plots.BLACK, linestyle="--", linewidth=1.3)
    axes.set_xscale("logit")
    axes.set_yscale("symlog", linthresh=100, linscale=1)
    axes.set_ylim(-60_000, 60_000)
    axes.set_yticks(STEPS_PPM, [f"{step:,}" for step in STEPS_PPM])
    axes.set_xticks(list(TICKS), list(TICKS.values()))
    axes.minorticks_off()


def judge(tables: Tables, budgets: Budgets) -> list[Budget]:
    ours = rows_of(tables["worst"], sketch=OURS, size=LARGE)
    is_ours = {shape.name for shape in SHAPES} >= {row["shape"] for row in ours}
    error = max(row["max_error_percent"] for row in ours)
    return [
        *([budgets.judge("ranks.error", error, at_any_size=False)] if is_ours else []),
        budgets.judge("ranks.bytes", max(row["size_bytes"] for row in ours)),
        budgets.judge("ranks.outside", rivals.outside_of(tables["worst"])),
    ]


def say(tables: Tables) -> list[str]:
    table = tables["worst"]
    seeds, values = table["seeds"][0].as_py(), table["values"][0].as_py()
    return [
        f"Largest error of a rank over {seeds} seeds of {values:,} values, {shape}, {size}: "
        f"{rivals.compare(table, shape=shape, size=size)}."
        for shape in distinct(table, "shape")
        for size in (SMALL, LARGE)
    ]


def fails(tables: Tables) -> list[str]:
    table = tables["worst"]
    cases = product(distinct(table, "shape"), (SMALL, LARGE))
    return [line for shape, size in cases for line in rivals.beaten(f"{shape}, {size}", table, shape=shape, size=size)]


def tabulate(tables: Tables) -> list[Table]:
    columns = ("scores", "size", "sketch", "bytes", "mean error", "max error", "proved")
    rows = [
        [
            row["shape"],
            row["size"],
            row["sketch"],
            show_count(row["size_bytes"]),
            show_percent(row["mean_error_percent"]),
            show_percent(row["max_error_percent"]),
            "-" if row["outside"] is None else f"{row['outside']} outside",
        ]
        for row in tables["worst"].to_pylist()
    ]
    return [Table("Error of a rank at equal bytes", columns, rows, labels=3)]


STUDY = Study(
    name="ranks",
    title="Error against rank, beside the others",
    claim="In 16 KB a TDigest of a million values is off by at most 0.02 % at any rank, less than every sketch that is "
    "not told the range of the values beforehand, and it alone proves an interval around its answer.",
    takes="scores",
    measure=measure,
    draw=draw,
    judge=judge,
    say=say,
    tabulate=tabulate,
    fails=fails,
)
