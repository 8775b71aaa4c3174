"""What every part of the benchmark saves: one JSON file of plain rows, with a stamp.

Times are seconds, errors and widths are shares (0.0001 = 0.01 %). Floats are kept to six digits. What follows from the
rows (ratios, verdicts) is not saved: tables and budgets work it out, so the file cannot contradict itself.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "experiments" / "results" / "bench"


@dataclass(frozen=True, slots=True)
class Stamp:
    """Where and with what the figures were taken."""

    date: str
    cpu: str
    cores: int
    python: str
    packages: dict[str, str]
    commit: str


def render_results(results: "DataclassInstance") -> str:
    return json.dumps(_rounded(asdict(results)), indent=1, ensure_ascii=False) + "\n"


def save_results(results: "DataclassInstance", path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render_results(results), encoding="utf-8")


def _rounded(node: Any) -> Any:
    if isinstance(node, dict):
        return {key: _rounded(value) for key, value in node.items()}
    if isinstance(node, list):
        return [_rounded(value) for value in node]
    return float(f"{node:.6g}") if isinstance(node, float) else node
