"""Heavy: the 100 heaviest items of a stream, by memory.

    precision         of the 100 that a summary names, those that occurred at least as often as the true number 100
    recall            of the true 100, those that the summary tracks at all
    relative error    |estimate - truth| / truth, mean over the true 100

SpaceSaving takes batches, which it counts exactly first: that needs memory for one batch, which is not in the figure,
so it is measured twice: with batches of 65,536 and of 1,000. All others take one event at a time. Memory is the most
that each can take when it is saved.
"""

from collections.abc import Iterator

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.bench.budgets import Budget, show_ratio
from experiments.bench.tables import Table
from experiments.studies import rival_summaries as rivals
from experiments.studies.rival_summaries import BATCHES, LARGE, SMALL, SUMMARIES
from experiments.study import plots
from experiments.study.budgets import Budgets, show_percent
from experiments.study.study import Job, Row, Study, Tables, distinct, make_table, rows_of
from experiments.study.workloads import Items, draw_zipf, find_words

EXPONENTS = (0.6, 0.8, 1.1, 1.6, 0.0)
EVENTS, FAST_EVENTS = 300_000, 100_000
ITEMS, FAST_ITEMS = 100_000, 30_000
MAP_SIZES, FAST_MAP_SIZES = (8, 9, 10, 11, 12), (8, 10)  # log2 of the slots of datasketches' map: its only sizes
PANELS = {
    "precision": "precision at 100",
    "recall": "recall of the true 100",
    "relative_error_percent": "error, % (0.001: or less)",
}
CASE = "Zipf 1.1"

_LEAST_PERCENT = 0.001


def measure(job: Job) -> Tables:
    streams = [job.items] if job.items else _draw(job)
    sizes = FAST_MAP_SIZES if job.is_fast else MAP_SIZES
    steps = [(stream, size) for stream in streams for size in sizes]
    return {"heavy": make_table([row for step in job.track(steps, "heavy: streams") for row in _measure(job, *step)])}


def _draw(job: Job) -> list[Items]:
    events, items = (FAST_EVENTS, FAST_ITEMS) if job.is_fast else (EVENTS, ITEMS)
    drawn = [draw_zipf(job.rng(place), events, items, exponent) for place, exponent in enumerate(EXPONENTS)]
    *zipfs, uniform = drawn
    return [*zipfs, Items("uniform", uniform.events), find_words(events)]


def _measure(job: Job, stream: Items, map_size: int) -> Iterator[Row]:
    coded = rivals.code(stream.events)
    heaviest = np.argsort(-coded.truth, kind="stable")[: rivals.K]
    for summary, ask in rivals.make_summaries(coded, map_size, job.rng(map_size)).items():
        answer = ask(heaviest)
        yield {
            "stream": stream.name,
            "events": len(stream),
            "summary": summary,
            "map_size": map_size,
            "size_bytes": int(rivals.map_bytes(coded, map_size)),
            **rivals.judge_answer(answer, coded.truth, heaviest),
            "outside": answer.outside,
        }


def draw(tables: Tables) -> Figure:
    """A row a stream; precision, recall and relative error beside each other."""
    table = tables["heavy"]
    streams = distinct(table, "stream")
    figure = Figure(figsize=(plots.WIDTH_IN, 1.4 + 2.0 * len(streams)), layout="constrained")
    grid = figure.subplots(len(streams), 3, sharex=True, sharey="col", squeeze=False)
    for row, stream in zip(grid, streams, strict=True):
        for axes, column in zip(row, PANELS, strict=True):
            _draw_panel(axes, tables, stream, column)
        row[0].set_ylabel(stream.replace(" of ", "\nof "))
    for axes, name in zip(grid[0], PANELS.values(), strict=True):
        axes.set_title(name, fontsize=12)
    for axes in grid[-1]:
        axes.set_xlabel("memory, kB (log)")
    plots.add_legend(figure, grid[0][0], columns=3)
    return figure


def _draw_panel(axes: Axes, tables: Tables, stream: str, column: str) -> None:
    is_share = column in ("precision", "recall")
    for place, summary in enumerate(SUMMARIES):
        rows = rows_of(tables["heavy"], stream=stream, summary=summary)
        heights = [row[column] if is_share else max(row[column], _LEAST_PERCENT) for row in rows]
        axes.plot([row["size_bytes"] / 1000 for row in rows], heights, **plots.line_of(place), label=summary)
    plots.use_log(axes, "x" if is_share else "xy")
    if is_share:
        axes.set_ylim(-0.05, 1.08)


def judge(tables: Tables, budgets: Budgets) -> list[Budget]:
    table = tables["heavy"]
    ours = [row for row in table.to_pylist() if row["summary"] in BATCHES]
    case = [row["precision"] for row in rows_of(table, stream=CASE, summary=LARGE)]
    return [
        *([budgets.judge("heavy.precision", case[-1])] if case else []),
        budgets.judge("heavy.outside", sum(row["outside"] for row in ours)),
    ]


def say(tables: Tables) -> list[str]:
    """For each stream, who was most precise in the least and in the middling memory."""
    table = tables["heavy"]
    sizes = distinct(table, "map_size")
    return [
        _compare(tables, stream, size)
        for stream in distinct(table, "stream")
        for size in (sizes[0], sizes[len(sizes) // 2])
    ]


def _compare(tables: Tables, stream: str, map_size: int) -> str:
    rows = {row["summary"]: row for row in rows_of(tables["heavy"], stream=stream, map_size=map_size)}
    others = [summary for summary in SUMMARIES if summary not in BATCHES]
    best = max(others, key=lambda summary: rows[summary]["precision"])
    ours = ", ".join(
        f"{show_ratio(rows[summary]['precision'])} with {BATCHES[summary]:,} a batch" for summary in BATCHES
    )
    return (
        f"{stream}, about {rows[LARGE]['size_bytes'] / 1000:.0f} kB: precision {ours}; best of the others {best}, "
        f"{show_ratio(rows[best]['precision'])}."
    )


def fails(tables: Tables) -> list[str]:
    """Streams of which others find more in the least memory, as soon as batches are small."""
    table, found = tables["heavy"], []
    least = min(distinct(table, "map_size"))
    for stream in distinct(table, "stream"):
        rows = {row["summary"]: row["precision"] for row in rows_of(table, stream=stream, map_size=least)}
        best = max((name for name in SUMMARIES if name not in BATCHES), key=rows.__getitem__)
        if rows[best] > rows[SMALL]:
            found.append(
                f"{stream}, {SMALL}: {rows[SMALL]:.0%} of the top 100 are right, of {best}'s {rows[best]:.0%}."
            )
    return found


def tabulate(tables: Tables) -> list[Table]:
    columns = ("stream", "summary", "bytes", "precision", "recall", "relative error", "outside")
    rows = [
        [
            row["stream"],
            row["summary"],
            f"{row['size_bytes']:,}",
            f"{row['precision']:.2f}",
            f"{row['recall']:.2f}",
            show_percent(row["relative_error_percent"]),
            "-" if row["outside"] is None else f"{row['outside']}",
        ]
        for row in tables["heavy"].to_pylist()
    ]
    return [Table("The 100 heaviest items", columns, rows, labels=2)]


STUDY = Study(
    name="heavy",
    title="Heavy hitters by memory, beside the others",
    claim="Fed with batches of 65,536, SpaceSaving finds the 100 heaviest items in a few kB, and its bounds are never "
    "wrong. In small batches HeavyKeeper finds more; where all items are equally frequent nobody finds them.",
    takes="items",
    measure=measure,
    draw=draw,
    judge=judge,
    say=say,
    tabulate=tabulate,
    fails=fails,
)
