"""Where a partition's entries come from: a stream of its own, or the log of a board's shard.

Either way they are read by position: everything after the last entry that the panes include. That entry stays where it
is until a later one is included, so if it is not there, a failover has lost it, and what was folded since the last
write has to be folded again.
"""

import logging
from typing import Any, NamedTuple, Protocol

import numpy as np

from hybrid.config import Board
from hybrid.errors import EntryLost
from hybrid.keys import Keys, PartitionKeys
from hybrid.link import Command, Link
from hybrid.log import REMOVE, LogEntry, parse_entry
from hybrid.orderkey import Ints
from hybrid.orderkey import Keys as Floats
from hybrid.reading import ask_all
from hybrid.trends.config import Counted, Trend
from hybrid.trends.events import Rows, make_rows, unpack_rows

log = logging.getLogger(__name__)

START = "0-0"
MAX_GAIN = 10**12  # points that one change counts for, at most: sums stay within 63 bits
_PAGE = 32  # entries in one call; each may have megabytes


class Page(NamedTuple):
    """Some entries: their rows, the id of the last one, and whether there may be more."""

    pieces: list[Rows]
    last: str
    is_end: bool


class Source(Protocol):
    """Entries by position."""

    async def read(self, position: str) -> Page:
        """The entries after a position; EntryLost if it is no longer there."""
        ...

    async def rebase(self, position: str) -> str:
        """The position to go on from, where even the one that was written is lost."""
        ...


class OwnStream:
    """The stream that intake.py writes to. Position and stream are of one slot: what loses one loses the other."""

    def __init__(self, link: Link, keys: PartitionKeys) -> None:
        self._link, self._key = link, keys.stream

    async def read(self, position: str) -> Page:
        entries = await _read_after(self._link, self._key, position)
        pieces = [unpack_rows(fields[b"r"]) for _, fields in entries]
        return Page(pieces, entries[-1][0].decode() if entries else position, len(entries) < _PAGE)

    async def rebase(self, position: str) -> str:
        log.warning("%s has no entry %s: somebody removed it; counting goes on with what is there", self._key, position)
        return START


class BoardLog:
    """The log of one shard: what players did, counted as the trend says."""

    def __init__(self, link: Link, schema: Keys, trend: Trend, board: Board, tag: str, count: Counted) -> None:
        self._link, self._key = link, schema.shard(tag).log
        self._board, self._count, self._bucket_ms = board, count, trend.bucket_ms

    async def read(self, position: str) -> Page:
        entries = await _read_after(self._link, self._key, position)
        pieces = [self._rows_of(parse_entry(entry)) for entry in entries]
        return Page(pieces, entries[-1][0].decode() if entries else position, len(entries) < _PAGE)

    async def rebase(self, position: str) -> str:
        """After the last entry whose number is not above it: so many events were counted, lost ones among them."""
        seq = position.partition("-")[0]
        command = ("XREVRANGE", self._key, f"{seq}-{2**63}", "-", "COUNT", 1)
        (found,) = await ask_all(self._link, [(self._key, command)])
        log.warning("%s has lost entry %s: counting goes on after number %s", self._key, position, seq)
        return found[0][0].decode() if found else START

    def _rows_of(self, entry: LogEntry) -> Rows:
        events = entry.events
        if events.kind == REMOVE:
            return make_rows([], np.empty(0, np.int64), np.empty(0, np.int64))
        buckets = np.array(events.at_ms, np.int64) // self._bucket_ms
        if self._count == "submissions":
            names = [player.decode() for player in events.players]
            return make_rows(names, np.ones(len(names), np.int64), buckets)
        when = dict(zip(events.players, buckets.tolist(), strict=True))  # of several events the last one changed it
        kind = self._board.config.windows[0]
        windows = [rows for window, rows in entry.rows.items() if window.partition(":")[0] == kind]
        changes = [change for rows in windows for change in rows.changes()]
        names = [change.player.decode() for change in changes]
        at = np.array([when[change.player] for change in changes], np.int64)
        if self._count == "changes":
            return make_rows(names, np.ones(len(names), np.int64), at)
        gains = self._gains(
            np.array([change.old for change in changes], np.float64),
            np.array([change.new for change in changes], np.float64),
        )
        better = np.flatnonzero(gains > 0)
        return make_rows([names[row] for row in better.tolist()], gains[better], at[better])

    def _gains(self, old: Floats, new: Floats) -> Ints:
        """Points by which records became better; a first one counts on a board of sums only, where it began at 0."""
        points, config = self._board.key.points, self._board.config
        is_first = np.isnan(old)
        gains = np.zeros(len(new), np.int64)
        gains[~is_first] = points(new[~is_first]) - points(old[~is_first])
        if config.strategy == "sum":
            gains[is_first] = points(new[is_first])
        return np.clip(-gains if config.direction == "low" else gains, 0, MAX_GAIN)


async def _read_after(link: Link, key: str, position: str) -> list[tuple[bytes, dict[bytes, bytes]]]:
    commands: list[Command] = [
        ("XRANGE", key, position, position),
        ("XRANGE", key, f"({position}", "+", "COUNT", _PAGE),
    ]
    here, entries = await ask_all(link, [(key, command) for command in commands])
    if not here and position != START:
        raise EntryLost(f"{key} no longer has entry {position}")
    return [(entry_id, _fields(flat)) for entry_id, flat in entries]


def _fields(flat: Any) -> dict[bytes, bytes]:
    return dict(zip(flat[::2], flat[1::2], strict=True)) if isinstance(flat, list) else flat
