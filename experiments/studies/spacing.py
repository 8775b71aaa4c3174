"""Spacing: the ranks at which a shard is sampled, against as many ranks at equal distances.

    gap <= 1/1024 of the players, and <= 1/50 of the rank

The first bounds every interval, the second makes "top 0.3 %" right to 2 % of itself. Equal distances do the first as
well, and nothing for the best. (Above the floor of the top the gap may be 1/12 of the rank: there answers are exact.)
"""

import numpy as np
from matplotlib.figure import Figure

from experiments.bench.budgets import Budget
from experiments.bench.tables import Table
from experiments.study import plots
from experiments.study.budgets import Budgets, show_percent
from experiments.study.replica import Spacing, make_replica, sample_ranks
from experiments.study.study import Job, Row, Study, Tables, make_table, rows_of
from experiments.study.workloads import SHAPES, Scores
from hybrid.orderkey import Ints

RULE, UNIFORM = "the rule", "equal distances"
PLAYERS, FAST_PLAYERS = 1_000_000, 200_000
SHARDS = 8
BINS = 24
FIRST = 400  # rank from which on 2 % of it is a player a shard


def measure(job: Job) -> Tables:
    scores = job.scores or SHAPES[0].make(job.rng(), FAST_PLAYERS if job.is_fast else PLAYERS)
    ways: list[tuple[str, Spacing]] = [(RULE, sample_ranks), (UNIFORM, space_evenly)]
    rows = [row for way, spacing in job.track(ways, "spacing: ways") for row in _measure_way(job, scores, way, spacing)]
    return {"widths": make_table(rows)}


def space_evenly(players: int, leaders: int) -> Ints:
    """As many ranks as the rule takes, at equal distances."""
    return np.unique(np.rint(np.linspace(0, players - 1, len(sample_ranks(players, leaders)))).astype(np.int64))


def _measure_way(job: Job, scores: Scores, way: str, spacing: Spacing) -> list[Row]:
    """The widest interval, by rank, of those who would stand before each player."""
    replica = make_replica(scores, job.rng(1), shards=SHARDS, spacing=spacing)
    counts = replica.view().before(replica.sorted_keys)
    ranks, widths = np.arange(1, len(scores) + 1), counts.high - counts.low
    edges = np.unique(np.geomspace(1, len(scores) + 1, BINS + 1).astype(np.int64))
    samples = sum(len(shard.ranks) for shard in replica.samples())
    rows = []
    for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        here = slice(low - 1, high - 1)
        rows.append(
            {
                "way": way,
                "players": len(scores),
                "samples": samples,
                "from_rank": low,
                "to_rank": high - 1,
                "max_width_percent": float(100 * widths[here].max() / len(scores)),
                "max_share_of_rank_percent": float(100 * (widths[here] / ranks[here]).max()),
            }
        )
    return rows


def draw(tables: Tables) -> Figure:
    """Width as a share of the players and of the rank, by rank."""
    figure, both = plots.make_axes(2)
    panels = (
        ("max_width_percent", "% of all players (log)", 1e-4),
        ("max_share_of_rank_percent", "% of the rank (log)", 1e-1),
    )
    for axes, (column, what, least) in zip(both, panels, strict=True):
        for place, way in enumerate((RULE, UNIFORM)):
            rows = rows_of(tables["widths"], way=way)
            middles = [(row["from_rank"] * row["to_rank"]) ** 0.5 for row in rows]
            axes.plot(middles, [max(row[column], least) for row in rows], **plots.line_of(place), label=way)
        plots.use_log(axes, "x")
        plots.use_log(axes, "y", zero=least)
        plots.label(axes, "rank (log)", what, "Widest interval (dashed: promised)")
        axes.set_xticks([1, 100, 10_000])
    plots.mark_budget(both[0], 0.1)
    plots.mark_budget(both[1], 2.0)
    plots.add_legend(figure, both[0])
    return figure


def judge(tables: Tables, budgets: Budgets) -> list[Budget]:
    rule = rows_of(tables["widths"], way=RULE)
    return [
        budgets.judge("spacing.width", max(row["max_width_percent"] for row in rule)),
        budgets.judge("spacing.rank", _of_rank(tables, RULE)),
    ]


def _of_rank(tables: Tables, way: str) -> float:
    rows = rows_of(tables["widths"], way=way)
    return float(max(row["max_share_of_rank_percent"] for row in rows if row["from_rank"] >= FIRST))


def say(tables: Tables) -> list[str]:
    rows = tables["widths"].to_pylist()
    return [
        f"From rank {FIRST} on, an interval is at most {show_percent(_of_rank(tables, RULE))} of the rank wide by the "
        f"rule and {show_percent(_of_rank(tables, UNIFORM))} at equal distances, with {rows[0]['samples']:,} and "
        f"{rows[-1]['samples']:,} samples of {rows[0]['players']:,} players in {SHARDS} shards."
    ]


def tabulate(tables: Tables) -> list[Table]:
    rule, uniform = (rows_of(tables["widths"], way=way) for way in (RULE, UNIFORM))
    rows = [
        [
            f"{first['from_rank']:,}-{first['to_rank']:,}",
            *(show_percent(row["max_width_percent"]) for row in (first, second)),
            *(show_percent(row["max_share_of_rank_percent"]) for row in (first, second)),
        ]
        for first, second in list(zip(rule, uniform, strict=True))[::3]
    ]
    columns = ("rank", "of players: the rule", "equal distances", "of the rank: the rule", "equal distances")
    return [Table("Widest interval", columns, rows)]


STUDY = Study(
    name="spacing",
    title="Samples closer together among the best",
    claim="With as many samples, gaps of at most 2 % of the rank tell the best apart, where samples at equal distances "
    "know nothing of them; the widest interval of all players hardly grows.",
    takes="scores",
    measure=measure,
    draw=draw,
    judge=judge,
    say=say,
    tabulate=tabulate,
)
