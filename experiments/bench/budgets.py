"""Figures to reach, and whether a run reached them.

A small run (`--fast`) is held only to what must be true at any size; its other figures are shown, but not judged.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Budget:
    """A figure that must be at most, or at least, what was promised."""

    what: str
    reach: float
    measured: float
    show: Callable[[float], str]
    is_at_most: bool = True
    is_judged: bool = True

    @property
    def verdict(self) -> str:
        if not self.is_judged:
            return "not judged"
        is_kept = self.measured <= self.reach if self.is_at_most else self.measured >= self.reach
        return "reached" if is_kept else "missed"


def judged_if(is_full: bool, budgets: Iterable[Budget]) -> list[Budget]:
    return [replace(budget, is_judged=is_full) for budget in budgets]


def is_broken(budgets: Iterable[Budget]) -> bool:
    return any(budget.verdict == "missed" for budget in budgets)


def show_percent(share: float) -> str:
    return f"{100 * share:,.{4 if share < 0.1 else 1}f} %"


def show_count(count: float) -> str:
    return f"{count:,.0f}"


def show_ratio(ratio: float) -> str:
    return f"{ratio:.2f}"
