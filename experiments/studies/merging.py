"""Merging: one distribution from many shards, 1 to 1,024. Does the error grow with the shards, or with the way?

one by one       a sketch takes the shards in turn, and is asked after each
pairwise         a tree; every node of it is saved and loaded, as machines would send it
at once          all shards in one call, where a library has such a call
by score         shards are ranges of scores; at once
one tiny         one shard has 100 values, all others share the rest; at once
"""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from experiments.bench.budgets import Budget
from experiments.bench.tables import Table
from experiments.bench.workloads import LOGNORMAL
from experiments.studies import rivals
from experiments.studies.rivals import LARGE, OURS, SKETCHES
from experiments.study import plots
from experiments.study.budgets import Budgets
from experiments.study.study import Job, Row, Study, Tables, distinct, make_table, rows_of
from sketches.values import Floats

SHARDS, FAST_SHARDS = (1, 2, 4, 16, 64, 256, 1_024), (1, 16, 256)
VALUES, FAST_VALUES = 500_000, 50_000
ASKED = 10_000
SEEDS, FAST_SEEDS = 3, 1
TINY = 100
ONE_BY_ONE, PAIRWISE, AT_ONCE, BY_SCORE, ONE_TINY = "one by one", "pairwise", "at once", "by score", "one tiny"
MANY = 16  # shards from which on their number is no matter


def measure(job: Job) -> Tables:
    shards = FAST_SHARDS if job.is_fast else SHARDS
    steps = [(count, seed) for count in shards for seed in range(FAST_SEEDS if job.is_fast else SEEDS)]
    rows = [row for count, seed in job.track(steps, "merging: shards") for row in _measure_shards(job, count, seed)]
    return {"merging": make_table(rows)}


def _measure_shards(job: Job, count: int, seed: int) -> list[Row]:
    rng = job.rng(count, seed)
    values = job.scores.values if job.scores else LOGNORMAL.make(rng, FAST_VALUES if job.is_fast else VALUES)
    asked, rows = rivals.ask(values, ASKED, rng), []
    for sketch, contestant in rivals.load_digests(LARGE, values).items():
        for deal, ways in DEALS.items():
            shards = [rivals.digest_of(contestant, part)[0] for part in deal(values, count) if len(part)]
            for way, merge in ways.items():
                common = {"scores": rivals.name_scores(job), "values": len(values), "way": way, "shards": count}
                common |= {"seed": seed, "sketch": sketch}
                rows.append(common | rivals.judge_digest(sketch, contestant, merge(contestant, shards), asked))
    return rows


def deal_evenly(values: Floats, count: int) -> list[Floats]:
    return np.array_split(values, count)


def deal_by_score(values: Floats, count: int) -> list[Floats]:
    return np.array_split(np.sort(values), count)


def deal_one_tiny(values: Floats, count: int) -> list[Floats]:
    if count == 1:
        return [values]
    return [values[:TINY], *np.array_split(values[TINY:], count - 1)]


def merge_one_by_one(contestant: Any, shards: Sequence[Any]) -> Any:
    return reduce(lambda merged, shard: contestant.merge([merged, shard]), shards[1:], contestant.merge(shards[:1]))


def merge_pairwise(contestant: Any, shards: Sequence[Any]) -> Any:
    level = list(shards)
    while len(level) > 1:
        level = [contestant.reload(contestant.merge(level[at : at + 2]))[0] for at in range(0, len(level), 2)]
    return level[0]


def merge_at_once(contestant: Any, shards: Sequence[Any]) -> Any:
    return contestant.merge(shards)


Deal = Callable[[Floats, int], list[Floats]]
Merge = Callable[[Any, Sequence[Any]], Any]
DEALS: dict[Deal, dict[str, Merge]] = {
    deal_evenly: {ONE_BY_ONE: merge_one_by_one, PAIRWISE: merge_pairwise, AT_ONCE: merge_at_once},
    deal_by_score: {BY_SCORE: merge_at_once},
    deal_one_tiny: {ONE_TINY: merge_at_once},
}


def draw(tables: Tables) -> Figure:
    """A panel a way; the legend takes the place of a sixth."""
    table = tables["merging"]
    figure = Figure(figsize=(plots.WIDTH_IN, 7.0), layout="constrained")
    grid = figure.subplots(2, 3, sharex=True, sharey=True).ravel()
    counts = [count for count in distinct(table, "shards") if count in (1, 16, 256)]
    for place, (axes, way) in enumerate(zip(grid[:5], distinct(table, "way"), strict=True)):
        rivals.draw_lines(axes, table, "shards", way=way)
        plots.use_log(axes, "xy")
        axes.set_xticks(counts, map(str, counts))
        axes.minorticks_off()
        axes.tick_params(labelbottom=place >= 2)
        plots.label(axes, "shards" if place >= 2 else "", "largest error, % (log)" if place % 3 == 0 else "", way)
    grid[5].axis("off")
    grid[5].legend(*grid[0].get_legend_handles_labels(), loc="center")
    return figure


def judge(tables: Tables, budgets: Budgets) -> list[Budget]:
    ours = rows_of(tables["merging"], sketch=OURS)
    if not rivals.is_drawn(tables["merging"]):
        return [budgets.judge("merging.outside", rivals.outside_of(tables["merging"]))]
    many = [row for row in ours if row["way"] in (AT_ONCE, BY_SCORE, ONE_TINY) and row["shards"] >= MANY]
    return [
        budgets.judge("merging.error", max(row["max_error_percent"] for row in many), at_any_size=False),
        budgets.judge("merging.any_way", max(row["max_error_percent"] for row in ours)),
        budgets.judge("merging.outside", rivals.outside_of(tables["merging"])),
    ]


def say(tables: Tables) -> list[str]:
    table = tables["merging"]
    most = max(distinct(table, "shards"))
    return [f"{most:,} shards, {way}: {rivals.compare(table, way=way, shards=most)}." for way in distinct(table, "way")]


def fails(tables: Tables) -> list[str]:
    """The case that is worst for us."""
    table = tables["merging"]
    worst = max(rows_of(table, sketch=OURS), key=lambda row: row["max_error_percent"])
    name = f"Saved digests merged few at a time ({worst['shards']:,} shards, {worst['way']})"
    return rivals.beaten(name, table, way=worst["way"], shards=worst["shards"])


def tabulate(tables: Tables) -> list[Table]:
    table = tables["merging"]
    rows = [
        [way, f"{count:,}", *rivals.cells(table, way=way, shards=count)]
        for way in distinct(table, "way")
        for count in distinct(table, "shards")
    ]
    return [Table("Largest error of a rank after merging", ("way", "shards", *SKETCHES), rows, labels=1)]


STUDY = Study(
    name="merging",
    title="Merging shards, beside the others",
    claim="Merging 16 to 1,024 TDigests at once costs no accuracy, and the proof holds in any order and tree. Saved "
    "digests that are merged two at a time lose some: what was cut at one place is cut again at another.",
    takes="scores",
    measure=measure,
    draw=draw,
    judge=judge,
    say=say,
    tabulate=tabulate,
    fails=fails,
)
