"""Arrow streams of events, as good clients write them and as nobody should."""

import io
import struct
from typing import Any

import pyarrow as pa


def write_stream(columns: dict[str, Any] | pa.Table, *, rows: int = 1_000_000, **options: Any) -> bytes:
    """A stream of these columns, in batches of so many rows."""
    table = columns if isinstance(columns, pa.Table) else pa.table(columns)
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table, max_chunksize=rows)
    return sink.getvalue()


def coded(places: list[int], texts: list[str]) -> pa.DictionaryArray:
    """A dictionary array, whose places may lie outside the dictionary."""
    return pa.DictionaryArray.from_arrays(pa.array(places, pa.int32()), pa.array(texts), safe=False)


def torn(*offsets: int) -> bytes:
    """A stream of the items "ab" and "c", whose offsets are these instead of 0, 2 and 3."""
    return _change(write_stream({"item": ["ab", "c"]}), struct.pack("<3i", 0, 2, 3), struct.pack("<3i", *offsets))


def lie(stream: bytes, rows: int, claimed: int) -> bytes:
    """The stream with another number of rows wherever its headers say how many."""
    return _change(stream, struct.pack("<q", rows), struct.pack("<q", claimed))


def _change(stream: bytes, old: bytes, new: bytes) -> bytes:
    changed = stream.replace(old, new)
    assert changed != stream
    return changed
