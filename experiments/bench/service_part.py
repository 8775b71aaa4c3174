"""The service as a part of the benchmark: one whole run, measured, stamped, and rounded as it will be saved."""

from experiments.bench.flights import run
from experiments.bench.parts import Job
from experiments.bench.progress import Track
from experiments.bench.results import render_results
from experiments.bench.service_boards import measure_boards
from experiments.bench.service_budgets import make_budgets
from experiments.bench.service_processes import serving
from experiments.bench.service_report import render_sections, render_stamp
from experiments.bench.service_results import Results, parse_results
from experiments.bench.service_stages import open_stage
from experiments.bench.service_standings import measure_standings
from experiments.bench.service_tables import all_tables
from experiments.bench.service_writes import measure_bulks, measure_load, measure_submits
from experiments.bench.service_wrk import read_version
from experiments.bench.stamp import make_stamp
from experiments.bench.timing import settle_heap
from hybrid.servers import find_server, render_version

__all__ = ["all_tables", "make_budgets", "measure", "parse_results", "render_sections", "render_stamp"]

PACKAGES = ("toptail", "aiohttp", "redis", "hiredis", "uvloop", "numpy", "msgspec")


def measure(job: Job, track: Track) -> Results:
    """The results as they will be read back, so that what is printed is what is saved."""
    wrk = read_version()
    settle_heap()
    return parse_results(render_results(run(_measure(job, track, wrk))))


async def _measure(job: Job, track: Track, wrk: str) -> Results:
    server = find_server()  # the one that EmbeddedRedis takes
    async with open_stage(job, track, "everysec") as stage:
        standings = await measure_standings(stage)
        async with serving(stage.server) as url:
            boards, bulks = await measure_boards(stage, url), await measure_bulks(stage, url)
    async with open_stage(job, track, "always") as stage, serving(stage.server) as url:
        submits, load = await measure_submits(stage, url), await measure_load(stage, url)
    return Results(
        stamp=make_stamp(job.date, PACKAGES),
        server=f"{server.name}-server {render_version(server.version)}",
        wrk=wrk,
        sizes=stage.sizes,
        seed=job.seed,
        standings=standings,
        boards=boards,
        bulks=bulks,
        submits=submits,
        load=load,
    )
