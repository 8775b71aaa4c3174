"""Child processes: started, started again when they die, and stopped.

A child has a process group of its own, so that a Ctrl-C in the terminal is the supervisor's alone, and gets its orders
through a pipe that it also knows the supervisor's end by (orders.py).
"""

import asyncio
import logging
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from contextlib import suppress

import msgspec

from service.orders import Orders

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 5.0

log = logging.getLogger(__name__)


class Backoff:
    """Pauses that double while something dies again and again, and start over once it has stayed up."""

    def __init__(self) -> None:
        self._pause_s = FIRST_PAUSE_S

    def next_s(self, up_s: float) -> float:
        """How long to wait after a death that came `up_s` seconds after the start."""
        if up_s > LONGEST_PAUSE_S:
            self._pause_s = FIRST_PAUSE_S
        pause_s, self._pause_s = self._pause_s, min(self._pause_s * 2, LONGEST_PAUSE_S)
        return pause_s


class Child:
    """One process of a module, kept alive. `on_death` is told its kind before it is started again."""

    def __init__(self, kind: str, module: str, orders: Orders, *, on_death: Callable[[str], None]) -> None:
        self._kind, self._module, self._orders, self._on_death = kind, module, orders, on_death
        self._process: Process | None = None
        self._keeping: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Keep it alive from now on."""
        self._keeping = asyncio.create_task(self._keep())

    async def stop(self, within_s: float) -> None:
        """End it in order, or by force when the time is up."""
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.wait({self._keeping})
        process = self._process
        if process is None or process.returncode is not None:
            return
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(within_s):
                await process.wait()
        except TimeoutError:
            log.warning("process killed: it did not end in time", extra={"child": self._orders.name})
            self.kill()
            await process.wait()

    def kill(self) -> None:
        """End it at once."""
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    async def _keep(self) -> None:
        now_s, backoff = asyncio.get_running_loop().time, Backoff()
        while True:
            began_s = now_s()
            self._process = process = await self._spawn()
            code = await process.wait()
            pause_s = backoff.next_s(now_s() - began_s)
            log.warning(
                "process died",
                extra={"child": self._orders.name, "pid": process.pid, "code": code, "again_in_s": pause_s},
            )
            self._on_death(self._kind)
            await asyncio.sleep(pause_s)

    async def _spawn(self) -> Process:
        fd = self._orders.socket_fd
        # -P: a folder `service` where the operator happens to stand is not ours.
        command = (sys.executable, "-P", "-m", self._module)
        process = await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, pass_fds=() if fd < 0 else (fd,), process_group=0
        )
        if process.stdin is not None:
            process.stdin.write(msgspec.json.encode(self._orders) + b"\n")
        log.info("process started", extra={"child": self._orders.name, "pid": process.pid})
        return process
