"""Trends as a part of the benchmark: one whole run, measured, stamped, and rounded as it will be saved."""

from random import Random

from experiments.bench.flights import run
from experiments.bench.parts import Job
from experiments.bench.progress import Track
from experiments.bench.results import render_results
from experiments.bench.servers import open_server
from experiments.bench.service_processes import serving
from experiments.bench.stamp import make_stamp
from experiments.bench.timing import settle_heap
from experiments.bench.trends_accuracy import measure_hours
from experiments.bench.trends_boards import measure_fed
from experiments.bench.trends_budgets import make_budgets
from experiments.bench.trends_fairness import measure_fairness
from experiments.bench.trends_kills import measure_kills
from experiments.bench.trends_pace import measure_pace
from experiments.bench.trends_rates import measure_rates, measure_sketches
from experiments.bench.trends_report import render_sections, render_stamp
from experiments.bench.trends_results import Pace, Results, Round, parse_results
from experiments.bench.trends_stages import Stage, make_stage
from experiments.bench.trends_tables import all_tables
from hybrid.engine import Engine
from hybrid.link import Node, parse_url
from hybrid.servers import find_server, render_version

__all__ = ["all_tables", "make_budgets", "measure", "parse_results", "render_sections", "render_stamp"]

PACKAGES = ("toptail", "aiohttp", "redis", "hiredis", "uvloop", "numpy", "pyarrow", "msgspec", "datasketches")


def measure(job: Job, track: Track) -> Results:
    """The results as they will be read back, so that what is printed is what is saved."""
    settle_heap()
    return parse_results(render_results(run(_measure(make_stage(job, track)))))


async def _measure(stage: Stage) -> Results:
    job, server = stage.job, find_server()  # the one that EmbeddedRedis takes
    rounds, pace = await _measure_service(stage)
    return Results(
        stamp=make_stamp(job.date, PACKAGES),
        server=f"{server.name}-server {render_version(server.version)}",
        sizes=stage.sizes,
        seed=job.seed,
        rounds=rounds,
        pace=pace,
        hours=await measure_hours(stage),
        kills=await measure_kills(stage),
        fed=await measure_fed(stage),
        fairness=await measure_fairness(stage),
    )


async def _measure_service(stage: Stage) -> tuple[list[Round], Pace]:
    """Redis is started here, and the service told where it is, so that its file is not rewritten meanwhile."""
    alone = measure_sketches(stage)
    async with (
        open_server(stage.job.data_dir) as server,
        Engine(Node(parse_url(server.redis.url)), random=Random(stage.job.seed)) as engine,
        serving(server) as url,
    ):
        rounds = [*alone, *await measure_rates(stage, engine.trends, url)]
        return rounds, await measure_pace(stage, server, engine.trends, url)
