"""Events of a trend: checked, summed up to rows, and rows packed into an entry of a stream. Pure.

A row says how often an item occurred within one bucket of time (the trend's shortest pane) by one actor, or by nobody
in particular. Whatever is summed up already costs nothing again: requests of one turn of the loop become one entry, and
all that the keeper reads in a tick becomes one batch.

An entry is an Arrow record batch of rows, its buffers compressed; the schema is ours and not part of it.
"""

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import NoneType
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hybrid.errors import AtOutOfRange, InvalidField
from hybrid.events import AHEAD_MS, MAX_PLAYER_CHARS
from hybrid.orderkey import Ints
from hybrid.trends.config import Trend
from sketches.items import as_one_piece

Strings: TypeAlias = Sequence[str | None] | pa.Array | pa.ChunkedArray
Numbers: TypeAlias = Sequence[int] | Ints

MAX_COUNT = 1_000_000  # of one event
MAX_SUM = 10_000_000_000  # of one request: a pane of a day can then not outgrow 63 bits
_CONTROLS = r"[\x00-\x1f\x7f-\x{9f}]"
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_TEXT_TYPES = (pa.string(), pa.large_string(), pa.string_view(), pa.null())
_DOTS = pa.array([".", ".."], pa.large_string())
_SCHEMA = pa.schema(
    [
        pa.field("bucket", pa.int64(), nullable=False),
        pa.field("item", pa.large_string(), nullable=False),
        pa.field("count", pa.int64(), nullable=False),
        pa.field("actor", pa.large_string()),
    ]
)
_NARROW = pa.schema([field.with_type(pa.string()) if field.type == pa.large_string() else field for field in _SCHEMA])
_PACKED = pa.ipc.IpcWriteOptions(compression="zstd")


@dataclass(frozen=True, slots=True)
class TrendBatch:
    """Events as a caller has them, in columns; what is left out is 1, now, and nobody in particular."""

    items: Strings
    counts: Numbers | None = None
    at_ms: Numbers | None = None
    actors: Strings | None = None


@dataclass(frozen=True, slots=True)
class Rows:
    """Events summed up by bucket, item and actor. `table` has the columns of the schema."""

    table: pa.Table

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @property
    def buckets(self) -> Ints:
        return _ints(self.table["bucket"])

    @property
    def counts(self) -> Ints:
        return _ints(self.table["count"])

    @property
    def items(self) -> pa.LargeStringArray:
        return _flat(self.table["item"])

    @property
    def actors(self) -> pa.LargeStringArray:
        return _flat(self.table["actor"])

    @property
    def has_actors(self) -> bool:
        return bool(self.table["actor"].null_count < len(self))

    @property
    def total(self) -> int:
        return int(self.counts.sum())

    def take(self, places: Ints) -> "Rows":
        return Rows(self.table.take(pa.array(places)))


def join_rows(pieces: Sequence[Rows]) -> Rows:
    """Rows of several one after the other: a bucket, item and actor may be there more than once."""
    return Rows(pa.concat_tables([piece.table for piece in pieces]) if pieces else _SCHEMA.empty_table())


def sum_rows(pieces: Sequence[Rows]) -> Rows:
    """Rows of several as one."""
    return _group(join_rows(pieces).table) if len(pieces) > 1 else join_rows(pieces)


def make_rows(items: Strings, counts: Ints, buckets: Ints, actors: Strings | None = None) -> Rows:
    """Events that were checked already, summed up."""
    names = pa.nulls(len(counts), pa.large_string()) if actors is None else actors
    return _group(pa.table([buckets, items, counts, names], schema=_SCHEMA))


def check_events(trend: Trend, batch: TrendBatch, now_ms: int) -> Rows:
    """What a request says happened, summed up; refused whole if any of it cannot be."""
    items = _as_strings(batch.items, "item")
    if items.null_count:
        raise InvalidField("item", "item is text, not null", pc.index(items.is_null(), True).as_py())
    n = len(items)
    counts = _check_counts(batch.counts, n)
    at_ms = _check_times(batch.at_ms, n, now_ms)
    if counts is None and at_ms is None and batch.actors is None:  # the usual case: every text is looked at once
        counted = pc.value_counts(items)
        _check_texts(items, counted.field(0), "item")
        buckets = np.full(len(counted), now_ms // trend.bucket_ms)
        nobody = pa.nulls(len(counted), pa.large_string())
        return Rows(pa.table([buckets, counted.field(0), counted.field(1), nobody], schema=_SCHEMA))
    _check_texts(items, pc.unique(items), "item")
    actors = None if batch.actors is None else _as_strings(batch.actors, "actor")
    if actors is not None:
        _check_texts(actors, pc.drop_null(pc.unique(actors)), "actor")
        if len(actors) != n:
            raise InvalidField("actor", f"{n} items need as many actors, not {len(actors)}")
    buckets = (np.full(n, now_ms) if at_ms is None else at_ms) // trend.bucket_ms
    return make_rows(items, np.ones(n, np.int64) if counts is None else counts, buckets, actors)


def pack_rows(rows: Rows) -> bytes:
    """An entry."""
    (batch,) = rows.table.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], _SCHEMA)]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, _SCHEMA, options=_PACKED) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def unpack_rows(entry: bytes) -> Rows:
    with pa.ipc.open_stream(entry) as reader:
        return Rows(reader.read_all())


def deal(trend: Trend, rows: Rows) -> dict[int, Rows]:
    """Rows by the partition of their items."""
    if len(trend.tags) == 1:
        return {0: rows}
    partitions = trend.item_hash.of_arrow(rows.items)
    return {number: rows.take(np.flatnonzero(partitions == number)) for number in np.unique(partitions).tolist()}


def check_item(item: str) -> str:
    strings = _as_strings([item], "item")
    _check_texts(strings, strings, "item")
    return item


def _group(table: pa.Table) -> Rows:
    if table.nbytes < 2**31:
        table = table.cast(_NARROW)  # Arrow groups texts of 32-bit offsets five times as fast
    grouped = table.group_by(["bucket", "item", "actor"], use_threads=False).aggregate([("count", "sum")])
    return Rows(grouped.rename_columns({"count_sum": "count"}).select(_SCHEMA.names).cast(_SCHEMA))


def _as_strings(texts: Strings, field: str) -> pa.LargeStringArray:
    """The texts in one Arrow array; whether they are sound is not looked at yet."""
    if not isinstance(texts, pa.Array | pa.ChunkedArray):
        return _as_strings_of_list(texts, field)
    kind = texts.type.value_type if pa.types.is_dictionary(texts.type) else texts.type
    if kind not in _TEXT_TYPES:  # numbers would be printed
        raise InvalidField(field, f"{field} is text, not {kind}")
    try:
        return as_one_piece(texts).cast(pa.large_string())
    except (pa.ArrowException, ValueError) as error:
        raise InvalidField(field, f"{field} is text: {error}") from error


def _as_strings_of_list(texts: Sequence[str | None], field: str) -> pa.LargeStringArray:
    if set(map(type, texts)) <= {str, NoneType}:
        with suppress(UnicodeEncodeError):
            return pa.array(texts, pa.large_string())
    for index, text in enumerate(texts):
        if text is not None and (not isinstance(text, str) or _SURROGATE.search(text)):
            raise InvalidField(field, f"{field} is text, not {text!r:.200}", index)
    return pa.array(texts, pa.large_string())


def _check_texts(texts: pa.LargeStringArray, distinct: pa.LargeStringArray, field: str) -> None:
    """Refuse texts that cannot be, by the distinct ones among them."""
    try:
        distinct.validate(full=True)
    except pa.ArrowException as error:
        raise InvalidField(field, f"{field} is text: {error}") from error
    length = pc.utf8_length(distinct)
    is_long = pc.or_(pc.equal(length, 0), pc.greater(length, MAX_PLAYER_CHARS))
    is_odd = pc.or_(pc.match_substring_regex(distinct, _CONTROLS), pc.is_in(distinct, value_set=_DOTS))
    is_bad = pc.or_(is_long, is_odd)
    if pc.any(is_bad).as_py():
        bad = distinct.filter(is_bad)[0].as_py()
        said = f"{field} is 1 to {MAX_PLAYER_CHARS} characters without controls, and not . or .., not {bad[:200]!r}"
        raise InvalidField(field, said, pc.index(texts, bad).as_py())


def _check_counts(counts: Numbers | None, n: int) -> Ints | None:
    if counts is None:
        return None
    found = _whole_numbers(counts, "count", n)
    is_bad = (found < 1) | (found > MAX_COUNT)
    if is_bad.any():
        index = int(is_bad.argmax())
        raise InvalidField("count", f"count goes from 1 to {MAX_COUNT}, not {found[index]}", index)
    if int(found.sum()) > MAX_SUM:
        raise InvalidField("count", f"the counts of one request sum to at most {MAX_SUM}, not {found.sum()}")
    return found


def _check_times(at_ms: Numbers | None, n: int, now_ms: int) -> Ints | None:
    if at_ms is None:
        return None
    found = _whole_numbers(at_ms, "at", n)
    is_bad = (found < 0) | (found > now_ms + AHEAD_MS)
    if is_bad.any():
        index = int(is_bad.argmax())
        raise AtOutOfRange("at", f"at goes from 0 to {now_ms + AHEAD_MS} (ms since 1970), not {found[index]}", index)
    return found


def _whole_numbers(numbers: Numbers, field: str, n: int) -> Ints:
    """The numbers, none of them rounded or wrapped."""
    if len(numbers) != n:
        raise InvalidField(field, f"{n} items need as many of {field}, not {len(numbers)}")
    if isinstance(numbers, np.ndarray) and numbers.dtype.kind == "i":
        return numbers.astype(np.int64, copy=False)
    given = numbers.tolist() if isinstance(numbers, np.ndarray) else numbers
    for index, number in enumerate(given):
        if type(number) is not int or not -(2**63) <= number < 2**63:
            raise InvalidField(field, f"{field} is a whole number of at most 63 bits, not {number!r:.200}", index)
    return np.array(given, np.int64)


def _ints(column: pa.ChunkedArray) -> Ints:
    numbers: Ints = column.to_numpy()
    return numbers


def _flat(column: pa.ChunkedArray) -> pa.LargeStringArray:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], pa.large_string())
