"""A keeper by itself: `python -m experiments.bench.answers_keeper URL PAUSE_S SHARE`.

It answers every line on stdin with its processor seconds so far, and ends when stdin does.
"""

import asyncio
import sys
from contextlib import suppress
from time import process_time

from experiments.bench.flights import run
from hybrid.engine import Engine, make_link
from hybrid.keeper import Keeper, KeeperSettings


async def keep(url: str, settings: KeeperSettings) -> None:
    async with Engine(make_link(url)) as engine:
        task = asyncio.create_task(Keeper(engine, settings).run())
        while await asyncio.to_thread(_has_line) and not task.done():
            sys.stdout.write(f"{process_time()}\n")
            sys.stdout.flush()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def _has_line() -> bool:
    return bool(sys.stdin.readline())


if __name__ == "__main__":
    url, pause_s, share = sys.argv[1:]
    run(keep(url, KeeperSettings(pause_s=float(pause_s), share=float(share))))
