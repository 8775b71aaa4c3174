"""The trends' part of the benchmark: a wrong bound, a lost event and one counted twice are found and fail the run."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

from experiments.bench import cli, trends_part
from experiments.bench.boards import list_logs
from experiments.bench.budgets import is_broken
from experiments.bench.flights import run
from experiments.bench.parts import Job
from experiments.bench.results import ROOT, render_results
from experiments.bench.servers import open_server
from experiments.bench.trends_accuracy import CONFIG, SHAPES
from experiments.bench.trends_boards import COUNTS, count_log
from experiments.bench.trends_budgets import acknowledged_rate, counted_rate, growth_of, make_budgets
from experiments.bench.trends_kills import compare
from experiments.bench.trends_processes import find_process
from experiments.bench.trends_rates import OVER_ARROW, OVER_JSON, SKETCHES
from experiments.bench.trends_report import render_sections
from experiments.bench.trends_results import Results, Round, load_results, parse_results
from experiments.bench.trends_sender import ARROW, JSON, make_stream, render_bodies
from experiments.bench.trends_sizes import FAST, FULL, K
from experiments.bench.trends_stages import make_stage, open_hour, slices
from experiments.bench.trends_truth import count_untrue, count_wrong, median_interval, rows_of
from experiments.bench.workloads import Stream
from hybrid.config import BoardConfig
from hybrid.engine import Engine, make_link
from hybrid.events import Batch
from hybrid.log import parse_entry
from hybrid.trends.events import TrendBatch
from hybrid.trends.publishing import Head, Row
from hybrid.trends.trends import Top, TopRow

PART = "trends"
HEAD = Head(0, 0, 0, 0, 0, 0)


@pytest.fixture(scope="module")
def fast_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `toptail bench trends --fast --out FOLDER` saves."""
    out, data = tmp_path_factory.mktemp("bench"), tmp_path_factory.mktemp("data")
    options = ["--fast", "--out", str(out), "--data", str(data), "--date", "2026-01-02"]
    done = CliRunner().invoke(cli.bench, [PART, *options])
    assert done.exit_code == 0, done.output
    assert "Figures to reach" in done.output
    assert not list(data.iterdir())
    return out / "trends.json"


@pytest.fixture(scope="module")
def fast(fast_file: Path) -> Results:
    return load_results(fast_file)


@pytest.fixture
def finds(monkeypatch: pytest.MonkeyPatch) -> Callable[[Results], None]:
    """Makes the next run find the given results at once."""
    return lambda found: monkeypatch.setattr(trends_part, "measure", lambda *_: found)


def test_a_fast_run_sends_events_every_way_and_at_a_steady_pace(fast: Results) -> None:
    assert [row.way for row in fast.rounds] == [SKETCHES, OVER_ARROW, OVER_JSON]
    for row in fast.rounds:
        assert row.events == FAST.events
        assert 0 < row.acknowledged_s <= row.counted_s
        assert (row.quarter_bytes > 10_000_000) == (row.end_bytes > 10_000_000) == (row.way != SKETCHES)
    assert fast.pace.events == FAST.pace * FAST.paced_s
    assert fast.pace.seconds > 0.9 * FAST.paced_s
    assert fast.pace.aof_bytes > fast.pace.events
    assert min(fast.pace.keeper_bytes, fast.pace.worker_bytes) > 10_000_000
    assert fast.pace.asked > 1


def test_a_fast_run_plays_hours_kills_and_caps(fast: Results) -> None:
    assert [row.shape for row in fast.hours] == list(SHAPES)
    for hour in fast.hours:
        assert (hour.events, hour.looked_up) == (FAST.hour_events, FAST.looked_up)
        assert hour.rows == CONFIG.capacity // 4
        assert 0 < hour.p50_s <= hour.p99_s
        assert 0 < hour.read_p50_s <= hour.read_p99_s
    assert (fast.kills.keeper_kills, fast.kills.redis_kills) == (FAST.keeper_kills, FAST.redis_kills)
    assert fast.kills.events == fast.kills.requests * FAST.request_events > 0
    assert [row.count for row in fast.fed] == list(COUNTS)
    assert all(row.logged > 0 and row.rows > FAST.fed_stars for row in fast.fed)
    capped, open_to_all = fast.fairness
    assert (capped.actor_cap, open_to_all.actor_cap) == (FAST.actor_cap, None)
    assert capped.capped > 0
    assert open_to_all.capped == 0


def test_results_come_back_from_json_as_they_were(fast_file: Path, fast: Results) -> None:
    assert parse_results(render_results(fast)) == fast
    assert str(ROOT) not in fast_file.read_text(encoding="utf-8")


def test_trends_are_measured_without_the_sketches_peers() -> None:
    peers = "crick", "fastdigest", "tdigest"
    code = f"import sys; sys.modules.update(dict.fromkeys({peers!r})); import experiments.bench.trends_part"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_the_page_tells_of_every_section(fast: Results) -> None:
    for found in (fast, replace(fast, sizes=FULL)):
        page = "\n".join(render_sections(found))
        for heading in ("Events over HTTP", "How true a window is", "Killed", "Fed by a board", "One actor among many"):
            assert f"### {heading}\n" in page
        assert all(len(line) <= 120 or line.startswith("|") for line in page.splitlines())


def test_what_is_not_true_exits_1_whatever_the_size(fast: Results, finds: Callable[[Results], None]) -> None:
    for wrong in (
        replace(fast, rounds=[replace(fast.rounds[0], missing=1), replace(fast.rounds[1], missing=-1), fast.rounds[2]]),
        replace(fast, pace=replace(fast.pace, missing=1)),
        replace(fast, hours=[replace(fast.hours[0], missing=-1), *fast.hours[1:]]),
        replace(fast, hours=[replace(fast.hours[0], violations=1), *fast.hours[1:]]),
        replace(fast, hours=[replace(fast.hours[0], untrue=1), *fast.hours[1:]]),
        replace(fast, kills=replace(fast.kills, counted=fast.kills.events + 1)),
        replace(fast, kills=replace(fast.kills, lost=1)),
        replace(fast, kills=replace(fast.kills, twice=1)),
        replace(fast, fed=[replace(fast.fed[0], counted=fast.fed[0].logged - 1), *fast.fed[1:]]),
        replace(fast, fed=[replace(fast.fed[0], violations=1), *fast.fed[1:]]),
        replace(fast, fairness=[replace(fast.fairness[0], violations=1), *fast.fairness[1:]]),
        replace(fast, fairness=[replace(fast.fairness[0], missing=1), *fast.fairness[1:]]),
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
    assert json.loads((tmp_path / "trends.json").read_text(encoding="utf-8"))["hours"][-1]["precision"] == 0.5


def test_every_figure_can_be_reached_and_missed(fast: Results) -> None:
    assert {budget.verdict for budget in make_budgets(_reaching(fast, is_good=True))} == {"reached"}
    bad = make_budgets(_reaching(fast, is_good=False))
    assert {budget.verdict for budget in bad} == {"missed"}
    assert is_broken(bad)


def test_a_small_run_is_judged_by_its_truth_alone(fast: Results) -> None:
    verdicts = [budget.verdict for budget in make_budgets(replace(_reaching(fast, is_good=False), sizes=FAST))]
    assert verdicts == ["not judged"] * (len(verdicts) - 6) + ["missed"] * 6


def _reaching(found: Results, *, is_good: bool) -> Results:
    """The results of a full run in which everything is as good as can be, or as bad."""
    wrong, precision = (0, 1.0) if is_good else (1, 0.5)
    seconds = {SKETCHES: 1.0, OVER_ARROW: 2.0 + wrong, OVER_JSON: 1.0}
    events, growth = 400_000 // (1 + wrong), 1 + wrong
    rounds = [
        replace(row, events=events, counted_s=seconds[row.way], end_bytes=growth * row.quarter_bytes, missing=wrong)
        for row in found.rounds
    ]
    hours = [
        replace(row, precision=precision, interval=0.02 * wrong, guaranteed=100 - 50 * wrong, untrue=wrong)
        for row in found.hours
    ]
    return replace(
        found,
        sizes=FULL,
        rounds=rounds,
        hours=hours,
        kills=replace(found.kills, lost=wrong, twice=wrong),
        fed=[replace(row, counted=row.logged + wrong, violations=wrong) for row in found.fed],
        fairness=[replace(row, intruders=wrong, precision=precision) for row in found.fairness],
    )


def test_medians_of_rounds_and_the_worst_growth_count(fast: Results) -> None:
    rounds = [
        Round(OVER_ARROW, 100, acknowledged_s=1.0, counted_s=2.0, quarter_bytes=10, end_bytes=10),
        Round(OVER_ARROW, 100, acknowledged_s=2.0, counted_s=4.0, quarter_bytes=10, end_bytes=13),
        Round(OVER_ARROW, 100, acknowledged_s=9.0, counted_s=10.0, quarter_bytes=10, end_bytes=9),
    ]
    found = replace(fast, rounds=rounds)
    assert counted_rate(found, OVER_ARROW) == 25
    assert acknowledged_rate(found, OVER_ARROW) == 50
    assert growth_of(found, OVER_ARROW) == 1.3


def test_bodies_are_json_and_arrow_streams_of_the_same_events() -> None:
    stream = make_stream(25, 1_000, 0)
    wanted = [part.to_pylist() for part in slices(stream.events, 10)]
    assert [json.loads(body)["events"] for body in render_bodies(stream.events, JSON, 10)] == wanted
    tables = [pa.ipc.open_stream(body).read_all() for body in render_bodies(stream.events, ARROW, 10)]
    assert [table["item"].to_pylist() for table in tables] == wanted
    assert tables[0].schema.field("item").type == pa.string()


def test_an_arrow_body_of_a_full_run_is_just_below_the_largest_that_is_taken() -> None:
    longest = pa.array([f"item-{FULL.items - 1}"] * FULL.arrow_events, pa.large_string())
    (body,) = render_bodies(longest, ARROW, FULL.arrow_events)
    assert 0.9 < len(body) / (8 * 1024 * 1024) < 1


def test_a_count_outside_its_bounds_is_found() -> None:
    stream = Stream(pa.array([], pa.large_string()), np.array([5, 7, 9]))
    assert count_wrong([], stream) == 0
    assert count_wrong([Row("item-0", 5, 5), Row("item-1", 6, 8), Row("item-2", 0, 9)], stream) == 0
    assert count_wrong([Row("item-0", 6, 8), Row("item-1", 5, 6), Row("item-2", 9, 9)], stream) == 2


def test_what_is_guaranteed_must_be_in_the_true_top() -> None:
    stream = Stream(pa.array([], pa.large_string()), np.arange(200))
    rows = [TopRow(Row(f"item-{number}", number, number + 10), is_guaranteed=True) for number in (99, 100, 199)]
    assert count_untrue(Top(HEAD, rows), stream) == 1
    assert count_untrue(Top(HEAD, [TopRow(Row("item-1", 1, 1), is_guaranteed=False)]), stream) == 0
    assert median_interval(Top(HEAD, rows), stream) == 0.1


def test_events_lost_and_counted_twice_do_not_make_up_for_each_other() -> None:
    rows = [Row("a", 3, 3), Row("b", 6, 6), Row("d", 1, 1)]
    assert compare(Counter(a=5, b=4, c=1), rows) == (3, 3)
    assert compare(Counter(a=3, b=6, d=1), rows) == (0, 0)


def test_an_hour_holds_all_its_events_and_sees_what_is_missing(tmp_path: Path) -> None:
    stage = make_stage(Job(is_fast=True, data_dir=tmp_path), lambda steps, _: steps)

    async def play() -> tuple[int, Top]:
        async with open_hour(stage, CONFIG) as hour:
            requests = [TrendBatch(["item-1", f"item-{number}"]) for number in range(40)]
            return await hour.play(requests, "test"), await hour.top(K)

    accepted, top = run(play())
    assert (accepted, top.head.total) == (80, 80)
    truth = np.ones(40, np.int64)
    truth[1] = 41
    assert count_wrong(rows_of(top), Stream(pa.array([], pa.large_string()), truth)) == 0
    truth[7] = 0
    assert count_wrong(rows_of(top), Stream(pa.array([], pa.large_string()), truth)) == 1


def test_the_log_says_who_submitted_whose_record_changed_and_by_how_much(tmp_path: Path) -> None:
    async def count() -> list[Counter[str]]:
        async with open_server(tmp_path) as server, Engine(make_link(server.redis.url)) as engine:
            board, _ = await engine.boards.create("b", BoardConfig(strategy="latest", shards=1))
            for players, scores in ((["ann", "bob"], [10, 20]), (["ann"], [15]), (["ann", "bob"], [12, 50])):
                await engine.record.submit(board, Batch(players, scores))
            (log,) = list_logs(board)
            entries = [parse_entry(entry) for entry in await server.ask("XRANGE", log, "-", "+")]
            return [count_log(board, entries, each) for each in COUNTS]

    submissions, changes, gain = run(count())
    assert submissions == changes == Counter(ann=3, bob=2)
    assert gain == Counter(ann=5, bob=30)


def test_a_process_that_nobody_runs_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="no process runs nobody"):
        find_process("nobody")
