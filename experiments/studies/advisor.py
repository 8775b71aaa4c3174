"""Advisor: what it predicts, against real boards of random configs.

Each board is filled through the record and sampled in all its windows; then players of the tail are asked for, and
everything is deleted: by how much Redis' used_memory falls is what the board took.
"""

import asyncio
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from experiments.bench.budgets import Budget
from experiments.bench.memory import FREE_AT_ONCE
from experiments.bench.servers import BenchServer, open_server
from experiments.bench.tables import Table
from experiments.study import plots
from experiments.study.advisor import Wish, predict
from experiments.study.board_spec import make_config
from experiments.study.budgets import Budgets, show_percent
from experiments.study.stands import Stand, join_server
from experiments.study.study import Job, Row, Study, Tables, make_table
from experiments.study.workloads import SHAPES, Scores
from hybrid.config import Board
from hybrid.windows import KINDS

CONFIGS, FAST_CONFIGS = 20, 8
MOST_PLAYERS, FAST_MOST_PLAYERS = 200_000, 20_000
LEAST_PLAYERS = 8_000
ASKED = 4_000
UNTIED = (SHAPES[0], SHAPES[1], SHAPES[3])  # ties only make intervals narrower than predicted


@dataclass(frozen=True, slots=True)
class Config:
    """A board to try."""

    scores: Scores
    shards: int
    top_n: int
    windows: int
    name_bytes: int

    @property
    def wish(self) -> Wish:
        players = len(self.scores)
        return Wish(players=players, leaders=self.top_n, windows=self.windows, name_bytes=self.name_bytes)


def measure(job: Job) -> Tables:
    return {"configs": make_table(asyncio.run(_measure_all(job)))}


async def _measure_all(job: Job) -> list[Row]:
    async with open_server(None, fsync="no", options=FREE_AT_ONCE) as server:
        await _weigh(server)  # whatever the first weighing allocates, is there now
        configs = job.track(_draw_configs(job), "advisor: configs")
        return [await _measure_config(job, server, config) for config in configs]


def _draw_configs(job: Job) -> list[Config]:
    rng = job.rng()
    most = FAST_MOST_PLAYERS if job.is_fast else MOST_PLAYERS
    configs = []
    for number in range(FAST_CONFIGS if job.is_fast else CONFIGS):
        players = round(LEAST_PLAYERS * (most / LEAST_PLAYERS) ** rng.random())
        scores = UNTIED[number % len(UNTIED)].make(rng, players)
        configs.append(
            Config(
                scores,
                int(rng.choice([1, 2, 4, 8, 16])),
                round(100 * 10 ** rng.random()),
                int(rng.integers(1, len(KINDS) + 1)),
                int(rng.integers(8, 65)),
            )
        )
    return configs


async def _measure_config(job: Job, server: BenchServer, config: Config) -> Row:
    advice = predict(config.wish, config.shards)
    async with join_server(server, job.seed) as stand:
        spec = make_config(config.scores, shards=config.shards, top_n=config.top_n, windows=KINDS[: config.windows])
        board = await stand.fill("advised", spec, config.scores, config.name_bytes)
        await _sample_all(stand, board)
        mean, widest = await _ask_widths(job, stand, board, config)
    taken_bytes = await _weigh(server)
    return {
        "players": len(config.scores),
        "shards": config.shards,
        "top_n": config.top_n,
        "windows": config.windows,
        "name_bytes": config.name_bytes,
        "predicted_width_percent": advice.mean_width_percent,
        "measured_width_percent": mean,
        "predicted_widest_percent": advice.width_percent,
        "measured_widest_percent": widest,
        "predicted_bytes": advice.total_bytes,
        "measured_bytes": taken_bytes,
    }


async def _sample_all(stand: Stand, board: Board) -> None:
    """Samples of all shards of all windows: what a board takes when everything is asked for."""
    await stand.settle(board)
    for kind in board.config.windows:
        window = board.window(kind, stand.engine.now_ms()).name
        for shard in range(len(board.tags)):
            await stand.engine.tail.sample(board, shard, window)


async def _ask_widths(job: Job, stand: Stand, board: Board, config: Config) -> tuple[float, float]:
    asked = job.rng(1).permutation(len(config.scores))[:ASKED]
    answers = await stand.ask(board, asked, config.name_bytes)
    widths = [
        rows.places.percentile_high[~rows.is_exact] - rows.places.percentile_low[~rows.is_exact] for rows in answers
    ]
    joined = np.concatenate(widths)
    return float(joined.mean()), float(joined.max())


async def _weigh(server: BenchServer) -> int:
    """By how much used_memory falls when everything is deleted."""
    await server.be_alone()
    keys = await server.ask("KEYS", "*")
    before = await server.used_bytes()
    await server.ask("DEL", "nothing", *keys)
    return before - await server.used_bytes()


def _misses(tables: Tables) -> tuple[list[float], list[float]]:
    """By how many percent the predictions of width and memory miss what was measured."""
    rows = tables["configs"].to_pylist()
    columns = [("predicted_width_percent", "measured_width_percent"), ("predicted_bytes", "measured_bytes")]
    width, memory = ([100 * (row[said] / row[found] - 1) for row in rows] for said, found in columns)
    return width, memory


def draw(tables: Tables) -> Figure:
    """Predicted against measured, with a band of 20 %."""
    rows = tables["configs"].to_pylist()
    figure, (widths, memory) = plots.make_axes(2, height_in=4.6)
    panels = (
        (widths, "width_percent", 1.0, "mean width, % of players", plots.BLUE),
        (memory, "bytes", 1e-6, "memory, MB", plots.GREEN),
    )
    for axes, name, unit, what, colour in panels:
        said = [unit * row[f"predicted_{name}"] for row in rows]
        found = [unit * row[f"measured_{name}"] for row in rows]
        ends = np.array([0.7 * min(said + found), 1.4 * max(said + found)])
        axes.fill_between(ends, 0.8 * ends, 1.2 * ends, color="#dddddd", label="within 20 %")
        axes.plot(ends, ends, color=plots.GREY, linewidth=1, label="as predicted")
        axes.plot(said, found, "o", color=colour, label="a board")
        axes.set(xlim=ends, ylim=ends)
        plots.use_log(axes, "xy")
        plots.label(axes, f"predicted {what} (log)", f"measured {what} (log)")
    plots.add_legend(figure, widths)
    return figure


def judge(tables: Tables, budgets: Budgets) -> list[Budget]:
    width, memory = _misses(tables)
    rows = tables["configs"].to_pylist()
    beyond = sum(row["measured_widest_percent"] > row["predicted_widest_percent"] for row in rows)
    return [
        budgets.judge("advisor.width", max(map(abs, width))),
        budgets.judge("advisor.memory", max(map(abs, memory))),
        budgets.judge("advisor.beyond", beyond),
    ]


def say(tables: Tables) -> list[str]:
    width, memory = _misses(tables)
    return [
        f"{len(width)} random configs: the predicted mean width misses the measured one by at most "
        f"{max(map(abs, width)):.1f} %, the predicted memory by at most {max(map(abs, memory)):.1f} %."
    ]


def tabulate(tables: Tables) -> list[Table]:
    columns = (
        "players",
        "shards",
        "top_n",
        "windows",
        "name",
        "width, predicted",
        "measured",
        "MB, predicted",
        "measured",
    )
    rows = [
        [
            f"{row['players']:,}",
            str(row["shards"]),
            f"{row['top_n']:,}",
            str(row["windows"]),
            f"{row['name_bytes']} B",
            show_percent(row["predicted_width_percent"]),
            show_percent(row["measured_width_percent"]),
            f"{row['predicted_bytes'] / 1e6:.2f}",
            f"{row['measured_bytes'] / 1e6:.2f}",
        ]
        for row in tables["configs"].to_pylist()
    ]
    return [Table("The advisor's predictions", columns, rows)]


STUDY = Study(
    name="advisor",
    title="The advisor is right to 20 %",
    claim="The width of intervals and the memory of a board follow from its size and config; what `toptail experiments "
    "advise` predicts is within 20 % of what a real board takes.",
    takes=None,
    measure=measure,
    draw=draw,
    judge=judge,
    say=say,
    tabulate=tabulate,
)
