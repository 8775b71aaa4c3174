"""Answers as a part of the benchmark: one whole run, measured, stamped, and rounded as it will be saved."""

from experiments.bench.answers_audit import measure_audits
from experiments.bench.answers_budgets import make_budgets
from experiments.bench.answers_crowds import make_crowd
from experiments.bench.answers_loads import measure_loads
from experiments.bench.answers_lookups import measure_lookups
from experiments.bench.answers_refresh import measure_refreshes
from experiments.bench.answers_report import render_sections, render_stamp
from experiments.bench.answers_results import Export, Latency, Lookups, Results, Walk, parse_results
from experiments.bench.answers_rows import measure_export, measure_latencies, measure_walk
from experiments.bench.answers_shapes import LOGNORMAL
from experiments.bench.answers_sizes import FAST, FULL, Sizes
from experiments.bench.answers_stands import keeping, open_stand
from experiments.bench.answers_tables import all_tables
from experiments.bench.flights import run
from experiments.bench.parts import Job
from experiments.bench.progress import Track
from experiments.bench.results import render_results
from experiments.bench.stamp import make_stamp
from experiments.bench.timing import settle_heap
from hybrid.servers import find_server, render_version

__all__ = ["all_tables", "make_budgets", "measure", "parse_results", "render_sections", "render_stamp"]

PACKAGES = ("toptail", "redis", "hiredis", "uvloop", "numpy", "msgspec")


def measure(job: Job, track: Track) -> Results:
    """The results as they will be read back, so that what is printed is what is saved."""
    settle_heap()
    return parse_results(render_results(run(_measure(job, track))))


async def _measure(job: Job, track: Track) -> Results:
    server = find_server()  # the one that EmbeddedRedis takes
    sizes = FAST if job.is_fast else FULL
    audits = await measure_audits(sizes, job, track)
    refreshes = await measure_refreshes(sizes, job, track)
    loads, idle = await measure_loads(sizes, job, track)
    lookups, latencies, export, walk = await _measure_one_board(sizes, job, track)
    return Results(
        stamp=make_stamp(job.date, PACKAGES),
        server=f"{server.name}-server {render_version(server.version)}",
        sizes=sizes,
        seed=job.seed,
        audits=audits,
        refreshes=refreshes,
        loads=loads,
        idle=idle,
        lookups=lookups,
        walk=walk,
        export=export,
        latencies=latencies,
    )


async def _measure_one_board(sizes: Sizes, job: Job, track: Track) -> tuple[list[Lookups], list[Latency], Export, Walk]:
    """What one board is asked: first what needs it at rest."""
    async with open_stand(job) as stand:
        crowd = await make_crowd(stand, LOGNORMAL, sizes.players, strategy="latest", top_n=sizes.top_n)
        await crowd.fill()
        async with keeping(stand.engine, sizes.keeper):
            await crowd.settle()
            latencies, export = await measure_latencies(crowd, sizes), await measure_export(crowd)
            lookups = await measure_lookups(stand, crowd, sizes, track)
            return lookups, latencies, export, await measure_walk(crowd, sizes, track)
