"""A keeper as a process of its own, for tests that kill and freeze it.

    python -m tests.faults.trend_keeper <Redis address> <prefix> <seconds between two writes of panes>

It has a lease of a second and looks again after a twentieth of one, so that much happens within a test.
"""

import asyncio
import sys

from hybrid.engine import Engine, make_link
from hybrid.keeper import Keeper, KeeperSettings
from hybrid.trends import keeper as keeper_module
from hybrid.trends import partition as partition_module
from hybrid.trends.keeper import TrendKeeper


async def keep(url: str, prefix: str) -> None:
    async with Engine(make_link(url), prefix=prefix) as engine:
        keeper = Keeper(engine, KeeperSettings(lease_s=1.0))
        trends = TrendKeeper(engine.trends, has_lease=lambda: keeper.is_keeping)
        await asyncio.gather(keeper.run(), trends.run())


if __name__ == "__main__":
    keeper_module.TICK_S = 0.02
    keeper_module._LOOK_S = 0.02
    partition_module.KEEP_S = float(sys.argv[3])
    asyncio.run(keep(sys.argv[1], sys.argv[2]))
