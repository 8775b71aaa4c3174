"""The service's part of the benchmark: real processes are asked, and a failed request or a lost score is seen."""

import json
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

import numpy as np
import pytest
from click.testing import CliRunner

from experiments.bench import cli, service_part, service_processes
from experiments.bench.answers_sizes import PACE
from experiments.bench.batches import MAX_SCORE, make_batches, name_of
from experiments.bench.budgets import is_broken
from experiments.bench.flights import run
from experiments.bench.parts import Job
from experiments.bench.results import ROOT, render_results
from experiments.bench.service_budgets import boards_of, bulk_share, make_budgets, ratio_to
from experiments.bench.service_peer import BARE, NAIVE
from experiments.bench.service_processes import run_toptail, serving
from experiments.bench.service_report import render_sections
from experiments.bench.service_results import Bulk, Results, Round, load_results, parse_results
from experiments.bench.service_sender import JSON, NDJSON, render_body
from experiments.bench.service_sizes import FAST, FULL
from experiments.bench.service_stages import open_stage
from experiments.bench.service_standings import BATCHED, OURS, TWO
from experiments.bench.service_writes import IN_PROCESS, WAYS
from experiments.bench.service_wrk import MISSING, run_wrk, save_names

PART = "service"
needs_wrk = pytest.mark.skipif(shutil.which("wrk") is None, reason=MISSING)


@pytest.fixture(scope="module")
def fast_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `toptail bench service --fast --out FOLDER` saves."""
    if shutil.which("wrk") is None:
        pytest.skip(MISSING)
    out, data = tmp_path_factory.mktemp("bench"), tmp_path_factory.mktemp("data")
    options = ["--fast", "--out", str(out), "--data", str(data), "--date", "2026-01-02"]
    done = CliRunner().invoke(cli.bench, [PART, *options])
    assert done.exit_code == 0, done.output
    assert "Figures to reach" in done.output
    assert not list(data.iterdir())
    return out / "service.json"


@pytest.fixture(scope="module")
def fast(fast_file: Path) -> Results:
    return load_results(fast_file)


@pytest.fixture
def finds(monkeypatch: pytest.MonkeyPatch) -> Callable[[Results], None]:
    """Makes the next run find the given results at once."""
    return lambda found: monkeypatch.setattr(service_part, "measure", lambda *_: found)


def test_a_fast_run_asks_everybody_at_rest_and_under_writes(fast: Results) -> None:
    who = (OURS, BARE, NAIVE, BATCHED)
    asked = [(row.who, row.is_written) for row in fast.standings]
    assert asked == [*((name, w) for w in (False, True) for name in who), (TWO, False), (TWO, True)]
    assert [row.players for row in fast.boards] == list(FAST.boards)
    assert all(row.is_written for row in fast.boards)
    assert len(fast.submits) == FAST.write_rounds
    for row in (*fast.standings, *fast.boards, *fast.submits):
        assert row.requests > 10
        assert row.seconds == pytest.approx(1, rel=0.3)
        assert 0 < row.p50_s <= row.p99_s
        assert (row.scores_s > PACE / 2) == row.is_written


def test_a_fast_run_writes_in_bulk_and_loads_a_file(fast: Results) -> None:
    assert [row.way for row in fast.bulks] == list(WAYS)
    assert all(row.scores == FAST.scores and row.seconds > 0 for row in fast.bulks)
    load = fast.load
    assert (load.rows, load.missing) == (FAST.rows, 0)
    assert load.file_bytes > 20 * FAST.rows
    assert load.peak_bytes > 10_000_000


def test_results_come_back_from_json_as_they_were(fast_file: Path, fast: Results) -> None:
    assert parse_results(render_results(fast)) == fast
    assert fast.wrk.startswith("wrk ")
    assert str(ROOT) not in fast_file.read_text(encoding="utf-8")


def test_the_service_is_measured_without_the_sketches_peers() -> None:
    peers = "crick", "fastdigest", "tdigest"
    code = f"import sys; sys.modules.update(dict.fromkeys({peers!r})); import experiments.bench.service_part"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_without_wrk_the_command_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    done = CliRunner().invoke(cli.bench, [PART, "--fast"])
    assert done.exit_code == 1
    assert "the service part needs wrk: apt-get install wrk" in done.output


def test_the_page_tells_of_every_section(fast: Results) -> None:
    page = "\n".join(render_sections(fast))
    for heading in ("## The service", "### Standings over HTTP", "### Boards of all sizes", "### Scores over HTTP"):
        assert f"{heading}\n" in page
    assert all(len(line) <= 120 or line.startswith("|") for line in page.splitlines())


def test_a_failed_request_or_a_lost_score_exits_1_whatever_the_size(
    fast: Results, finds: Callable[[Results], None]
) -> None:
    for wrong in (
        replace(fast, standings=[replace(fast.standings[0], failed=1), *fast.standings[1:]]),
        replace(fast, boards=[replace(fast.boards[0], failed=1), *fast.boards[1:]]),
        replace(fast, submits=[replace(fast.submits[0], failed=1)]),
        replace(fast, bulks=[replace(fast.bulks[0], missing=1), *fast.bulks[1:]]),
        replace(fast, load=replace(fast.load, missing=-1)),
    ):
        finds(wrong)
        assert CliRunner().invoke(cli.bench, [PART, "--fast"]).exit_code == 1
    finds(fast)
    assert CliRunner().invoke(cli.bench, [PART, "--fast"]).exit_code == 0


def test_a_missed_figure_exits_1_and_is_saved_all_the_same(
    fast: Results, finds: Callable[[Results], None], tmp_path: Path
) -> None:
    finds(_reaching(fast, is_good=False))
    assert CliRunner().invoke(cli.bench, [PART, "--out", str(tmp_path)]).exit_code == 1
    assert json.loads((tmp_path / "service.json").read_text(encoding="utf-8"))["boards"][-1]["p99_s"] == 2.0


def test_every_figure_can_be_reached_and_missed(fast: Results) -> None:
    assert {budget.verdict for budget in make_budgets(_reaching(fast, is_good=True))} == {"reached"}
    bad = make_budgets(_reaching(fast, is_good=False))
    assert {budget.verdict for budget in bad} == {"missed"}
    assert is_broken(bad)


def test_a_small_run_is_judged_by_its_truth_alone(fast: Results) -> None:
    verdicts = [budget.verdict for budget in make_budgets(replace(_reaching(fast, is_good=False), sizes=FAST))]
    assert verdicts == ["not judged"] * (len(verdicts) - 2) + ["missed"] * 2


def _reaching(found: Results, *, is_good: bool) -> Results:
    """The results of a full run in which everything is as good as can be, or as bad."""
    wrong, scores_s = (0, PACE) if is_good else (1, PACE / 2)
    requests = {OURS: 3000 if is_good else 1000, BARE: 3000, NAIVE: 1000, BATCHED: 300_000 if is_good else 100_000}
    standings = [
        replace(row, requests=requests.get(row.who, 1), batch=1, seconds=1.0, failed=wrong, scores_s=scores_s)
        for row in found.standings
    ]
    boards = [replace(row, p50_s=1.0, p99_s=1.0, failed=wrong, scores_s=scores_s) for row in found.boards]
    boards[-1] = replace(boards[-1], p50_s=1.0 + wrong, p99_s=1.0 + wrong)
    bulks = [replace(row, seconds=1.0 if row.way == IN_PROCESS else 1.5 + wrong, missing=wrong) for row in found.bulks]
    return replace(found, sizes=FULL, standings=standings, boards=boards, bulks=bulks)


def test_medians_of_rounds_count(fast: Results) -> None:
    def rounds(who: str, *requests: int) -> list[Round]:
        row = next(row for row in fast.standings if (row.who, row.is_written) == (who, False))
        return [replace(row, requests=n, seconds=1.0) for n in requests]

    found = replace(
        fast,
        standings=[*rounds(OURS, 50, 1, 80), *rounds(BARE, 900, 100, 100)],
        boards=[replace(fast.boards[0], players=n, p50_s=s) for s in (1.0, 5.0, 3.0) for n in (20, 10)],
        bulks=[Bulk(way, 10, s, 0) for way, s in ((IN_PROCESS, 1.0), ("HTTP, JSON", 2.0), (IN_PROCESS, 3.0))],
    )
    assert ratio_to(found, OURS, BARE, is_written=False) == 0.5
    assert {players: row.p50_s for players, row in boards_of(found).items()} == {10: 3.0, 20: 3.0}
    assert list(boards_of(found)) == [10, 20]
    assert bulk_share(found, "HTTP, JSON") == pytest.approx(5 / ((10 + 10 / 3) / 2))


def test_bodies_are_json_and_lines_of_json() -> None:
    (batch,) = make_batches(np.arange(3), 0, 10)
    rows = [{"player": p, "score": s} for p, s in zip(batch.players, batch.scores, strict=True)]
    assert json.loads(render_body(batch, JSON)) == {"scores": rows}
    assert [json.loads(line) for line in render_body(batch, NDJSON).splitlines()] == rows


class _Board(BaseHTTPRequestHandler):
    """Takes all scores but those of player 0."""

    protocol_version = "HTTP/1.1"
    taken: ClassVar[list[dict[str, Any]]] = []

    def do_POST(self) -> None:
        score = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.taken.append(score)
        self.send_response(404 if score["player"] == name_of(0) else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@needs_wrk
def test_wrk_draws_everybody_and_counts_what_is_refused(tmp_path: Path) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Board) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        script = save_names(tmp_path, "b", 10).submit_one(seed=1)
        found = run(run_wrk(f"http://127.0.0.1:{server.server_port}", script, 2, 1))
        server.shutdown()
        thread.join()
    drawn = Counter(score["player"] for score in _Board.taken)
    assert set(drawn) == {name_of(number) for number in range(10)}
    assert min(drawn.values()) > max(drawn.values()) / 2
    assert all(0 <= score["score"] <= MAX_SCORE for score in _Board.taken)
    assert found.failed == pytest.approx(drawn[name_of(0)], abs=2)
    assert found.requests == pytest.approx(drawn.total(), abs=2)


@needs_wrk
def test_wrk_that_finds_nobody_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="wrk failed"):
        run(run_wrk("http://127.0.0.1:1", save_names(tmp_path, "b", 1).ask_one(seed=1), 1, 1))


def test_a_service_that_does_not_start_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async def start() -> None:
        job = Job(is_fast=True, data_dir=tmp_path)
        async with open_stage(job, lambda steps, _: steps, "no") as stage, serving(stage.server):
            pass

    monkeypatch.setattr(service_processes, "TOPTAIL", (sys.executable, "-c", "import sys; sys.exit('no luck')"))
    with pytest.raises(RuntimeError, match="did not start: no luck"):
        run(start())


def test_a_command_that_fails_is_an_error_with_what_it_said(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"toptail load failed: .*is it running"):
        run(run_toptail("load", str(tmp_path / "none.csv"), "--board", "b", "--url", "http://127.0.0.1:1"))
