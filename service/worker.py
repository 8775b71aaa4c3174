"""A worker: one process that answers requests on the socket that the supervisor bound.

It stays up whatever becomes of Redis. What is asked while Redis loads or is gone gets an honest 503, and the first
request after that finds it again. Before Redis was reached for the first time nothing is served at all: the data may
have been written by a newer release.
"""

import asyncio
import gc
import logging
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import cast

from aiohttp import web
from redis.exceptions import ResponseError

from hybrid.engine import Engine
from hybrid.errors import HybridError, SchemaTooNew
from service.app import make_app
from service.auth import Auth
from service.door import Counts, Door
from service.engines import make_engine
from service.limits import make_limits
from service.orders import Orders, run_child, work_until
from service.redis_facts import read_ack
from service.settings import Settings
from service.state import State
from toptail.wire import Ack

TICK_S = 1.0
LOOK_S = 0.25  # how often Redis is looked for while it is gone
KEEPALIVE_S = 75.0
DRAIN_POLL_S = 0.01

log = logging.getLogger(__name__)


async def serve(orders: Orders, stop: asyncio.Event) -> None:
    """Answer requests until told to stop, and then finish what was begun."""
    settings, metrics = orders.settings, orders.make_metrics()
    auth = Auth(Path(settings.keys_file) if settings.keys_file else None)
    engine = make_engine(orders)
    state = State(engine, settings, refusal="Redis was not reached yet", limits=make_limits(engine, settings))
    runner = web.AppRunner(
        make_app(state, auth=auth, metrics=metrics),
        access_log=None,
        auto_decompress=False,  # compressed bodies are refused, not unpacked
        handler_cancellation=True,
        keepalive_timeout=KEEPALIVE_S,
        shutdown_timeout=settings.drain_s,
    )
    await runner.setup()
    counts = Counts(Path(orders.folder, "connections"), settings.workers, orders.number)
    door = Door(socket.socket(fileno=orders.socket_fd), cast(web.Server, runner.server), counts)
    door.open()
    _calm_collector()
    try:
        await work_until(stop, _repeat(auth.reload, metrics.save), _watch_redis(state))
    finally:
        state.is_stopping = True
        door.close()
        await _drain(state)
        await runner.cleanup()
        await engine.link.close()
        metrics.save()


def _calm_collector() -> None:
    """What is there now stays, so the garbage collector need not look at it again; and it looks less often.

    Requests make no cycles to speak of, and a full collection would stop all of them for ten milliseconds.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


async def _drain(state: State) -> None:
    """Wait for requests that were begun; aiohttp by itself waits too, but reads no more of their bodies."""
    with suppress(TimeoutError):
        async with asyncio.timeout(state.settings.drain_s):
            while state.in_flight:  # noqa: ASYNC110  an event would cost every request, this one only the last
                await asyncio.sleep(DRAIN_POLL_S)


async def _repeat(*chores: Callable[[], None]) -> None:
    while True:
        for chore in chores:
            chore()
        await asyncio.sleep(TICK_S)


async def _watch_redis(state: State) -> None:
    """Note when Redis comes and goes, and what its acknowledgements are worth now."""
    is_there = False
    while True:
        try:
            await state.engine.boards.open()
            if not is_there:
                state.ack = await _find_ack(state.engine, state.settings)
                state.refusal, is_there = None, True
                log.info("redis answers", extra={"ack": state.ack})
        except SchemaTooNew as error:
            state.refusal = str(error)
        except (HybridError, ResponseError) as error:
            if is_there:
                log.warning("redis is gone", extra={"reason": str(error)})
            is_there = False
        await asyncio.sleep(TICK_S if is_there else LOOK_S)


async def _find_ack(engine: Engine, settings: Settings) -> Ack:
    if not settings.redis:
        return "fsync" if settings.fsync == "always" else "memory"
    return await read_ack(engine.link)


if __name__ == "__main__":
    run_child(serve)
