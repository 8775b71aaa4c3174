"""The log: every accepted event of a shard, in order, with what it changed.

One stream entry holds one group of events. Its id is `<seq>-<nonce>`: seq is the number of events logged so far, this
group's included, so it is contiguous and an entry's id is that of its last event; nonce is random and tells two entries
of one seq apart, should a failover have lost one. The entry names its predecessor, so a hole cannot go unseen.

    p     id of the entry before
    e     the events as they came in: msgpack of LoggedEvents
    P<w>  players of window w                     left out where they and K
    K<w>  their new keys, "nan" for removed       are those of the window before
    O<w>  their old keys, "nan" for none

P, K and O are JSON arrays, because that is what Lua and Python both read in C, without a loop of their own. Keys are
numbers or, where Lua hands them on to Redis, texts of numbers.

Rows whose key did not change may be among them (a best that was not beaten); `WindowRows.changes` leaves them out.
Since an event changes any one window by one record at most, two answers whose seqs differ by d differ by at most d in
any rank.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
import numpy as np

from hybrid.orderkey import Keys

BEST, SET, REMOVE = "best", "set", "remove"

_KEYS = msgspec.json.Decoder(list[float], strict=False)  # not strict: numbers may be texts
_PLAYERS = msgspec.json.Decoder(list[str])


class LoggedEvents(msgspec.Struct, frozen=True, array_like=True):
    """The events of one entry in columns; subpoints, ids and tags are left out where they say nothing.

    `kind` says how the rows are to be read: "best" changed those whose new key is less than the old one, "set" and
    "remove" changed all of theirs.
    """

    kind: str
    players: list[bytes]
    points: list[int] = []
    subpoints: list[int] = []
    at_ms: list[int] = []
    ids: Sequence[str | None] = []
    tags: Sequence[str | None] = []


class Change(NamedTuple):
    """One record before and after; None where there was, or is, none."""

    player: bytes
    old: float | None
    new: float | None


@dataclass(frozen=True, slots=True)
class WindowRows:
    """The rows of one window: players, their keys before and after, NaN for none.

    Of a `best` those changed whose new key is less; everywhere else all of them.
    """

    players: list[bytes]
    old: Keys
    new: Keys
    is_best: bool

    def changes(self, bound: float = math.inf) -> list[Change]:
        """The records that changed, and of them only those that had or got a key up to the bound."""
        is_changed = ~(self.old <= self.new) if self.is_best else np.ones(len(self.players), bool)
        rows = np.flatnonzero(is_changed & ((self.old <= bound) | (self.new <= bound)))
        old, new = map(_known, self.old[rows].tolist()), map(_known, self.new[rows].tolist())
        return list(map(Change, [self.players[row] for row in rows.tolist()], old, new))


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One entry of a shard's log."""

    id: str
    previous: str
    events: LoggedEvents
    rows: dict[str, WindowRows]

    @property
    def seq(self) -> int:
        return int(self.id.partition("-")[0])


def _known(key: float) -> float | None:
    return None if math.isnan(key) else key


def pack_events(events: LoggedEvents) -> bytes:
    return msgspec.msgpack.encode(events)


def render_keys(keys: Keys) -> bytes:
    """Each key in the shortest text that reads back as the same double, "nan" for none."""
    return msgspec.json.encode(keys.tolist()).replace(b"null", b'"nan"')


def quote_keys(keys: Keys) -> bytes:
    """The same for keys that there are, each as a text: so Lua hands them on as they are."""
    return b'["%b"]' % render_keys(keys)[1:-1].replace(b",", b'","') if len(keys) else b"[]"


def parse_keys(text: bytes) -> Keys:
    return np.array(_KEYS.decode(text), np.float64)


def render_players(players: Sequence[bytes]) -> bytes:
    joined = b"\n".join(players).replace(b"\\", b"\\\\").replace(b'"', b'\\"')
    return b'["%b"]' % joined.replace(b"\n", b'","') if players else b"[]"


def parse_players(text: bytes) -> list[bytes]:
    return [player.encode() for player in _PLAYERS.decode(text)]


def parse_entry(reply: Any) -> LogEntry:
    """An entry as XRANGE and XREVRANGE give it."""
    entry_id, flat = reply
    fields = dict(zip(flat[::2], flat[1::2], strict=True)) if isinstance(flat, list) else flat
    events = msgspec.msgpack.decode(fields[b"e"], type=LoggedEvents)
    rows: dict[str, WindowRows] = {}
    players: list[bytes] = []
    new = np.empty(0)
    for name, value in fields.items():
        kind, window = name[:1], name[1:].decode()
        if kind == b"P":
            players = parse_players(value)
        elif kind == b"K":
            new = parse_keys(value)
        elif kind == b"O":
            rows[window] = WindowRows(players, parse_keys(value), new, events.kind == BEST)
    return LogEntry(entry_id.decode(), fields[b"p"].decode(), events, rows)
