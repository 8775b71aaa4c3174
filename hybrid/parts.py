"""Parts: a batch dealt to the shards that its players live in. Pure.

With a part go the order keys of its events, the windows that are still open for them, and the tokens by which they will
be known.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

import numpy as np

from hybrid.config import Board
from hybrid.events import Events
from hybrid.orderkey import Ints, Keys
from hybrid.rules import Flags
from hybrid.windows import DAY_MS, Window, window_at

Closed = dict[int, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Part:
    """The events of one batch that belong to one shard. `places` are their indexes in the batch.

    `is_in` has a row for each of `windows`, the open ones, and says which events count there.
    """

    events: Events
    places: Ints
    keys: Keys
    ticks: Ints
    tokens: list[bytes | None]
    request_token: bytes | None
    windows: tuple[Window, ...]
    is_in: Flags

    def __len__(self) -> int:
        return len(self.places)

    def pieces(self, most: int) -> Iterator["Part"]:
        """The part cut into pieces of at most so many events, each with a request token of its own."""
        if len(self) <= most:
            yield self
            return
        for number, start in enumerate(range(0, len(self), most)):
            piece = self.span(start, start + most)
            if number and self.request_token is not None:
                token = blake2b(self.request_token + number.to_bytes(4, "big"), digest_size=16).digest()
                piece = replace(piece, request_token=token)
            yield piece

    def take(self, rows: Ints) -> "Part":
        """These events, in this order."""
        tokens = [self.tokens[row] for row in rows.tolist()] if self.tokens else []
        return self._with(self.events.take(rows), rows, tokens)

    def span(self, start: int, end: int) -> "Part":
        """The events from start to end."""
        rows = slice(start, end)
        return self._with(self.events.span(rows), rows, self.tokens[rows])

    def _with(self, events: Events, rows: Ints | slice, tokens: list[bytes | None]) -> "Part":
        return Part(
            events,
            self.places[rows],
            self.keys[rows],
            self.ticks[rows],
            tokens,
            self.request_token,
            self.windows,
            self.is_in[:, rows],
        )


def make_parts(board: Board, events: Events, now_ms: int, grace_ms: int) -> tuple[dict[int, Part], Closed]:
    """The events by shard, and for those that came too late for a window, which."""
    windows, is_in, closed = _sort_into_windows(board, events.at_ms, now_ms, grace_ms)
    ticks = board.tick_of(events.at_ms)
    keys = board.key.encode(events.points, ticks, events.subpoints)
    (request_token,) = _make_tokens(board, [b""], [events.request])
    tokens = [] if events.ids is None else _make_tokens(board, events.players, events.ids)
    shards = board.shard_hash.of_many(events.players)
    order = np.argsort(shards.astype(np.uint8), kind="stable")  # small numbers sort in linear time
    whole = Part(events, np.arange(len(events)), keys, ticks, tokens, request_token, windows, is_in).take(order)
    numbers, starts = np.unique(shards[order], return_index=True)
    ends = [*starts[1:].tolist(), len(order)]
    spans = zip(numbers.tolist(), starts.tolist(), ends, strict=True)
    return {number: whole.span(start, end) for number, start, end in spans}, closed


def _sort_into_windows(
    board: Board, at_ms: Ints, now_ms: int, grace_ms: int
) -> tuple[tuple[Window, ...], Flags, Closed]:
    """The open windows, which events count in each, and by event the closed windows it came too late for."""
    is_in: dict[Window, Flags] = {}
    closed: Closed = {}
    earliest, latest = int(at_ms.min()), int(at_ms.max())
    for kind in board.config.windows:
        if window_at(kind, earliest) == window_at(kind, latest):
            found = {window_at(kind, earliest): np.ones(len(at_ms), bool)}
        else:
            found = _by_window(kind, at_ms)
        for window, events in found.items():
            if not window.is_closed(now_ms, grace_ms):
                is_in[window] = events
                continue
            for event in np.flatnonzero(events).tolist():
                closed[event] = (*closed.get(event, ()), window.name)
    flags = np.array(list(is_in.values())) if is_in else np.zeros((0, len(at_ms)), bool)
    return tuple(is_in), flags, closed


def _by_window(kind: str, at_ms: Ints) -> dict[Window, Flags]:
    """The windows of this kind in which events lie, and which events; a window is a run of whole days."""
    days, day_of_event = np.unique(at_ms // DAY_MS, return_inverse=True)
    windows = [window_at(kind, day * DAY_MS) for day in days.tolist()]
    numbers = {window: number for number, window in enumerate(dict.fromkeys(windows))}
    number_of_event = np.array([numbers[window] for window in windows])[day_of_event]
    return {window: number_of_event == number for window, number in numbers.items()}


def _make_tokens(board: Board, players: Sequence[bytes], names: Sequence[str | None]) -> list[bytes | None]:
    """128 bits for each event that has a name, or for a request that has one: then the player is empty."""
    # The secret as a prefix: BLAKE2 allows that, and a key would be a block of its own for every token.
    start = blake2b(board.secret, digest_size=16, person=b"toptail token")
    tokens: list[bytes | None] = []
    for player, name in zip(players, names, strict=True):
        if name is None:
            tokens.append(None)
            continue
        token = start.copy()
        token.update(player + b"\n" + name.encode())
        tokens.append(token.digest())
    return tokens
