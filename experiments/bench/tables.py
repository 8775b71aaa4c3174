"""Tables and lists of text, the same ones for the terminal and for docs/benchmarks.md."""

from collections.abc import Sequence
from typing import NamedTuple

from experiments.bench.budgets import Budget


class Table(NamedTuple):
    """A caption, column names, and rows of as many cells; the first `labels` columns are text, the rest figures."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    labels: int = 1


def budget_table(budgets: Sequence[Budget]) -> Table:
    rows = [
        [
            budget.what,
            f"{'at most' if budget.is_at_most else 'at least'} {budget.show(budget.reach)}",
            budget.show(budget.measured),
            budget.verdict,
        ]
        for budget in budgets
    ]
    return Table("Figures to reach", ("figure", "reach", "measured", "verdict"), rows)


def render_table(table: Table) -> str:
    """A Markdown table; figures are aligned to the right."""
    rule = ["---" if i < table.labels else "---:" for i in range(len(table.columns))]
    return "".join(f"| {' | '.join(row)} |\n" for row in (table.columns, rule, *table.rows))


def render_captioned(table: Table) -> str:
    return f"**{table.caption}**\n\n{render_table(table)}"


def render_bullets(lines: Sequence[str]) -> str:
    return "".join(f"- {line}\n" for line in lines)
