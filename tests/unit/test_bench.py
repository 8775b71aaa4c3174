"""The benchmark itself: it measures everything, saves what it prints, and fails when a figure is missed."""

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from experiments.bench import counters, digests, hitters, losses, proofs, ranks, report, sketch_part, timing
from experiments.bench import sketch_results as results
from experiments.bench.cli import bench
from experiments.bench.results import FOLDER, ROOT, render_results
from experiments.bench.sketch_budgets import make_budgets
from experiments.bench.sketch_results import FULL, Results, load_results, parse_results
from experiments.bench.workloads import WORKLOADS, Workload, zipf_stream
from sketches import TDigest

RESULTS = FOLDER / "sketches.json"


@pytest.fixture(scope="module")
def fast_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `toptail bench sketches --fast --out FOLDER` saves."""
    out = tmp_path_factory.mktemp("bench")
    done = CliRunner().invoke(bench, ["sketches", "--fast", "--out", str(out), "--date", "2026-01-02"])
    assert done.exit_code == 0, done.output
    assert "Figures to reach" in done.output
    return out / "sketches.json"


@pytest.fixture(scope="module")
def fast(fast_file: Path) -> Results:
    return load_results(fast_file)


@pytest.fixture
def finds(monkeypatch: pytest.MonkeyPatch) -> Callable[[Results], None]:
    """Makes the next run find the given results at once."""
    return lambda found: monkeypatch.setattr(sketch_part, "measure", lambda *_: found)


def test_a_fast_run_measures_every_digest_on_every_workload(fast: Results) -> None:
    everybody = {contestant.name for contestant in digests.CONTESTANTS}
    assert {row.contestant for row in fast.digest_speed if row.process == results.SETTLED} == everybody
    assert {row.contestant for row in fast.digest_speed if row.process == results.ALONE} == everybody - {
        digests.PURE.name
    }
    expected = {
        (contestant.name, workload.name)
        for contestant in digests.CONTESTANTS
        for workload in WORKLOADS
        if workload.is_continuous or contestant is not digests.PURE
    }
    assert {(row.contestant, row.workload) for row in fast.digest_error} == expected
    assert [row.workload for row in fast.intervals] == [workload.name for workload in WORKLOADS]


def test_a_fast_run_measures_every_heavy_hitter_case(fast: Results) -> None:
    ways = {(name, feed) for name in (counters.OURS, counters.LOOP, counters.COUNTED) for feed in ("lists", "Arrow")}
    assert {(row.contestant, row.feed) for row in fast.hitter_speed} == ways
    ours = [row for row in fast.hitter_accuracy if row.contestant == hitters.OURS]
    assert len(ours) == len(hitters.EXPONENTS) * len(hitters.CAPACITIES) * len(hitters.BATCHES)
    assert len(fast.hitter_accuracy) - len(ours) == len(hitters.EXPONENTS) * len(hitters.CAPACITIES)


def test_the_stamp_has_the_given_date_and_names_neither_host_nor_path(fast_file: Path, fast: Results) -> None:
    text = fast_file.read_text(encoding="utf-8")
    assert fast.stamp.date == "2026-01-02"
    assert set(json.loads(text)["stamp"]) == {"date", "cpu", "cores", "python", "packages", "commit"}
    assert str(ROOT) not in text


def test_results_come_back_from_json_as_they_were(fast: Results) -> None:
    assert parse_results(render_results(fast)) == fast


def test_a_fast_run_does_not_touch_the_committed_results(fast: Results, finds: Callable[[Results], None]) -> None:
    before = RESULTS.read_bytes()
    finds(fast)
    assert CliRunner().invoke(bench, ["sketches", "--fast"]).exit_code == 0
    assert RESULTS.read_bytes() == before


def test_the_committed_results_are_of_a_full_run() -> None:
    assert load_results(RESULTS).sizes == FULL


def test_the_page_is_what_the_renderer_makes_of_the_committed_results(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    assert CliRunner().invoke(bench, ["--render", "--page", str(page)]).exit_code == 0
    assert page.read_text(encoding="utf-8") == report.PAGE.read_text(encoding="utf-8")


def test_rendering_without_results_says_how_to_make_them(tmp_path: Path) -> None:
    done = CliRunner().invoke(bench, ["--render", "--out", str(tmp_path / "none")])
    assert done.exit_code == 1
    assert "`toptail bench` makes them" in done.output


def test_a_missing_peer_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "experiments.bench.sketch_part", None)
    monkeypatch.delattr("experiments.bench.sketch_part")
    done = CliRunner().invoke(bench, ["sketches", "--fast"])
    assert done.exit_code == 1
    assert "pip install 'toptail[peers]'" in done.output


def test_a_violated_bound_exits_1_whatever_the_size(fast: Results, finds: Callable[[Results], None]) -> None:
    finds(replace(fast, proof=replace(fast.proof, violations=1)))
    assert CliRunner().invoke(bench, ["sketches", "--fast"]).exit_code == 1


def test_a_missed_figure_exits_1_and_is_saved_all_the_same(
    fast: Results, finds: Callable[[Results], None], tmp_path: Path
) -> None:
    finds(_reaching(fast, precision=0.5))
    assert CliRunner().invoke(bench, ["sketches", "--out", str(tmp_path)]).exit_code == 1
    saved = (tmp_path / "sketches.json").read_text(encoding="utf-8")
    assert json.loads(saved)["hitter_speed"][0]["precision"] == 0.5


def test_a_run_that_reaches_every_figure_exits_0(
    fast: Results, finds: Callable[[Results], None], tmp_path: Path
) -> None:
    finds(_reaching(fast, precision=1.0))
    done = CliRunner().invoke(bench, ["sketches", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output


def _reaching(found: Results, precision: float) -> Results:
    """The results of a run that is full, fast and exact, but for the given P@100."""
    slow = {digests.FASTDIGEST.name: 1.0, digests.TDIGEST_DOUBLE.name: 1.0, counters.LOOP: 1.0}
    return replace(
        found,
        sizes=FULL,
        digest_speed=[
            replace(row, update_s=slow.get(row.contestant, 0.1), query_s=slow.get(row.contestant, 0.1))
            for row in found.digest_speed
        ],
        digest_error=[replace(row, max_error=0.0, merged_max_error=0.0) for row in found.digest_error],
        hitter_speed=[
            replace(row, seconds=slow.get(row.contestant, 0.1), precision=precision) for row in found.hitter_speed
        ],
        hitter_accuracy=[replace(row, precision=precision) for row in found.hitter_accuracy],
    )


def test_every_figure_can_be_missed(fast: Results) -> None:
    good = _reaching(fast, precision=1.0)
    bad = replace(
        _reaching(fast, precision=0.5),
        digest_speed=[replace(row, update_s=1 / row.update_s, query_s=1 / row.query_s) for row in good.digest_speed],
        digest_error=[replace(r, max_error=0.1, merged_max_error=0.1, size_bytes=17_001) for r in good.digest_error],
        intervals=[replace(row, violations=1) for row in good.intervals],
        proof=replace(good.proof, violations=1),
        hitter_speed=[replace(row, seconds=1.0, precision=0.5, violations=1) for row in good.hitter_speed],
    )
    assert {budget.verdict for budget in make_budgets(good)} == {"reached"}
    assert {budget.verdict for budget in make_budgets(bad)} == {"missed"}


def test_what_we_lose_is_listed_and_what_we_win_is_not(fast: Results) -> None:
    winning = _reaching(fast, precision=1.0)
    assert not any(line.startswith("update") for line in losses.find_losses(winning))
    row = next(row for row in winning.digest_speed if row.contestant == digests.FASTDIGEST.name)
    faster = replace(row, update_s=0.01)
    losing = replace(winning, digest_speed=[faster if r is row else r for r in winning.digest_speed])
    assert f"update, {row.process}: 100.00 ms against 10.00 ms ({row.contestant})" in losses.find_losses(losing)


def test_the_proof_finds_a_digest_of_other_values() -> None:
    values = np.random.default_rng(1).normal(size=1000)
    digest = TDigest(100)
    digest.update(values)
    assert proofs.count_violations(digest, values)[1] == 0
    assert proofs.count_violations(digest, values + 1)[1] > 0


def test_a_peer_is_judged_by_the_convention_that_suits_it() -> None:
    ordered = np.array([0.0, 0.0, 0.0, 1.0])
    truth = ranks.true_ranks(ordered, np.array([0.0]))
    assert ranks.kindest(ranks.rank_errors(np.array([0.75]), truth)) == ranks.RankError(0.0, 0.0, "max")
    assert ranks.worst(ranks.rank_errors(np.array([0.75]), truth), "mid").max == 0.375


def test_precision_tolerates_ties_and_counts_empty_places_as_wrong() -> None:
    stream = zipf_stream(np.random.default_rng(0), 1000, 1000, 0.0)
    least = np.sort(stream.truth)[-hitters.K]
    as_good = [f"item-{i}" for i in np.flatnonzero(stream.truth >= least)]
    assert len(as_good) > hitters.K
    assert hitters.precision(as_good[-hitters.K :], stream) == 1.0
    assert hitters.precision(as_good[:30], stream) == 0.3
    assert hitters.precision([], stream) == 0.0


def test_contestants_take_turns() -> None:
    order: list[str] = []
    best = timing.best_of(2, {"a": lambda: order.append("a"), "b": lambda: order.append("b")})
    assert order == ["a", "b", "a", "b"]
    assert set(best) == {"a", "b"}


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
def test_the_same_seed_gives_the_same_numbers(workload: Workload) -> None:
    first, again, other = (workload.make(np.random.default_rng(seed), 100) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
