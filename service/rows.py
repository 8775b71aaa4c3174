"""Rows of files as scores: from the columns of a row to what the wire takes, or to what is wrong with it.

Only what would be lost on the way is checked here: text that is no number, numbers that a double does not hold,
players that are not UTF-8. Whether a board takes a score is for the service to say.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, NamedTuple

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)


class Row(NamedTuple):
    """A score and where it stood; `key` tells it from all others of its source, for ever."""

    line: int
    key: str
    score: dict[str, Any]


class BadRow(NamedTuple):
    """A row that is no score, and why."""

    line: int
    message: str


AnyRow = Row | BadRow


class _Wrong(Exception):
    """What is wrong with a row."""


@dataclass(frozen=True, slots=True)
class Columns:
    """In which column each part of a score stands. The first two must be there; an id only where one is named."""

    player: str = "player"
    score: str = "score"
    subscore: str = "subscore"
    at: str = "at"
    tag: str = "tag"
    id: str | None = None

    @property
    def names(self) -> list[str]:
        return [name for name in (self.player, self.score, self.subscore, self.at, self.tag, self.id) if name]

    def missing(self, found: list[str]) -> list[str]:
        """The columns that are needed and not there."""
        return [name for name in (self.player, self.score, self.id) if name and name not in found]


def make_row(line: int, values: Mapping[str, Any], columns: Columns) -> AnyRow:
    """The score of a row; parts that may be left out are when they are empty."""
    try:
        score = {"player": _parse_player(values, columns.player), "score": _parse_number(values, columns.score)}
        if values.get(columns.subscore) not in (None, ""):
            score["subscore"] = _parse_number(values, columns.subscore)
        if values.get(columns.at) not in (None, ""):
            score["at"] = _parse_time(values[columns.at])
        for name, column in (("tag", columns.tag), ("id", columns.id)):
            if column is not None and values.get(column) not in (None, ""):
                score[name] = str(values[column])
        return Row(line, str(line), score)
    except _Wrong as wrong:
        return BadRow(line, str(wrong))


def _parse_player(values: Mapping[str, Any], column: str) -> str:
    value = values.get(column)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not value:
        raise _Wrong(f"{column} is text, not {value!r}")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise _Wrong(f"{column} is not UTF-8: {value!r}") from None
    return value


def _parse_number(values: Mapping[str, Any], column: str) -> int | float:
    value = values.get(column)
    if isinstance(value, str):
        value = Decimal(value.strip()) if _NUMBER.fullmatch(value.strip()) else value
    number = _exact(value) if isinstance(value, Decimal) else value
    if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
        raise _Wrong(f"{column} is a number, not {_show(values.get(column))}")
    if abs(number) >= 2**63:
        raise _Wrong(f"{column} is below 2^63, not {_show(values.get(column))}")
    return number


def _exact(value: Decimal) -> int | float:
    """The same number as an int or a double, which must hold it."""
    if value.is_finite() and value == value.to_integral_value() and abs(value) < 2**64:
        return int(value)
    number = float(value)
    if math.isfinite(number) and Decimal(repr(number)) != value:
        raise _Wrong(f"{value} has more digits than a double holds")
    return number


def _parse_time(value: Any) -> Any:
    """Milliseconds or RFC 3339, whichever it is; times of Parquet without a zone are UTC."""
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).isoformat()
    if isinstance(value, str):
        return int(value) if value.isascii() and value.isdigit() and len(value) < 18 else value
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise _Wrong(f"at is a time or milliseconds since 1970, not {_show(value)}")


def _show(value: Any) -> str:
    shown = repr(str(value) if isinstance(value, Decimal) else value)
    return shown if len(shown) <= 100 else shown[:100] + "..."
