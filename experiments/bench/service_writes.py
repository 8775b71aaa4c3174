"""Scores over HTTP: in bulk beside `submit` in this process, one a request, and a file by `toptail load`.

Every run has a board of a name of its own: a worker believes for a second that a board is what it was.
"""

from pathlib import Path

import msgspec
import numpy as np

from experiments.bench.answers_sizes import SHARDS
from experiments.bench.batches import MAX_SCORE, draw_players, make_batches, name_of
from experiments.bench.boards import list_records
from experiments.bench.flights import fly
from experiments.bench.service_processes import Writer, run_sender, run_toptail
from experiments.bench.service_results import Bulk, Load, Round
from experiments.bench.service_sender import JSON, NDJSON, Sent
from experiments.bench.service_stages import Aim, Stage, shoot
from experiments.bench.service_standings import OURS
from experiments.bench.service_wrk import save_names
from experiments.bench.timing import now_s
from hybrid.config import Board, BoardConfig

IN_PROCESS = "submit in process"
WAYS = {IN_PROCESS: "", "HTTP, JSON": JSON, "HTTP, NDJSON": NDJSON}

_SUBMITS, _LOAD = "submits", "load"
_CONFIG = BoardConfig(shards=SHARDS)


async def measure_bulks(stage: Stage, url: str) -> list[Bulk]:
    """All scores, again and again to a new board, each way in turn."""
    found: list[Bulk] = []
    ways = list(WAYS)
    for turn in stage.track(range(stage.sizes.write_rounds), "service: bulk submits"):
        first = turn % len(ways)
        for way in ways[first:] + ways[:first]:
            board, _ = await stage.stand.engine.boards.create(f"bulk-{len(found)}", _CONFIG)
            sent = await _send(stage, board, url, WAYS[way])
            await stage.remove_board(board.name)
            found.append(Bulk(way, stage.sizes.scores, sent.seconds, stage.sizes.scores - sent.accepted))
    return found


async def _send(stage: Stage, board: Board, url: str, kind: str) -> Sent:
    """The same scores over HTTP as this type, or in this process."""
    sizes, seed = stage.sizes, stage.stand.seed
    if kind:
        numbers = (sizes.scores, sizes.players, sizes.bulk, sizes.in_flight, seed)
        said = await run_sender(f"{url}/v1/boards/{board.name}/scores", kind, *numbers)
        return msgspec.json.decode(said, type=Sent)
    engine = stage.stand.engine
    batches = make_batches(draw_players(seed, sizes.players, sizes.scores), seed, sizes.bulk)
    flight = await fly(lambda batch: engine.record.submit(board, batch), batches, sizes.in_flight)
    return Sent(flight.seconds, sum(outcomes.accepted for outcomes in flight.answers))


async def measure_submits(stage: Stage, url: str) -> list[Round]:
    """One score a request, to a board that is empty at first."""
    sizes = stage.sizes
    await stage.stand.engine.boards.create(_SUBMITS, _CONFIG)
    script = save_names(stage.folder, _SUBMITS, sizes.players).submit_one(stage.stand.seed)
    aim = Aim(OURS, url, script, sizes.players, sizes.connections)
    rounds = stage.track(range(sizes.write_rounds), "service: single submits")
    found = [await shoot(aim, sizes.round_s, Writer(None)) for _ in rounds]
    await stage.remove_board(_SUBMITS)
    return found


async def measure_load(stage: Stage, url: str) -> Load:
    """A CSV file into a new board; the time is that of the whole command."""
    path, engine = stage.folder / "scores.csv", stage.stand.engine
    rows, file_bytes = stage.sizes.rows, save_csv(path, stage.sizes.rows, stage.stand.seed)
    board, _ = await engine.boards.create(_LOAD, _CONFIG)
    for _ in stage.track(range(1), "service: toptail load"):
        began_s = now_s()
        peak_bytes = await run_toptail("load", str(path), "--board", _LOAD, "--url", url)
        seconds = now_s() - began_s
    stored: list[int] = await stage.server.ask_all([("ZCARD", key) for key in list_records(board)])
    return Load(rows, file_bytes, seconds, peak_bytes, rows - sum(stored))


def save_csv(path: Path, rows: int, seed: int) -> int:
    """One score for each of so many players; returns the size in bytes."""
    scores = np.random.default_rng(seed).integers(0, MAX_SCORE + 1, rows).tolist()
    with path.open("w", encoding="ascii") as file:
        file.write("player,score\n")
        file.writelines(f"{name_of(number)},{score}\n" for number, score in enumerate(scores))
    return path.stat().st_size
