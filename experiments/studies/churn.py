"""Churn: players play again, and a digest that is fed with every score counts games, not players.

Three ways to keep the distribution of *current* scores while players replace theirs, 0 to 10 times on the mean:

    fed by the stream   one t-digest takes every new score; the old ones stay in it
    signed pair         one digest of what came, one of what was replaced; subtract
    sampled             toptail: exact ranks of the record, asked when needed

Some play more than others, and everybody gets a little better with practice; scores move along the given distribution.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from experiments.bench.budgets import Budget
from experiments.bench.tables import Table
from experiments.study import plots
from experiments.study.budgets import Budgets, show_percent
from experiments.study.replica import is_outside, make_replica
from experiments.study.study import Job, Row, Study, Tables, distinct, make_table, rows_of
from experiments.study.workloads import SHAPES, Scores
from sketches import TDigest
from sketches.values import Floats, Ints

STREAM, PAIR, SAMPLED = "fed by the stream", "signed pair", "sampled (toptail)"
UPDATES, FAST_UPDATES = (0, 1, 2, 3, 4, 5, 6, 8, 10), (0, 2, 5, 10)
PLAYERS, FAST_PLAYERS = 200_000, 60_000
SEEDS, FAST_SEEDS = 5, 1
ASKED = 5_000

_BATCH = 65_536
_PRACTICE, _LUCK = 0.05, 0.3  # of a game, on the logistic scale of skill: 1.2 percentile points at the median


class Season(NamedTuple):
    """All scores that came, in order; which of them were replaced later, and what everybody has now."""

    came: Floats
    replaced: Floats
    now: Ints


def measure(job: Job) -> Tables:
    updates = FAST_UPDATES if job.is_fast else UPDATES
    steps = [(each, seed) for seed in range(FAST_SEEDS if job.is_fast else SEEDS) for each in updates]
    rows = [row for each, seed in job.track(steps, "churn: seasons") for row in _measure_season(job, each, seed)]
    return {"error": make_table(rows)}


def play(scores: Scores, updates: float, rng: np.random.Generator) -> Season:
    """A season in which each player replaces his score so often on the mean, the active ones more often."""
    n = len(scores)
    games = 1 + rng.poisson(updates * rng.gamma(4.0, 0.25, n))
    player = np.repeat(np.arange(n), games)
    first = np.repeat(np.cumsum(games) - games, games)
    number = np.arange(len(player)) - first
    skill = rng.logistic(size=n)[player] + _PRACTICE * number + _LUCK * rng.normal(size=len(player))
    ladder = np.sort(scores.points)
    points = ladder[np.minimum((n / (1 + np.exp(-skill))).astype(np.int64), n - 1)]
    is_last = number == games[player] - 1
    order = np.argsort(number + rng.random(len(player)), kind="stable")
    came = points[order].astype(np.float64)
    return Season(came, came[~is_last[order]], points[is_last])


def _measure_season(job: Job, updates: int, seed: int) -> list[Row]:
    rng = job.rng(seed, updates)
    scores = job.scores or SHAPES[0].make(rng, FAST_PLAYERS if job.is_fast else PLAYERS)
    season = play(scores, updates, rng)
    replica = make_replica(Scores(scores.name, season.now), rng)
    asked = rng.integers(0, len(season.now), ASKED)
    places, truth = replica.ask(replica.view(), asked), replica.truth(asked)
    x, n = season.now[asked].astype(np.float64), len(season.now)
    came, replaced = _feed(season.came), _feed(season.replaced)
    pair = came.count * came.cdf(x, "min")
    if replaced.count:
        pair = pair - replaced.count * replaced.cdf(x, "min")
    ways: dict[str, Floats] = {
        STREAM: 100 * came.cdf(x, "min"),
        PAIR: 100 * pair / (n - 1),
        SAMPLED: places.percentile,
    }
    common = {"scores": scores.name, "players": n, "updates": updates, "seed": seed}
    outside = int(is_outside(places, truth).sum())
    return [
        common
        | {"way": way}
        | _errors(np.abs(answer - truth.percentile))
        | {"asked": ASKED, "outside": outside if way == SAMPLED else None}
        for way, answer in ways.items()
    ]


def _feed(values: Floats) -> TDigest:
    digest = TDigest()
    for at in range(0, len(values), _BATCH):
        digest.update(values[at : at + _BATCH])
    return digest


def _errors(error: Floats) -> Row:
    return {"mean_error_percent": float(error.mean()), "max_error_percent": float(error.max())}


def draw(tables: Tables) -> Figure:
    """Largest and mean error by updates, each way a line through the mean of the seeds."""
    table = tables["error"]
    figure, both = plots.make_axes(2)
    panels = (("max_error_percent", "Largest error (dashed: promised)"), ("mean_error_percent", "Mean error"))
    for axes, (column, title) in zip(both, panels, strict=True):
        for place, way in enumerate((STREAM, PAIR, SAMPLED)):
            updates, found = distinct(table, "updates"), []
            for each in updates:
                found.append(_mean(row[column] for row in rows_of(table, way=way, updates=each)))
            axes.plot(updates, found, **plots.line_of((1, 3, 0)[place]), label=way)
        plots.use_log(axes, "y")
        axes.set_xticks(range(0, 11, 2))
        plots.label(axes, "updates a player, mean", "percentile points off (log)", title)
    plots.mark_budget(both[0], 0.1)
    plots.add_legend(figure, both[0])
    return figure


def judge(tables: Tables, budgets: Budgets) -> list[Budget]:
    sampled = rows_of(tables["error"], way=SAMPLED)
    is_drawn = distinct(tables["error"], "scores") == [SHAPES[0].name]
    stream_error = _at_most_updates(tables, STREAM)
    return [
        budgets.judge("churn.error", max(row["max_error_percent"] for row in sampled)),
        budgets.judge("churn.outside", sum(row["outside"] for row in sampled)),
        *([budgets.judge("churn.stream_error", stream_error)] if is_drawn else []),
    ]


def say(tables: Tables) -> list[str]:
    most = max(distinct(tables["error"], "updates"))
    parts = [f"{way} {show_percent(_at_most_updates(tables, way))}" for way in (STREAM, PAIR, SAMPLED)]
    return [f"After {most} updates a player the percentile is off by at most: {', '.join(parts)}."]


def _at_most_updates(tables: Tables, way: str) -> float:
    """The largest error after the most updates."""
    most = max(distinct(tables["error"], "updates"))
    return float(max(row["max_error_percent"] for row in rows_of(tables["error"], way=way, updates=most)))


def tabulate(tables: Tables) -> list[Table]:
    table, rows = tables["error"], []
    for each in distinct(table, "updates"):
        found = [rows_of(table, way=way, updates=each) for way in (STREAM, PAIR, SAMPLED)]
        cells = [
            f"{show_percent(_mean(row['mean_error_percent'] for row in rows_))} / "
            f"{show_percent(max(row['max_error_percent'] for row in rows_))}"
            for rows_ in found
        ]
        rows.append([str(each), *cells])
    return [Table("Error of the percentile, mean / max", ("updates a player", STREAM, PAIR, SAMPLED), rows)]


def _mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))


STUDY = Study(
    name="churn",
    title="Why toptail samples the record",
    claim="A digest that is fed with every score counts games, not players, and drifts with every update; exact ranks "
    "sampled from the record do not, however often players play again.",
    takes="scores",
    measure=measure,
    draw=draw,
    judge=judge,
    say=say,
    tabulate=tabulate,
)
