"""`toptail bench`: measure, print, save; or write the page from what was saved.

The measuring modules are imported only when the command runs, because the peers are an optional dependency.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table as RichTable

from experiments.bench import budgets, report, results, timing
from experiments.bench.catalog import PARTS, load_part
from experiments.bench.parts import Job
from experiments.bench.progress import make_progress, make_track
from experiments.bench.tables import Table, budget_table
from hybrid.errors import EmbeddedError

WIDTH = 180
PEERS_MISSING = "the benchmark needs the libraries that it compares with: pip install 'toptail[peers]' ({} is missing)"
FOLDER = click.Path(file_okay=False, path_type=Path)


@click.command()
@click.argument("parts", nargs=-1, type=click.Choice(PARTS))
@click.option("--fast", is_flag=True, help="A few seconds instead of minutes; saves nothing unless --out is given.")
@click.option("--render", is_flag=True, help="Measure nothing: write the page from the saved results.")
@click.option("--out", type=FOLDER, help="Where results are, a file a part [experiments/results/bench].")
@click.option("--page", type=click.Path(dir_okay=False, path_type=Path), help="Page to write [docs/benchmarks.md].")
@click.option("--data", type=FOLDER, help="Folder, and so the disk, of the Redis that is measured [a temporary one].")
@click.option("--seed", default=0, show_default=True, help="First of the seeds.")
@click.option("--date", help="Date of the stamp, as in 2026-11-18 [today].")
def bench(
    parts: tuple[str, ...],
    fast: bool,
    render: bool,
    out: Path | None,
    page: Path | None,
    data: Path | None,
    seed: int,
    date: str | None,
) -> None:
    """Measure our sketches, record and answers beside the alternatives; exit 1 if a figure to reach is missed.

    Without a name all PARTS are measured, one after the other.
    """
    if render and parts:
        raise click.UsageError(f"--render makes one page of all parts; it takes no {parts[0]!r}")
    try:
        if render:
            _render(out or results.FOLDER, page or report.PAGE)
        else:
            job = Job(fast, seed, date or timing.today(), data)
            _measure(parts or PARTS, job, out or (None if fast else results.FOLDER))
    except ModuleNotFoundError as error:
        raise click.ClickException(PEERS_MISSING.format(error.name)) from error
    except EmbeddedError as error:
        raise click.ClickException(str(error)) from error


def _measure(names: Sequence[str], job: Job, folder: Path | None) -> None:
    console = _make_console()
    judged: list[budgets.Budget] = []
    for name in names:
        part = load_part(name)
        with make_progress(Console(stderr=True)) as bars:
            found = part.measure(job, make_track(bars))
        reached = part.make_budgets(found)
        judged += reached
        if folder:
            results.save_results(found, folder / f"{name}.json")
        _print_tables(console, [*part.all_tables(found), budget_table(reached)])
    if folder:
        shown = click.format_filename(folder, shorten=True)
        console.print(f"Saved to {shown}; `toptail bench --render` writes the page.")
    if budgets.is_broken(judged):
        raise click.exceptions.Exit(1)


def _print_tables(console: Console, tables: Iterable[Table]) -> None:
    for table in tables:
        drawn = RichTable(title=table.caption, title_justify="left")
        for i, column in enumerate(table.columns):
            drawn.add_column(column, justify="left" if i < table.labels else "right")
        for row in table.rows:
            drawn.add_row(*row)
        console.print(drawn)


def _render(folder: Path, page: Path) -> None:
    found = {}
    for name in PARTS:
        source = folder / f"{name}.json"
        if not source.exists():
            raise click.ClickException(f"no results at {source}; `toptail bench` makes them")
        found[name] = load_part(name).parse_results(source.read_text(encoding="utf-8"))
    page.write_text(report.render_page(found), encoding="utf-8")
    _make_console().print(f"Wrote {page.name}.")


def _make_console() -> Console:
    """As wide as the terminal; wide enough for every table where there is none."""
    console = Console()
    return console if console.is_terminal else Console(width=WIDTH)
