"""What the commands do, once everything that they need is there."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table as RichTable

from experiments.bench import timing
from experiments.bench.budgets import Budget, is_broken
from experiments.bench.progress import make_progress, make_track
from experiments.bench.tables import Table, budget_table
from experiments.study import report
from experiments.study.advisor import BoardAdvice, TrendAdvice, Wish, advise, advise_trend, list_caveats
from experiments.study.board_spec import URL, render_curl
from experiments.study.budgets import PATH, load_budgets
from experiments.study.catalog import STUDIES, load_all, load_study
from experiments.study.live import LiveBoard
from experiments.study.manifest import make_manifest
from experiments.study.own_data import BadData, load_data
from experiments.study.page import render_html
from experiments.study.store import FOLDER, OWN_FOLDER, list_runs, load_run, save_figure, save_run
from experiments.study.study import Job, Study
from experiments.study.workloads import Items, Scores
from hybrid.errors import EmbeddedError
from hybrid.windows import KINDS
from toptail import ToptailError
from toptail.transport import check_base_url

WIDTH = 180


def print_list() -> None:
    console = _make_console()
    table = RichTable("name", "takes", "claim")
    for study in load_all():
        takes = [study.takes] if study.takes else []
        table.add_row(study.name, ", ".join([*takes, *(["a live board"] if study.takes_board else [])]), study.claim)
    console.print(table)


def run_studies(names: Sequence[str], **options: Any) -> None:
    """Run, save, print; all verdicts once more at the end."""
    data = _load_data(options["data"], options["column"])
    live = _find_board(options["url"], options["board"], options["api_key"])
    studies = _choose(names, data, live)
    is_ours = not (options["fast"] or data or live)
    folder = options["out"] or (FOLDER if is_ours else OWN_FOLDER)
    budgets = load_budgets(options["budgets"] or PATH, is_full=not options["fast"])
    console, judged = _make_console(), []
    for study in studies:
        with make_progress(Console(stderr=True)) as bars:
            job = Job(options["fast"], options["seed"], make_track(bars), data, live)
            _run_one(study, job, folder / study.name, options["date"] or timing.today())
        tables = load_run(folder / study.name).tables
        verdicts = study.judge(tables, budgets)
        judged += verdicts
        _print_study(console, study, [*study.tabulate(tables), budget_table(verdicts)], study.say(tables))
        for line in study.recommend(tables) if data else []:
            console.out(f"Recommended: {line}", highlight=False)
    console.print(f"Saved to {click.format_filename(folder, shorten=True)}, a folder each, with data and figure.")
    _finish(console, judged)


def write_report(results: Path | None, docs: Path | None) -> None:
    folder, pages = results or FOLDER, docs or report.DOCS
    names = list_runs(folder)
    if not names:
        raise click.ClickException("there are no results; `toptail experiments run --all` makes them")
    for name in names:
        save_figure(folder / name, load_study(name))
    sections = report.load_sections(folder)
    pages.mkdir(parents=True, exist_ok=True)
    (pages / report.MARKDOWN).write_text(report.render_markdown(sections, pages), encoding="utf-8")
    (pages / report.HTML).write_text(render_html(sections), encoding="utf-8")
    click.echo(f"Wrote {report.MARKDOWN} and {report.HTML}.")
    if len(names) < len(STUDIES):
        click.echo(f"Not in them, for want of results: {', '.join(name for name in STUDIES if name not in names)}.")


def print_advice(**wanted: Any) -> None:
    wish = Wish(**wanted)
    if wish.players < 1:
        raise click.UsageError("a board has at least one player")
    board = advise(wish)
    console = _make_console()
    console.print(_draw_table(_board_table(wish, board)))
    spec = {"top_n": board.top_n, "shards": board.shards, "windows": list(KINDS[: min(wish.windows, len(KINDS))])}
    console.out(render_curl(json.dumps(spec)), highlight=False)
    if wish.trend_items:
        trend = advise_trend(wish)
        console.print(_draw_table(_trend_table(trend)))
        spec = {"capacity": trend.capacity, "windows": list(trend.windows)}
        console.out(f"curl -X PUT {URL}/v1/trends/my-trend -H 'Content-Type: application/json' -d '{json.dumps(spec)}'")
    for line in list_caveats(wish, board):
        console.out(f"Note: {line}", highlight=False)


def _load_data(path: Path | None, name: str | None) -> Scores | Items | None:
    if path is None:
        return None
    try:
        return load_data(path, name)
    except BadData as error:
        raise click.ClickException(str(error)) from None


def _find_board(url: str | None, name: str, api_key: str | None) -> LiveBoard | None:
    if url is None:
        return None
    try:
        return LiveBoard(check_base_url(url), name, api_key)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _choose(names: Sequence[str], data: Scores | Items | None, live: LiveBoard | None) -> list[Study]:
    """The experiments of these names, or all that can be run on what is given."""
    unknown = [name for name in names if name not in STUDIES]
    if unknown:
        raise click.UsageError(f"there is no experiment {unknown[0]!r}; there are {', '.join(STUDIES)}")
    given = None if data is None else "scores" if isinstance(data, Scores) else "items"
    chosen = [load_study(name) for name in names] if names else load_all()
    fitting = [study for study in chosen if given in (None, study.takes) and (live is None or study.takes_board)]
    if names and len(fitting) < len(chosen):
        study = next(study for study in chosen if study not in fitting)
        what = "a live board" if live else f"{given}, which is what the column holds"
        raise click.UsageError(f"{study.name} takes {study.takes or 'no data of yours'}, not {what}")
    return fitting


def _run_one(study: Study, job: Job, folder: Path, date: str) -> None:
    began_s = timing.now_s()
    try:
        tables = study.measure(job)
    except (EmbeddedError, ModuleNotFoundError, ToptailError) as error:
        raise click.ClickException(f"{study.name}: {error}") from error
    save_run(folder, tables, make_manifest(study.name, job, date=date, seconds=timing.now_s() - began_s))
    save_figure(folder, study)


def _print_study(console: Console, study: Study, tables: Sequence[Table], lines: Sequence[str]) -> None:
    console.rule(f"{study.name}: {study.title}", align="left")
    console.print(study.claim)
    for table in tables:
        console.print(_draw_table(table))
    for line in lines:
        console.print(line)


def _finish(console: Console, judged: Sequence[Budget]) -> None:
    counts = {word: sum(budget.verdict == word for budget in judged) for word in ("reached", "missed", "not judged")}
    console.print(", ".join(f"{count} {word}" for word, count in counts.items()))
    if is_broken(judged):
        raise click.exceptions.Exit(1)


def _draw_table(table: Table) -> RichTable:
    drawn = RichTable(title=table.caption, title_justify="left")
    for place, column in enumerate(table.columns):
        drawn.add_column(column, justify="left" if place < table.labels else "right")
    for row in table.rows:
        drawn.add_row(*row)
    return drawn


def _board_table(wish: Wish, board: BoardAdvice) -> Table:
    rows = [
        ["shards", "eight, or two a node", f"{board.shards}"],
        ["top_n", "leaders with an exact rank", f"{board.top_n:,}"],
        ["samples a shard", "taken by the keeper", f"{board.samples:,}"],
        ["interval, widest", f"wanted: {wish.max_width_percent:g} % of the players", f"{board.width_percent:.4f} %"],
        ["interval, mean", "the guess inside is closer by far", f"{board.mean_width_percent:.4f} %"],
        ["age of samples", "if everything changes all the time", f"{board.refresh_s:.2f} s"],
        ["records", f"windows: {wish.windows}", _show_bytes(board.records_bytes)],
        ["log", f"scores a player: {wish.events:g}", _show_bytes(board.log_bytes)],
        ["top and samples", "", _show_bytes(board.top_bytes + board.samples_bytes)],
        ["memory", "of Redis, without replicas", _show_bytes(board.total_bytes)],
    ]
    return Table(f"A board for {wish.players:,} players", ("", "", "expected"), rows, labels=2)


def _trend_table(trend: TrendAdvice) -> Table:
    panes = f"{trend.panes} panes of {_show_bytes(trend.pane_bytes)}, uncompressed"
    rows = [
        ["capacity", "counters a pane", f"{trend.capacity:,}"],
        ["floor, at most", "of a pane's events: an item with fewer may be missed", f"{trend.floor_percent:.4f} %"],
        ["memory, at most", panes, _show_bytes(trend.total_bytes)],
    ]
    return Table("A trend", ("", "", "expected"), rows, labels=2)


def _show_bytes(size_bytes: int) -> str:
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size_bytes >= size:
            return f"{size_bytes / size:.3g} {unit}"
    return f"{size_bytes} B"


def _make_console() -> Console:
    """As wide as the terminal; wide enough for every table where there is none."""
    console = Console()
    return console if console.is_terminal else Console(width=WIDTH)
