"""What one would write without us: `python -m experiments.bench.service_peer bare|naive URL KEY`.

It answers the path of a standing on a port of its own, which it names, and ends when stdin does. *bare* does nothing:
what aiohttp itself takes. *naive* asks Redis for rank, score and players of one plain ZSET, in a pipeline a request.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web
from redis.asyncio import BlockingConnectionPool, Redis

from experiments.bench.answers_crowds import Crowd
from experiments.bench.batches import name_of
from experiments.bench.flights import run
from experiments.bench.servers import BenchServer
from hybrid.link import CONNECTIONS

BARE, NAIVE = "bare", "naive"
PLAIN = "bench:plain"

_PATH = "/v1/boards/{board}/players/{player}"
_CHUNK = 1_000

Handler = Callable[[web.Request], Awaitable[web.Response]]


async def fill_plain(server: BenchServer, crowd: Crowd) -> None:
    """The same players with scores of the same shape, as the naive handler wants them."""
    for at in range(0, crowd.players, _CHUNK):
        names = [name_of(number) for number in range(at, min(at + _CHUNK, crowd.players))]
        scores = crowd.shape.draw(crowd.rng, len(names)).tolist()
        flat: list[Any] = [part for row in zip(scores, names, strict=True) for part in row]
        await server.ask("ZADD", PLAIN, *flat)


async def serve(way: str, url: str, key: str) -> None:
    pool = BlockingConnectionPool.from_url(url, max_connections=CONNECTIONS)
    client = Redis(connection_pool=pool)
    app = web.Application()
    app.router.add_get(_PATH, _answer_nothing if way == BARE else _make_naive(client, key))
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    sys.stdout.write(f"http://{host}:{port}\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)
    await runner.cleanup()
    await pool.aclose()


async def _answer_nothing(_: web.Request) -> web.Response:
    return web.Response(text='{"ok":true}', content_type="application/json")


def _make_naive(client: "Redis", key: str) -> Handler:
    async def answer(request: web.Request) -> web.Response:
        player = request.match_info["player"]
        async with client.pipeline(transaction=False) as pipe:
            pipe.zrevrank(key, player)
            pipe.zscore(key, player)
            pipe.zcard(key)
            rank, score, players = await pipe.execute()
        if rank is None:
            raise web.HTTPNotFound
        return web.json_response({"player": player, "rank": rank + 1, "score": score, "players": players})

    return answer


if __name__ == "__main__":
    run(serve(*sys.argv[1:]))
