"""`toptail top` and `toptail standing`: ask a running service, and show the answer as a table."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import click
from msgspec import UNSET
from rich.console import Console
from rich.table import Table
from rich.text import Text

from service.remote import make_client, run, service_options
from toptail import Client, RankStanding, Standing
from toptail.wire import Top

WINDOW = click.option("--window", help="alltime, daily, weekly, monthly, or daily:2026-11-17 [the board's first].")


@click.command()
@click.argument("board")
@click.option("--limit", type=click.IntRange(1, 1000), default=10, show_default=True, help="How many rows.")
@click.option("--from-rank", type=click.IntRange(1), help="First rank to show [1].")
@WINDOW
@service_options
def top(board: str, limit: int, from_rank: int | None, window: str | None, url: str, api_key: str | None) -> None:
    """Show the best of BOARD."""

    async def ask(client: Client) -> Top:
        async with client:
            return await client.top(board, limit, from_rank=from_rank, window=window)

    page = run(ask(make_client(url, api_key)))
    table = Table("rank", "player", "score", "at", title=f"{board}, {page.window}, {page.players:,} players")
    for entry in page.entries:
        table.add_row(f"{entry.rank:,}", Text(entry.player), f"{entry.score:,}", _show(entry.at))
    Console().print(table)


@click.command()
@click.argument("board")
@click.argument("players", nargs=-1, required=True)
@WINDOW
@click.option("--exact", is_flag=True, help="Count ranks exactly, also below the leaders.")
@service_options
def standing(
    board: str, players: Sequence[str], window: str | None, exact: bool, url: str, api_key: str | None
) -> None:
    """Show where PLAYERS stand on BOARD; exit 1 if one of them has no record."""

    async def ask(client: Client) -> list[Standing | None]:
        async with client:
            return await client.standings(board, list(players), window=window, exact=exact)

    rows = run(ask(make_client(url, api_key)))
    table = Table("player", "score", "rank", "percentile", "top %", "of", title=board)
    for player, row in zip(players, rows, strict=True):
        table.add_row(Text(player), *(["no record"] if row is None else _cells(row)))
    Console().print(table)
    if None in rows:
        raise SystemExit(1)


def _cells(row: Standing) -> list[str]:
    """A rank, or the bounds of one."""
    rest = [f"{row.top_percent:g}", f"{row.players:,}"]
    if isinstance(row, RankStanding):
        return [f"{row.score:,}", f"{row.rank:,}", f"{row.percentile:.4g}", *rest]
    percentile = f"{row.percentile:.4g} ({row.percentile_low:.5g} - {row.percentile_high:.5g})"
    return [f"{row.score:,}", f"{row.rank_low:,} - {row.rank_high:,}", percentile, *rest]


def _show(at: datetime | Any) -> str:
    return "" if at is UNSET else f"{at:%Y-%m-%d %H:%M:%S}"
