"""What a part of the benchmark is: a module that measures one thing and knows how to show what it found."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from experiments.bench.budgets import Budget
from experiments.bench.progress import Track
from experiments.bench.tables import Table


@dataclass(frozen=True, slots=True)
class Job:
    """What a run is asked for. `data_dir` is where a Redis keeps its data, None for the system's temporary folder."""

    is_fast: bool = False
    seed: int = 0
    date: str = ""
    data_dir: Path | None = None


class Part(Protocol):
    """One part; results are of its own type."""

    def measure(self, job: Job, track: Track) -> Any:
        """The results as they will be read back, so that what is printed is what is saved."""
        ...

    def parse_results(self, text: str) -> Any: ...

    def make_budgets(self, results: Any) -> list[Budget]: ...

    def all_tables(self, results: Any) -> Iterable[Table]: ...

    def render_stamp(self, results: Any) -> str:
        """When, on what and how it was measured."""
        ...

    def render_sections(self, results: Any) -> list[str]: ...
