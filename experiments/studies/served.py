"""Served: what a real board answers, against the truth, by where players stand.

The scores go through the record into a board on a Redis of its own, a keeper samples it, and players drawn uniformly
are asked for as a game would. A board of a running service is asked over HTTP instead, and counted exactly there.
Beside it: a t-digest of the same scores, fed in the order in which they came.
"""

import asyncio

import numpy as np
import pyarrow as pa
from matplotlib.figure import Figure

from experiments.bench.budgets import Budget
from experiments.bench.tables import Table
from experiments.study import plots
from experiments.study.advisor import Wish, advise, predict
from experiments.study.board_spec import make_config, render_curl, render_spec
from experiments.study.budgets import Budgets, show_percent
from experiments.study.live import LiveBoard, ask_live
from experiments.study.stands import open_stand
from experiments.study.study import Job, Row, Study, Tables, distinct, make_table, rows_of
from experiments.study.workloads import SHAPES, Scores, find_sizes
from hybrid.standing import Rows
from sketches import TDigest
from sketches.values import Floats, Ints

PLAYERS, FAST_PLAYERS = 300_000, 50_000
ASKED, FAST_ASKED = 50_000, 10_000
LIVE_ASKED, FAST_LIVE_ASKED = 2_000, 500
LEADERS, OWN_LEADERS = 1_000, 10_000  # few, so that much is estimated; as many as a board has by default
LARGE = 50_000  # players from which on the width is promised

_BATCH = 65_536
_ROUNDING = 1e-9
_NOTHING = 1e-6  # where no error is drawn on a logarithmic axis


def measure(job: Job) -> Tables:
    if job.board is not None:
        return asyncio.run(_measure_live(job, job.board))
    found = [asyncio.run(_measure_scores(job, scores)) for scores in job.track(_choose(job), "served: boards")]
    return {name: pa.concat_tables([tables[name] for tables in found]) for name in ("deciles", "boards")}


def _choose(job: Job) -> list[Scores]:
    if job.scores:
        return [job.scores]
    players = FAST_PLAYERS if job.is_fast else PLAYERS
    lognormal, _, tied, signed, *_ = (shape.make(job.rng(place), players) for place, shape in enumerate(SHAPES))
    return [lognormal, tied] if job.is_fast else [lognormal, tied, signed, find_sizes()]


async def _measure_scores(job: Job, scores: Scores) -> Tables:
    advice = advise(Wish(players=len(scores), leaders=OWN_LEADERS if job.scores else LEADERS))
    config = make_config(scores, top_n=advice.top_n, shards=advice.shards)
    asked = job.rng().permutation(len(scores))[: FAST_ASKED if job.is_fast else ASKED]
    async with open_stand(job.seed) as stand:
        board = await stand.fill("served", config, scores)
        await stand.settle(board)
        answers = await stand.ask(board, asked)
    percentile, rank = _count(scores.points, asked)
    digest = _digest_error(scores.points, asked, percentile)
    columns = _columns(answers) | {"percentile": percentile, "rank": rank, "digest_error": digest}
    is_leader = np.concatenate([rows.is_exact for rows in answers])
    board_row = {
        "scores": scores.name,
        "players": len(scores),
        "shards": config.shards,
        "top_n": config.top_n,
        "note": scores.note,
        "spec": render_spec(config),
    }
    deciles = _sum_up(scores.name, len(scores), columns, is_leader)
    return {"deciles": make_table(deciles), "boards": make_table([board_row])}


def _count(points: Ints, asked: Ints) -> tuple[Floats, Floats]:
    """The true percentile and the rank among scores of these players, by sorting everybody."""
    ordered, n = np.sort(points), len(points)
    worse = np.searchsorted(ordered, points[asked], "left")
    not_better = np.searchsorted(ordered, points[asked], "right")
    return 100 * worse / max(n - 1, 1), (n - not_better + 1).astype(np.float64)


def _digest_error(points: Ints, asked: Ints, percentile: Floats) -> Floats:
    digest, values = TDigest(), points.astype(np.float64)
    for at in range(0, len(values), _BATCH):
        digest.update(values[at : at + _BATCH])
    answered = 100 * digest.cdf(values[asked], "min") * len(values) / max(len(values) - 1, 1)
    return np.asarray(np.abs(answered - percentile))


def _columns(answers: list[Rows]) -> dict[str, Floats]:
    names = ("percentile", "percentile_low", "percentile_high")
    guess, low, high = (np.concatenate([getattr(rows.places, name) for rows in answers]) for name in names)
    return {"guess": guess, "low": low, "high": high}


def _sum_up(name: str, players: int, columns: dict[str, Floats], is_leader: Ints) -> list[Row]:
    """A row for each tenth of the board that was asked for, the best first."""
    truth, low, high = columns["percentile"], columns["low"], columns["high"]
    slack = columns.get("slack", np.zeros(len(truth))) + _ROUNDING
    error, width = np.abs(columns["guess"] - truth), high - low
    is_outside = ~((low - slack <= truth) & (truth <= high + slack))
    tenth = np.minimum(((columns["rank"] - 1) * 10 / players).astype(np.int64), 9)
    rows = []
    for each in np.unique(tenth).tolist():
        here = tenth == each
        digest = columns["digest_error"][here] if "digest_error" in columns else None
        rows.append(
            {
                "scores": name,
                "decile": each + 1,
                "asked": int(here.sum()),
                "leaders": int(is_leader[here].sum()),
                "outside": int(is_outside[here].sum()),
                "mean_error_percent": float(error[here].mean()),
                "max_error_percent": float(error[here].max()),
                "mean_width_percent": float(width[here].mean()),
                "max_width_percent": float(width[here].max()),
                "digest_mean_error_percent": None if digest is None else float(digest.mean()),
                "digest_max_error_percent": None if digest is None else float(digest.max()),
            }
        )
    return rows


async def _measure_live(job: Job, live: LiveBoard) -> Tables:
    info, pairs = await ask_live(live, FAST_LIVE_ASKED if job.is_fast else LIVE_ASKED, job.rng())
    columns = {
        "percentile": np.array([pair.exact.percentile for pair in pairs]),
        "rank": np.array([float(pair.exact.rank) for pair in pairs]),
        "guess": np.array([pair.served.percentile for pair in pairs]),
        "low": np.array([pair.percentiles[0] for pair in pairs]),
        "high": np.array([pair.percentiles[1] for pair in pairs]),
        "slack": np.array([pair.slack for pair in pairs]),
    }
    is_leader = np.array([pair.is_leader for pair in pairs], bool)
    board = {
        "scores": "the live board",
        "players": info.players,
        "shards": info.config.shards,
        "top_n": info.config.top_n,
        "note": "",
        "spec": "",
    }
    deciles = _sum_up("the live board", info.players, columns, is_leader)
    return {"deciles": make_table(deciles), "boards": make_table([board])}


def draw(tables: Tables) -> Figure:
    """Width and error by tenth of the board, the scores that were hardest."""
    table = tables["deciles"]
    figure, (ours, theirs) = plots.make_axes(2)
    for place, name in enumerate(distinct(table, "scores")):
        rows = rows_of(table, scores=name)
        deciles = [row["decile"] for row in rows]
        look = plots.line_of(place)
        ours.plot(deciles, [row["max_width_percent"] for row in rows], **look, label=name)
        theirs.plot(deciles, [_visible(row["max_error_percent"]) for row in rows], **look)
        digest = [row["digest_max_error_percent"] for row in rows]
        if None not in digest:
            theirs.plot(deciles, list(map(_visible, digest)), **(look | {"linestyle": ":", "markerfacecolor": "none"}))
    for axes in (ours, theirs):
        axes.set_xticks(range(1, 11))
    plots.use_log(theirs, "y", zero=_NOTHING)
    ours.set_ylim(0, max(0.12, 1.1 * max(row["max_width_percent"] for row in table.to_pylist())))
    plots.mark_budget(ours, 0.1)
    plots.label(ours, "tenth of the board, 1 = best", "% of players", "Widest interval (dashed: promised)")
    plots.label(
        theirs,
        "tenth of the board, 1 = best",
        "percentile points (log)",
        "Largest error (dotted: t-digest)",
    )
    plots.add_legend(figure, ours)
    return figure


def _visible(error: float) -> float:
    return max(error, _NOTHING)


def judge(tables: Tables, budgets: Budgets) -> list[Budget]:
    rows = tables["deciles"].to_pylist()
    large = {board["scores"] for board in tables["boards"].to_pylist() if board["players"] >= LARGE}
    widths = [row["max_width_percent"] for row in rows if row["scores"] in large]
    return [
        budgets.judge("served.outside", sum(row["outside"] for row in rows)),
        *([budgets.judge("served.width", max(widths))] if widths else []),
    ]


def say(tables: Tables) -> list[str]:
    lines = []
    for board in tables["boards"].to_pylist():
        rows = rows_of(tables["deciles"], scores=board["scores"])
        asked, leaders = sum(row["asked"] for row in rows), sum(row["leaders"] for row in rows)
        digest = [row["digest_max_error_percent"] for row in rows]
        beside = "" if None in digest else f" (a t-digest's {show_percent(max(digest))})"
        lines.append(
            f"{board['scores']}: {asked:,} of {board['players']:,} players asked, {leaders:,} of them leaders with "
            f"exact ranks; {sum(row['outside'] for row in rows):,} outside their interval, the widest "
            f"{show_percent(max(row['max_width_percent'] for row in rows))}, the largest error "
            f"{show_percent(max(row['max_error_percent'] for row in rows))}{beside}."
        )
        if board["note"]:
            lines.append(f"{board['scores']}: {board['note']}.")
    return lines


def recommend(tables: Tables) -> list[str]:
    """The spec of each board that was made, as it can be sent, and what to expect of it."""
    lines = []
    for board in (board for board in tables["boards"].to_pylist() if board["spec"]):
        advice = predict(Wish(players=board["players"], leaders=board["top_n"]), board["shards"])
        lines.append(
            f"top_n {board['top_n']:,}, {board['shards']} shards of {advice.samples:,} samples, intervals of at most "
            f"{show_percent(advice.width_percent)}, {advice.total_bytes / 1e6:,.1f} MB for each window and its log"
        )
        lines.append(render_curl(board["spec"]))
    return lines


def tabulate(tables: Tables) -> list[Table]:
    columns = ("scores", "tenth", "asked", "outside", "mean error", "max error", "mean width", "max width")
    names = ("mean_error", "max_error", "mean_width", "max_width", "digest_mean_error", "digest_max_error")
    rows = [
        [
            row["scores"],
            str(row["decile"]),
            f"{row['asked']:,}",
            f"{row['outside']:,}",
            *("" if row[f"{name}_percent"] is None else show_percent(row[f"{name}_percent"]) for name in names),
        ]
        for row in tables["deciles"].to_pylist()
    ]
    caption = "Served against exact, by tenth of the board (1 = best), in percentile points"
    return [Table(caption, (*columns, "t-digest mean", "t-digest max"), rows)]


STUDY = Study(
    name="served",
    title="What a board really answers",
    claim="Percentiles as they are served, by a real board after a real write path, lie within their interval in every "
    "tenth of the board; from 50,000 players on it is at most 0.1 % of them wide.",
    takes="scores",
    takes_board=True,
    measure=measure,
    draw=draw,
    judge=judge,
    say=say,
    tabulate=tabulate,
    recommend=recommend,
)
