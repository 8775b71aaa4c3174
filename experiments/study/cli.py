"""`toptail experiments`: run them, on drawn data or one's own; report what is stored; advise a config.

The experiments are imported only when a command needs them, because what draws figures is an optional dependency.
"""

import math
from pathlib import Path
from typing import Any

import click

MISSING = "the experiments draw figures, which needs an extra: pip install 'toptail[experiments]' ({} is missing)"
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)


class _Number(click.ParamType[int]):
    """A whole number that may be written as 100e6."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not math.isfinite(number) or number != int(number) or number < 0:
            self.fail(f"{value!r} is not a whole number, such as 2000000 or 2e6", param, ctx)
        return int(number)


class _Percent(click.ParamType[float]):
    """A percentage, with or without its sign."""

    name = "percent"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            percent = float(str(value).removesuffix("%"))
        except ValueError:
            percent = math.nan
        if not 0 < percent <= 100:
            self.fail(f"{value!r} is not a percentage above 0, such as 0.1%", param, ctx)
        return percent


@click.group()
def experiments() -> None:
    """Measure how wrong the sketches and boards are: on drawn data, on your own, on a live board."""


@experiments.command("list")
def list_command() -> None:
    """Say which experiments there are, and what each claims."""
    run_late("print_list")


@experiments.command()
@click.argument("names", nargs=-1)
@click.option("--all", "is_all", is_flag=True, help="Run all of them.")
@click.option("--fast", is_flag=True, help="Seconds instead of minutes, on less data.")
@click.option("--seed", default=0, show_default=True, help="Of everything that is drawn.")
@click.option("--data", type=FILE, help="CSV, Parquet or NDJSON with scores or events of your own.")
@click.option("--column", help="The column of --data [score, points, value, item, event, or the only one].")
@click.option("--board", "url", help="Address of a running service, such as http://127.0.0.1:8080.")
@click.option("--name", "board", help="The board there.")
@click.option("--api-key", envvar="TOPTAIL_API_KEY", help="API key, if the service asks for one.")
@click.option("--out", type=FOLDER, help="Where results go, a folder an experiment.")
@click.option("--budgets", type=FILE, help="Figures to reach [experiments/study/budgets.toml].")
@click.option("--date", help="Date of the manifest, as in 2026-11-18 [today].")
def run(names: tuple[str, ...], is_all: bool, **options: Any) -> None:
    """Run experiments by NAME; exit 1 if a figure to reach is missed.

    Full runs on drawn data are saved to experiments/results/studies, all others to toptail-experiments.
    """
    if bool(names) == is_all:
        raise click.UsageError("say which experiments to run by name, or --all; `toptail experiments list` has them")
    if (options["url"] is None) != (options["board"] is None):
        raise click.UsageError("a live board takes both --board URL and --name BOARD")
    if options["url"] and options["data"]:
        raise click.UsageError("either --data or --board, not both")
    run_late("run_studies", names, **options)


@experiments.command()
@click.option("--results", type=FOLDER, help="Where results are [experiments/results/studies].")
@click.option("--docs", type=FOLDER, help="Where the pages go [docs].")
def report(results: Path | None, docs: Path | None) -> None:
    """Write experiments.md and experiments.html from stored results, and draw all figures again."""
    run_late("write_report", results, docs)


@experiments.command()
@click.option("--players", type=_Number(), required=True, help="How many, as in 100e6.")
@click.option(
    "--max-width", type=_Percent(), default="0.1%", show_default=True, help="Widest interval, of the players."
)
@click.option("--windows", type=click.IntRange(1), default=1, show_default=True, help="Windows of the board.")
@click.option("--leaders", type=_Number(), default=10_000, show_default=True, help="Who get an exact rank.")
@click.option("--name-bytes", type=click.IntRange(1, 512), default=20, show_default=True, help="Length of a name.")
@click.option("--events", type=float, default=1.0, show_default=True, help="Scores a player in the log.")
@click.option(
    "--node-gb", type=float, default=16.0, show_default=True, help="Memory of one Redis, for records and log."
)
@click.option("--trend-items", type=_Number(), default=0, help="Different items of a trend, as in 2e6.")
@click.option("--trend-rows", type=click.IntRange(1), default=100, show_default=True, help="Rows that it shows.")
@click.option("--trend-error", type=_Percent(), default="0.1%", show_default=True, help="Of the events in a pane.")
def advise(**wish: Any) -> None:
    """Recommend a config for so many players, with its memory and its error."""
    wish["max_width_percent"], wish["trend_error_percent"] = wish.pop("max_width"), wish.pop("trend_error")
    run_late("print_advice", **wish)


def run_late(command: str, /, *args: Any, **options: Any) -> None:
    """Call a function of commands.py, which needs everything installed."""
    try:
        from experiments.study import commands
    except ModuleNotFoundError as error:
        raise click.ClickException(MISSING.format(error.name)) from error
    getattr(commands, command)(*args, **options)
