"""Where scores are loaded from: CSV, NDJSON, Parquet, a pipe, a ZSET; in chunks, in bounded memory.

A source is read in the same order with the same lines whenever it is read again; its `identity` is a digest of what is
in it, so that a row is known by (identity, line). Of a file that is all of its content, of a pipe its first 64 KiB. A
ZSET has no lines, but every member once: there a row is known by its member.

CSV has a header. Lines are counted as an editor counts them; rows of Parquet and members of a ZSET from 1.
"""

import asyncio
import csv
import io
import itertools
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from hashlib import blake2b, file_digest
from pathlib import Path
from typing import Any, BinaryIO, Literal, Protocol
from urllib.parse import urlsplit

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from redis.asyncio import Redis
from redis.exceptions import RedisError

from service.rows import AnyRow, BadRow, Columns, Row, make_row

Format = Literal["csv", "ndjson", "parquet"]

CHUNK_ROWS = 5_000
HEAD_BYTES = 64 * 1024
SUFFIXES: dict[str, Format] = {
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".parquet": "parquet",
}

_digest = partial(blake2b, digest_size=10)


class BadSource(Exception):
    """A source that cannot be read at all."""


class Source(Protocol):
    """`total` and `position` are in whatever unit the source advances; `word` is what a row is called."""

    identity: str
    total: int | None
    word: str

    def position(self) -> int: ...

    def chunks(self) -> AsyncIterator[Sequence[AnyRow]]: ...


@dataclass(slots=True)
class LineSource:
    """CSV or NDJSON, from a file or a pipe."""

    file: BinaryIO
    format: Format
    columns: Columns
    identity: str
    total: int | None = None
    delimiter: str = ","
    word: str = "line"

    def position(self) -> int:
        if self.total is None:
            return 0
        return self.total if self.file.closed else self.file.tell()

    def chunks(self) -> AsyncIterator[Sequence[AnyRow]]:
        lines = _csv_rows(self.file, self.columns, self.delimiter) if self.format == "csv" else _json_rows(self)
        return _in_thread(lines)


@dataclass(slots=True)
class ParquetSource:
    """A Parquet file, batch by batch."""

    path: Path
    columns: Columns
    identity: str
    total: int | None = None
    word: str = "row"
    _read: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.total = pq.ParquetFile(self.path).metadata.num_rows

    def position(self) -> int:
        return self._read

    def chunks(self) -> AsyncIterator[Sequence[AnyRow]]:
        return _in_thread(self._rows())

    def _rows(self) -> Iterator[AnyRow]:
        with pq.ParquetFile(self.path, buffer_size=1 << 20) as file:
            found = file.schema_arrow.names
            _check_columns(self.columns, found)
            for batch in file.iter_batches(CHUNK_ROWS, columns=[n for n in self.columns.names if n in found]):
                for values in batch.to_pylist():
                    self._read += 1
                    yield make_row(self._read, values, self.columns)


@dataclass(slots=True)
class ZsetSource:
    """A ZSET of a Redis, by ZSCAN, which may show a member twice: its id makes it count once.

    Where scores are summed a member counts once whatever its score; else a score that changed counts again.
    """

    url: str
    key: str
    is_sum: bool
    identity: str = ""
    total: int | None = None
    word: str = "member"
    _read: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        where = f"{parts.hostname}:{parts.port}{parts.path} {self.key}"
        self.identity = _digest(where.encode()).hexdigest()

    def position(self) -> int:
        return self._read

    async def chunks(self) -> AsyncIterator[Sequence[AnyRow]]:
        try:
            async with Redis.from_url(self.url) as redis:
                self.total = await redis.zcard(self.key)
                if not self.total:
                    raise BadSource(f"there is no ZSET {self.key!r} at {_without_password(self.url)}")
                cursor = -1
                while cursor:
                    cursor, members = await redis.zscan(self.key, max(cursor, 0), count=CHUNK_ROWS)
                    yield [self._row(member, score) for member, score in members]
        except (RedisError, ValueError, OSError) as error:
            raise BadSource(f"the ZSET {self.key!r} cannot be read: {error}") from None

    def _row(self, member: Any, score: Any) -> AnyRow:
        self._read += 1
        player = member.decode(errors="surrogateescape")
        row = make_row(self._read, {"player": player, "score": Decimal(repr(score))}, Columns())
        if isinstance(row, BadRow):
            return BadRow(row.line, f"{player!r}: {row.message}")
        return Row(row.line, "" if self.is_sum else repr(score), row.score)


def open_file(path: Path, columns: Columns, *, format_: Format | None, delimiter: str | None) -> Source:
    """The source that a file is, by its name or, where that says nothing, by how it begins."""
    try:
        file = path.open("rb")
        head = file.read(HEAD_BYTES)
        file.seek(0)
        identity = file_digest(file, _digest).hexdigest()
        size_bytes = file.tell()
        file.seek(0)
    except OSError as error:
        raise BadSource(f"{str(path)!r} cannot be read: {error.strerror}") from None
    format_ = format_ or SUFFIXES.get(path.suffix.lower()) or _sniff(head)
    if format_ != "parquet":
        split = delimiter or ("\t" if path.suffix.lower() == ".tsv" else ",")
        return LineSource(file, format_, columns, identity, size_bytes, split)
    file.close()
    try:
        return ParquetSource(path, columns, identity)
    except (pa.ArrowException, OSError) as error:
        raise BadSource(f"{str(path)!r} is not Parquet: {error}") from None


def open_pipe(columns: Columns, *, format_: Format | None, delimiter: str | None) -> Source:
    """The source that comes in by the standard input."""
    head = sys.stdin.buffer.read(HEAD_BYTES)
    format_ = format_ or _sniff(head)
    if format_ == "parquet":
        raise BadSource("Parquet is read from its end: give a file, not a pipe")
    file = io.BufferedReader(_Rejoined(head, sys.stdin.buffer), HEAD_BYTES)
    return LineSource(file, format_, columns, _digest(head).hexdigest(), None, delimiter or ",")


class _Rejoined(io.RawIOBase):
    """What was read of a stream already, and then the rest."""

    def __init__(self, head: bytes, rest: BinaryIO) -> None:
        self._head, self._rest = head, rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = self._head[: len(buffer)] if self._head else self._rest.read(len(buffer))
        self._head = self._head[len(buffer) :]
        buffer[: len(piece)] = piece
        return len(piece)


def _sniff(head: bytes) -> Format:
    if head.startswith(b"PAR1"):
        return "parquet"
    return "ndjson" if head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{") else "csv"


async def _in_thread(rows: Iterator[AnyRow]) -> AsyncIterator[Sequence[AnyRow]]:
    """Rows in chunks, read beside the event loop, which goes on answering meanwhile."""
    while chunk := await asyncio.to_thread(lambda: list(itertools.islice(rows, CHUNK_ROWS))):
        yield chunk


def _csv_rows(file: BinaryIO, columns: Columns, delimiter: str) -> Iterator[AnyRow]:
    # Bytes that are not UTF-8 come through as surrogates, so that their row is bad and not the file.
    with io.TextIOWrapper(file, "utf-8-sig", errors="surrogateescape", newline="") as text:
        reader = csv.reader(text, delimiter=delimiter, strict=True)
        names = next(reader, [])
        _check_columns(columns, names)
        while True:
            line = reader.line_num + 1
            try:
                values = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                yield BadRow(line, f"not CSV: {error}")
                continue
            if len(values) == len(names):
                yield make_row(line, dict(zip(names, values, strict=True)), columns)
            elif values:
                yield BadRow(line, f"{len(names)} columns, not {len(values)}: {delimiter.join(values)[:100]!r}")


def _json_rows(source: LineSource) -> Iterator[AnyRow]:
    decode = msgspec.json.Decoder(dict[str, Any], float_hook=Decimal).decode
    with source.file as file:
        for line, text in enumerate(file, 1):
            if not text.strip():
                continue
            try:
                values = decode(text.removeprefix(b"\xef\xbb\xbf") if line == 1 else text)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                yield BadRow(line, f"not JSON: {error}: {text[:100].decode(errors='replace')!r}")
                continue
            yield make_row(line, values, source.columns)


def _check_columns(columns: Columns, found: list[str]) -> None:
    missing = columns.missing(found)
    if missing:
        raise BadSource(f"there is no column {missing[0]!r} among {', '.join(map(repr, found[:50])) or 'none'}")


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname or ''}{parts.path}"
