"""The supervisor: one process that owns the port, our own Redis, the workers and the keeper, and does no work itself.

    supervisor ─┬─ redis-server     unless there is one of the operator's own
                ├─ worker-0 ...     answer requests on the supervisor's socket
                └─ keeper

Whatever dies is started again, with pauses that double from 0.1 s to 5 s. Stopping goes the other way round from
starting: workers finish what they have begun, then the keeper ends, then Redis. A second signal ends everything at
once. Should the supervisor itself be killed -9, Redis ends by a signal of the kernel (hybrid/launcher.py) and the
children by the end of their input (orders.py).
"""

import asyncio
import logging
import os
import shutil
import signal
import socket
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import cast

from hybrid.embedded import EmbeddedRedis, Fsync
from hybrid.errors import EmbeddedError
from hybrid.servers import find_server
from service.children import Child
from service.listening import ask_ready, url_of
from service.metrics import Metrics
from service.orders import Orders
from service.settings import Settings

PAUSES_S = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, *[5.0] * 1000)
QUICK_START_S = 1.0  # a Redis that takes longer is loading, and workers say so meanwhile
LOCK_WAIT_S = 1.5  # for a Redis of before that is just ending
KILL_S = 2.0  # beyond the time to drain, until a child is ended by force
POLL_S = 0.05

log = logging.getLogger(__name__)


async def supervise(settings: Settings, listener: socket.socket, *, say: Callable[[str], None]) -> None:
    """Serve on a socket until a signal ends it."""
    await Supervisor(settings, listener, say=say).run()


class Supervisor:
    """Runs a service until a signal ends it. `say` shows the operator where it is."""

    def __init__(self, settings: Settings, listener: socket.socket, *, say: Callable[[str], None]) -> None:
        self._settings, self._listener, self._say = settings, listener, say
        self._stop = asyncio.Event()
        self._redis: EmbeddedRedis | None = None
        self._starting: asyncio.Task[None] | None = None
        self._workers: list[Child] = []
        self._keeper: list[Child] = []
        self._folder = Path(tempfile.mkdtemp(prefix="toptail-"))
        self._metrics = Metrics(folder=self._folder, name="supervisor")

    async def run(self) -> None:
        """Serve until told to stop, and leave nothing running, whatever happens."""
        loop = asyncio.get_running_loop()
        signals = [signal.SIGTERM, signal.SIGINT]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # else `nohup` wants us to stay
            signals.append(signal.SIGHUP)
        for number in signals:
            loop.add_signal_handler(number, self._on_signal, number)
        serving, stopping = asyncio.create_task(self._serve()), asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if serving.done():
                serving.result()
        finally:
            for task in (serving, stopping):
                task.cancel()
            await asyncio.wait({serving})
            await self._end()

    def _on_signal(self, number: int) -> None:
        if not self._stop.is_set():
            log.info("stopping", extra={"signal": signal.Signals(number).name})
            self._stop.set()
            return
        for child in (*self._workers, *self._keeper):
            child.kill()
        shutil.rmtree(self._folder, ignore_errors=True)
        os._exit(128 + number)  # and the kernel ends Redis

    async def _serve(self) -> None:
        url = self._settings.redis or await self._start_redis()
        self._workers = [self._make_worker(number, url) for number in range(self._settings.workers)]
        self._keeper = [self._make_child("keeper", "service.keeping", self._orders("keeper", url))]
        for child in (*self._workers, *self._keeper):
            child.start()
        tasks = [asyncio.create_task(chore) for chore in (self._tend_redis(), self._announce(), self._tick())]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()

    async def _start_redis(self) -> str:
        """Start our own Redis; returns when it answers, or is busy loading."""
        settings = self._settings
        self._redis = EmbeddedRedis(
            settings.data,
            fsync=cast(Fsync, settings.fsync),
            server=find_server(settings.redis_server or None),
            lock_wait_s=LOCK_WAIT_S,
        )
        self._starting = asyncio.create_task(self._redis.start())
        await asyncio.wait({self._starting}, timeout=LOCK_WAIT_S + QUICK_START_S)
        if self._starting.done():
            self._starting.result()
        return self._redis.url

    async def _tend_redis(self) -> None:
        if self._redis is None or self._starting is None:
            return
        await self._starting
        while True:
            try:
                await self._redis.watch(PAUSES_S)
            except EmbeddedError as error:
                log.error("redis cannot be revived", extra={"reason": str(error)})

    async def _announce(self) -> None:
        """Say where the service is, once it is ready."""
        told = ""
        while (health := await ask_ready(self._listener)).status != "ok":
            reason = health.reason or ""
            if reason and reason != told:
                log.warning("not ready yet", extra={"reason": reason})
                told = reason
            await asyncio.sleep(POLL_S)
        url = url_of(self._listener)
        log.info("ready", extra={"url": url, "workers": self._settings.workers})
        self._say(f"dashboard  {url}/\nAPI docs   {url}/docs\nAPI        {url}/v1/boards")

    async def _tick(self) -> None:
        """Once a second: see whether Redis is another one than before, and let the workers see our numbers."""
        pid = None
        while True:
            if self._redis is not None and self._redis.is_running():
                if pid not in (None, self._redis.pid):
                    self._metrics.add("toptail_restarts", "redis")
                pid = self._redis.pid
            self._metrics.save()
            await asyncio.sleep(1.0)

    async def _end(self) -> None:
        self._listener.close()
        await asyncio.gather(*(worker.stop(self._settings.drain_s + KILL_S) for worker in self._workers))
        await asyncio.gather(*(keeper.stop(KILL_S) for keeper in self._keeper))
        if self._starting is not None:
            self._starting.cancel()
            with suppress(EmbeddedError, asyncio.CancelledError):
                await self._starting
        if self._redis is not None:
            await self._redis.stop()
        shutil.rmtree(self._folder, ignore_errors=True)
        log.info("stopped")

    def _make_worker(self, number: int, url: str) -> Child:
        orders = self._orders(f"worker-{number}", url, number=number, socket_fd=self._listener.fileno())
        return self._make_child("worker", "service.worker", orders)

    def _make_child(self, kind: str, module: str, orders: Orders) -> Child:
        return Child(kind, module, orders, on_death=lambda kind: self._metrics.add("toptail_restarts", kind))

    def _orders(self, name: str, url: str, *, number: int = 0, socket_fd: int = -1) -> Orders:
        return Orders(
            name=name,
            number=number,
            settings=self._settings,
            redis=url,
            folder=str(self._folder),
            socket_fd=socket_fd,
        )
