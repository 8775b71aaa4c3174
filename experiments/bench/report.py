"""docs/benchmarks.md, written from saved results alone.

The prose holds no figure of its own: what it says in numbers it reads from the results, and a test holds the page
equal to what this module makes from the committed files.
"""

from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import Any

from experiments.bench.budgets import Budget
from experiments.bench.catalog import load_part
from experiments.bench.results import ROOT
from experiments.bench.tables import budget_table, render_bullets, render_table

PAGE = ROOT / "docs" / "benchmarks.md"
WIDTH = 120

_INTRO = """\
# Benchmarks

How fast, how small and how wrong are the sketches, beside the libraries that one would otherwise take? How fast and how
small is the record, beside bare commands to the same Redis? How true and how quick are answers, beside counting? How
many requests does the service answer, beside a handler that does nothing and one that asks Redis each time? And how
fast and how true are trends, and what do they lose when processes are killed? Each part was measured in one run; where
ours is beside theirs, they took turns. Read times as ratios: another machine has others.

    make bench                          # measures, prints, saves experiments/results/bench/*.json
    .venv/bin/toptail bench record      # one part only: sketches, record, answers, service or trends
    .venv/bin/toptail bench --render    # writes this page from those files
"""


def render_page(results: Mapping[str, Any]) -> str:
    """The page of all parts, by name."""
    parts = {name: load_part(name) for name in results}
    sections = [_INTRO]
    for name, found in results.items():
        sections.append(fill(f"**{name.capitalize()}.** {parts[name].render_stamp(found)}", WIDTH) + "\n")
    sections.append("## Figures to reach\n")
    sections += [_render_verdict(name, parts[name].make_budgets(found)) for name, found in results.items()]
    for name, found in results.items():
        sections += parts[name].render_sections(found)
    return "\n".join(sections)


def _render_verdict(name: str, budgets: Sequence[Budget]) -> str:
    missed = [budget.what for budget in budgets if budget.verdict == "missed"]
    is_whole = all(budget.is_judged for budget in budgets)
    kept = "All of them are reached.\n" if is_whole else "Not all are judged: the run was a small one.\n"
    verdict = f"Missed:\n\n{render_bullets(missed)}" if missed else kept
    return f"### {name.capitalize()}\n\n{verdict}\n{render_table(budget_table(budgets))}"
