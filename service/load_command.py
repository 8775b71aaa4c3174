"""`toptail load`: scores from a file, a pipe or a ZSET into a board of a running service.

Every row has an id made of the load and its line, so a load that is run again writes nothing twice, also where scores
are summed, for as long as the service remembers ids: 24 hours. What was acknowledged is noted in a file beside the
input (load_state.py) and not even sent again.
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from service.load_job import LoadJob, LoadStopped
from service.load_state import LoadState, load_state, state_path
from service.loading import BadSource, Source, ZsetSource, open_file, open_pipe
from service.remote import make_client, run, service_options
from service.rows import Columns
from toptail import BoardNotFound, Client
from toptail.bulk import OnError
from toptail.wire import BoardInfo

REMEMBERED = timedelta(hours=24)
TIMEOUT_S = 120.0  # a service that is being restarted is waited for
REDIS_SCHEMES = ("redis://", "rediss://", "unix://")
PARTS = ("player", "score", "subscore", "at", "tag", "id")
FOLDER = click.Path(file_okay=False, path_type=Path)


@click.command()
@click.argument("source")
@click.option("--board", required=True, help="Board to load into.")
@click.option("--key", help="Name of the ZSET, where SOURCE is a Redis.")
@service_options
@click.option(
    "--format", type=click.Choice(["csv", "ndjson", "parquet"]), help="What the input is [by name, or sniffed]."
)
@click.option("--delimiter", help="Between columns of CSV [comma; a tab for .tsv].")
@click.option("--player-column", default="player", show_default=True)
@click.option("--score-column", default="score", show_default=True)
@click.option("--subscore-column", default="subscore", show_default=True, help="Used where there is one.")
@click.option(
    "--at-column", default="at", show_default=True, help="RFC 3339 or ms since 1970; used where there is one."
)
@click.option("--tag-column", default="tag", show_default=True, help="Used where there is one.")
@click.option("--id-column", help="Ids of your own, instead of those made of input and line.")
@click.option(
    "--on-error", type=click.Choice(["stop", "skip"]), default="stop", show_default=True, help="At a bad row."
)
@click.option("--create", is_flag=True, help="Make the board, with defaults, if there is none.")
@click.option("--id", help="Name of this load, in the ids of its rows [a digest of the input].")
@click.option("--state", type=FOLDER, help="Folder for the note of progress [beside the input].")
def load(source: str, board: str, url: str, api_key: str | None, **options: Any) -> None:
    """Load scores into a board from SOURCE: a CSV, NDJSON or Parquet file, - for a pipe, redis://host/0 for a ZSET.

    A load that was interrupted goes on when the same command is run again. Within 24 hours every row counts once, also
    on boards that sum. A pipe is known by its first 64 KiB: name it with --id if others begin alike.
    """
    try:
        run(_load(make_client(url, api_key, timeout_s=TIMEOUT_S), source, board, url, options))
    except (BadSource, LoadStopped) as error:
        raise click.ClickException(str(error)) from None


async def _load(client: Client, source: str, name: str, url: str, options: dict[str, Any]) -> None:
    console = Console(stderr=True)
    async with client:
        board = await _find_board(client, name, is_making=options["create"])
        opened = _open_source(source, board, options)
        has_note = source != "-" and not isinstance(opened, ZsetSource)
        path = state_path(Path(source), name, options["state"]) if has_note else None
        fresh = LoadState(id=options["id"] or opened.identity, board=name, created=board.created, url=url)
        state = _find_state(path, fresh)
        if board.config.strategy == "sum" and state.saved and datetime.now(UTC) - state.saved > REMEMBERED:
            console.out("This load stopped over 24 hours ago: rows that were on their way then may count twice.")
        job = await _run_job(client, console, opened, state, path, options["on_error"])
    console.out(job.summary())


async def _run_job(
    client: Client, console: Console, source: Source, state: LoadState, path: Path | None, on_error: OnError
) -> LoadJob:
    """Load with a progress bar, which is only there where somebody can see it."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[rows]:,} rows, {task.fields[rate]:,.0f}/s"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task(state.board, total=source.total, rows=0, rate=0.0)

        def show(rows: int) -> None:
            rate = rows / (progress.tasks[0].elapsed or 1.0)
            progress.update(task, completed=source.position(), total=source.total, rows=rows, rate=rate)

        job = LoadJob(source, state, path, on_error, report=console.out, show=show)
        await job.run(client)
        show(job.answered)
    return job


async def _find_board(client: Client, name: str, *, is_making: bool) -> BoardInfo:
    try:
        return await client.board(name)
    except BoardNotFound as error:
        if is_making:
            return await client.create_board(name)
        raise click.ClickException(f"{error.message}; make it first, or with defaults by --create") from None


def _open_source(source: str, board: BoardInfo, options: dict[str, Any]) -> Source:
    if source.startswith(REDIS_SCHEMES):
        if not options["key"]:
            raise click.UsageError("a Redis has many keys: name the ZSET with --key")
        return ZsetSource(source, options["key"], is_sum=board.config.strategy == "sum")
    columns = Columns(**{part: options[f"{part}_column"] for part in PARTS})
    if source == "-":
        return open_pipe(columns, format_=options["format"], delimiter=options["delimiter"])
    return open_file(Path(source), columns, format_=options["format"], delimiter=options["delimiter"])


def _find_state(path: Path | None, fresh: LoadState) -> LoadState:
    """The state to go on from: the one that was saved, if it is of this load."""
    try:
        saved = None if path is None else load_state(path)
    except (OSError, msgspec.DecodeError) as error:
        raise click.ClickException(f"the note of progress {str(path)!r} cannot be read: {error}") from None
    return saved if saved is not None and saved.is_same_load(fresh) else fresh
