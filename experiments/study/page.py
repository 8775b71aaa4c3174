"""docs/experiments.html: the same sections as one page that needs nothing else, figures included."""

import re
from base64 import b64encode
from collections.abc import Sequence
from html import escape

from experiments.bench.tables import Table, budget_table
from experiments.study.report import COMMANDS, INTRO, Section, failures, overview

_STYLE = """
body { font: 17px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff; margin: 0 auto; max-width: 60rem;
  padding: 1rem; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 3rem; }
img { width: 100%; height: auto; }
pre, code { font: 14px/1.5 ui-monospace, monospace; background: #f4f4f4; } pre { padding: .8rem; overflow-x: auto; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 15px; margin: .8rem 0; }
th, td { padding: .25rem .7rem; border-bottom: 1px solid #ddd; text-align: right; white-space: nowrap; }
th.label, td.label { text-align: left; white-space: normal; }
.reached { color: #00634a; } .missed { color: #a33b00; font-weight: bold; } .stamp { color: #555; font-size: 14px; }
"""


def render_html(sections: Sequence[Section]) -> str:
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>toptail: experiments</title><style>{_STYLE}</style></head><body>",
        f"<h1>Experiments</h1><p>{escape(INTRO)}</p><pre>{escape(COMMANDS)}</pre>",
        _render_table(overview(list(sections))),
        *(_render_section(section) for section in sections),
        "<h2>Where it fails</h2>",
        *(f"<p><strong>{escape(name)}.</strong> {_render_text(line)}</p>" for name, line in failures(list(sections))),
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def _render_section(section: Section) -> str:
    picture = b64encode(section.figure.read_bytes()).decode()
    lines = "".join(f"<p>{_render_text(line)}</p>" for line in section.lines)
    details = "".join(
        f"<details><summary>{escape(table.caption)}</summary>{_render_table(table)}</details>"
        for table in section.tables
    )
    verdicts = _render_table(budget_table(section.verdicts)) if section.verdicts else ""
    return (
        f'<h2 id="{section.name}">{escape(section.title)}</h2>'
        f"<p><strong>Claim.</strong> {_render_text(section.claim)}</p>"
        f'<img alt="{escape(section.title)}" src="data:image/svg+xml;base64,{picture}">{lines}{verdicts}'
        f"<p>Again: <code>{escape(section.command)}</code></p>{details}"
        f'<p class="stamp">{escape(section.stamp)}</p>'
    )


def _render_text(text: str) -> str:
    """A sentence, with what stands between backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _render_table(table: Table) -> str:
    head = "".join(_cell("th", text, place < table.labels) for place, text in enumerate(table.columns))
    rows = "".join(
        "<tr>" + "".join(_cell("td", text, place < table.labels) for place, text in enumerate(row)) + "</tr>"
        for row in table.rows
    )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


def _cell(tag: str, text: str, is_label: bool) -> str:
    kind = "label" if is_label else text if text in ("reached", "missed") else ""
    return f'<{tag} class="{kind}">{escape(text)}</{tag}>' if kind else f"<{tag}>{escape(text)}</{tag}>"
