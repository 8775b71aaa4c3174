"""`toptail experiments`: runs are stored, judged, drawn again from what is stored, and reported."""

import json
import sys
from pathlib import Path

import numpy as np
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from experiments.study import report
from experiments.study.budgets import PATH
from experiments.study.catalog import STUDIES, load_study
from experiments.study.cli import experiments
from experiments.study.page import render_html
from experiments.study.store import FOLDER, load_run, save_figure

ROOT = Path(__file__).parents[2]


def run(*arguments: object) -> Result:
    return CliRunner().invoke(experiments, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a fast run of one experiment leaves behind."""
    out = tmp_path_factory.mktemp("runs")
    done = run("run", "spacing", "--fast", "--seed", 3, "--out", out, "--date", "2026-01-02")
    assert done.exit_code == 0, done.output
    assert "Figures to reach" in done.output
    assert "2 reached, 0 missed" in done.output
    return out / "spacing"


@pytest.fixture
def numbers(tmp_path: Path) -> Path:
    """A CSV of scores: ties, negatives, decimals."""
    path = tmp_path / "scores.csv"
    rng = np.random.default_rng(1)
    values = np.where(rng.random(5000) < 0.4, 0.0, rng.normal(0, 50, 5000).round(2))
    path.write_text("player,score\n" + "".join(f"p{i},{value:g}\n" for i, value in enumerate(values.tolist())))
    return path


def test_a_run_leaves_data_twice_a_manifest_and_a_figure(stored: Path) -> None:
    assert sorted(path.name for path in stored.iterdir()) == [
        "manifest.json",
        "spacing.svg",
        "widths.csv",
        "widths.parquet",
    ]
    parquet, csv = pq.read_table(stored / "widths.parquet"), pa_csv.read_csv(stored / "widths.csv")
    assert parquet.to_pylist() == csv.to_pylist()


def test_the_manifest_says_what_a_run_was_made_with_and_names_neither_host_nor_path(stored: Path) -> None:
    text = (stored / "manifest.json").read_text()
    manifest = json.loads(text)
    assert (manifest["study"], manifest["seed"], manifest["is_fast"]) == ("spacing", 3, True)
    assert manifest["stamp"]["date"] == "2026-01-02"
    assert set(manifest["stamp"]) == {"date", "cpu", "cores", "python", "packages", "commit"}
    assert str(ROOT) not in text


def test_a_figure_is_drawn_again_from_the_data_alone(stored: Path) -> None:
    before = (stored / "spacing.svg").read_bytes()
    (stored / "spacing.svg").unlink()
    assert save_figure(stored, load_study("spacing")).read_bytes() == before


def test_the_same_seed_gives_the_same_data(stored: Path, tmp_path: Path) -> None:
    assert run("run", "spacing", "--fast", "--seed", 3, "--out", tmp_path).exit_code == 0
    assert load_run(tmp_path / "spacing").tables["widths"].equals(load_run(stored).tables["widths"])


def test_a_broken_budget_exits_1(tmp_path: Path) -> None:
    budgets = tmp_path / "budgets.toml"
    text = PATH.read_text().split('["spacing.rank"]')
    budgets.write_text(text[0] + '["spacing.rank"]' + text[1].replace("at_most = 2", "at_most = 1", 1))
    done = run("run", "spacing", "--fast", "--out", tmp_path, "--budgets", budgets)
    assert done.exit_code == 1
    assert "1 reached, 1 missed" in done.output


def test_ones_own_scores_take_the_place_of_drawn_ones(numbers: Path, tmp_path: Path) -> None:
    done = run("run", "coverage", "--data", numbers, "--column", "score", "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    table = load_run(tmp_path / "out" / "coverage").tables["coverage"]
    assert set(table["shape"].to_pylist()) == {"scores.csv"}
    assert set(table["players"].to_pylist()) == {5000}
    assert sum(table["outside"].to_pylist()) == 0


def test_ones_own_events_take_the_place_of_drawn_ones(tmp_path: Path) -> None:
    path = tmp_path / "events.ndjson"
    items = [f"item-{int(number)}" for number in np.random.default_rng(2).zipf(1.5, 3000) % 500]
    path.write_text("".join(f'{{"item": "{item}"}}\n' for item in items))
    done = run("run", "batches", "surge", "--fast", "--data", path, "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert set(load_run(tmp_path / "out" / "batches").tables["batches"]["stream"].to_pylist()) == {"events.ndjson"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run"], "say which experiments to run by name, or --all"),
        (["run", "churn", "--all"], "say which experiments to run by name, or --all"),
        (["run", "nothing"], "there is no experiment 'nothing'; there are churn, coverage"),
        (["run", "served", "--board", "http://127.0.0.1:1"], "both --board URL and --name BOARD"),
        (["run", "churn", "--board", "http://127.0.0.1:1", "--name", "game"], "churn takes scores, not a live board"),
        (["run", "served", "--fast", "--board", "http://127.0.0.1:1", "--name", "game"], "served:"),
        (["run", "served", "--board", "here", "--name", "game"], "'here'"),
        (["advise", "--players", "many"], "'many' is not a whole number"),
        (["advise", "--players", "10", "--max-width", "0"], "'0' is not a percentage"),
        (["advise", "--players", "0"], "at least one player"),
    ],
)
def test_what_cannot_be_run_is_said_in_one_sentence(arguments: list[str], message: str, tmp_path: Path) -> None:
    done = run(*arguments, *(["--out", tmp_path] if arguments[0] == "run" else []))
    assert done.exit_code != 0
    assert message in done.output
    assert "Traceback" not in done.output


def test_scores_are_no_events(numbers: Path, tmp_path: Path) -> None:
    done = run("run", "batches", "--data", numbers, "--out", tmp_path)
    assert done.exit_code == 2
    assert "batches takes items, not scores" in done.output


def test_a_bad_file_is_said_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    path.write_text("score\n1\noops\n")
    done = run("run", "served", "--data", path, "--out", tmp_path)
    assert done.exit_code == 1
    assert "scores.csv, line 3: score 'oops' is not a number" in done.output


def test_too_few_rows_are_said(tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    path.write_text("score\n1\n2\n")
    done = run("run", "served", "--data", path, "--out", tmp_path)
    assert done.exit_code == 1
    assert "scores.csv has 2 rows: below 1,000 there is nothing to measure" in done.output


def test_without_what_draws_figures_the_command_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "experiments.study.commands", None)
    monkeypatch.delattr("experiments.study.commands", raising=False)
    done = run("list")
    assert done.exit_code == 1
    assert "pip install 'toptail[experiments]'" in done.output


def test_every_experiment_is_listed_with_its_claim() -> None:
    done = run("list")
    assert done.exit_code == 0
    assert all(name in done.output for name in STUDIES)


def test_every_module_is_the_study_of_its_name() -> None:
    assert [load_study(name).name for name in STUDIES] == list(STUDIES)


def test_the_committed_results_are_of_full_runs_and_reach_every_figure() -> None:
    sections = report.load_sections(FOLDER)
    assert [section.name for section in sections] == list(STUDIES)
    assert {section.name: section.verdict for section in sections} == dict.fromkeys(STUDIES, "reached")


def test_the_pages_are_what_the_renderer_makes_of_the_committed_results() -> None:
    sections = report.load_sections(FOLDER)
    assert (report.DOCS / report.MARKDOWN).read_text() == report.render_markdown(sections, report.DOCS)
    assert (report.DOCS / report.HTML).read_text() == render_html(sections)


def test_the_committed_figures_are_drawn_from_the_committed_data(tmp_path: Path) -> None:
    for name in STUDIES:
        folder = tmp_path / name
        folder.mkdir()
        for path in (FOLDER / name).iterdir():
            (folder / path.name).write_bytes(path.read_bytes())
        drawn = (folder / f"{name}.svg").read_bytes()
        assert save_figure(folder, load_study(name)).read_bytes() == drawn, name


def test_the_page_needs_nothing_from_elsewhere() -> None:
    page = (report.DOCS / report.HTML).read_text()
    assert page.count("data:image/svg+xml;base64,") == len(STUDIES)
    assert 'src="http' not in page
    assert "<link" not in page


def test_results_and_pages_stay_small() -> None:
    sizes = [path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()]
    assert sum(sizes) < 2_000_000


def test_reporting_without_results_says_how_to_make_them(tmp_path: Path) -> None:
    done = run("report", "--results", tmp_path, "--docs", tmp_path)
    assert done.exit_code == 1
    assert "`toptail experiments run --all` makes them" in done.output
