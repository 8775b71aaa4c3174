"""The advisor's predictions, and what is served, on real boards."""

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from experiments.studies import advisor, served
from experiments.study.budgets import load_budgets
from experiments.study.cli import experiments
from experiments.study.study import Job
from experiments.study.workloads import SHAPES, Shape


def test_predicted_width_and_memory_are_within_20_percent_of_real_boards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advisor, "FAST_CONFIGS", 4)
    tables = advisor.STUDY.measure(Job(is_fast=True, seed=11))
    assert [budget.verdict for budget in advisor.STUDY.judge(tables, load_budgets())] == ["reached"] * 3


@pytest.mark.slow
def test_20_random_configs_are_predicted_within_20_percent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advisor, "FAST_CONFIGS", 20)
    tables = advisor.STUDY.measure(Job(is_fast=True, seed=12))
    assert [budget.verdict for budget in advisor.STUDY.judge(tables, load_budgets())] == ["reached"] * 3


@pytest.mark.parametrize("shape", [SHAPES[2], SHAPES[3]], ids=lambda shape: shape.name)
def test_served_percentiles_of_real_boards_contain_the_truth(shape: Shape) -> None:
    scores = shape.make(np.random.default_rng(5), 50_000)
    tables = served.STUDY.measure(Job(is_fast=True, data=scores))
    assert [budget.verdict for budget in served.STUDY.judge(tables, load_budgets())] == ["reached"] * 2
    assert sum(row["asked"] for row in tables["deciles"].to_pylist()) == served.FAST_ASKED


def test_ones_own_csv_gives_an_error_table_a_figure_and_a_board_to_paste(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    values = np.where(rng.random(20_000) < 0.4, 0.0, rng.normal(0, 250, 20_000).round(2))
    path = tmp_path / "scores.csv"
    path.write_text("player,score\n" + "".join(f"p{i},{value}\n" for i, value in enumerate(values.tolist())))
    arguments = ["run", "served", "--data", str(path), "--column", "score", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(experiments, arguments)
    assert done.exit_code == 0, done.output
    assert "Served against exact" in done.output
    assert "Recommended: curl -X PUT" in done.output
    assert '"decimals": 2' in done.output
    assert (tmp_path / "out" / "served" / "served.svg").read_bytes().startswith(b"<?xml")
