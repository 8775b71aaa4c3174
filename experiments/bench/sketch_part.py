"""The sketches as a part of the benchmark: one whole run, measured, stamped, and rounded as it will be saved."""

from experiments.bench.hitters import measure_hitter_accuracy, measure_hitter_speed
from experiments.bench.parts import Job
from experiments.bench.progress import Track
from experiments.bench.proofs import check_random_digests
from experiments.bench.quantiles import measure_errors
from experiments.bench.races import measure_speed
from experiments.bench.results import render_results
from experiments.bench.sketch_budgets import make_budgets
from experiments.bench.sketch_report import render_sections, render_stamp
from experiments.bench.sketch_results import FAST, FULL, Results, parse_results
from experiments.bench.sketch_tables import all_tables
from experiments.bench.stamp import make_stamp

__all__ = ["all_tables", "make_budgets", "measure", "parse_results", "render_sections", "render_stamp"]

PACKAGES = ("toptail", "numpy", "pyarrow", "datasketches", "fastdigest", "crick", "tdigest")


def measure(job: Job, track: Track) -> Results:
    """The results as they will be read back, so that what is printed is what is saved."""
    sizes, seed = FAST if job.is_fast else FULL, job.seed
    stamp = make_stamp(job.date, PACKAGES)
    digest_speed = measure_speed(sizes, seed, track)
    digest_error, intervals = measure_errors(sizes, seed, track)
    results = Results(
        stamp=stamp,
        sizes=sizes,
        seed=seed,
        digest_speed=digest_speed,
        digest_error=digest_error,
        intervals=intervals,
        proof=check_random_digests(sizes.random_digests, seed, track),
        hitter_speed=measure_hitter_speed(sizes, seed, track),
        hitter_accuracy=measure_hitter_accuracy(sizes, seed, track),
    )
    return parse_results(render_results(results))
