"""The answers' part of the benchmark: it audits served standings, and a wrong one is found and fails the run."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from experiments.bench import answers_loads, answers_lookups, answers_part, answers_rows, cli
from experiments.bench.answers_audit import Compared, compare, measure_audits
from experiments.bench.answers_budgets import find_load, make_budgets, sampling_share
from experiments.bench.answers_crowds import make_crowd, writing
from experiments.bench.answers_report import render_sections
from experiments.bench.answers_results import Audit, Results, load_results, parse_results
from experiments.bench.answers_shapes import ELO, LOGNORMAL, SHAPES, ZEROS
from experiments.bench.answers_sizes import FAST, FULL, PACE
from experiments.bench.answers_stands import keeping, keeping_apart, open_stand
from experiments.bench.budgets import is_broken
from experiments.bench.flights import run
from experiments.bench.parts import Job
from experiments.bench.results import ROOT, render_results
from hybrid.config import Board, BoardConfig, complete
from hybrid.standing import Moment, Places, Rows, estimated_places

PART = "answers"


@pytest.fixture(scope="module")
def fast_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `toptail bench answers --fast --out FOLDER` saves."""
    out, data = tmp_path_factory.mktemp("bench"), tmp_path_factory.mktemp("data")
    options = ["--fast", "--out", str(out), "--data", str(data), "--date", "2026-01-02"]
    done = CliRunner().invoke(cli.bench, [PART, *options])
    assert done.exit_code == 0, done.output
    assert "Figures to reach" in done.output
    assert not list(data.iterdir())
    return out / "answers.json"


@pytest.fixture(scope="module")
def fast(fast_file: Path) -> Results:
    return load_results(fast_file)


@pytest.fixture
def finds(monkeypatch: pytest.MonkeyPatch) -> Callable[[Results], None]:
    """Makes the next run find the given results at once."""
    return lambda found: monkeypatch.setattr(answers_part, "measure", lambda *_: found)


def test_a_fast_run_audits_every_shape_at_rest_and_under_writes(fast: Results) -> None:
    assert [(row.shape, row.is_written) for row in fast.audits] == [(s.name, w) for s in SHAPES for w in (False, True)]
    for audit in fast.audits:
        assert audit.compared + audit.moved == FAST.audited
        assert 0 < audit.leaders < audit.compared
        assert audit.p50_age_s <= audit.p99_age_s <= audit.max_age_s
        assert (audit.scores > 0) == audit.is_written
        assert (audit.allowed > 0) == audit.is_written


def test_a_fast_run_measures_refreshes_loads_lookups_and_rows(fast: Results) -> None:
    assert [row.players for row in fast.refreshes] == list(FAST.boards)
    assert all(row.median_s > 0 and row.view_s > 0 and row.published_bytes > 100 for row in fast.refreshes)
    names = (answers_loads.KEPT, answers_loads.UNKEPT, answers_loads.BUSY_ALONE, answers_loads.BUSY_AND_IDLE)
    assert [row.name for row in fast.loads] == list(names)
    assert [row.keeper_s > 0 for row in fast.loads] == [True, False, True, True]
    assert fast.idle.filled_bytes > fast.idle.empty_bytes  # six boards: what clients hold in between can outweigh them
    who = (answers_lookups.OURS, answers_lookups.REDIS_PY, answers_lookups.LINK, answers_lookups.BATCHED)
    assert [(row.contestant, row.is_written) for row in fast.lookups] == [(n, w) for w in (False, True) for n in who]
    assert all((row.scores > 0) == row.is_written for row in fast.lookups if row.contestant != answers_lookups.BATCHED)
    assert fast.walk.unmoved == FAST.players * 4 // 5
    assert fast.export.rows == FAST.players
    questions = (answers_rows.SERVED, answers_rows.EXACT, answers_rows.PAGE, answers_rows.NEIGHBORS)
    assert [row.what for row in fast.latencies] == list(questions)


def test_results_come_back_from_json_as_they_were(fast_file: Path, fast: Results) -> None:
    assert parse_results(render_results(fast)) == fast
    assert str(ROOT) not in fast_file.read_text(encoding="utf-8")


def test_answers_are_measured_without_the_sketches_peers() -> None:
    peers = "crick", "fastdigest", "tdigest"
    code = f"import sys; sys.modules.update(dict.fromkeys({peers!r})); import experiments.bench.answers_part"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_the_page_tells_of_every_section(fast: Results) -> None:
    page = "\n".join(render_sections(fast))
    for heading in ("## Answers", "### Audit", "### What the keeper does", "### Lookups", "### Rows"):
        assert f"{heading}\n" in page
    assert all(len(line) <= 120 or line.startswith("|") for line in page.splitlines())


def test_an_answer_that_is_not_true_exits_1_whatever_the_size(fast: Results, finds: Callable[[Results], None]) -> None:
    first, *others = fast.audits
    for wrong in (
        replace(fast, audits=[replace(first, rank_violations=1), *others]),
        replace(fast, audits=[replace(first, percentile_violations=1), *others]),
        replace(fast, audits=[replace(first, leader_violations=1), *others]),
        replace(fast, walk=replace(fast.walk, skipped=1)),
        replace(fast, walk=replace(fast.walk, repeated=1)),
        replace(fast, lookups=[replace(fast.lookups[0], missing=1), *fast.lookups[1:]]),
        replace(fast, export=replace(fast.export, missing=-1)),
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
    assert json.loads((tmp_path / "answers.json").read_text(encoding="utf-8"))["refreshes"][-1]["median_s"] == 100.0


def test_every_figure_can_be_reached_and_missed(fast: Results) -> None:
    assert {budget.verdict for budget in make_budgets(_reaching(fast, is_good=True))} == {"reached"}
    bad = make_budgets(_reaching(fast, is_good=False))
    assert {budget.verdict for budget in bad} == {"missed"}
    assert is_broken(bad)


def test_a_small_run_is_judged_by_its_truth_alone(fast: Results) -> None:
    verdicts = [budget.verdict for budget in make_budgets(replace(_reaching(fast, is_good=False), sizes=FAST))]
    assert verdicts == ["not judged"] * (len(verdicts) - 3) + ["missed"] * 3


def _reaching(found: Results, *, is_good: bool) -> Results:
    """The results of a full run in which everything is as good as can be, or as bad."""
    wrong, scores = (0, round(PACE)) if is_good else (1, round(PACE / 2))
    refreshes = [replace(row, median_s=0.01) for row in found.refreshes]
    refreshes[-1] = replace(refreshes[-1], median_s=0.01 if is_good else 100.0)
    worse = () if is_good else (answers_loads.KEPT, answers_loads.BUSY_AND_IDLE)
    loads = [
        replace(row, scores=scores, seconds=1.0, redis_s=0.5 * (1 + (row.name in worse)), keeper_s=1 + row.idle * wrong)
        for row in found.loads
    ]
    ours = 0.01 if is_good else 1.0
    lookups = [
        replace(row, calls=1, batch=1, seconds=taken_s, scores=round(scores * taken_s), missing=wrong)
        for row in found.lookups
        for taken_s in [ours if row.contestant == answers_lookups.OURS else 1.0]
    ]
    return replace(
        found,
        sizes=FULL,
        audits=[_audited(audit, wrong, scores) for audit in found.audits],
        refreshes=refreshes,
        loads=loads,
        lookups=lookups,
        walk=replace(found.walk, skipped=wrong, scores=scores, seconds=1.0),
        export=replace(found.export, missing=wrong),
    )


def _audited(audit: Audit, wrong: int, scores: int) -> Audit:
    return replace(
        audit,
        percentile_width=float(wrong),
        rank_width=float(wrong),
        mean_error=float(wrong),
        rank_violations=wrong,
        p99_age_s=0.5 + wrong,
        scores=scores,
        seconds=1.0,
    )


def test_the_time_for_sampling_is_the_difference_that_a_keeper_makes(fast: Results) -> None:
    kept, unkept = (find_load(fast, name) for name in (answers_loads.KEPT, answers_loads.UNKEPT))
    loads = [replace(kept, redis_s=3.0, seconds=10.0), replace(unkept, redis_s=2.0, seconds=10.0), *fast.loads[2:]]
    assert sampling_share(replace(fast, loads=loads)) == pytest.approx(0.1)


BOARD = Board(name="b", id="b", tags=("b/0",), secret=b"s", created_ms=0, config=complete(BoardConfig(top_n=10)))


def _rows(ranks: tuple[int, int], percentiles: tuple[float, float], *, seq: int, is_exact: bool = False) -> Rows:
    """One player of 101, who stands between these ranks and percentiles."""
    rows = Rows.unknown(BOARD, "alltime", ["ann"], np.array([1.5]))
    low, high = (np.array([end]) for end in percentiles)
    first, last = (np.array([end]) for end in ranks)
    rows.settle(np.array([0]), Places(low, low, high, first, last, high), Moment(101, 1_000, seq), is_exact)
    return rows


def _compare(served: Rows, rank: int, percentile: float, seq: int) -> Compared:
    return compare(served, _rows((rank, rank), (percentile, percentile), seq=seq, is_exact=True), 1_500)


@pytest.mark.parametrize(
    ("rank", "percentile", "seq", "is_rank_true", "is_percentile_true"),
    [
        (30, 70.0, 7, True, True),
        (33, 67.0, 7, True, True),
        (34, 67.0, 7, False, True),
        (29, 70.0, 7, False, True),
        (30, 70.5, 7, True, False),
        (34, 66.0, 8, True, True),  # one change later, one place and one percent off
        (35, 65.0, 8, False, False),
        (34, 67.0, 6, False, False),  # an exact answer that is older proves nothing
    ],
)
def test_the_truth_may_be_off_by_as_many_places_as_there_were_changes(
    rank: int, percentile: float, seq: int, is_rank_true: bool, is_percentile_true: bool
) -> None:
    found = _compare(_rows((30, 33), (67.0, 70.0), seq=7), rank, percentile, seq)
    assert found.is_rank_true.tolist() == [is_rank_true]
    assert found.is_percentile_true.tolist() == [is_percentile_true]


def test_a_comparison_knows_widths_errors_age_and_who_is_a_leader() -> None:
    found = _compare(_rows((30, 33), (67.0, 70.0), seq=7), 30, 70.0, 7)
    assert found.percentile_width.tolist() == pytest.approx([0.03])
    assert found.rank_width.tolist() == pytest.approx([3 / 101])
    assert found.error.tolist() == pytest.approx([0.03])
    assert found.age_s.tolist() == [0.5]
    assert (found.is_leader.tolist(), found.is_first.tolist()) == ([False], [False])
    leader = _compare(_rows((10, 10), (91.0, 91.0), seq=7, is_exact=True), 10, 91.0, 7)
    assert (leader.is_leader.tolist(), leader.is_first.tolist()) == ([True], [True])


def test_players_who_moved_between_the_answers_are_not_compared() -> None:
    served, exact = _rows((30, 33), (67.0, 70.0), seq=7), _rows((1, 1), (100.0, 100.0), seq=8, is_exact=True)
    for keys in (np.array([1.25]), np.array([np.nan])):
        exact.keys = keys
        found = compare(served, exact, 1_500)
        assert found.asked == 1
        assert found.is_rank_true.size == 0


def test_an_engine_that_claims_too_much_is_found_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def claim(*args: Any, **options: Any) -> Places:
        places = estimated_places(*args, **options)
        return places._replace(rank_low=places.rank_high + 1, rank_high=places.rank_high + 1)

    monkeypatch.setattr("hybrid.standings.estimated_places", claim)
    audits = run(measure_audits(replace(FAST, audited=100), Job(data_dir=tmp_path), lambda steps, _: steps[:1]))
    at_rest, written = audits
    assert at_rest.rank_violations > at_rest.compared / 2
    assert at_rest.percentile_violations == at_rest.leader_violations == 0
    assert not written.percentile_violations


def test_shapes_are_what_their_names_say() -> None:
    rng = np.random.default_rng(0)
    assert len(np.unique(LOGNORMAL.draw(rng, 1000))) > 990
    elo = ELO.draw(rng, 10_000)
    assert elo.min() >= 0
    assert elo.mean() == pytest.approx(1500, abs=10)
    assert elo.std() == pytest.approx(300, abs=10)
    assert (ZEROS.draw(rng, 10_000) == 0).mean() == pytest.approx(0.4, abs=0.02)


def test_a_crowd_is_filled_written_to_one_in_five_and_settles(tmp_path: Path) -> None:
    async def fill() -> None:
        async with open_stand(Job(data_dir=tmp_path)) as stand:
            crowd = await make_crowd(stand, LOGNORMAL, 300, strategy="latest", top_n=20)
            await crowd.fill(2, is_spread=True)
            before = {entry.place.player: entry.place async for entry in stand.engine.pages.rows(crowd.board)}
            assert len(before) == 300
            async with keeping(stand.engine, FAST.keeper):
                async with writing([crowd], every=5) as writer:
                    while writer.scores < 300:  # noqa: ASYNC110
                        await asyncio.sleep(0.01)
                await crowd.settle()
            after = {entry.place.player: entry.place async for entry in stand.engine.pages.rows(crowd.board)}
            assert 0 < sum(before[name] != place for name, place in after.items()) <= 60

    run(fill())


def test_a_keeper_in_a_process_of_its_own_samples_and_says_what_it_took(tmp_path: Path) -> None:
    async def keep() -> float:
        async with open_stand(Job(data_dir=tmp_path)) as stand:
            crowd = await make_crowd(stand, LOGNORMAL, 300, top_n=20)
            await crowd.fill()
            async with keeping_apart(stand.server, FAST.keeper) as keeper:
                await crowd.settle()
                return await keeper.processor_s()

    assert run(keep()) > 0
