"""One whole run: everything measured, stamped, and rounded as it will be saved."""

from experiments.bench.hitters import measure_hitter_accuracy, measure_hitter_speed
from experiments.bench.progress import Track
from experiments.bench.proofs import check_random_digests
from experiments.bench.quantiles import measure_errors
from experiments.bench.races import measure_speed
from experiments.bench.results import Results, Sizes, parse_results, render_results
from experiments.bench.stamp import make_stamp


def measure(sizes: Sizes, seed: int, date: str, track: Track) -> Results:
    """The results as they will be read back, so that what is printed is what is saved."""
    stamp = make_stamp(date)
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
