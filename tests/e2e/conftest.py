"""The service for tests: the real application on a real Redis, on a free port of loopback, in a thread of its own.

    def test_something(serve: Serve) -> None:
        service = serve()                          or serve(Settings(...), keys_file=..., middlewares=[...], wrap=...)
        async with Client(service.url) as boards: ...

Every service has keys of its own in Redis, so it starts empty. Middlewares run on the service's own event loop; `wrap`
puts something between it and Redis.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest
from aiohttp import web

from hybrid.embedded import EmbeddedRedis
from hybrid.engine import Engine, make_link
from hybrid.keeper import Keeper, KeeperSettings
from hybrid.link import Link
from hybrid.trends.keeper import TrendKeeper
from service.app import make_app
from service.auth import Auth
from service.metrics import Metrics
from service.settings import Settings
from service.state import State
from tests.engines import fresh_prefix

T = TypeVar("T")
Middleware = Callable[..., Any]


@dataclass
class Service:
    """A running service: where it is, and its insides."""

    url: str
    state: State
    loop: asyncio.AbstractEventLoop

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something on the service's event loop, from outside it."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(30)


class Serve(Protocol):
    def __call__(
        self,
        settings: Settings | None = None,
        *,
        keys_file: Path | None = None,
        middlewares: Sequence[Middleware] = (),
        wrap: Callable[[Link], Link] | None = None,
    ) -> Service: ...


@asynccontextmanager
async def _running(state: State, auth: Auth, middlewares: Sequence[Middleware]) -> AsyncIterator[str]:
    app = make_app(state, auth=auth, metrics=Metrics())
    app.middlewares.extend(middlewares)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    keepers = (Keeper(state.engine, KeeperSettings(pause_s=0.05)), TrendKeeper(state.engine.trends))
    tasks = [asyncio.create_task(keeper.run()) for keeper in keepers]
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        await runner.cleanup()


class _Thread:
    """One service in one thread, until it is stopped."""

    def __init__(self, make_state: Callable[[], State], auth: Auth, middlewares: Sequence[Middleware]) -> None:
        self._ready: Future[Service] = Future()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main(make_state, auth, middlewares)))
        self._thread.start()
        self.service = self._ready.result(30)

    async def _main(self, make_state: Callable[[], State], auth: Auth, middlewares: Sequence[Middleware]) -> None:
        try:
            state = make_state()
            async with state.engine, _running(state, auth, middlewares) as url:
                self._ready.set_result(Service(url, state, asyncio.get_running_loop()))
                await self._stop.wait()
        except BaseException as error:
            if not self._ready.done():
                self._ready.set_exception(error)
            raise

    def stop(self) -> None:
        self.service.loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)
        assert not self._thread.is_alive()


@pytest.fixture
def serve(redis_server: EmbeddedRedis) -> Iterator[Serve]:
    """Starts services; they end with the test."""
    threads: list[_Thread] = []

    def start(
        settings: Settings | None = None,
        *,
        keys_file: Path | None = None,
        middlewares: Sequence[Middleware] = (),
        wrap: Callable[[Link], Link] | None = None,
    ) -> Service:
        def make_state() -> State:
            link = make_link(redis_server.url)
            engine = Engine(link if wrap is None else wrap(link), prefix=fresh_prefix())
            return State(engine, settings or Settings(), ack="fsync")

        threads.append(_Thread(make_state, Auth(keys_file), middlewares))
        return threads[-1].service

    yield start
    for thread in threads:
        thread.stop()


@pytest.fixture
def service(serve: Serve) -> Service:
    """A service with defaults."""
    return serve()
