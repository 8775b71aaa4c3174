"""A board of a running service, asked over HTTP: what it serves of some players, and what is counted exactly.

Players are drawn uniformly by rank. A board that nobody asked for lately has no samples yet and counts: it is asked
until it estimates. A change moves a rank by one at most and `seq` counts changes, so the two answers may differ by as
many ranks as their seqs do, and a percentile by twice as many players.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from toptail import Client, PercentileStanding, RankStanding, Standing
from toptail.wire import BoardInfo

BATCH = 200
ASKED_AT_ONCE = 8
FIRST_S, WARM_S = 3.0, 3.0
POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class LiveBoard:
    """Where a board is. The key is not shown."""

    url: str
    name: str
    key: str | None = None

    def __repr__(self) -> str:
        return f"LiveBoard({self.url!r}, {self.name!r}, key={'<hidden>' if self.key else None})"


@dataclass(frozen=True, slots=True)
class Pair:
    """One player: the answer as it is served, and the exact one a moment later."""

    served: Standing
    exact: RankStanding

    @property
    def is_leader(self) -> bool:
        return isinstance(self.served, RankStanding)

    @property
    def percentiles(self) -> tuple[float, float]:
        served = self.served
        if isinstance(served, RankStanding):
            return served.percentile, served.percentile
        return served.percentile_low, served.percentile_high

    @property
    def slack(self) -> float:
        """By how many percentile points the changes in between can have moved the player."""
        changes = abs(self.exact.seq - self.served.seq)
        return 200 * changes / max(self.exact.players - 1 - changes, 1)


async def ask_live(live: LiveBoard, most: int, rng: np.random.Generator) -> tuple[BoardInfo, list[Pair]]:
    """What the board is, and pairs of at most so many players whose record did not change in between."""
    async with Client(live.url, key=live.key, timeout_s=FIRST_S) as client:
        info = await client.board(live.name)  # a service that never was is not waited for
    async with Client(live.url, key=live.key) as client:
        page = await client.top(live.name, 1)
        ranks = np.unique(rng.integers(1, page.players + 1, most)) if page.players else np.empty(0, np.int64)
        players = await _draw(client, live.name, ranks.tolist())
        await _warm_up(client, live.name, players[:BATCH])
        pairs: list[Pair] = []
        for start in range(0, len(players), BATCH):
            batch = players[start : start + BATCH]
            served = await client.standings(live.name, batch)
            exact = await client.standings(live.name, batch, exact=True)
            pairs += _pair(served, exact)
    return info, pairs


def _pair(served: Sequence[Standing | None], exact: Sequence[Standing | None]) -> list[Pair]:
    return [
        Pair(first, second)
        for first, second in zip(served, exact, strict=True)
        if first is not None
        and isinstance(second, RankStanding)
        and (first.score, first.subscore, first.at) == (second.score, second.subscore, second.at)
    ]


async def _draw(client: Client, board: str, ranks: Sequence[int]) -> list[str]:
    turn = asyncio.Semaphore(ASKED_AT_ONCE)

    async def ask(rank: int) -> list[str]:
        async with turn:
            page = await client.top(board, 1, from_rank=rank)
        return [entry.player for entry in page.entries]

    found = await asyncio.gather(*map(ask, ranks))
    return list(dict.fromkeys(player for names in found for player in names))


async def _warm_up(client: Client, board: str, players: Sequence[str]) -> None:
    """Ask until answers are estimates; a board that has none is left after a while."""
    until_s = asyncio.get_running_loop().time() + WARM_S
    while players and asyncio.get_running_loop().time() < until_s:
        rows = await client.standings(board, players)
        tail = [row for row in rows if isinstance(row, PercentileStanding)]
        if not tail or any(row.rank_low < row.rank_high for row in tail):
            return
        await asyncio.sleep(POLL_S)
