"""Seam: where the leaders end and the tail begins, a percentile goes on as if there were no border.

A real board whose leaders end within a block of players of one score. All of them must have one percentile, leaders or
not; and no better score may stand worse.
"""

import asyncio

import numpy as np
from matplotlib.figure import Figure

from experiments.bench.budgets import Budget
from experiments.bench.tables import Table
from experiments.study import plots
from experiments.study.board_spec import make_config
from experiments.study.budgets import Budgets, show_percent
from experiments.study.stands import open_stand
from experiments.study.study import Job, Row, Study, Tables, distinct, make_table, rows_of
from experiments.study.workloads import SHAPES, Scores
from hybrid.standing import Rows
from sketches.values import Floats, Ints

BLOCKS = (1, 10, 1_000)  # players who share the score at the border
PLAYERS, FAST_PLAYERS = 100_000, 20_000
TOP_N = 1_000
REACH = 1_200  # ranks on both sides that are asked for
STEPS = 150  # of them that are kept for the figure


def measure(job: Job) -> Tables:
    found = [asyncio.run(_measure_block(job, block)) for block in job.track(BLOCKS, "seam: blocks of ties")]
    return {
        "seam": make_table([row for row, _ in found]),
        "ranks": make_table([row for _, rows in found for row in rows]),
    }


async def _measure_block(job: Job, block: int) -> tuple[Row, list[Row]]:
    scores = job.scores or SHAPES[0].make(job.rng(), FAST_PLAYERS if job.is_fast else PLAYERS)
    top_n = min(TOP_N, max(len(scores) // 2, 1))
    tied = _tie(scores, block, top_n)
    best = np.argsort(-tied.points, kind="stable")[: top_n + REACH]
    config = make_config(tied, top_n=top_n)
    async with open_stand(job.seed) as stand:
        board = await stand.fill("seam", config, tied)
        await stand.settle(board)
        (answers,) = await stand.ask(board, best)
    truth = _true_percentile(tied, best)
    points = tied.points[best]
    common = {"block": block, "top_n": top_n, "players": len(tied)}
    return common | _sum_up(points, answers, truth, top_n), [common | row for row in _thin_out(answers, truth)]


def _tie(scores: Scores, block: int, top_n: int) -> Scores:
    """The same scores, but so many players around the border share one."""
    order = np.argsort(-scores.points, kind="stable")
    points = scores.points.copy()
    border = order[max(top_n - block // 2 - 1, 0) :][:block]
    points[border] = points[border[0]]
    return Scores(scores.name, points, scores.decimals)


def _true_percentile(scores: Scores, players: Ints) -> Floats:
    ordered = np.sort(scores.points)
    return 100 * np.searchsorted(ordered, scores.points[players], "left") / max(len(scores) - 1, 1)


def _sum_up(points: Ints, answers: Rows, truth: Floats, top_n: int) -> Row:
    """What is found of players in the order of their scores."""
    percentile = answers.places.percentile
    is_tied = points == points[top_n - 1]
    leaders, tail = percentile[answers.is_exact], percentile[~answers.is_exact]
    return {
        "leaders": len(leaders),
        "tail": len(tail),
        "tied": int(is_tied.sum()),
        "tied_percentiles": len(np.unique(percentile[is_tied])),
        "inversions": int((np.diff(percentile) > 0).sum()),
        "max_error_percent": float(np.abs(percentile - truth).max()),
        "step_percent": float(leaders.min() - tail.max()) if len(tail) else 0.0,
    }


def _thin_out(answers: Rows, truth: Floats) -> list[Row]:
    """Some of the ranks, for the figure."""
    places = answers.places
    return [
        {
            "rank": row + 1,
            "is_leader": bool(answers.is_exact[row]),
            "percentile": float(places.percentile[row]),
            "low": float(places.percentile_low[row]),
            "high": float(places.percentile_high[row]),
            "truth": float(truth[row]),
        }
        for row in np.unique(np.linspace(0, len(truth) - 1, STEPS).astype(np.int64)).tolist()
    ]


def draw(tables: Tables) -> Figure:
    """How far answers are from the truth, by rank across the border, for each block of ties."""
    blocks = distinct(tables["seam"], "block")
    figure, panels = plots.make_axes(len(blocks))
    for axes, block in zip(panels, blocks, strict=True):
        rows = rows_of(tables["ranks"], block=block)
        leaders, tail = (_pick(rows, is_leader) for is_leader in (True, False))
        axes.plot(*_columns(leaders, "percentile"), "s", color=plots.RED, markersize=3, label="leaders, exact")
        ranks, low, high = _columns(tail, "low", "high")
        axes.fill_between(ranks, low, high, color=plots.SKY, alpha=0.6, label="tail, proved interval")
        axes.plot(*_columns(tail, "percentile"), "o", color=plots.BLUE, markersize=3, label="tail, guess")
        axes.axvline(rows[0]["top_n"] + 0.5, color=plots.GREY, linestyle=":", linewidth=1.3)
        axes.set_ylim(-0.13, 0.13)
        plots.label(axes, "rank", "percentile points from the truth" if block == blocks[0] else "", _title(block))
    plots.add_legend(figure, panels[0])
    return figure


def _title(block: int) -> str:
    return "No tie at the border" if block == 1 else f"{block:,} tied there"


def _pick(rows: list[Row], is_leader: bool) -> list[Row]:
    return [row for row in rows if row["is_leader"] == is_leader]


def _columns(rows: list[Row], *names: str) -> list[list[float]]:
    """Ranks, and how far these columns are from the truth."""
    return [[row["rank"] for row in rows], *([row[name] - row["truth"] for row in rows] for name in names)]


def judge(tables: Tables, budgets: Budgets) -> list[Budget]:
    rows = tables["seam"].to_pylist()
    return [
        budgets.judge("seam.inversions", sum(row["inversions"] for row in rows)),
        budgets.judge("seam.ties", max(row["tied_percentiles"] for row in rows)),
        budgets.judge("seam.error", max(row["max_error_percent"] for row in rows)),
    ]


def say(tables: Tables) -> list[str]:
    rows = tables["seam"].to_pylist()
    return [
        f"{sum(row['leaders'] + row['tail'] for row in rows):,} players around the border on {len(rows)} boards: "
        f"{sum(row['inversions'] for row in rows):,} better scores stand worse, players of one score have "
        f"{max(row['tied_percentiles'] for row in rows)} percentile, and the largest error is "
        f"{show_percent(max(row['max_error_percent'] for row in rows))}."
    ]


def tabulate(tables: Tables) -> list[Table]:
    rows = [
        [
            f"{row['block']:,}",
            f"{row['leaders']:,}",
            f"{row['tail']:,}",
            f"{row['tied_percentiles']}",
            f"{row['inversions']}",
            show_percent(row["step_percent"]),
            show_percent(row["max_error_percent"]),
        ]
        for row in tables["seam"].to_pylist()
    ]
    columns = ("of one score", "leaders", "tail", "their percentiles", "inversions", "step at the border", "max error")
    return [Table("Across the border", columns, rows)]


STUDY = Study(
    name="seam",
    title="No step between leaders and tail",
    claim="Where exact ranks end and estimates begin, percentiles go on: a better score never stands worse, and "
    "players of one score share one percentile on both sides.",
    takes="scores",
    measure=measure,
    draw=draw,
    judge=judge,
    say=say,
    tabulate=tabulate,
)
