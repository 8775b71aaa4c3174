"""Figures to reach: the same in the design as in the file that runs are held to."""

import re
from pathlib import Path

import pytest

from experiments.study.budgets import Budgets, Figure, load_budgets

DESIGN = Path(__file__).parents[2] / "docs" / "design.md"
ROW = re.compile(r"^\| `([\w.]+)` \| (.+) \| (at most|at least) ([\d.]+)( %)? \|$", re.MULTILINE)


def test_the_figures_are_those_of_the_design() -> None:
    table = DESIGN.read_text(encoding="utf-8").split("## Figures to reach")[1]
    written = {
        name: (what, float(reach), how == "at most", bool(percent))
        for name, what, how, reach, percent in ROW.findall(table)
    }
    held = {
        name: (figure.what, figure.reach, figure.is_at_most, figure.unit == "percent")
        for name, figure in load_budgets().figures.items()
    }
    assert held
    assert written == held


@pytest.mark.parametrize(
    "text",
    ['[a]\nwhat = "a"\nunit = "count"', '[a]\nwhat = "a"\nunit = "count"\nat_most = 1\nat_least = 1'],
    ids=["no figure", "two figures"],
)
def test_a_figure_without_one_reach_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "budgets.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match="needs a unit and one of"):
        load_budgets(path)


def test_a_small_run_is_held_only_to_what_is_true_at_any_size() -> None:
    budgets = Budgets({"a": Figure("a", 1.0, True, "count")}, is_full=False)
    assert budgets.judge("a", 2.0).verdict == "missed"
    assert budgets.judge("a", 2.0, at_any_size=False).verdict == "not judged"
