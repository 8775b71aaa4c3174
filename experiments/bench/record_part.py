"""The record as a part of the benchmark: one whole run, measured, stamped, and rounded as it will be saved."""

from experiments.bench.durability import measure_fsync, measure_submits
from experiments.bench.flights import run
from experiments.bench.memory import measure_memory
from experiments.bench.parts import Job
from experiments.bench.progress import Track
from experiments.bench.record_budgets import make_budgets
from experiments.bench.record_report import render_sections, render_stamp
from experiments.bench.record_results import FAST, FULL, Results, parse_results
from experiments.bench.record_tables import all_tables
from experiments.bench.results import render_results
from experiments.bench.stamp import make_stamp
from experiments.bench.timing import settle_heap
from experiments.bench.writes import measure_writes
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
    log_bytes, writes = await measure_writes(sizes, job, track)
    return Results(
        stamp=make_stamp(job.date, PACKAGES),
        server=f"{server.name}-server {render_version(server.version)}",
        sizes=sizes,
        seed=job.seed,
        log_bytes=log_bytes,
        fsync_s=measure_fsync(job.data_dir),
        writes=writes,
        submits=await measure_submits(sizes, job, track),
        memory=await measure_memory(sizes, job, track),
    )
