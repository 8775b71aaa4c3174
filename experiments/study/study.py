"""What an experiment is: a claim, and how to measure, draw, judge and say it.

Measuring gives tidy tables, a row an observation; everything else is made from these tables alone, so a stored run can
be drawn and judged again without measuring.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
from matplotlib.figure import Figure

from experiments.bench.budgets import Budget
from experiments.bench.progress import Track
from experiments.bench.tables import Table
from experiments.study.budgets import Budgets
from experiments.study.live import LiveBoard
from experiments.study.workloads import Items, Scores

Tables: TypeAlias = Mapping[str, pa.Table]
Kind = Literal["scores", "items"]
Row: TypeAlias = dict[str, Any]

T = TypeVar("T")


def pass_on(steps: Sequence[T], description: str) -> Iterable[T]:  # noqa: ARG001  a Track that shows nothing
    return steps


@dataclass(frozen=True, slots=True)
class Job:
    """What a run is asked for. `data` takes the place of the workloads that are drawn, `board` that of a board."""

    is_fast: bool = False
    seed: int = 0
    track: Track = pass_on
    data: Scores | Items | None = None
    board: LiveBoard | None = None

    @property
    def scores(self) -> Scores | None:
        return self.data if isinstance(self.data, Scores) else None

    @property
    def items(self) -> Items | None:
        return self.data if isinstance(self.data, Items) else None

    def rng(self, *path: int) -> np.random.Generator:
        """The randomness of one step; other steps have their own."""
        return np.random.default_rng([self.seed, *path])


def _nothing(tables: Tables) -> list[str]:  # noqa: ARG001  most studies have no more to say
    return []


@dataclass(frozen=True, slots=True)
class Study:
    """One experiment. `takes` is what it can be given of one's own: scores, items, or nothing.

    `say` puts what was found into sentences, `fails` what it is not good for, `recommend` into commands to paste.
    """

    name: str
    title: str
    claim: str
    takes: Kind | None
    measure: Callable[[Job], Tables]
    draw: Callable[[Tables], Figure]
    judge: Callable[[Tables, Budgets], list[Budget]]
    say: Callable[[Tables], list[str]]
    tabulate: Callable[[Tables], list[Table]]
    takes_board: bool = False
    fails: Callable[[Tables], list[str]] = _nothing
    recommend: Callable[[Tables], list[str]] = _nothing


def make_table(rows: Sequence[Row]) -> pa.Table:
    """Rows as a table, floats to six digits: what is judged, drawn and stored is the same."""
    return pa.Table.from_pylist([{name: _rounded(value) for name, value in row.items()} for row in rows])


def rows_of(table: pa.Table, **wanted: object) -> list[Row]:
    """The rows that have these values."""
    rows: list[Row] = table.to_pylist()
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def distinct(table: pa.Table, column: str) -> list[Any]:
    """The values of a column, each once, in the order in which they come."""
    return list(dict.fromkeys(table[column].to_pylist()))


def _rounded(value: Any) -> Any:
    return float(f"{value:.6g}") if isinstance(value, float) else value
