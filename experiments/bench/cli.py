"""`toptail bench`: measure, print, save; or write the page from what was saved.

The measuring modules are imported only when the command runs, because the peers are an optional dependency.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table as RichTable

if TYPE_CHECKING:
    from experiments.bench.results import Results

WIDTH = 180
PEERS_MISSING = "the benchmark needs the libraries that it compares with: pip install 'toptail[peers]' ({} is missing)"


@click.command()
@click.option("--fast", is_flag=True, help="A few seconds instead of minutes; saves nothing unless --out is given.")
@click.option("--render", is_flag=True, help="Measure nothing: write the page from the saved results.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Result file to write, or to render.")
@click.option("--page", type=click.Path(dir_okay=False, path_type=Path), help="Page to write [docs/benchmarks.md].")
@click.option("--seed", default=0, show_default=True, help="First of the seeds.")
@click.option("--date", help="Date of the stamp, as in 2026-11-18 [today].")
def bench(fast: bool, render: bool, out: Path | None, page: Path | None, seed: int, date: str | None) -> None:
    """Measure our sketches beside the alternatives, in one run; exit 1 if a figure to reach is missed."""
    try:
        if render:
            _render(out, page)
        else:
            _measure(fast, out, seed, date)
    except ModuleNotFoundError as error:
        raise click.ClickException(PEERS_MISSING.format(error.name)) from error


def _measure(fast: bool, out: Path | None, seed: int, date: str | None) -> None:
    from experiments.bench import budgets, progress, results, run, timing

    sizes = results.FAST if fast else results.FULL
    with progress.make_progress(Console(stderr=True)) as bars:
        found = run.measure(sizes, seed, date or timing.today(), progress.make_track(bars))
    path = out or (None if fast else results.RESULTS)
    if path:
        results.save_results(found, path)
    console = _make_console()
    _print_tables(console, found)
    if path:
        console.print(
            f"Saved to {click.format_filename(path, shorten=True)}; `toptail bench --render` writes the page."
        )
    if budgets.is_broken(budgets.make_budgets(found)):
        raise click.exceptions.Exit(1)


def _print_tables(console: Console, found: "Results") -> None:
    from experiments.bench import budgets, tables

    for table in tables.all_tables(found, budgets.make_budgets(found)):
        drawn = RichTable(title=table.caption, title_justify="left")
        for i, column in enumerate(table.columns):
            drawn.add_column(column, justify="left" if i < table.labels else "right")
        for row in table.rows:
            drawn.add_row(*row)
        console.print(drawn)


def _render(out: Path | None, page: Path | None) -> None:
    from experiments.bench import report, results

    source, target = out or results.RESULTS, page or report.PAGE
    if not source.exists():
        raise click.ClickException(f"no results at {source}; `toptail bench` makes them")
    target.write_text(report.render_page(results.load_results(source)), encoding="utf-8")
    _make_console().print(f"Wrote {target.name}.")


def _make_console() -> Console:
    """As wide as the terminal; wide enough for every table where there is none."""
    console = Console()
    return console if console.is_terminal else Console(width=WIDTH)
