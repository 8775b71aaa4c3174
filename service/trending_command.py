"""`toptail trending`: what a running service counts most right now, as a table that is kept up to date."""

import asyncio

import click
from msgspec import UNSET
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from service.remote import make_client, run, service_options
from toptail import Client, TrendItem, TrendTop
from toptail.trend_wire import TrendOrder, TrendWindow

REFRESH_S = 1.0


@click.command()
@click.argument("trend")
@click.option("--window", type=click.Choice(["1m", "1h", "1d"]), help="How far back [the trend's first].")
@click.option("--by", type=click.Choice(["count", "surge", "actors"]), default="count", show_default=True)
@click.option("--limit", type=click.IntRange(1, 1000), help="How many items [10].")
@click.option("--once", is_flag=True, help="Show it once, and do not stay.")
@service_options
def trending(
    trend: str, window: TrendWindow | None, by: TrendOrder, limit: int | None, once: bool, url: str, api_key: str | None
) -> None:
    """Show what TREND counts most, anew each second until Ctrl-C."""
    console = Console()

    async def ask(client: Client) -> Table:
        return render_trending(trend, await client.trending(trend, window=window, by=by, limit=limit))

    async def show(client: Client) -> None:
        async with client:
            table = await ask(client)
            if once:
                console.print(table)
                return
            with Live(table, console=console, auto_refresh=False) as live:
                while True:
                    await asyncio.sleep(REFRESH_S)
                    live.update(await ask(client), refresh=True)

    try:
        run(show(make_client(url, api_key)))
    except KeyboardInterrupt:
        return


def render_trending(trend: str, top: TrendTop) -> Table:
    """A board as a table; * marks items that are surely among the first."""
    said = f"{trend}, {top.window}, {top.total:,} events up to {top.as_of:%H:%M:%S}"
    missed = "".join(f", {count:,} {name}" for name, count in (("late", top.late), ("capped", top.capped)) if count)
    table = Table("item", "count", "low - high", "sure", "z", "actors", title=said + missed)
    for item in top.items:
        bounds = f"{item.low:,} - {item.high:,}"
        sure = "*" if item.guaranteed else ""
        table.add_row(Text(item.item), f"{item.count:,}", bounds, sure, _show_surge(item), _show_actors(item))
    return table


def _show_surge(item: TrendItem) -> str:
    return "" if item.surge is None or item.surge.z is None else f"{item.surge.z:+.1f}"


def _show_actors(item: TrendItem) -> str:
    return "" if item.actors is UNSET else f"{item.actors:,.0f}"
