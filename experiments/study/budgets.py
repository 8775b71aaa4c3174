"""Figures to reach, from budgets.toml: one place for what is promised, in which unit, and how much.

docs/design.md has the same figures in a table, and a test holds the two equal.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from experiments.bench.budgets import Budget, show_count

PATH = Path(__file__).with_name("budgets.toml")


class Figure(NamedTuple):
    """A figure to reach: what it is, how much, and whether that is the most or the least."""

    what: str
    reach: float
    is_at_most: bool
    unit: str


@dataclass(frozen=True, slots=True)
class Budgets:
    """All figures by name. A small run is held only to those that must be true at any size."""

    figures: Mapping[str, Figure]
    is_full: bool = True

    def judge(self, name: str, measured: float, *, at_any_size: bool = True) -> Budget:
        figure = self.figures[name]
        is_judged = self.is_full or at_any_size
        return Budget(figure.what, figure.reach, measured, _SHOW[figure.unit], figure.is_at_most, is_judged)


def load_budgets(path: Path = PATH, *, is_full: bool = True) -> Budgets:
    """The figures of a file; one without a figure, or with two, is refused."""
    figures = {}
    for name, entry in tomllib.loads(path.read_text(encoding="utf-8")).items():
        reach = [key for key in ("at_most", "at_least") if key in entry]
        if len(reach) != 1 or entry.get("unit") not in _SHOW:
            raise ValueError(f"{path.name}: {name!r} needs a unit and one of at_most, at_least, not {entry}")
        figures[name] = Figure(entry["what"], float(entry[reach[0]]), reach[0] == "at_most", entry["unit"])
    return Budgets(figures, is_full)


def show_percent(percent: float) -> str:
    return f"{percent:.4g} %"


def show_ratio(ratio: float) -> str:
    return f"{ratio:.3g}"


_SHOW = {"percent": show_percent, "count": show_count, "ratio": show_ratio}
