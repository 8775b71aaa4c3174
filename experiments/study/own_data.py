"""One's own data: a column of a CSV, Parquet or NDJSON file, as scores or as events.

Scores are finite numbers. A board counts in points of 10^-decimals: the fewest decimals are taken that keep every score
as it is; where 2^53 points do not allow that, scores are rounded, and the note says so.

What is wrong is said with its place: the line of CSV and NDJSON as an editor counts it, the row of Parquet from 1. CSV
has a header.
"""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from experiments.study.workloads import Items, Scores
from hybrid.config import MAX_DECIMALS, MAX_EXACT
from sketches.values import Floats

LINES = (".ndjson", ".jsonl")
LEAST_ROWS = 1_000

_USUAL = ("score", "points", "value", "item", "event")
_NUMBER = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?\s*$"


class BadData(Exception):
    """A file that cannot be experimented with, and where that shows."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column as it was read. `lines` are where the rows of NDJSON stand."""

    path: Path
    name: str
    values: pa.Array
    lines: Sequence[int] = ()

    @property
    def is_text(self) -> bool:
        return bool(pa.types.is_string(self.values.type) or pa.types.is_large_string(self.values.type))

    @property
    def is_numeric(self) -> bool:
        """Whether its first value is a number: scores, by the look of it."""
        if not self.is_text:
            return True
        return bool(len(self.values)) and bool(pc.match_substring_regex(self.values[:1], _NUMBER)[0].as_py())

    def at(self, row: int) -> str:
        """Where a row stands, for a message."""
        if self.lines:
            return f"{self.path.name}, line {self.lines[row]}"
        if self.path.suffix.lower() == ".parquet":
            return f"{self.path.name}, row {row + 1}"
        return f"{self.path.name}, line {_line_of(self.path, row)}"


def load_data(path: Path, name: str | None = None) -> Scores | Items:
    """Scores where the column begins with a number, items elsewhere; enough of them to measure something."""
    column = load_column(path, name)
    data = parse_scores(column) if column.is_numeric else parse_items(column)
    if len(data) < LEAST_ROWS:
        raise BadData(f"{path.name} has {len(data):,} rows: below {LEAST_ROWS:,} there is nothing to measure")
    return data


def load_column(path: Path, name: str | None = None) -> Column:
    """The column of that name; without one that of a usual name, or the only one."""
    suffix = path.suffix.lower()
    try:
        if suffix == ".parquet":
            chosen = _choose(path, pq.read_schema(path).names, name)
            column = Column(path, chosen, pq.read_table(path, columns=[chosen])[chosen].combine_chunks())
        elif suffix in LINES:
            column = _read_lines(path, name)
        else:
            column = _read_csv(path, name)
    except OSError as error:
        raise BadData(f"{path.name} cannot be read: {error.strerror or error}") from None
    except pa.ArrowException as error:
        raise BadData(f"{path.name} cannot be read: {error}") from None
    if not len(column.values):
        raise BadData(f"{path.name} has no rows")
    return column


def parse_scores(column: Column) -> Scores:
    """The scores in a column, in points."""
    values = _parse_numbers(column)
    decimals, is_kept = _find_decimals(values)
    points = np.rint(values * 10**decimals).astype(np.int64)
    note = "" if is_kept else f"rounded to {decimals} decimals: more do not fit a board"
    return Scores(column.path.name, points, decimals, note)


def parse_items(column: Column) -> Items:
    """The items in a column, one an event."""
    items = column.values.cast(pa.large_string())
    _refuse_first(column, items.is_null(), "is empty")
    return Items(column.path.name, items)


def _parse_numbers(column: Column) -> Floats:
    values = column.values
    _refuse_first(column, values.is_null(), "is empty")
    if column.is_text:
        _refuse_first(column, pc.invert(pc.match_substring_regex(values, _NUMBER)), "is not a number")
        values = pc.utf8_trim_whitespace(values)
    elif pa.types.is_boolean(values.type):
        raise BadData(f"{column.at(0)}: {column.name} is true or false, not a number")
    try:
        floats = np.asarray(values.cast(pa.float64()).to_numpy(zero_copy_only=False))
    except pa.ArrowException:
        raise BadData(f"{column.path.name}: {column.name} has {values.type}, not numbers") from None
    _refuse_first(column, pa.array(~(np.abs(floats) < MAX_EXACT)), "is not a finite number below 2^53")
    return floats


def _refuse_first(column: Column, is_wrong: pa.Array, what: str) -> None:
    row = pc.index(is_wrong, True).as_py()
    if row >= 0:
        value = column.values[row].as_py()
        shown = "" if value is None else f" {str(value)[:100]!r}"
        raise BadData(f"{column.at(row)}: {column.name}{shown} {what}")


def _find_decimals(values: Floats) -> tuple[int, bool]:
    """The fewest decimals that keep all values, or the most that fit; and whether they are kept."""
    largest = float(np.abs(values).max())
    for decimals in range(MAX_DECIMALS + 1):
        if largest * 10**decimals >= MAX_EXACT:
            return max(decimals - 1, 0), False
        if (np.round(values, decimals) == values).all():
            return decimals, True
    return MAX_DECIMALS, False


def _choose(path: Path, found: Sequence[str], wanted: str | None) -> str:
    if wanted is not None and wanted in found:
        return wanted
    usual = [name for name in _USUAL if name in found]
    if wanted is None and (usual or len(found) == 1):
        return (usual or found)[0]
    asked = "say which column with --column" if wanted is None else f"there is no column {wanted!r}"
    raise BadData(f"{path.name}: {asked}; it has {', '.join(map(repr, found[:50])) or 'none'}")


def _read_csv(path: Path, wanted: str | None) -> Column:
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        header = next(csv.reader(file, delimiter=_delimiter(path)), [])
    name = _choose(path, header, wanted)
    torn: list[pa_csv.InvalidRow] = []

    def note(row: pa_csv.InvalidRow) -> str:
        torn.append(row)
        return "skip"

    table = pa_csv.read_csv(
        path,
        read_options=pa_csv.ReadOptions(use_threads=False),
        parse_options=pa_csv.ParseOptions(
            delimiter=_delimiter(path), newlines_in_values=True, invalid_row_handler=note
        ),
        convert_options=pa_csv.ConvertOptions(include_columns=[name], column_types={name: pa.large_string()}),
    )
    if torn:
        where = f"{path.name}, line {_line_of(path, torn[0].number - 2)}" if torn[0].number else path.name
        raise BadData(f"{where}: {torn[0].expected_columns} columns, not {torn[0].actual_columns}: {torn[0].text!r}")
    return Column(path, name, table[name].combine_chunks())


def _read_lines(path: Path, wanted: str | None) -> Column:
    decode = msgspec.json.Decoder(dict[str, Any]).decode
    values: list[Any] = []
    lines: list[int] = []
    name = wanted
    with path.open("rb") as file:
        for line, text in _filled_lines(file):
            try:
                row = decode(text)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise BadData(f"{path.name}, line {line}: not a JSON object: {error}") from None
            if name is None or not values:
                name = _choose(path, list(row), wanted)
            if name not in row:
                raise BadData(f"{path.name}, line {line}: there is no {name!r}")
            values.append(row[name])
            lines.append(line)
    return Column(path, name or "", _as_array(path, name or "", values, lines), lines)


def _as_array(path: Path, name: str, values: list[Any], lines: list[int]) -> pa.Array:
    """Values of one kind, that of the first, as an array."""
    kind: type | tuple[type, ...] = str if values and isinstance(values[0], str) else (int, float)
    for value, line in zip(values, lines, strict=True):
        if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
            wanted = "text" if kind is str else "a number"
            raise BadData(f"{path.name}, line {line}: {name} {str(value)[:100]!r} is not {wanted}")
    return pa.array(values, pa.large_string() if kind is str else pa.float64())


def _filled_lines(file: Any) -> Iterator[tuple[int, bytes]]:
    for line, text in enumerate(file, 1):
        if text.strip():
            yield line, text.removeprefix(b"\xef\xbb\xbf") if line == 1 else text


def _line_of(path: Path, row: int) -> int:
    """The line on which a row of CSV begins; looked for only when there is something to say about it."""
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        reader = csv.reader(file, delimiter=_delimiter(path))
        next(reader, None)
        before, seen = reader.line_num, 0
        for values in reader:
            if values:
                if seen == row:
                    return before + 1
                seen += 1
            before = reader.line_num
    return before + 1


def _delimiter(path: Path) -> str:
    return "\t" if path.suffix.lower() == ".tsv" else ","
