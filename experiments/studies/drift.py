"""Drift: an interval is true of the moment at which it was sampled; how true is it some writes later?

A write moves anybody's rank by one at most. So an answer that carries the number of writes it includes (`seq`) is off
by no more ranks than writes came since. Two kinds of writes:

    like before      random players get another score of the same kind: most pass each other, and little moves
    all to the top   players from below the median pass everybody: the worst that can happen
"""

from dataclasses import replace

import numpy as np
from matplotlib.figure import Figure

from experiments.bench.budgets import Budget
from experiments.bench.tables import Table
from experiments.study import plots
from experiments.study.budgets import Budgets, show_percent
from experiments.study.replica import Replica, make_replica
from experiments.study.study import Job, Row, Study, Tables, distinct, make_table, rows_of
from experiments.study.workloads import SHAPES
from hybrid.orderkey import Ints
from hybrid.view import View

ALIKE, TO_TOP = "like before", "all to the top"
PLAYERS, FAST_PLAYERS = 500_000, 60_000
ASKED, SEEDS = 10_000, 5
SHARES_PERCENT = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
WRITES_A_SECOND = 2_000  # as the benchmark writes

_NOTHING = 1e-4  # where nobody outside is drawn on a logarithmic axis


def measure(job: Job) -> Tables:
    scores = job.scores or SHAPES[0].make(job.rng(), FAST_PLAYERS if job.is_fast else PLAYERS)
    before = make_replica(scores, job.rng(1))
    view = before.view()
    steps = [(kind, share) for kind in (ALIKE, TO_TOP) for share in SHARES_PERCENT]
    rows = []
    for kind, share in job.track(steps, "drift: writes"):
        writes = round(len(scores) * share / 100)
        excess = [_ask_later(before, view, kind, writes, job.rng(2, seed)) for seed in range(SEEDS)]
        rows.append(_sum_up(kind, len(scores), writes, np.concatenate(excess)))
    return {"drift": make_table(rows)}


def _ask_later(before: Replica, view: View, kind: str, writes: int, rng: np.random.Generator) -> Ints:
    """By how many ranks players are outside their old interval."""
    now = _write(before, kind, writes, rng)
    asked = rng.integers(0, len(before.keys), ASKED)
    places, rank = now.ask(view, asked), now.ranks[asked]
    excess: Ints = np.maximum(np.maximum(places.rank_low - rank, rank - places.rank_high), 0)
    return excess


def _write(before: Replica, kind: str, writes: int, rng: np.random.Generator) -> Replica:
    """The board after so many writes, each by another player."""
    keys = before.keys.copy()
    if kind == ALIKE:
        players = rng.permutation(len(keys))[:writes]
        keys[players] = keys[rng.permutation(len(keys))[:writes]]
    else:
        players = rng.permutation(before.order[len(keys) // 2 :])[:writes]
        keys[players] = before.sorted_keys[0]
    return replace(before, keys=keys)


def _sum_up(kind: str, players: int, writes: int, excess: Ints) -> Row:
    return {
        "kind": kind,
        "players": players,
        "writes": writes,
        "writes_percent": 100 * writes / players,
        "asked": len(excess),
        "covered_percent": float(100 * (excess == 0).mean()),
        "max_ranks_off": int(excess.max()),
        "max_off_percent": float(100 * excess.max() / players),
        "beyond_writes": int((excess > writes).sum()),
    }


def draw(tables: Tables) -> Figure:
    """How many are still within their interval, and how far outside the others are."""
    table = tables["drift"]
    figure, (covered, off) = plots.make_axes(2)
    for place, kind in enumerate(distinct(table, "kind")):
        rows = [row for row in rows_of(table, kind=kind) if row["writes"]]
        writes = [row["writes_percent"] for row in rows]
        covered.plot(writes, [row["covered_percent"] for row in rows], **plots.line_of(place), label=f"writes {kind}")
        off.plot(writes, [max(row["max_off_percent"], _NOTHING) for row in rows], **plots.line_of(place))
    ends = [min(writes), max(writes)]
    off.plot(ends, ends, color=plots.BLACK, linestyle="--", linewidth=1.3)
    covered.set_ylim(0, 105)
    plots.use_log(covered, "x")
    plots.use_log(off, "x")
    plots.use_log(off, "y", zero=_NOTHING)
    plots.label(covered, "writes since, % of players (log)", "% of players", "Still within the old interval")
    plots.label(off, "writes since, % of players (log)", "% of players (log)", "Farthest outside (dashed: limit)")
    plots.add_legend(figure, covered)
    return figure


def judge(tables: Tables, budgets: Budgets) -> list[Budget]:
    rows = tables["drift"].to_pylist()
    ratio = max(row["max_ranks_off"] / row["writes"] for row in rows if row["writes"])
    at_rest = sum(row["max_ranks_off"] for row in rows if not row["writes"])
    return [budgets.judge("drift.ranks", ratio), budgets.judge("drift.at_rest", at_rest)]


def say(tables: Tables) -> list[str]:
    lines = []
    for kind in distinct(tables["drift"], "kind"):
        row = next(row for row in rows_of(tables["drift"], kind=kind) if row["writes_percent"] >= 0.3)
        lines.append(
            f"After {row['writes']:,} writes {kind} ({show_percent(row['writes_percent'])} of the players, "
            f"{row['writes'] / WRITES_A_SECOND:.1f} s at {WRITES_A_SECOND:,} a second) {row['covered_percent']:.2f} % "
            f"are still within the old interval, and nobody is more than {row['max_ranks_off']:,} ranks outside."
        )
    return lines


def fails(tables: Tables) -> list[str]:
    row = next(row for row in rows_of(tables["drift"], kind=TO_TOP) if row["writes_percent"] >= 1)
    return [
        f"If everybody moves one way, an old interval is soon wrong by all of it: after writes of "
        f"{show_percent(row['writes_percent'])} of the players {row['covered_percent']:.1f} % are still within it. "
        "That is what `as_of` and `seq` are for."
    ]


def tabulate(tables: Tables) -> list[Table]:
    rows = [
        [
            row["kind"],
            f"{row['writes']:,}",
            show_percent(row["writes_percent"]),
            f"{row['covered_percent']:.2f} %",
            f"{row['max_ranks_off']:,}",
            f"{row['beyond_writes']:,}",
        ]
        for row in tables["drift"].to_pylist()
    ]
    columns = ("writes", "number", "of players", "still within", "ranks outside, at most", "beyond what is allowed")
    return [Table("Old intervals against the state now", columns, rows)]


STUDY = Study(
    name="drift",
    title="How an answer ages",
    claim="An interval is true of the moment that `as_of` and `seq` name; so many writes later a rank lies outside it "
    "by at most as many places, and by far fewer unless everybody moves one way.",
    takes="scores",
    measure=measure,
    draw=draw,
    judge=judge,
    say=say,
    tabulate=tabulate,
    fails=fails,
)
