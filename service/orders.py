"""What the supervisor tells a child, and how the child knows when to end.

A child reads one line of JSON from its standard input, its orders; after that nothing comes any more, and the *end* of
the input means that the supervisor is gone, however it went: the kernel closes the pipe also of one that was killed
-9. Not arguments, because those are for everybody to read (`ps`), and an address of Redis may have a password in it.

    SIGTERM, SIGINT     end in order
    end of the input    the same, and after LAST_S without order: nobody is left to wait for us
"""

import asyncio
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from service.logs import configure_logs
from service.metrics import Metrics
from service.settings import Settings

LAST_S = 1.0  # how long a child takes at most to end after its supervisor

Run = Callable[["Orders", asyncio.Event], Awaitable[None]]


class Orders(msgspec.Struct, frozen=True, kw_only=True):
    """Who a child is, and what with: `redis` is the address to use, `socket_fd` a listening socket that it inherits.

    `number` tells workers apart; `folder` is shared by all processes of the service.
    """

    name: str
    number: int = 0
    settings: Settings
    redis: str
    folder: str
    socket_fd: int = -1

    @property
    def is_embedded(self) -> bool:
        """Whether the Redis is one of our own."""
        return not self.settings.redis

    def make_metrics(self) -> Metrics:
        """This child's numbers, going on from those of the one that had the name before."""
        metrics = Metrics(folder=Path(self.folder), name=self.name)
        metrics.resume()
        return metrics


def run_child(run: Run) -> None:
    """Be a child: read the orders, and `run` until it is time to end."""
    line = sys.stdin.buffer.readline()
    if not line.endswith(b"\n"):
        return  # the supervisor ended before it had said what to do
    orders = msgspec.json.decode(line, type=Orders)
    configure_logs(orders.settings.log_level, orders.settings.log_format, orders.name)
    is_orphan = threading.Event()
    uvloop.run(_run(run, orders, is_orphan))
    if is_orphan.is_set():
        _clean(orders)


async def _run(run: Run, orders: Orders, is_orphan: threading.Event) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)

    def watch() -> None:
        while os.read(sys.stdin.fileno(), 1):
            pass
        is_orphan.set()
        loop.call_soon_threadsafe(stop.set)
        time.sleep(LAST_S)
        _clean(orders)
        os._exit(1)

    # A thread, so that an event loop that is busy does not hide the end of the supervisor.
    threading.Thread(target=watch, daemon=True).start()
    await run(orders, stop)


async def work_until(stop: asyncio.Event, *chores: Coroutine[Any, Any, object]) -> None:
    """Do endless chores until told to stop; one that fails ends them all and is raised."""
    tasks = {asyncio.create_task(chore) for chore in (stop.wait(), *chores)}
    try:
        ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in ended:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _clean(orders: Orders) -> None:
    """Remove what the supervisor can no longer remove itself."""
    shutil.rmtree(orders.folder, ignore_errors=True)
