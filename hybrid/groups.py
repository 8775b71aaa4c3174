"""Groups: events of one shard that are written together, and what to write for them. Pure.

Parts that wait for the same shard are joined into a group. A group knows which events still count (no duplicates, none
refused) and makes of them the rows that the script writes, one a player and window; and from the keys that were there
before it says what became of each event.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from hybrid import rules
from hybrid.config import Board
from hybrid.errors import HybridError
from hybrid.events import Events
from hybrid.log import LoggedEvents, WindowRows
from hybrid.orderkey import Ints, Keys
from hybrid.outcomes import Outcomes, Status, compare
from hybrid.parts import Part
from hybrid.rules import Flags
from hybrid.windows import Window


@dataclass(frozen=True, slots=True)
class Rows:
    """What is to be written to one window: a key for each player and, unless the lesser stays, what must be there."""

    window: Window
    players: list[bytes]
    keys: Keys
    expected: Keys = field(default_factory=lambda: np.empty(0))


class Group:
    """Parts joined, to be written under one nonce."""

    def __init__(self, board: Board, parts: Sequence[Part], nonce: int) -> None:
        self.board = board
        self.nonce = nonce
        self.parts = parts
        self.events = parts[0].events if len(parts) == 1 else _join_events(parts)
        self.windows, is_in = _join_windows(parts)
        self._slot_of: dict[bytes, int] = {}
        slots = [self._slot_of.setdefault(player, len(self._slot_of)) for player in self.events.players]
        self.table = list(self._slot_of)  # the players, each once
        self.outcomes = Outcomes.unknown(board, len(self.events))
        self._judged = np.empty(0, np.int64)
        self._is_proved = np.zeros(len(self.events), bool)
        self._tokens, tokens = _number_tokens(parts)
        self._is_each_its_own = len(self._tokens) == len(self.events)
        self._requests = self._fold_requests()
        self._changes = rules.Changes(
            np.array(slots),
            np.concatenate([part.keys for part in parts]),
            self.events.points,
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
        has_it = self.outcomes.codes == status
        requests = [token for token, events in self._requests.items() if has_it[events].any()]
        if not self._tokens:
            return requests
        if self._is_each_its_own and has_it.all():
            return self._tokens + requests
        numbers = np.unique(self._changes.tokens[has_it & (self._changes.tokens >= 0)])
        return [self._tokens[number] for number in numbers.tolist()] + requests

    def drop_known(self, tokens: Collection[bytes]) -> None:
        """These tokens were written before: their events are duplicates."""
        known = set(tokens)
        numbers = [number for number, token in enumerate(self._tokens) if token in known]
        is_known = np.isin(self._changes.tokens, numbers)
        for token in known & self._requests.keys():
            is_known[self._requests[token]] = True
        self.outcomes.codes[is_known] = Status.DUPLICATE
        self.outcomes.before[is_known] = self.outcomes.after[is_known] = np.nan
        self._is_proved |= is_known
        self._judged = self._judged[~is_known[self._judged]]

    def fail(self, error: HybridError) -> None:
        """It was not written, or nobody knows: then nothing is known of its events, but for tokens that Redis knew."""
        unknown = Outcomes.unknown(self.board, len(self.events), error)
        unknown.codes[self._is_proved] = Status.DUPLICATE
        self.outcomes = unknown

    def plan_best(self) -> list[Rows]:
        """For each player the best of his keys; the script compares it with what is there."""
        if self._tokens and not self._is_each_its_own:
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
        alive, effect = self._apply(old)
        self.outcomes.codes[alive[effect.is_refused]] = Status.REFUSED
        self.outcomes.codes[alive[effect.is_duplicate]] = Status.DUPLICATE
        self._judged = alive[effect.is_refused | effect.is_duplicate]
        planned = []
        for window, was, now in zip(self.windows, old, effect.final, strict=True):
            is_changed = ~((was == now) | (np.isnan(was) & np.isnan(now)))
            players = [self.table[slot] for slot in np.flatnonzero(is_changed).tolist()]
            planned.append(Rows(window, players, now[is_changed], was[is_changed]))
        return planned

    def meet(self, rows: Mapping[str, WindowRows]) -> None:
        """What `plan_best` wrote met these keys."""
        old = np.full((len(self.windows), len(self.table)), np.nan)
        for number, window in enumerate(self.windows):
            if window.name in rows:
                old[number, self._slots_of(rows[window.name].players)] = rows[window.name].old
        self._apply(old)

    def settle(self) -> None:
        """It is written: say what became of each event."""
        alive = self.is_alive
        self.outcomes.codes[alive] = compare(self.board, self.outcomes.before[alive], self.outcomes.after[alive])

    def show_duplicates(self, current: Keys) -> None:
        """Answer duplicates with the records as they stand."""
        for row, window in enumerate(self.windows):
            if window.kind == self.board.config.windows[0]:
                events = np.flatnonzero(self._changes.is_in[row] & (self.outcomes.codes == Status.DUPLICATE))
                keys = current[row, self._changes.slots[events]]
                self.outcomes.before[events] = self.outcomes.after[events] = keys

    def split(self) -> Iterator[Outcomes]:
        """The outcomes of each part."""
        whole, start = self.outcomes, 0
        for part in self.parts:
            rows = slice(start, start + len(part))
            start += len(part)
            yield Outcomes(self.board, whole.codes[rows], whole.before[rows], whole.after[rows], error=whole.error)

    def logged(self, kind: str) -> LoggedEvents:
        """The living events as the log keeps them."""
        events = self.events if self.is_alive.all() else self.events.take(np.flatnonzero(self.is_alive))
        return LoggedEvents(
            kind,
            events.players,
            events.points.tolist(),
            events.subpoints.tolist() if self.board.config.subscore else [],
            events.at_ms.tolist(),
            events.ids or [],
            events.tags or [],
        )

    def _apply(self, old: Keys) -> tuple[Ints, rules.Effect]:
        """The living events, and what they do to the old keys; noted is what they do in the board's first window."""
        alive = np.flatnonzero(self.is_alive)
        effect = rules.apply(self.board, old, self._living())
        for row, window in enumerate(self.windows):
            if window.kind == self.board.config.windows[0]:  # of which a late event may have another than the rest
                here = self._changes.is_in[row, alive]
                self.outcomes.before[alive[here]] = effect.before[row, here]
                self.outcomes.after[alive[here]] = effect.after[row, here]
        return alive, effect

    def _living(self) -> rules.Changes:
        is_alive = self.is_alive
        return self._changes if is_alive.all() else self._changes.at(np.flatnonzero(is_alive))

    def _slots_of(self, players: Sequence[bytes]) -> Ints:
        """Where these players stand in the table."""
        if players is self.table:
            return np.arange(len(self.table))
        return np.array([self._slot_of[player] for player in players], np.int64)

    def _drop_repeated(self) -> None:
        """Of events with one token the first counts; `best` refuses none, so nothing has to be known for that."""
        alive = np.flatnonzero(self.is_alive & (self._changes.tokens >= 0))
        _, first = np.unique(self._changes.tokens[alive], return_index=True)
        self.outcomes.codes[np.delete(alive, first)] = Status.DUPLICATE

    def _fold_requests(self) -> dict[bytes, slice]:
        """The events of each request token; of a request that came twice the later one is a duplicate."""
        found: dict[bytes, slice] = {}
        start = 0
        for part in self.parts:
            events = slice(start, start + len(part))
            if part.request_token in found:
                self.outcomes.codes[events] = Status.DUPLICATE
            elif part.request_token is not None:
                found[part.request_token] = events
            start += len(part)
        return found


def _number_tokens(parts: Sequence[Part]) -> tuple[list[bytes], Ints]:
    """The tokens, each once; and for each event the number of its token, -1 for none."""
    events = sum(map(len, parts))
    if not any(part.tokens for part in parts):
        return [], np.full(events, -1)
    given = [token for part in parts for token in part.tokens or [None] * len(part)]
    distinct = [token for token in dict.fromkeys(given) if token is not None]
    if len(distinct) == events:
        return distinct, np.arange(events)
    number_of: dict[bytes | None, int] = {token: number for number, token in enumerate(distinct)}
    return distinct, np.array([number_of.get(token, -1) for token in given])


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
