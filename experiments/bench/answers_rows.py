"""Rows: all of them page by page while others move, all of them as a stream, and single questions one by one."""

import tracemalloc
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import count

import numpy as np

from experiments.bench.answers_crowds import Crowd, writing
from experiments.bench.answers_results import Export, Latency, Walk
from experiments.bench.answers_sizes import Sizes
from experiments.bench.batches import name_of
from experiments.bench.flights import fly
from experiments.bench.progress import Track
from experiments.bench.timing import Stopwatch, now_s
from hybrid.pages import Page

SERVED, EXACT, PAGE, NEIGHBORS = "standing", "standing, exact", "100 rows from a rank in the middle", "neighbours"

_EVERY = 5  # one player in so many moves


async def measure_walk(crowd: Crowd, sizes: Sizes, track: Track) -> Walk:
    """From the first row to the last by cursor, while one player in five moves all the time."""
    seen: Counter[bytes] = Counter()
    pages, bar = 0, iter(track(range(-(-crowd.players // sizes.page_rows)), "answers: pages"))
    async with writing([crowd], every=_EVERY) as writer:
        began_s = now_s()
        async for page in _pages(crowd, sizes.page_rows):
            seen.update(entry.place.player for entry in page.entries)
            pages += 1
            next(bar, None)
        seconds, scores = now_s() - began_s, writer.scores
    deque(bar, maxlen=0)
    unmoved = [seen[name_of(number).encode()] for number in range(crowd.players) if number % _EVERY]
    return Walk(
        pages=pages,
        rows=seen.total(),
        seconds=seconds,
        unmoved=len(unmoved),
        skipped=sum(times == 0 for times in unmoved),
        repeated=sum(times > 1 for times in unmoved),
        scores=scores,
    )


async def _pages(crowd: Crowd, limit: int) -> AsyncIterator[Page]:
    cursor = None
    while True:
        page = await crowd.engine.pages.page(crowd.board, limit=limit, cursor=cursor)
        yield page
        cursor = page.cursor
        if cursor is None:
            return


async def measure_export(crowd: Crowd) -> Export:
    """All rows at rest: once for the time, and once for the memory, because watching it takes time."""
    rows = 0
    with Stopwatch() as watch:
        async for _ in crowd.engine.pages.rows(crowd.board):
            rows += 1
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    async for _ in crowd.engine.pages.rows(crowd.board):
        pass
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return Export(rows, watch.seconds, crowd.players - rows, peak - before)


async def measure_latencies(crowd: Crowd, sizes: Sizes) -> list[Latency]:
    """One question after the other, at rest."""
    engine, board = crowd.engine, crowd.board
    middle = count(crowd.players // 2)
    questions: dict[str, Callable[[str], Awaitable[object]]] = {
        SERVED: lambda name: engine.standings.of_player(board, name),
        EXACT: lambda name: engine.standings.of_player(board, name, is_exact=True),
        PAGE: lambda _: engine.pages.page(board, from_rank=next(middle), limit=100),
        NEIGHBORS: lambda name: engine.pages.neighbors(board, name),
    }
    found = []
    for what, ask in questions.items():
        flight = await fly(ask, crowd.draw(sizes.latencies), 1)
        p50_s, p99_s = np.quantile(flight.latencies_s, [0.5, 0.99]).tolist()
        found.append(Latency(what, sizes.latencies, p50_s, p99_s))
    return found
