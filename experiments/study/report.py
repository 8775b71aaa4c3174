"""docs/experiments.md, written from stored results alone; page.py makes the HTML of the same sections.

Each experiment is a claim, its figure, its numbers, its verdicts and the command that repeats it. The prose here holds
no figure of its own.
"""

from dataclasses import dataclass
from os.path import relpath
from pathlib import Path
from textwrap import fill

from experiments.bench.budgets import Budget
from experiments.bench.results import ROOT
from experiments.bench.stamp import render_machine
from experiments.bench.tables import Table, budget_table, render_captioned, render_table
from experiments.study.budgets import load_budgets
from experiments.study.catalog import load_study
from experiments.study.store import list_runs, load_run

DOCS = ROOT / "docs"
MARKDOWN, HTML = "experiments.md", "experiments.html"
WIDTH = 120

INTRO = """\
Can percentiles be served from this, for these scores? Each experiment states a claim, measures it, and is held to a
figure (docs/design.md, "Figures to reach", which says where one was set by the first run only). Everything here is made
from the stored results in experiments/results/studies; the plots are drawn from these tables alone."""

COMMANDS = """\
    toptail experiments list                                    # what there is
    toptail experiments run --all --fast                        # all of it in less than a minute, on less data
    toptail experiments run --all                               # as it is shown here
    toptail experiments run served --data scores.csv            # on your own scores: CSV, Parquet, NDJSON
    toptail experiments run served --board URL --name BOARD     # on a board of a running service
    toptail experiments advise --players 100e6 --max-width 0.1% # from what you want to a config
    toptail experiments report                                  # writes this page
"""


@dataclass(frozen=True, slots=True)
class Section:
    """One experiment as it is told."""

    name: str
    title: str
    claim: str
    lines: list[str]
    verdicts: list[Budget]
    tables: list[Table]
    figure: Path
    stamp: str
    fails: list[str]

    @property
    def command(self) -> str:
        return f"toptail experiments run {self.name}"

    @property
    def verdict(self) -> str:
        words = [budget.verdict for budget in self.verdicts]
        return "missed" if "missed" in words else "not judged" if "not judged" in words else "reached"


def load_sections(results: Path) -> list[Section]:
    """The experiments of which there are results."""
    return [_load_section(results / name, name) for name in list_runs(results)]


def _load_section(folder: Path, name: str) -> Section:
    study, run = load_study(name), load_run(folder)
    manifest = run.manifest
    return Section(
        name,
        study.title,
        study.claim,
        study.say(run.tables),
        study.judge(run.tables, load_budgets(is_full=not manifest.is_fast)),
        study.tabulate(run.tables),
        folder / f"{name}.svg",
        f"{render_machine(manifest.stamp, manifest.seed)} It took {manifest.seconds:g} s.",
        study.fails(run.tables),
    )


def render_markdown(sections: list[Section], docs: Path) -> str:
    parts = ["# Experiments\n", INTRO + "\n", COMMANDS, render_table(overview(sections))]
    for section in sections:
        parts += [
            f"## {section.title}\n",
            fill(f"**Claim.** {section.claim}", WIDTH) + "\n",
            f"![{section.title}]({relpath(section.figure, docs)})\n",
            *(fill(line, WIDTH) + "\n" for line in section.lines),
            render_table(budget_table(section.verdicts)) if section.verdicts else "",
            f"Again: `{section.command}`\n",
            *(_fold(table) for table in section.tables),
            fill(section.stamp, WIDTH) + "\n",
        ]
    parts += ["## Where it fails\n", *(fill(f"**{name}.** {line}", WIDTH) + "\n" for name, line in failures(sections))]
    return "\n".join(part for part in parts if part)


def failures(sections: list[Section]) -> list[tuple[str, str]]:
    """What was found not to be good, with the experiment that found it."""
    return [(section.name, line) for section in sections for line in section.fails]


def overview(sections: list[Section]) -> Table:
    """One row a verdict: where a claim elsewhere points to."""
    rows = [
        [
            section.name,
            budget.what,
            f"{'at most' if budget.is_at_most else 'at least'} {budget.show(budget.reach)}",
            budget.show(budget.measured),
            budget.verdict,
        ]
        for section in sections
        for budget in section.verdicts
    ]
    return Table("All verdicts", ("experiment", "figure", "reach", "measured", "verdict"), rows, labels=2)


def _fold(table: Table) -> str:
    """A table that is opened by a click: there are many rows."""
    return f"<details><summary>{table.caption}</summary>\n\n{render_captioned(table)}\n</details>\n"
