"""What it takes to sample one shard, on boards of all sizes: they take turns on one server."""

from statistics import median
from typing import NamedTuple

from experiments.bench.answers_crowds import Crowd, make_crowd
from experiments.bench.answers_results import Refresh
from experiments.bench.answers_shapes import LOGNORMAL
from experiments.bench.answers_sizes import SHARDS, Sizes
from experiments.bench.answers_stands import Stand, open_stand
from experiments.bench.parts import Job
from experiments.bench.progress import Track
from experiments.bench.timing import now_s
from hybrid.keys import Keys
from hybrid.samples import Samples
from hybrid.view import View
from hybrid.windows import ALLTIME


async def measure_refreshes(sizes: Sizes, job: Job, track: Track) -> list[Refresh]:
    async with open_stand(job) as stand:
        crowds = [await _fill(stand, players) for players in track(sizes.boards, "answers: boards of all sizes")]
        taken: list[list[_Round]] = [[] for _ in crowds]
        for crowd in crowds:
            await _sample_all(stand, crowd)  # warms up: scores that many share are known from now on
        for _ in track(range(sizes.refreshes), "answers: refresh"):
            for crowd, rounds in zip(crowds, taken, strict=True):
                rounds.append(await _sample_all(stand, crowd))
        return [await _sum_up(stand, crowd, rounds) for crowd, rounds in zip(crowds, taken, strict=True)]


class _Round(NamedTuple):
    """Every shard once."""

    seconds: list[float]
    redis_s: float
    samples: list[Samples]


async def _fill(stand: Stand, players: int) -> Crowd:
    crowd = await make_crowd(stand, LOGNORMAL, players, name=f"bench-{players}")
    await crowd.fill()
    return crowd


async def _sample_all(stand: Stand, crowd: Crowd) -> _Round:
    taken_s, samples = [], []
    redis_s = -await stand.server.processor_s()
    for shard in range(SHARDS):
        began_s = now_s()
        sampled = await stand.engine.tail.sample(crowd.board, shard, ALLTIME)
        taken_s.append(now_s() - began_s)
        samples += [sampled] if sampled is not None else []
    return _Round(taken_s, redis_s + await stand.server.processor_s(), samples)


async def _sum_up(stand: Stand, crowd: Crowd, rounds: list[_Round]) -> Refresh:
    seconds = [taken_s for each in rounds for taken_s in each.seconds]
    keys = [Keys().shard(tag).samples(ALLTIME) for tag in crowd.board.tags]
    published: list[int] = await stand.server.ask_all([("STRLEN", key) for key in keys])
    return Refresh(
        players=crowd.players,
        calls=len(seconds),
        median_s=median(seconds),
        redis_s=sum(each.redis_s for each in rounds) / len(seconds),
        published_bytes=sum(published) / SHARDS,
        view_s=median(_time_view(crowd, each.samples) for each in rounds),
    )


def _time_view(crowd: Crowd, samples: list[Samples]) -> float:
    began_s = now_s()
    View.of_samples(samples, crowd.board.key)
    return now_s() - began_s
