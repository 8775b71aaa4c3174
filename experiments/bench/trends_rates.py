"""Events through HTTP, all the way to the counts: as Arrow streams and as JSON, beside the sketches alone.

One worker and a default trend; events are sent by a process of its own. Whatever is being measured, somebody watches
the window of an hour, and an event is counted when that has it. The sketches alone are a Space-Saving and a Count-Min
as a pane has them, fed with the same events in this process.
"""

import asyncio
from dataclasses import dataclass

from experiments.bench.service_processes import read_memory
from experiments.bench.timing import Stopwatch, now_s
from experiments.bench.trends_processes import KEEPER, find_process, sending_apart
from experiments.bench.trends_results import Round
from experiments.bench.trends_sender import ARROW, JSON, make_stream
from experiments.bench.trends_sizes import CAPACITY
from experiments.bench.trends_stages import WINDOW, Stage, slices
from hybrid.trends.config import DEPTH, Trend, TrendConfig
from hybrid.trends.pane import width_of
from hybrid.trends.trends import Trends
from sketches import CountMin, SpaceSaving, tally

SKETCHES, OVER_ARROW, OVER_JSON = "sketches in process", "HTTP, Arrow", "HTTP, JSON"

_LOOK_S = 0.05
_PATIENCE_S = 120.0


def measure_sketches(stage: Stage) -> list[Round]:
    """The same events, again and again."""
    sizes, key = stage.sizes, bytes(16)
    batches = slices(make_stream(sizes.events, sizes.items, stage.job.seed).events, sizes.sketch_batch)
    found = []
    for _ in stage.track(range(sizes.sketch_rounds), "trends: sketches alone"):
        heavy, cells = SpaceSaving(CAPACITY), CountMin(width_of(CAPACITY), DEPTH, key=key)
        with Stopwatch() as watch:
            for batch in batches:
                counted = tally(batch)
                heavy.update(counted)
                cells.update(counted)
        found.append(Round(SKETCHES, sizes.events, watch.seconds, watch.seconds, missing=sizes.events - heavy.total))
    return found


async def measure_rates(stage: Stage, trends: Trends, url: str) -> list[Round]:
    """All events to a new trend each time."""
    sizes = stage.sizes
    ways = [(OVER_ARROW, ARROW, sizes.arrow_events)] * sizes.arrow_rounds
    ways += [(OVER_JSON, JSON, sizes.json_events)] * sizes.json_rounds
    found = []
    for number in stage.track(range(len(ways)), "trends: events over HTTP"):
        way, kind, bulk = ways[number]
        trend, _ = await trends.create(f"bench-{number}", TrendConfig())
        await trends.top(trend, WINDOW)  # from now on it is watched
        found.append(await _measure(stage, Counting(trends, trend), way, kind, bulk, url))
        await trends.delete(trend.name)
    return found


@dataclass(slots=True)
class Counting:
    """How far the counts are, for somebody who watches."""

    trends: Trends
    trend: Trend
    total: int = 0

    async def reach(self, events: int) -> float:
        """Wait until so many are counted, if they ever are; returns when that was."""
        deadline_s = now_s() + _PATIENCE_S
        while self.total < events and now_s() < deadline_s:
            await asyncio.sleep(_LOOK_S)
            self.total = (await self.trends.top(self.trend, WINDOW)).head.total
        return now_s()


async def _measure(stage: Stage, counting: Counting, way: str, kind: str, bulk: int, url: str) -> Round:
    sizes, keeper = stage.sizes, find_process(KEEPER)
    numbers = (sizes.events, sizes.items, bulk, sizes.in_flight, 0, stage.job.seed)
    async with sending_apart(f"{url}/v1/trends/{counting.trend.name}/events", kind, *numbers) as sender:
        began_s = now_s()
        sending = asyncio.create_task(sender.send())
        await counting.reach(sizes.events // 4)
        quarter_bytes = read_memory(keeper)
        ended_s = await counting.reach(sizes.events)
        sent = await sending
    return Round(
        way=way,
        events=sent.accepted,
        acknowledged_s=sent.seconds,
        counted_s=ended_s - began_s,
        refused=sent.refused,
        missing=sent.accepted - counting.total,
        quarter_bytes=quarter_bytes,
        end_bytes=read_memory(keeper),
    )
