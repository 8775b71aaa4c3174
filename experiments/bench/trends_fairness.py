"""One actor against all others: 30 % of all events are his, spread evenly over a thousand items of his own.

The others' items are so flat (Zipf 0.8) that without a cap his would be in the top: each of them has about as many
events as the true number 60. Every actor of the others sends about one event a minute.
"""

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from experiments.bench.hitters import EXPONENTS, precision
from experiments.bench.trends_accuracy import CONFIG
from experiments.bench.trends_results import Fairness
from experiments.bench.trends_sizes import K, Sizes
from experiments.bench.trends_stages import Stage, open_hour, slices
from experiments.bench.trends_truth import count_wrong, rows_of
from experiments.bench.workloads import Stream, zipf_stream
from hybrid.trends.events import TrendBatch

SHAPE = "Zipf 0.8"
ONE, ITS_ITEMS, ITS_SHARE = "the one", 1_000, 0.3

_PUSHED = "pushed-"


async def measure_fairness(stage: Stage) -> list[Fairness]:
    return [await _measure(stage, actor_cap) for actor_cap in (stage.sizes.actor_cap, None)]


async def _measure(stage: Stage, actor_cap: int | None) -> Fairness:
    sizes, rng = stage.sizes, np.random.default_rng(stage.job.seed)
    pushed = round(ITS_SHARE * sizes.fair_events)
    stream = zipf_stream(rng, sizes.fair_events - pushed, sizes.items, EXPONENTS[SHAPE])
    requests = [*_requests_of_many(rng, stream, sizes), *_requests_of_one(rng, pushed, sizes.request_events)]
    order = rng.permutation(len(requests)).tolist()
    async with open_hour(stage, replace(CONFIG, actor_cap=actor_cap)) as hour:
        accepted = await hour.play([requests[number] for number in order], f"cap {actor_cap}")
        board, top = await hour.top(hour.trend.most_rows), await hour.top(K)
    honest = [row for row in rows_of(board) if not row.item.startswith(_PUSHED)]
    names = [row.item for row in rows_of(top) if not row.item.startswith(_PUSHED)]
    return Fairness(
        actor_cap=actor_cap,
        events=accepted,
        missing=accepted - board.head.total - board.head.capped,
        from_one=pushed,
        capped=board.head.capped,
        intruders=len(top.rows) - len(names),
        precision=precision(names, stream),
        violations=count_wrong(honest, stream),
    )


def _requests_of_many(rng: np.random.Generator, stream: Stream, sizes: Sizes) -> list[TrendBatch]:
    names = pa.array([f"actor-{number}" for number in range(sizes.fair_actors)], pa.large_string())
    actors = names.take(pa.array(rng.integers(0, sizes.fair_actors, len(stream.events))))
    parts = zip(slices(stream.events, sizes.request_events), slices(actors, sizes.request_events), strict=True)
    return [TrendBatch(items, actors=who) for items, who in parts]


def _requests_of_one(rng: np.random.Generator, events: int, size: int) -> list[TrendBatch]:
    names = pa.array([f"{_PUSHED}{number}" for number in range(ITS_ITEMS)], pa.large_string())
    items = names.take(pa.array(rng.integers(0, ITS_ITEMS, events)))
    return [TrendBatch(part, actors=[ONE] * len(part)) for part in slices(items, size)]
