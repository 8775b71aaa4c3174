"""`toptail verify`: audit a live board over HTTP, served answers against exact ones, while writes go on.

A board that nobody asked for lately has no samples, and its first answers are counted exactly: comparing those would
prove nothing. So the board is asked until it estimates, and the table says how many of the answers were estimates.
"""

import asyncio
import random
from collections.abc import Sequence

import click
from rich.console import Console
from rich.table import Table

from service.ask_commands import WINDOW
from service.remote import make_client, run, service_options
from service.verifying import Comparison, Line, compare, summarise
from toptail import Client, PercentileStanding

BATCH = 100  # players a question: few, so that little changes before the exact one
ASKED_AT_ONCE = 8
SHOWN = 20
WARM_S = 3.0  # how long a board may take until it estimates
POLL_S = 0.05


@click.command()
@click.argument("board")
@click.option("--samples", type=click.IntRange(1, 100_000), default=1000, show_default=True, help="Players to compare.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the ranks that are drawn.")
@WINDOW
@service_options
def verify(board: str, samples: int, seed: int, window: str | None, url: str, api_key: str | None) -> None:
    """Compare what BOARD answers with exact ranks; exit 1 on a violation.

    Players are drawn uniformly by rank. Each answer may be off by as many ranks as the board had changes between it
    and the exact one, and by no more.
    """
    dice = random.Random(seed)  # noqa: S311  # a seed must give the same ranks again
    asked, drawn, comparisons = run(_verify(make_client(url, api_key), board, window, samples, dice))
    if not comparisons:
        raise click.ClickException(f"board {board!r} has nobody to compare in this window")
    violations = [(row, message) for row in comparisons for message in row.violations()]
    console = Console()
    console.print(_render(board, summarise(comparisons)))
    estimates, tail = sum(row.is_estimate for row in comparisons), sum(not row.is_leader for row in comparisons)
    console.out(
        f"{len(comparisons):,} players compared, {estimates:,} of them estimated; {drawn - len(comparisons):,} moved "
        f"meanwhile, {asked - drawn:,} ranks had no row or one that was drawn before; up to "
        f"{max(row.changes for row in comparisons):,} changes between two answers: {len(violations):,} violations"
    )
    if tail and not estimates:
        console.out("No answer was an estimate: this says nothing about intervals.")
    for row, message in violations[:SHOWN]:
        console.out(f"violation: {row.player!r}, {row.changes} changes between: {message}")
    if violations:
        raise SystemExit(1)


async def _verify(
    client: Client, board: str, window: str | None, samples: int, dice: random.Random
) -> tuple[int, int, list[Comparison]]:
    """How many ranks were asked for, how many players stood there, and those that could be compared."""
    async with client:
        page = await client.top(board, 1, window=window)
        asked = min(samples, page.players)
        players = await _draw(client, board, page.window, asked, page.players, dice)
        await _warm_up(client, board, page.window, players[:BATCH])
        comparisons: list[Comparison] = []
        for start in range(0, len(players), BATCH):
            batch = players[start : start + BATCH]
            served = await client.standings(board, batch, window=page.window)
            exact = await client.standings(board, batch, window=page.window, exact=True)
            comparisons += compare(batch, served, exact)
    return asked, len(players), comparisons


async def _warm_up(client: Client, board: str, window: str, players: Sequence[str]) -> None:
    """Ask until answers are estimates; a board with none, small or all of leaders, is left after a while."""
    until_s = asyncio.get_running_loop().time() + WARM_S
    while asyncio.get_running_loop().time() < until_s:
        rows = await client.standings(board, players, window=window)
        tail = [row for row in rows if isinstance(row, PercentileStanding)]
        if not tail or any(row.rank_low < row.rank_high for row in tail):
            return
        await asyncio.sleep(POLL_S)


async def _draw(
    client: Client, board: str, window: str, samples: int, players: int, dice: random.Random
) -> Sequence[str]:
    """Who stands at ranks that are drawn; each player once, though ranks move while we ask."""
    turn = asyncio.Semaphore(ASKED_AT_ONCE)

    async def ask(rank: int) -> list[str]:
        async with turn:
            page = await client.top(board, 1, from_rank=rank, window=window)
        return [entry.player for entry in page.entries]

    found = await asyncio.gather(*map(ask, dice.sample(range(1, players + 1), samples)))
    return list(dict.fromkeys(player for names in found for player in names))


def _render(board: str, lines: Sequence[Line]) -> Table:
    names = (
        "ranks",
        "samples",
        "leaders",
        "estimates",
        "mean error",
        "max error",
        "covered",
        "mean width",
        "max width",
    )
    table = Table(
        *names, title=board, caption="errors and widths in percentile points; covered and widths of estimates"
    )
    for line in lines:
        table.add_row(
            line.label,
            f"{line.samples:,}",
            f"{line.leaders:,}",
            f"{line.estimates:,}",
            f"{line.mean_error:.5f}",
            f"{line.max_error:.5f}",
            "" if line.coverage is None else f"{line.coverage:.2%}",
            "" if line.mean_width is None else f"{line.mean_width:.5f}",
            "" if line.max_width is None else f"{line.max_width:.5f}",
        )
    return table
