"""Groups: events of one shard that are written together, and what to write for them. Pure.

A batch is dealt to shards as parts; parts that wait for the same shard are joined into a group. A group knows which
events still count (no duplicates, none refused) and which windows each of them is for, and makes of that the rows that
the script writes: one a player and window.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

import numpy as np

from hybrid import rules
from hybrid.config import Board
from hybrid.events import Events
from hybrid.log import BEST, SET, LoggedEvents
from hybrid.orderkey import Ints, Keys
from hybrid.outcomes import Outcomes, Status, compare
from hybrid.rules import Flags
from hybrid.windows import Window, window_at

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
        """The part cut into pieces of at most so many events."""
        for start in range(0, len(self), most):
            yield self.span(start, start + most)

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


@dataclass(frozen=True, slots=True)
class Rows:
    """What is to be written to one window: a key for each player, and in set mode the key that must be there."""

    window: Window
    players: list[bytes]
    keys: Keys
    expected: Keys | None = None


def make_parts(board: Board, events: Events, now_ms: int, grace_ms: int) -> tuple[dict[int, Part], Closed]:
    """The events by shard, and for those that came too late for a window, which."""
    windows, is_in, closed = _sort_into_windows(board, events.at_ms, now_ms, grace_ms)
    ticks = board.tick_of(events.at_ms)
    keys = board.key.encode(events.points, ticks, events.subpoints)
    request_token = None if events.request is None else _token(board, b"", events.request)
    tokens = _tokens_of(board, events)
    shards = board.shards_of(events.players)
    order = np.argsort(shards, kind="stable")
    whole = Part(events, np.arange(len(events)), keys, ticks, tokens, request_token, windows, is_in).take(order)
    numbers, starts = np.unique(shards[order], return_index=True)
    ends = [*starts[1:].tolist(), len(order)]
    spans = zip(numbers.tolist(), starts.tolist(), ends, strict=True)
    return {number: whole.span(start, end) for number, start, end in spans}, closed


class Group:
    """Parts joined, to be written under one nonce."""

    def __init__(self, board: Board, parts: Sequence[Part], nonce: int) -> None:
        self.board = board
        self.nonce = nonce
        self.is_set = board.config.strategy != "best"
        self.parts = parts
        self.players = [player for part in parts for player in part.events.players]
        self.windows, is_in = _join_windows(parts)
        table = {player: slot for slot, player in enumerate(dict.fromkeys(self.players))}
        self.table = list(table)  # the players, each once
        distinct = len(table) == len(self.players)
        self.outcomes = Outcomes.unknown(board, len(self.players))
        self._judged = np.empty(0, np.int64)
        self._owners, tokens = self._number_tokens()
        self._changes = rules.Changes(
            np.arange(len(table)) if distinct else np.array([table[player] for player in self.players]),
            np.concatenate([part.keys for part in parts]),
            np.concatenate([part.events.points for part in parts]),
            np.concatenate([part.ticks for part in parts]),
            tokens,
            is_in,
        )

    @property
    def is_alive(self) -> Flags:
        """Which events still count: nothing has been said of them yet."""
        return np.equal(self.outcomes.codes, Status.UNKNOWN)

    def tokens(self, status: Status = Status.UNKNOWN) -> list[bytes]:
        """The tokens of the events that still count, or of those of which this was said."""
        if not self._owners:
            return []
        has_it = self.outcomes.codes == status
        return [token for token, events in self._owners.items() if has_it[events].any()]

    def drop_known(self, tokens: Sequence[bytes]) -> None:
        """These tokens were written before: their events are duplicates."""
        for token in tokens:
            events = self._owners.pop(token)
            self.outcomes.codes[events] = Status.DUPLICATE
            self._judged = np.setdiff1d(self._judged, events)

    def plan_best(self) -> list[Rows]:
        """For each player the best of his keys; the script compares it with what is there."""
        if self._owners:
            self._drop_repeated()
        living = self._living()
        planned: list[Rows] = []
        for number, (window, is_in) in enumerate(zip(self.windows, living.is_in, strict=True)):
            if number and np.array_equal(is_in, living.is_in[number - 1]):
                planned.append(replace(planned[-1], window=window))
                continue
            keys = np.full(len(self.table), np.inf)
            np.minimum.at(keys, living.slots[is_in], living.keys[is_in])
            has_row = keys < np.inf
            players = self.table if has_row.all() else [self.table[slot] for slot in np.flatnonzero(has_row).tolist()]
            planned.append(Rows(window, players, keys[has_row]))
        return planned

    def plan_set(self, old: Keys) -> list[Rows]:
        """By the board's rule and the keys that were read: what changes. Events that cannot be are refused.

        What an earlier plan refused is looked at anew: it may have counted an event that turned out a duplicate.
        """
        self.outcomes.codes[self._judged] = Status.UNKNOWN
        alive = np.flatnonzero(self.is_alive)
        effect = rules.apply(self.board, old, self._changes.at(alive))
        self.outcomes.codes[alive[effect.is_refused]] = Status.REFUSED
        self.outcomes.codes[alive[effect.is_duplicate]] = Status.DUPLICATE
        self._judged = alive[effect.is_refused | effect.is_duplicate]
        self._note(alive, effect, effect.is_refused)
        planned = []
        for window, was, now in zip(self.windows, old, effect.final, strict=True):
            is_changed = ~((was == now) | (np.isnan(was) & np.isnan(now)))
            players = [self.table[slot] for slot in np.flatnonzero(is_changed).tolist()]
            planned.append(Rows(window, players, now[is_changed], was[is_changed]))
        return planned

    def settle(self, old: Keys) -> None:
        """It is written, and these keys were there before: say what became of each event."""
        alive = np.flatnonzero(self.is_alive)
        self._note(alive, rules.apply(self.board, old, self._changes.at(alive)), np.ones(len(alive), bool))
        self.outcomes.codes[alive] = compare(self.board, self.outcomes.before[alive], self.outcomes.after[alive])

    def show_duplicates(self, current: Keys) -> None:
        """Answer duplicates with the records as they stand."""
        for row, window in enumerate(self.windows):
            if window.kind == self.board.config.windows[0]:
                events = np.flatnonzero(self._changes.is_in[row] & (self.outcomes.codes == Status.DUPLICATE))
                keys = current[row, self._changes.slots[events]]
                self.outcomes.before[events] = self.outcomes.after[events] = keys

    def slots_of(self, players: Sequence[bytes]) -> Ints:
        """Where these players stand in the table."""
        if players is self.table or players == self.table:
            return np.arange(len(self.table))
        slot_of = {player: slot for slot, player in enumerate(self.table)}
        return np.array([slot_of[player] for player in players], np.int64)

    def split(self) -> Iterator[Outcomes]:
        """The outcomes of each part."""
        whole, start = self.outcomes, 0
        for part in self.parts:
            rows = slice(start, start + len(part))
            start += len(part)
            yield Outcomes(self.board, whole.codes[rows], whole.before[rows], whole.after[rows], error=whole.error)

    def logged(self) -> LoggedEvents:
        """The living events as the log keeps them."""
        events = self.parts[0].events if len(self.parts) == 1 else _join_events(self.parts)
        if not self.is_alive.all():
            events = events.take(np.flatnonzero(self.is_alive))
        return LoggedEvents(
            SET if self.is_set else BEST,
            events.players,
            events.points.tolist(),
            events.subpoints.tolist() if self.board.config.subscore else [],
            events.at_ms.tolist(),
            events.ids or [],
            events.tags or [],
        )

    def _living(self) -> rules.Changes:
        is_alive = self.is_alive
        return self._changes if is_alive.all() else self._changes.at(np.flatnonzero(is_alive))

    def _note(self, events: Ints, effect: rules.Effect, is_said: Flags) -> None:
        """Before and after in the board's first window, of which a late event may have another than the rest."""
        for row, window in enumerate(self.windows):
            if window.kind == self.board.config.windows[0]:
                here = self._changes.is_in[row, events] & is_said
                self.outcomes.before[events[here]] = effect.before[row, here]
                self.outcomes.after[events[here]] = effect.after[row, here]

    def _drop_repeated(self) -> None:
        """Of events with one token the first counts; `best` refuses none, so nothing has to be known for that."""
        alive = np.flatnonzero(self.is_alive & (self._changes.tokens >= 0))
        _, first = np.unique(self._changes.tokens[alive], return_index=True)
        self.outcomes.codes[np.delete(alive, first)] = Status.DUPLICATE

    def _number_tokens(self) -> tuple[dict[bytes, list[int]], Ints]:
        """The events of each token; and for each event the number of its own token, -1 for none."""
        owners: dict[bytes, list[int]] = {}
        numbers = np.full(len(self.players), -1)
        start = 0
        for part in self.parts:
            for event, token in enumerate(part.tokens, start):
                if token is not None:
                    numbers[event] = owners.setdefault(token, [event])[0]
                    if numbers[event] != event:
                        owners[token].append(event)
            events = list(range(start, start + len(part)))
            if part.request_token in owners:
                self.outcomes.codes[events] = Status.DUPLICATE  # the same request, twice in one group
            elif part.request_token is not None:
                owners[part.request_token] = events
            start += len(part)
        return owners, numbers


def _join_windows(parts: Sequence[Part]) -> tuple[tuple[Window, ...], Flags]:
    """All windows of all parts, and which events of the group count in each."""
    if all(part.windows == parts[0].windows for part in parts):
        return parts[0].windows, np.concatenate([part.is_in for part in parts], axis=1)
    windows = tuple(dict.fromkeys(window for part in parts for window in part.windows))
    pieces = []
    for part in parts:
        is_in = np.zeros((len(windows), len(part)), bool)
        is_in[[windows.index(window) for window in part.windows]] = part.is_in
        pieces.append(is_in)
    return windows, np.concatenate(pieces, axis=1)


def _join_events(parts: Sequence[Part]) -> Events:
    def labels(name: str) -> list[str | None] | None:
        columns = [getattr(part.events, name) for part in parts]
        if all(column is None for column in columns):
            return None
        return [v for part, column in zip(parts, columns, strict=True) for v in column or [None] * len(part)]

    return Events(
        [player for part in parts for player in part.events.players],
        np.concatenate([part.events.points for part in parts]),
        np.concatenate([part.events.subpoints for part in parts]),
        np.concatenate([part.events.at_ms for part in parts]),
        labels("ids"),
        labels("tags"),
        None,
    )


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
            of_event = [window_at(kind, at) for at in at_ms.tolist()]
            found = {w: np.array([window == w for window in of_event]) for w in dict.fromkeys(of_event)}
        for window, events in found.items():
            if not window.is_closed(now_ms, grace_ms):
                is_in[window] = events
                continue
            for event in np.flatnonzero(events).tolist():
                closed[event] = (*closed.get(event, ()), window.name)
    flags = np.array(list(is_in.values())) if is_in else np.zeros((0, len(at_ms)), bool)
    return tuple(is_in), flags, closed


def _tokens_of(board: Board, events: Events) -> list[bytes | None]:
    if events.ids is None:
        return []
    pairs = zip(events.players, events.ids, strict=True)
    return [None if name is None else _token(board, player, name) for player, name in pairs]


def _token(board: Board, player: bytes, name: str) -> bytes:
    """128 bits for the event `name` of a player, or for a request of that name: then the player is empty."""
    return blake2b(player + b"\n" + name.encode(), digest_size=16, key=board.secret).digest()
