"""How true a window is: an hour of events in small requests, each item beside its exact count.

Precision tolerates ties: an item is right if it occurred at least as often as the true number 100. All rows that a
board may show are held against their bounds, and so are items that are looked up: half of them drawn from the events,
and so mostly frequent, half from all items that occurred.
"""

import numpy as np
import pyarrow as pa

from experiments.bench.flights import fly
from experiments.bench.hitters import EXPONENTS, precision
from experiments.bench.timing import Stopwatch
from experiments.bench.trends_results import Hour as Result
from experiments.bench.trends_sizes import CAPACITY, PARTITIONS, K
from experiments.bench.trends_stages import WINDOW, Hour, Stage, open_hour, slices
from experiments.bench.trends_truth import count_untrue, count_wrong, median_interval, rows_of
from experiments.bench.workloads import Stream, zipf_stream
from hybrid.trends.config import TrendConfig
from hybrid.trends.events import TrendBatch
from hybrid.trends.trends import Trends

SHAPES = ("Zipf 1.1", "Zipf 0.8")
CONFIG = TrendConfig(capacity=CAPACITY, partitions=PARTITIONS, windows=(WINDOW,))


async def measure_hours(stage: Stage) -> list[Result]:
    return [await _measure(stage, shape) for shape in SHAPES]


async def _measure(stage: Stage, shape: str) -> Result:
    sizes, rng = stage.sizes, np.random.default_rng([stage.job.seed, *shape.encode()])
    stream = zipf_stream(rng, sizes.hour_events, sizes.items, EXPONENTS[shape])
    requests = [TrendBatch(items) for items in slices(stream.events, sizes.request_events)]
    async with open_hour(stage, CONFIG) as hour:
        with Stopwatch() as watch:
            accepted = await hour.play(requests, shape)
        board, top = await hour.top(hour.trend.most_rows), await hour.top(K)
        found = await hour.look_up(_draw(rng, stream, sizes.looked_up))
        p50_s, p99_s = await _time(hour, hour.trends, sizes.questions)
        read_p50_s, read_p99_s = await _time(hour, _make_reader(hour), sizes.questions)
    return Result(
        shape=shape,
        events=accepted,
        missing=accepted - board.head.total,
        seconds=watch.seconds,
        precision=precision([row.item for row in rows_of(top)], stream),
        rows=len(board.rows),
        looked_up=len(found),
        violations=count_wrong([*rows_of(board), *found], stream),
        interval=median_interval(top, stream),
        guaranteed=sum(each.is_guaranteed for each in top.rows),
        untrue=count_untrue(top, stream),
        floor=board.head.floor,
        p50_s=p50_s,
        p99_s=p99_s,
        read_p50_s=read_p50_s,
        read_p99_s=read_p99_s,
    )


def _draw(rng: np.random.Generator, stream: Stream, n: int) -> list[str]:
    """Items to look up."""
    occurred, _ = stream.occurred()
    drawn = [pool.take(pa.array(rng.integers(0, len(pool), n // 2))) for pool in (stream.events, occurred)]
    found: list[str] = pa.concat_arrays(drawn).to_pylist()
    return found


def _make_reader(hour: Hour) -> Trends:
    """One who reads what is published again for every question."""
    engine = hour.engine
    return Trends(engine.link, engine.schema, engine.boards, now_ms=hour.clock, random=engine.random, fresh_s=0.0)


async def _time(hour: Hour, trends: Trends, questions: int) -> tuple[float, float]:
    """p50 and p99 of one question after the other, at rest."""
    flight = await fly(lambda _: trends.top(hour.trend, WINDOW, limit=K), range(questions), 1)
    p50_s, p99_s = np.quantile(flight.latencies_s, [0.5, 0.99]).tolist()
    return p50_s, p99_s
