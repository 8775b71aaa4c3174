"""Players looked up by a thousand callers at once: our standings, and three commands in a pipeline for each caller.

The peers know one ZSET with the same players and plain scores: ZSCORE, ZREVRANK and ZCARD say score, rank and players.
All take turns on one server; under writes, the paced writer writes to our board whoever is being measured.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from redis.asyncio import BlockingConnectionPool, Redis, UnixDomainSocketConnection

from experiments.bench.answers_crowds import Crowd, writing
from experiments.bench.answers_results import Lookups
from experiments.bench.answers_sizes import Sizes
from experiments.bench.answers_stands import Stand
from experiments.bench.batches import name_of
from experiments.bench.flights import fly
from experiments.bench.progress import Track
from hybrid.link import CONNECTIONS, Command, Node, parse_url

OURS = "toptail, one player a call"
BATCHED = "toptail, a batch a call"
REDIS_PY = "redis-py pipeline"
LINK = "the same commands through our link"

_PLAIN = "bench:plain"
_CHUNK = 1_000


class Contestant(NamedTuple):
    """How it looks up what is in one call, and how many calls and callers there are; returns who had no answer."""

    name: str
    look_up: Callable[[Sequence[str]], Awaitable[int]]
    callers: int
    batch: int
    calls: int


async def measure_lookups(stand: Stand, crowd: Crowd, sizes: Sizes, track: Track) -> list[Lookups]:
    """The best round of each contestant, at rest and under writes."""
    await _fill_plain(stand, crowd)
    pool = BlockingConnectionPool(
        max_connections=CONNECTIONS,
        timeout=None,
        connection_class=UnixDomainSocketConnection,
        path=str(stand.server.redis.socket_path),
    )
    client, node = Redis(connection_pool=pool), Node(parse_url(stand.server.redis.url))
    contestants = _list_contestants(crowd, client, node, sizes)
    found: list[Lookups] = []
    for number in track(range(sizes.lookup_repeats), "answers: lookups"):
        first = number % len(contestants)
        for is_written in (False, True):
            for contestant in contestants[first:] + contestants[:first]:
                found.append(await _look_up(stand, crowd, contestant, is_written))
    await client.aclose()
    await pool.aclose()
    await node.close()
    return [_best(found, contestant, is_written) for is_written in (False, True) for contestant in contestants]


def _list_contestants(crowd: Crowd, client: "Redis", node: Node, sizes: Sizes) -> list[Contestant]:
    standings, board = crowd.engine.standings, crowd.board

    async def ours(names: Sequence[str]) -> int:
        return int(await standings.of_player(board, names[0]) is None)

    async def batched(names: Sequence[str]) -> int:
        return sum(standing is None for standing in await standings.of_players(board, names))

    async def redis_py(names: Sequence[str]) -> int:
        async with client.pipeline(transaction=False) as pipe:
            pipe.zscore(_PLAIN, names[0])
            pipe.zrevrank(_PLAIN, names[0])
            pipe.zcard(_PLAIN)
            score, _, _ = await pipe.execute()
        return int(score is None)

    async def link(names: Sequence[str]) -> int:
        name = names[0]
        commands: list[Command] = [("ZSCORE", _PLAIN, name), ("ZREVRANK", _PLAIN, name), ("ZCARD", _PLAIN)]
        score, _, _ = await node.run("", commands)
        return int(score is None)

    return [
        Contestant(OURS, ours, sizes.callers, 1, sizes.lookups),
        Contestant(REDIS_PY, redis_py, sizes.callers, 1, sizes.peer_lookups),
        Contestant(LINK, link, sizes.callers, 1, sizes.peer_lookups),
        Contestant(BATCHED, batched, 1, _CHUNK, sizes.batched),
    ]


async def _look_up(stand: Stand, crowd: Crowd, contestant: Contestant, is_written: bool) -> Lookups:
    names, size = crowd.draw(contestant.calls * contestant.batch), contestant.batch
    items = [names[at : at + size] for at in range(0, len(names), size)]
    async with writing([crowd] if is_written else []) as writer:
        before = writer.scores
        redis_s = -await stand.server.processor_s()
        flight = await fly(contestant.look_up, items, contestant.callers)
        redis_s += await stand.server.processor_s()
        scores = writer.scores - before
    p50_s, p99_s = np.quantile(flight.latencies_s, [0.5, 0.99]).tolist()
    return Lookups(
        contestant=contestant.name,
        is_written=is_written,
        callers=contestant.callers,
        batch=contestant.batch,
        calls=contestant.calls,
        seconds=flight.seconds,
        python_s=flight.python_s,
        redis_s=redis_s,
        p50_s=p50_s,
        p99_s=p99_s,
        missing=sum(flight.answers),
        scores=scores,
    )


async def _fill_plain(stand: Stand, crowd: Crowd) -> None:
    """The same players with scores of the same shape."""
    for at in range(0, crowd.players, _CHUNK):
        names = [name_of(number) for number in range(at, min(at + _CHUNK, crowd.players))]
        scores = crowd.shape.draw(crowd.rng, len(names)).tolist()
        flat: list[Any] = [part for row in zip(scores, names, strict=True) for part in row]
        await stand.server.ask("ZADD", _PLAIN, *flat)


def _best(found: Sequence[Lookups], contestant: Contestant, is_written: bool) -> Lookups:
    rows = [row for row in found if (row.contestant, row.is_written) == (contestant.name, is_written)]
    return min(rows, key=lambda row: row.seconds)
