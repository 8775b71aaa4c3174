"""What keeping house costs: one board with four windows, and a thousand boards of which few are busy.

INFO commandstats counts all scripts as one, so Redis cannot say what sampling took. It is the difference of Redis'
processor time with a keeper and without, under the same writes and questions: sampling, the keeper's own looks, and the
readers' loading of new samples. The keeper is stopped last, so that both meet boards that have samples.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from experiments.bench.answers_crowds import Crowd, make_crowd, writing
from experiments.bench.answers_results import Idle, Load
from experiments.bench.answers_shapes import LOGNORMAL
from experiments.bench.answers_sizes import Sizes
from experiments.bench.answers_stands import KeeperProcess, Stand, keeping_apart, open_stand
from experiments.bench.parts import Job
from experiments.bench.progress import Track
from experiments.bench.timing import Stopwatch, now_s, wall_clock_ms
from hybrid.keeper import Keeper
from hybrid.windows import KINDS

KEPT = "one board, a keeper"
UNKEPT = "one board, no keeper"
BUSY_ALONE = "busy boards alone"
BUSY_AND_IDLE = "busy and idle boards"

_ASKED = 20  # players of one question


async def measure_loads(sizes: Sizes, job: Job, track: Track) -> tuple[list[Load], Idle]:
    loads: list[Load] = []
    for is_one in track((True, False), "answers: keeper"):
        async with open_stand(job) as stand:
            if is_one:
                loads += await _load_one(stand, sizes)
            else:
                busy, idle = await _load_many(stand, sizes)
                loads += busy
    return loads, idle


async def _load_one(stand: Stand, sizes: Sizes) -> list[Load]:
    crowd = await make_crowd(stand, LOGNORMAL, sizes.players, top_n=sizes.top_n, windows=KINDS)
    await crowd.fill()
    async with keeping_apart(stand.server, sizes.keeper) as keeper:
        kept = await _load(stand, [crowd], sizes, keeper)
    return [replace(kept, name=KEPT), replace(await _load(stand, [crowd], sizes, None), name=UNKEPT)]


async def _load_many(stand: Stand, sizes: Sizes) -> tuple[list[Load], Idle]:
    busy = [await _make_board(stand, sizes, number, sizes.busy_players) for number in range(sizes.busy_boards)]
    for crowd in busy:
        await crowd.fill()
    async with keeping_apart(stand.server, sizes.keeper) as keeper:
        alone = await _load(stand, busy, sizes, keeper)
        idle = await _make_idle(stand, sizes)
        both = await _load(stand, busy, sizes, keeper)
    return [replace(alone, name=BUSY_ALONE), replace(both, name=BUSY_AND_IDLE, idle=sizes.idle_boards)], idle


async def _make_board(stand: Stand, sizes: Sizes, number: int, players: int) -> Crowd:
    name, top_n = f"bench-{number}", min(sizes.top_n, sizes.busy_players // 2)
    return await make_crowd(stand, LOGNORMAL, players, name=name, top_n=top_n, windows=KINDS)


async def _make_idle(stand: Stand, sizes: Sizes) -> Idle:
    """Boards that are made and filled, and then left alone."""
    before, n = await _data_bytes(stand), sizes.idle_boards
    numbers = range(sizes.busy_boards, sizes.busy_boards + n)
    crowds = [await _make_board(stand, sizes, number, sizes.idle_players) for number in numbers]
    empty = await _data_bytes(stand)
    for crowd in crowds:
        await crowd.fill()
    filled = await _data_bytes(stand)
    redis_s = -await stand.server.processor_s()
    with Stopwatch() as watch:
        await Keeper(stand.engine).round()
    redis_s += await stand.server.processor_s()
    return Idle(
        boards=n + sizes.busy_boards,
        empty_bytes=(empty - before) / n,
        players=sizes.idle_players,
        filled_bytes=(filled - before) / n,
        round_s=watch.seconds,
        round_python_s=watch.processor_s,
        round_redis_s=redis_s,
    )


async def _load(stand: Stand, crowds: Sequence[Crowd], sizes: Sizes, keeper: KeeperProcess | None) -> Load:
    """Write and ask for a while, after a while to warm up."""
    async with writing(crowds) as writer:
        since_ms = wall_clock_ms() if keeper else 0
        for crowd in crowds:
            await crowd.wait_for_samples(since_ms)
        await _ask(crowds, sizes, sizes.warm_s)
        scores, redis_s, keeper_s = -writer.scores, -await stand.server.processor_s(), -await _processor_s(keeper)
        began_s = now_s()
        ages_s = await _ask(crowds, sizes, sizes.load_s)
        seconds = now_s() - began_s
        scores, redis_s = scores + writer.scores, redis_s + await stand.server.processor_s()
        keeper_s += await _processor_s(keeper)
    p50_age_s, p99_age_s = np.quantile(ages_s, [0.5, 0.99]).tolist()
    return Load("", len(crowds), 0, len(KINDS), scores, seconds, redis_s, keeper_s, p50_age_s, p99_age_s)


async def _ask(crowds: Sequence[Crowd], sizes: Sizes, seconds: float) -> list[float]:
    """Ask for every window of every board again and again; returns how old the answers of the tail were."""
    until_s, ages_s = now_s() + seconds, []
    while (began_s := now_s()) < until_s:
        for crowd in crowds:
            for window in KINDS:
                rows = await crowd.engine.standings.of_players(crowd.board, crowd.draw(_ASKED), window=window)
                is_tail = ~rows.is_exact & ~np.isnan(rows.keys)
                ages_s += ((wall_clock_ms() - rows.moment[1][is_tail]) / 1000).tolist()
        await asyncio.sleep(max(began_s + sizes.ask_pause_s - now_s(), 0))
    return ages_s


async def _processor_s(keeper: KeeperProcess | None) -> float:
    return 0.0 if keeper is None else await keeper.processor_s()


async def _data_bytes(stand: Stand) -> int:
    """used_memory without what connections and the append-only file hold for a moment."""
    info = await stand.server.info("memory")
    return int(info["used_memory"]) - int(info["mem_clients_normal"]) - int(info["mem_aof_buffer"])
