"""The commands against the real service: load, top, standing, verify."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from aiohttp import web
from click.testing import CliRunner, Result

from hybrid.embedded import EmbeddedRedis
from service.ask_commands import standing, top
from service.auth import make_key
from service.load_command import load
from service.load_state import state_path
from service.verify_command import verify
from tests.e2e.conftest import Serve, Service
from tests.redis_cluster import ask
from toptail import Client, Entry, wire

AT_MS = 1_794_916_800_000
ROWS = [(f"p{number % 700}", number * 37 % 1000, AT_MS + number * 1000) for number in range(1200)]


def invoke(command: click.Command, service: Service | str, *words: str, given: bytes | None = None) -> Result:
    url = service if isinstance(service, str) else service.url
    return CliRunner(env={"COLUMNS": "200"}).invoke(command, [*words, "--url", url], input=given)


def make_board(service: Service, name: str = "b", **spec: Any) -> None:
    async def main() -> None:
        async with Client(service.url) as client:
            await client.create_board(name, **spec)

    asyncio.run(main())


def rows_of(service: Service, name: str = "b") -> list[Entry]:
    async def main() -> list[Entry]:
        async with Client(service.url) as client:
            return [entry async for entry in client.export(name)]

    return asyncio.run(main())


def best_of(rows: Iterable[tuple[str, int, int]] = ROWS) -> dict[str, int]:
    best: dict[str, int] = {}
    for player, score, _ in rows:
        best[player] = max(score, best.get(player, 0))
    return best


def sum_of(rows: Iterable[tuple[str, int, int]] = ROWS) -> dict[str, int]:
    total: dict[str, int] = {}
    for player, score, _ in rows:
        total[player] = total.get(player, 0) + score
    return total


def scores_of(service: Service, name: str = "b") -> dict[str, int | float]:
    return {entry.player: entry.score for entry in rows_of(service, name)}


def csv_text(rows: Iterable[tuple[Any, ...]] = ROWS) -> str:
    return "player,score,at\n" + "".join(f"{player},{score},{at}\n" for player, score, at in rows)


def json_text() -> str:
    return "".join(json.dumps({"player": player, "score": score, "at": at}) + "\n" for player, score, at in ROWS)


def write_source(folder: Path, kind: str) -> Path:
    path = folder / f"scores.{kind}"
    if kind == "parquet":
        names = ("player", "score", "at")
        columns = [list(column) for column in zip(*ROWS, strict=True)]
        pq.write_table(pa.table(dict(zip(names, columns, strict=True))), path)
    else:
        path.write_text(csv_text() if kind == "csv" else json_text())
    return path


@pytest.mark.parametrize("kind", ["csv", "ndjson", "parquet"])
@pytest.mark.parametrize("strategy", ["best", "sum"])
def test_a_file_is_loaded_and_again_changes_nothing(service: Service, tmp_path: Path, kind: str, strategy: str) -> None:
    make_board(service, strategy=strategy)
    path = write_source(tmp_path, kind)
    for status in ("added", "duplicate"):
        done = invoke(load, service, str(path), "--board", "b")
        assert (done.exit_code, done.exception) == (0, None), done.output
        assert "1,200 rows for 'b'" in done.stderr
        assert status in done.stderr
        assert scores_of(service) == (best_of() if strategy == "best" else sum_of())
    assert sorted(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("text", [csv_text(), json_text()])
def test_a_pipe_is_loaded(service: Service, text: str) -> None:
    make_board(service, strategy="sum")
    for _ in range(2):
        done = invoke(load, service, "-", "--board", "b", given=text.encode())
        assert done.exit_code == 0, done.output
    assert scores_of(service) == sum_of()


def test_columns_have_names_of_ones_own_and_times_are_kept(service: Service, tmp_path: Path) -> None:
    make_board(service, subscore={"max": 9}, score_max=1000, decimals=2, resolution=1000)
    path = tmp_path / "scores.tsv"
    path.write_text('\ufeffwho\tpoints\twhen\tmoves\n"ann ""the"" é"\t1.05\t2026-11-17T12:00:00Z\t3\n\nbob\t7\t\t4\n')
    words = ["--player-column", "who", "--score-column", "points", "--at-column", "when", "--subscore-column", "moves"]
    done = invoke(load, service, str(path), "--board", "b", *words)
    assert done.exit_code == 0, done.output
    bob, ann = rows_of(service)
    assert (bob.player, bob.score, bob.subscore) == ("bob", 7, 4)
    assert (ann.player, ann.score, ann.subscore, str(ann.at)) == ('ann "the" é', 1.05, 3, "2026-11-17 12:00:00+00:00")


def test_a_zset_is_loaded(service: Service, redis_server: EmbeddedRedis) -> None:
    pairs = [part for number in range(3000) for part in (f"{number}.5", f"z{number}")]
    asyncio.run(ask(redis_server, "DEL", "old:board"))
    asyncio.run(ask(redis_server, "ZADD", "old:board", *pairs))
    for name, strategy in (("best", "best"), ("sum", "sum")):
        make_board(service, name, strategy=strategy, decimals=1)
        for _ in range(2):
            done = invoke(load, service, redis_server.url, "--key", "old:board", "--board", name)
            assert done.exit_code == 0, done.output
        assert scores_of(service, name) == {f"z{number}": number + 0.5 for number in range(3000)}
    done = invoke(load, service, redis_server.url, "--key", "nothing", "--board", "best")
    assert (done.exit_code, "there is no ZSET 'nothing'" in done.stderr) == (1, True)
    done = invoke(load, service, redis_server.url, "--board", "best")
    assert (done.exit_code, "--key" in done.stderr) == (2, True)


BAD_CSV = "player,score\nann,5\nbob,many\ncid,-3\n,9\ndan,8,8\neve,1.5\nfay,1e400\ngil,7\n"
BAD_LINES = {3: "'many'", 4: "-3", 5: "''", 6: "dan,8,8", 7: "1.5", 8: "1e400"}


def test_bad_rows_are_skipped_and_named_by_line_and_value(service: Service, tmp_path: Path) -> None:
    make_board(service)
    path = tmp_path / "bad.csv"
    path.write_bytes(BAD_CSV.encode() + b"h\xff,3\n")
    done = invoke(load, service, str(path), "--board", "b", "--on-error", "skip")
    assert done.exit_code == 0, done.output
    for line, value in {**BAD_LINES, 10: "UTF-8"}.items():
        assert any(said.startswith(f"line {line}: ") and value in said for said in done.stderr.splitlines()), line
    assert "7 bad and left out" in done.stderr
    assert scores_of(service) == {"ann": 5, "gil": 7}


@pytest.mark.parametrize(("line", "value"), BAD_LINES.items())
def test_a_bad_row_stops_and_is_named_by_line_and_value(
    service: Service, tmp_path: Path, line: int, value: str
) -> None:
    make_board(service)
    lines = BAD_CSV.splitlines()
    path = tmp_path / "bad.csv"
    path.write_text("\n".join([*lines[:2], *[""] * (line - 3), lines[line - 1], "zed,1"]) + "\n")
    done = invoke(load, service, str(path), "--board", "b")
    assert done.exit_code == 1
    assert f"line {line}: " in done.stderr
    assert value in done.stderr


def test_a_line_that_is_corrected_is_loaded_and_nothing_twice(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.loading.CHUNK_ROWS", 50)
    monkeypatch.setattr("toptail.bulk.MOST_SCORES", 50)
    make_board(service, strategy="sum")
    path = tmp_path / "scores.csv"
    bad: list[tuple[Any, ...]] = [*ROWS[:500], ("p0", "oops", AT_MS), *ROWS[501:]]
    path.write_text(csv_text(bad))
    done = invoke(load, service, str(path), "--board", "b")
    assert (done.exit_code, "line 502: " in done.stderr) == (1, True)
    assert state_path(path, "b", None).exists()
    path.write_text(csv_text())
    done = invoke(load, service, str(path), "--board", "b")
    assert done.exit_code == 0, done.output
    assert "500 loaded before" in done.stderr
    assert scores_of(service) == sum_of()
    assert not state_path(path, "b", None).exists()


def test_an_input_that_changed_where_it_was_loaded_is_refused(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.loading.CHUNK_ROWS", 50)
    make_board(service, strategy="sum")
    path, notes = tmp_path / "scores.csv", tmp_path / "notes"
    path.write_text(csv_text([*ROWS[:500], ("p0", "oops", AT_MS)]))
    words = (str(path), "--board", "b", "--state", str(notes))
    assert invoke(load, service, *words).exit_code == 1
    path.write_text(csv_text([("other", 1, AT_MS), *ROWS[1:]]))
    done = invoke(load, service, *words)
    assert (done.exit_code, "has changed before line 501" in done.stderr) == (1, True)
    assert scores_of(service) == sum_of(ROWS[:500])


def test_a_board_that_was_made_again_is_loaded_again(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.loading.CHUNK_ROWS", 50)
    path = tmp_path / "scores.csv"
    path.write_text(csv_text([*ROWS, ("p0", "oops", AT_MS)]))
    make_board(service)
    assert invoke(load, service, str(path), "--board", "b").exit_code == 1

    async def delete() -> None:
        async with Client(service.url) as client:
            await client.delete_board("b")

    asyncio.run(delete())
    done = invoke(load, service, str(path), "--board", "b", "--create", "--on-error", "skip")
    assert done.exit_code == 0, done.output
    assert scores_of(service) == best_of()


def test_a_total_that_would_leave_the_range_is_a_bad_row(service: Service, tmp_path: Path) -> None:
    make_board(service, strategy="sum", score_max=100)
    path = tmp_path / "scores.csv"
    path.write_text("player,score\nann,60\nann,50\nann,7\n")
    done = invoke(load, service, str(path), "--board", "b")
    assert (done.exit_code, "line 3: refused" in done.stderr) == (1, True)
    done = invoke(load, service, str(path), "--board", "b", "--on-error", "skip", "--id", "again")
    assert (done.exit_code, "bad and left out" in done.stderr) == (0, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nothing.csv", "--board", "b"), "'nothing.csv' cannot be read: No such file"),
        (("-", "--board", "none"), "no board 'none'"),
        (("-", "--board", "b", "--player-column", "who"), "there is no column 'who' among 'player', 'score', 'at'"),
        (("-", "--board", "b", "--format", "parquet"), "not a pipe"),
    ],
)
def test_what_cannot_be_loaded_is_said_in_one_sentence(service: Service, words: tuple[str, ...], said: str) -> None:
    make_board(service)
    done = invoke(load, service, *words, given=csv_text().encode())
    assert (done.exit_code, said in done.stderr) == (1, True), done.stderr
    assert "Traceback" not in done.output


@pytest.mark.parametrize(
    ("command", "words"),
    [(load, ("-", "--board", "b")), (top, ("b",)), (standing, ("b", "ann")), (verify, ("b",))],
)
def test_a_service_that_is_not_there_is_said_in_one_sentence(
    command: click.Command, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.load_command.TIMEOUT_S", 0.1)
    monkeypatch.setattr("service.remote.TIMEOUT_S", 0.1)
    done = invoke(command, "http://127.0.0.1:9", *words, given=b"player,score\n")
    assert done.exit_code == 1
    assert done.stderr.startswith("Error: no service at http://127.0.0.1:9: ")
    assert len(done.stderr.strip().splitlines()) == 1
    assert invoke(command, "localhost", *words).exit_code == 2


def test_top_and_standing_are_tables(service: Service) -> None:
    make_board(service, top_n=2)
    given = "player,score\n" + "".join(f"p{n},{n}\n" for n in range(100)) + "[red]x[/],1000\n"
    assert invoke(load, service, "-", "--board", "b", given=given.encode()).exit_code == 0
    shown = invoke(top, service, "b", "--limit", "3")
    assert (shown.exit_code, "101 players" in shown.stdout) == (0, True)
    assert [line for line in shown.stdout.splitlines() if "[red]x[/]" in line and "1,000" in line]
    assert "p98" in shown.stdout
    assert "p97" not in shown.stdout
    shown = invoke(standing, service, "b", "p99", "p50")
    assert shown.exit_code == 0
    assert [line for line in shown.stdout.splitlines() if "p50" in line and " - " in line]
    shown = invoke(standing, service, "b", "p50", "nobody", "--exact")
    assert shown.exit_code == 1
    assert [line for line in shown.stdout.splitlines() if "p50" in line and " 51 " in line]
    assert "no record" in shown.stdout
    assert "weekly" in invoke(top, service, "b", "--window", "weekly").stderr


def test_a_key_is_taken_from_the_environment(serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key, line = make_key("admin", "*")
    (tmp_path / "keys").write_text(line)
    service = serve(keys_file=tmp_path / "keys")
    refused = invoke(top, service, "b")
    assert (refused.exit_code, "TOPTAIL_API_KEY" in refused.stderr) == (1, True)
    monkeypatch.setenv("TOPTAIL_API_KEY", key)
    assert "no board 'b'" in invoke(top, service, "b").stderr


def test_verify_tests_estimates_and_finds_nothing_on_an_honest_board(service: Service) -> None:
    make_board(service, top_n=50, shards=1)
    given = "player,score\n" + "".join(f"p{n},{n * 7919 % 20011}\n" for n in range(20_000))
    assert invoke(load, service, "-", "--board", "b", given=given.encode()).exit_code == 0
    done = invoke(verify, service, "b", "--samples", "300")
    assert done.exit_code == 0, done.output
    said = re.search(r"300 players compared, (\d+) of them estimated; 0 moved", done.stdout)
    assert said is not None
    assert int(said[1]) > 200  # the board was never asked for before: its first answers are counted
    assert " 0 violations" in done.stdout
    assert "90-100 %" in done.stdout


def test_verify_says_when_there_was_nothing_to_estimate(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.verify_command.WARM_S", 0.0)
    make_board(service, top_n=1)
    given = "player,score\n" + "".join(f"p{n},{n}\n" for n in range(20))
    assert invoke(load, service, "-", "--board", "b", given=given.encode()).exit_code == 0
    done = invoke(verify, service, "b")
    assert (done.exit_code, "this says nothing about intervals" in done.stdout) == (0, True)
    assert invoke(verify, service, "b", "--samples", "0").exit_code == 2


def forge(change: Any) -> Any:
    """A middleware that changes what is served, but not what is exact."""

    @web.middleware
    async def middleware(request: web.Request, handler: Any) -> web.StreamResponse:
        response: web.Response = await handler(request)
        if not request.path.endswith("/standings") or "exact" in request.query:
            return response
        body = msgspec.json.decode(response.body, type=wire.Standings)  # type: ignore[arg-type]
        for row in body.standings:
            change(row)
        return web.Response(body=msgspec.json.encode(body), content_type="application/json")

    return middleware


def shift_rank(row: Any) -> None:
    if isinstance(row, wire.RankStanding):
        row.rank += 1


def shift_interval(row: Any) -> None:
    if isinstance(row, wire.PercentileStanding):
        row.percentile_low, row.percentile_high = row.percentile_low + 5, row.percentile_high + 5


def shift_rank_bounds(row: Any) -> None:
    if isinstance(row, wire.PercentileStanding):
        row.rank_low = row.rank_high = row.rank_high + 1


def overclaim(row: Any) -> None:
    row.top_percent /= 2


@pytest.mark.parametrize("change", [shift_rank, shift_interval, shift_rank_bounds, overclaim])
def test_verify_finds_answers_that_are_forged(serve: Serve, change: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.verify_command.WARM_S", 0.2)
    service = serve(middlewares=[forge(change)])
    make_board(service, top_n=20)
    given = "player,score\n" + "".join(f"p{n},{n}\n" for n in range(400))
    assert invoke(load, service, "-", "--board", "b", given=given.encode()).exit_code == 0
    done = invoke(verify, service, "b", "--samples", "400")
    assert done.exit_code == 1
    assert "violation: 'p" in done.stdout


class Gate:
    """Lets some writes through, says so, and holds all others until it is opened."""

    def __init__(self, after: int) -> None:
        self.after = after
        self.reached = threading.Event()
        self.opened = asyncio.Event()
        self.written = 0

    def middleware(self) -> Any:
        @web.middleware
        async def middleware(request: web.Request, handler: Any) -> web.StreamResponse:
            response: web.StreamResponse = await handler(request)
            if request.path.endswith("/scores"):
                self.written += 1
                if self.written > self.after:
                    self.reached.set()
                    await self.opened.wait()  # written, and never answered
            return response

        return middleware


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["best", "sum"])
@pytest.mark.parametrize("is_noted", [True, False])
def test_a_load_that_was_killed_goes_on_to_the_same_board(
    serve: Serve, tmp_path: Path, strategy: str, is_noted: bool
) -> None:
    gate = Gate(after=4)
    service = serve(middlewares=[gate.middleware()])
    rows = [(f"p{number % 23_000}", number * 37 % 1000, AT_MS + number) for number in range(60_000)]
    path = tmp_path / "scores.csv"
    path.write_text(csv_text(rows))
    for name in ("killed", "whole"):
        make_board(service, name, strategy=strategy)
    command = [sys.executable, "-c", "from service.load_command import load; load()"]
    words = [str(path), "--url", service.url, "--board"]
    with subprocess.Popen([*command, *words, "killed"], cwd=Path(__file__).parents[2], env=os.environ) as child:
        assert gate.reached.wait(60)
        child.send_signal(signal.SIGKILL)
    assert child.returncode == -signal.SIGKILL
    service.loop.call_soon_threadsafe(gate.opened.set)
    gate.after = 10**9
    note = state_path(path, "killed", None)
    if not is_noted:
        note.unlink(missing_ok=True)
    for name in ("killed", "whole"):
        done = invoke(load, service, str(path), "--board", name)
        assert done.exit_code == 0, done.output
    truth = best_of(rows) if strategy == "best" else sum_of(rows)
    assert scores_of(service, "whole") == truth
    assert rows_of(service, "killed") == rows_of(service, "whole")
    assert not note.exists()
