"""One style for all figures: colours that everybody can tell apart, units on axes, letters that survive half the size.

The palette is Okabe and Ito's ("Color universal design", 2008); lines differ in marker or dash as well. A figure is
made of data alone and its SVG has neither date nor random ids, so the same data give the same bytes.
"""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
YELLOW, BLUE, RED, PURPLE = "#F0E442", "#0072B2", "#D55E00", "#CC79A7"
COLOURS = (BLUE, RED, GREEN, ORANGE, PURPLE, SKY, BLACK, YELLOW)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
GREY = "#666666"

WIDTH_IN, HEIGHT_IN = 9.0, 4.4

_LONG = 200  # from end to end of an axis: beyond it a tick at each power of ten is enough

_STYLE: Any = {
    "font.size": 13,
    "font.sans-serif": ["DejaVu Sans"],
    "axes.titlesize": 13,
    "axes.titlelocation": "left",
    "axes.labelsize": 13,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.8,
    "axes.axisbelow": True,
    "lines.linewidth": 2,
    "lines.markersize": 6,
    "legend.frameon": False,
    "legend.fontsize": 12,
    "svg.hashsalt": "toptail",
    "svg.fonttype": "none",
    "figure.facecolor": "white",
}


@contextmanager
def style() -> Iterator[None]:
    """Figures are drawn and rendered inside of it."""
    with mpl.rc_context(_STYLE):
        yield


def make_axes(columns: int = 1, *, height_in: float = HEIGHT_IN) -> tuple[Figure, list[Axes]]:
    """A figure with so many axes side by side."""
    figure = Figure(figsize=(WIDTH_IN, height_in), layout="constrained")
    return figure, list(np.atleast_1d(figure.subplots(1, columns)))


def line_of(place: int) -> dict[str, Any]:
    """Colour and marker of the line at this place in a legend."""
    return {"color": COLOURS[place % len(COLOURS)], "marker": MARKERS[place % len(MARKERS)]}


def mark_budget(axes: Axes, reach: float) -> None:
    """A dashed line at a figure to reach; the title says so, where no line can cross it."""
    axes.axhline(reach, color=BLACK, linestyle="--", linewidth=1.3)


def use_log(axes: Axes, which: str, *, zero: float | None = None) -> None:
    """Logarithmic "x", "y" or "xy", in plain numbers: at 1, 2 and 5, or at powers of ten where there are many.

    Nothing has no place on such an axis: it is drawn at `zero`, which is then called 0.
    """

    def show(value: float, _: object) -> str:
        if zero is not None and np.isclose(value, zero):
            return "0"
        return f"{value:,.10g}" if value >= 1 else np.format_float_positional(value, precision=10, trim="-")

    for letter in which:
        axes.set(**{f"{letter}scale": "log"})
        axis, (low, high) = (axes.xaxis, axes.get_xlim()) if letter == "x" else (axes.yaxis, axes.get_ylim())
        axis.set_major_locator(LogLocator(subs=(1.0,) if high / low > _LONG else (1.0, 2.0, 5.0), numticks=12))
        axis.set_major_formatter(FuncFormatter(show))
        axis.set_minor_formatter(NullFormatter())


def add_legend(figure: Figure, axes: Axes, *, columns: int = 4) -> None:
    """The legend above the axes, where it covers nothing."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=min(columns, len(labels)))


def label(axes: Axes, x: str, y: str, title: str = "") -> None:
    """Names of the axes, with their units."""
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_title(title)


def render_svg(figure: Figure) -> bytes:
    """The figure as SVG; words stay words, which are small, can be searched and are read aloud."""
    out = io.BytesIO()
    figure.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()


def render_png(figure: Figure, *, dots_per_inch: int = 100) -> bytes:
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=dots_per_inch, metadata={"Software": None})
    return out.getvalue()
