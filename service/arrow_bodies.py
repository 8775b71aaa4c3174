"""Events as an Arrow stream, from anybody: its headers are read by hand before pyarrow reads anything else.

    item    string, large_string, or a dictionary of one of them; never null
    count   whole numbers; left out or null: 1
    at      whole numbers, ms since 1970, or timestamps, in UTC unless they say otherwise; left out or null: now
    actor   as item; left out or null: nobody

A stream is messages. Each is a header, which is a flatbuffer, and a body of the length that it says:

    ff ff ff ff | length of the header, 4 bytes | header | body
    ff ff ff ff | 00 00 00 00                               the end

pyarrow finds what does not fit together. It also does what a header asks for, and that may be out of all proportion: a
few compressed bytes become gigabytes, one dictionary is looked at again for each of a million batches. Such streams are
refused by their headers (Arrow's Message.fbs; of old versions, which hide a compression elsewhere, every one).
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from hybrid.orderkey import Ints
from hybrid.trends.events import TrendBatch
from service.errors import ApiError

MOST_ROWS = 1_000_000
MOST_MESSAGES = 200
MOST_TEXT_BYTES = 64 * 1024 * 1024  # of a dictionary's texts, spelled out row by row

_MARK, _V5 = 0xFFFFFFFF, 4
_SCHEMA, _DICTIONARY, _ROWS = 1, 2, 3  # kinds of messages
_OPTIONS = pa.ipc.IpcReadOptions(use_threads=False)


def parse_events(body: bytes, now_ms: int) -> TrendBatch:
    """The events of a stream, each column sound in itself; whether its values can be is not looked at here."""
    _check_headers(body)
    try:
        with pa.ipc.open_stream(body, options=_OPTIONS) as reader:
            _check_columns(reader.schema)
            table = reader.read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _unsound(str(error)) from None
    for name in ("item", "actor"):
        if name in table.column_names:
            _check_size(table[name], name)
    return TrendBatch(
        table["item"],
        _read_numbers(table, "count", 1),
        _read_numbers(table, "at", now_ms),
        table["actor"] if "actor" in table.column_names else None,
    )


class _Message(NamedTuple):
    """What a header says: the kind, the length of the body, and of rows how many, and whether they are compressed."""

    kind: int
    size_bytes: int
    rows: int = 0
    is_compressed: bool = False


class _Table:
    """A table of a flatbuffer: its fields are numbered, and those that are absent are 0."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data, self._at = data, at
        self._vtable = at - _read("<i", data, at)

    def number(self, field: int, form: str) -> int:
        place = self._place(field)
        return _read(form, self._data, self._at + place) if place else 0

    def table(self, field: int) -> "_Table":
        place = self._place(field)
        if not place:
            raise struct.error("a part of the header is missing")
        return _Table(self._data, self._at + place + _read("<I", self._data, self._at + place))

    def has(self, field: int) -> bool:
        return self._place(field) != 0

    def _place(self, field: int) -> int:
        slot = 4 + 2 * field
        return _read("<H", self._data, self._vtable + slot) if slot < _read("<H", self._data, self._vtable) else 0


def _check_headers(body: bytes) -> None:
    """Refuse a stream for what its headers claim."""
    rows = 0
    try:
        for number, message in enumerate(_walk(body)):
            if number == MOST_MESSAGES:
                raise ApiError("too_large", f"an Arrow stream has at most {MOST_MESSAGES} messages: join its batches")
            if message.is_compressed:
                raise ApiError("invalid_body", "the buffers of the Arrow stream are compressed: write it without")
            if not 0 <= message.rows <= message.size_bytes:
                raise _unsound(f"{message.rows} rows in {message.size_bytes} bytes")
            rows += message.rows if message.kind == _ROWS else 0
            if rows > MOST_ROWS:
                raise ApiError("too_large", f"an Arrow stream has at most {MOST_ROWS} rows")
    except struct.error as error:
        raise _unsound(f"a header cannot be read: {error}") from None


def _walk(body: bytes) -> Iterator[_Message]:
    at = 0
    while at < len(body):
        mark, length = struct.unpack_from("<Ii", body, at)
        if mark != _MARK or length < 0:
            raise _unsound(f"no message begins at byte {at}")
        at += 8
        if not length:
            break
        message = _parse_header(body[at : at + length])
        at += length + message.size_bytes
        if message.size_bytes < 0 or at > len(body):
            raise _unsound("it is cut short")
        yield message
    if at < len(body):
        raise _unsound("it goes on after its end")


def _parse_header(header: bytes) -> _Message:
    message = _Table(header, _read("<I", header, 0))
    version, kind, size_bytes = (message.number(field, form) for field, form in ((0, "<h"), (1, "<B"), (3, "<q")))
    if version != _V5 or kind not in (_SCHEMA, _DICTIONARY, _ROWS):
        raise _unsound(f"a message of version {version + 1} and kind {kind}; only schemas and batches of V5 are taken")
    if kind == _SCHEMA:
        return _Message(kind, size_bytes)
    batch = message.table(2) if kind == _ROWS else message.table(2).table(1)
    return _Message(kind, size_bytes, batch.number(0, "<q"), batch.has(3))


def _read(form: str, data: bytes, at: int) -> int:
    if at < 0:
        raise struct.error("an offset leads out of the header")
    (number,) = struct.unpack_from(form, data, at)
    return int(number)


def _check_columns(schema: pa.Schema) -> None:
    """Refuse columns that are not known, and types that are not those of the table above."""
    names = schema.names
    if "item" not in names:
        raise ApiError("invalid_field", "an Arrow stream of events needs a column 'item'", field="item")
    for field in schema:
        kind, name = field.type, field.name
        if name not in ("item", "count", "at", "actor") or names.count(name) > 1:
            said = f"columns are item, count, at and actor, each once, not {name[:100]!r}"
            raise ApiError("invalid_field", said, field=name[:100])
        is_number = pa.types.is_integer(kind) or (name == "at" and pa.types.is_timestamp(kind))
        if not (_is_text(kind) if name in ("item", "actor") else is_number):
            wanted = {"count": "whole numbers", "at": "ms since 1970, or timestamps"}.get(name, "strings")
            raise ApiError("invalid_field", f"the column {name} is of {wanted}, not {str(kind)[:100]}", field=name)


def _is_text(kind: pa.DataType) -> bool:
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(plain) or pa.types.is_large_string(plain))


def _check_size(column: pa.ChunkedArray, name: str) -> None:
    """Refuse a dictionary whose texts would be huge, spelled out row by row."""
    if not pa.types.is_dictionary(column.type):
        return
    lengths = [pc.binary_length(chunk.dictionary).take(chunk.indices) for chunk in column.chunks]
    if sum(pc.sum(each).as_py() or 0 for each in lengths) > MOST_TEXT_BYTES:
        raise ApiError("too_large", f"the column {name} has more than {MOST_TEXT_BYTES} bytes of text", field=name)


def _read_numbers(table: pa.Table, name: str, default: int) -> Ints | None:
    """A column as whole numbers."""
    if name not in table.column_names:
        return None
    column = table[name]
    try:
        if pa.types.is_timestamp(column.type):
            in_ms = pc.CastOptions(pa.timestamp("ms", column.type.tz), allow_time_truncate=True)
            column = column.cast(options=in_ms)
        numbers: Ints = pc.fill_null(column.cast(pa.int64()), default).to_numpy()
    except (pa.ArrowException, ValueError) as error:
        raise ApiError("invalid_field", f"{name}: {str(error)[:200]}", field=name) from None
    return numbers


def _unsound(reason: str) -> ApiError:
    return ApiError("invalid_body", f"the body is not a sound Arrow stream of events: {reason[:300]}")
