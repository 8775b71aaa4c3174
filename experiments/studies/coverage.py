"""Coverage: is the truth ever outside the proved interval, and how wide is the interval?

Boards of all shapes, dealt to 1, 8 and 64 shards, with 1,000 leaders. Players of the tail are drawn, and what the view
says of each is held against everybody sorted.
"""

import numpy as np
from matplotlib.figure import Figure

from experiments.bench.budgets import Budget
from experiments.bench.tables import Table
from experiments.study import plots
from experiments.study.budgets import Budgets, show_percent
from experiments.study.replica import is_outside, make_replica
from experiments.study.study import Job, Row, Study, Tables, distinct, make_table, rows_of
from experiments.study.workloads import SHAPES, Scores, find_sizes

SHARDS = (1, 8, 64)
LEADERS = 1_000
PLAYERS, FAST_PLAYERS = 1_000_000, 100_000
ASKED, FAST_ASKED = 100_000, 10_000
PROMISED = 0.1  # percent of the players
_NOTHING = 1e-6  # where no error is drawn on a logarithmic axis
LARGE = 50_000  # players from which on the width is promised: the asker's own place is 1 player, and must not count


def measure(job: Job) -> Tables:
    boards = job.track(_boards(job), "coverage: boards")
    return {"coverage": make_table([_measure_board(job, scores, shards) for scores, shards in boards])}


def _boards(job: Job) -> list[tuple[Scores, int]]:
    players = FAST_PLAYERS if job.is_fast else PLAYERS
    drawn = [shape.make(job.rng(place), players) for place, shape in enumerate(SHAPES)]
    all_scores = [job.scores] if job.scores else [*drawn, find_sizes()]
    return [(scores, shards) for scores in all_scores for shards in SHARDS]


def _measure_board(job: Job, scores: Scores, shards: int) -> Row:
    rng = job.rng(shards)
    replica = make_replica(scores, rng, shards=shards, top_n=min(LEADERS, len(scores) // 10))
    samples, view = replica.samples(), replica.view()
    tail = np.flatnonzero(replica.keys >= replica.floor)
    asked = rng.choice(tail, FAST_ASKED if job.is_fast else ASKED)
    places, truth = replica.ask(view, asked), replica.truth(asked)
    width = places.percentile_high - places.percentile_low
    error = np.abs(places.percentile - truth.percentile)
    return {
        "shape": scores.name,
        "players": len(scores),
        "shards": shards,
        "asked": len(asked),
        "outside": int(is_outside(places, truth).sum()),
        "mean_width_percent": float(width.mean()),
        "max_width_percent": float(width.max()),
        "mean_error_percent": float(error.mean()),
        "max_error_percent": float(error.max()),
        "samples": sum(len(shard.ranks) for shard in samples),
    }


def draw(tables: Tables) -> Figure:
    """Widest and mean interval, and error, by shape and number of shards."""
    table = tables["coverage"]
    figure, (widths, errors) = plots.make_axes(2, height_in=5.6)
    shapes = distinct(table, "shape")
    places = np.arange(len(shapes))[::-1]
    for at, shards in enumerate(distinct(table, "shards")):
        rows = rows_of(table, shards=shards)
        shift = 0.22 * (1 - at)
        look = plots.line_of(at) | {"linestyle": "none", "label": f"{shards} shard{'s' if shards > 1 else ''}"}
        widths.plot([row["max_width_percent"] for row in rows], places + shift, **look)
        errors.plot([max(row["mean_error_percent"], _NOTHING) for row in rows], places + shift, **look)
    widths.axvline(PROMISED, color=plots.BLACK, linestyle="--", linewidth=1.3)
    widths.set_xlim(0, 0.12)
    errors.set_xlim(_NOTHING / 2, 0.2)
    plots.use_log(errors, "x", zero=_NOTHING)
    errors.set_xticks([_NOTHING, 1e-4, 1e-2])
    widths.set_yticks(places, shapes)
    errors.set_yticks(places, [""] * len(shapes))
    plots.label(widths, "widest interval, % of players", "", "Proved width (dashed: promised)")
    plots.label(errors, "mean error, % of players (log)", "", "Error of the guess inside")
    plots.add_legend(figure, widths)
    return figure


def judge(tables: Tables, budgets: Budgets) -> list[Budget]:
    rows = tables["coverage"].to_pylist()
    large = [row["max_width_percent"] for row in rows if row["players"] >= LARGE]
    return [
        budgets.judge("coverage.outside", sum(row["outside"] for row in rows)),
        *([budgets.judge("coverage.width", max(large))] if large else []),
    ]


def say(tables: Tables) -> list[str]:
    rows = tables["coverage"].to_pylist()
    asked, outside = sum(row["asked"] for row in rows), sum(row["outside"] for row in rows)
    widest = max(row["max_width_percent"] for row in rows)
    return [
        f"{asked:,} players asked on {len(rows)} boards: {outside:,} outside their interval, the widest of which was "
        f"{show_percent(widest)} of the players."
    ]


def fails(tables: Tables) -> list[str]:
    rows = tables["coverage"].to_pylist()
    worst = max(rows, key=lambda row: row["mean_error_percent"])
    wide = [row for row in rows if row["max_width_percent"] > PROMISED]
    return [
        f"The guess inside the interval is worst on small boards of many shards: off by "
        f"{show_percent(worst['mean_error_percent'])} on the mean with {worst['players']:,} players in "
        f"{worst['shards']} shards ({worst['shape']}).",
        *(
            f"{row['shape']}, {row['players']:,} players, number of shards {row['shards']}: an "
            f"interval of {show_percent(row['max_width_percent'])}: on small boards one player, the asker, counts."
            for row in wide
        ),
    ]


def tabulate(tables: Tables) -> list[Table]:
    columns = ("scores", "players", "shards", "asked", "outside", "mean width", "max width", "mean error", "max error")
    rows = [
        [
            row["shape"],
            f"{row['players']:,}",
            str(row["shards"]),
            f"{row['asked']:,}",
            f"{row['outside']:,}",
            *(show_percent(row[f"{name}_percent"]) for name in ("mean_width", "max_width", "mean_error", "max_error")),
        ]
        for row in tables["coverage"].to_pylist()
    ]
    return [Table("Intervals of the tail", columns, rows)]


STUDY = Study(
    name="coverage",
    title="Intervals contain the truth",
    claim="A served interval always contains the true rank and percentile, whatever the scores, the ties and the "
    "number of shards; from 50,000 players on it is at most 0.1 % of them wide.",
    takes="scores",
    measure=measure,
    draw=draw,
    judge=judge,
    say=say,
    tabulate=tabulate,
    fails=fails,
)
