"""`toptail experiments run served --board`: a board of a running service, asked over HTTP."""

import asyncio
from pathlib import Path

import numpy as np
from click.testing import CliRunner

from experiments.study.cli import experiments
from experiments.study.store import load_run
from tests.e2e.conftest import Serve
from toptail import Client

PLAYERS = 3_000


async def fill(url: str) -> None:
    scores = np.random.default_rng(7).integers(0, 2_000, PLAYERS).tolist()
    async with Client(url) as boards:
        await boards.create_board("game", top_n=100, shards=2)
        rows = [{"player": f"p{number}", "score": score} for number, score in enumerate(scores)]
        async for _ in boards.submit_many("game", rows):
            pass


def test_a_live_board_is_held_against_its_own_exact_answers(serve: Serve, tmp_path: Path) -> None:
    service = serve()
    asyncio.run(fill(service.url))
    arguments = ["run", "served", "--fast", "--board", service.url, "--name", "game", "--out", str(tmp_path)]
    done = CliRunner().invoke(experiments, arguments)
    assert done.exit_code == 0, done.output
    assert "the live board" in done.output
    rows = load_run(tmp_path / "served").tables["deciles"].to_pylist()
    assert sum(row["asked"] for row in rows) > 400
    assert sum(row["outside"] for row in rows) == 0
    assert 0 < max(row["max_width_percent"] for row in rows) < 1


def test_a_board_that_is_not_there_is_said_in_one_sentence(serve: Serve, tmp_path: Path) -> None:
    arguments = ["run", "served", "--fast", "--board", serve().url, "--name", "nobody", "--out", str(tmp_path)]
    done = CliRunner().invoke(experiments, arguments)
    assert done.exit_code == 1
    assert "nobody" in done.output
    assert "Traceback" not in done.output
