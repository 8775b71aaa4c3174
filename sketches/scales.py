"""Scale functions: how a t-digest shares its cells out over the quantiles.

A scale maps the share q in [0, 1] of values below a point to a position k in [0, cells]. Between two whole
positions lies one cell, so a steep scale means small cells there.

    k1   2 cells / pi * asin(sqrt(q))        cell weight ~ sqrt(q (1 - q)); never more than pi / (2 cells)
    k2   logit(q), spread over the cells     cell weight ~ q (1 - q): a constant *relative* error towards both ends
    k3   like k2, by the nearer end alone    cell weight ~ min(q, 1 - q)

k2 and k3 are infinite at the ends; they are cut where a single value of `total` sits, and take weights as counts.
Reference: T. Dunning, O. Ertl, "Computing extremely accurate quantiles using t-digests", 2019.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from sketches.errors import InvalidInput
from sketches.values import Floats


class Scale(NamedTuple):
    """Both directions of one scale function; each takes (points, cells, total)."""

    name: str
    code: int
    position: Callable[[Floats, int, float], Floats]
    share: Callable[[Floats, int, float], Floats]


def _k1_position(q: Floats, cells: int, _total: float) -> Floats:
    return np.arcsin(np.sqrt(q)) * (2 * cells / np.pi)


def _k1_share(k: Floats, cells: int, _total: float) -> Floats:
    return np.sin(k * (np.pi / (2 * cells))) ** 2


def _reach(cells: int, total: float) -> float:
    """Half the length of the logarithmic axis: as far as one value of `total` lies from the middle."""
    return float(np.log(max(total, 2 * cells)))


def _from_axis(t: Floats, cells: int, total: float) -> Floats:
    return (np.clip(t / _reach(cells, total), -1, 1) + 1) * (cells / 2)


def _to_axis(k: Floats, cells: int, total: float) -> Floats:
    return (k * (2 / cells) - 1) * _reach(cells, total)


def _k2_position(q: Floats, cells: int, total: float) -> Floats:
    with np.errstate(divide="ignore"):
        return _from_axis(np.log(q) - np.log1p(-q), cells, total)


def _k2_share(k: Floats, cells: int, total: float) -> Floats:
    return 1 / (1 + np.exp(-_to_axis(k, cells, total)))


def _k3_position(q: Floats, cells: int, total: float) -> Floats:
    with np.errstate(divide="ignore"):
        return _from_axis(np.where(q < 0.5, np.log(2 * q), -np.log(2 * (1 - q))), cells, total)


def _k3_share(k: Floats, cells: int, total: float) -> Floats:
    t = _to_axis(k, cells, total)
    tail = np.exp(-np.abs(t)) / 2
    return np.where(t < 0, tail, 1 - tail)


SCALES = {
    scale.name: scale
    for scale in (
        Scale("k1", 1, _k1_position, _k1_share),
        Scale("k2", 2, _k2_position, _k2_share),
        Scale("k3", 3, _k3_position, _k3_share),
    )
}


def parse_scale(name: str) -> Scale:
    if name not in SCALES:
        raise InvalidInput(f"scale must be one of {', '.join(SCALES)}, not {name!r}")
    return SCALES[name]
