"""The record: every player's current row, in Redis, and the only way to change it.

    submit   check all of it -> deal it to shards -> a lane each -> one script a group (lua/write.lua) -> outcomes
    remove   gone from every window, as a logged event (lua/remove.lua)
    lookup   the order keys of players, one call a shard

An answer is never a guess: events of a shard that did not answer in time are `unknown`, each for itself, and the same
tokens may be sent again.
"""

import asyncio
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from hybrid.batching import Batcher
from hybrid.config import Board
from hybrid.errors import BoardNotFound, Overloaded, RedisUnavailable
from hybrid.events import Batch, check_batch, check_player, check_players
from hybrid.keys import Keys as KeySchema
from hybrid.lanes import GROUP_ITEMS, Lane
from hybrid.link import Link
from hybrid.log import REMOVE as REMOVED
from hybrid.log import LogEntry, LoggedEvents, pack_events
from hybrid.orderkey import Keys
from hybrid.outcomes import Outcomes
from hybrid.parts import Part, make_parts
from hybrid.reading import Question, ask_all
from hybrid.scripts import REMOVE
from hybrid.shard import Follow, Shard
from hybrid.windows import DAY_MS, Window

JITTER_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class RecordSettings:
    """How patient the record is."""

    timeout_s: float = 5.0  # until a write is answered, or unknown
    grace_ms: int = 3_600_000  # how long after its end a window takes late events
    most_waiting: int = 200_000  # events that may wait to be written; more are refused


class Record:
    """The records of all boards behind one link.

    `now_ms` is the clock that decides which windows are open; `random` makes nonces. `follow` is told of every entry
    that was written, and a write is acknowledged when it has returned: that is how the tops keep up (top.py).
    """

    def __init__(
        self,
        link: Link,
        schema: KeySchema,
        *,
        now_ms: Callable[[], int],
        random: random.Random,
        settings: RecordSettings,
        follow: Follow,
    ) -> None:
        self._link = link
        self._schema = schema
        self._now_ms = now_ms
        self._random = random
        self._settings = settings
        self._follow = follow
        self._lanes: dict[str, Lane] = {}
        self._shards: dict[str, Shard] = {}
        self._lookups: dict[tuple[str, str], Batcher[bytes, float | None]] = {}
        self._waiting = 0

    async def submit(self, board: Board, batch: Batch) -> Outcomes:
        """Take in a batch: all of it is checked before any of it is written."""
        now_ms = self._now_ms()
        events = check_batch(board, batch, now_ms)
        outcomes = Outcomes.unknown(board, len(events))
        if not len(events):
            return outcomes
        if self._waiting + len(events) > self._settings.most_waiting:
            raise Overloaded(f"{self._waiting} events are waiting to be written already")
        parts, outcomes.closed = make_parts(board, events, now_ms, self._settings.grace_ms)
        self._waiting += len(events)
        try:
            deadline_s = asyncio.get_running_loop().time() + self._settings.timeout_s
            pieces = [(shard, piece) for shard, part in parts.items() for piece in part.pieces(GROUP_ITEMS)]
            written = await asyncio.gather(
                *(self._lane(board, shard).write(piece, deadline_s) for shard, piece in pieces)
            )
        finally:
            self._waiting -= len(events)
        if any(isinstance(answer.error, BoardNotFound) for answer in written):
            self.forget(board)
        return _gather(outcomes, [piece for _, piece in pieces], written)

    async def remove(self, board: Board, player: str) -> bool:
        """Remove a player from every window; False if he had no record."""
        name = check_player(player)
        number = board.shard_hash.of(name)
        shard = self._shard(board, number)
        event = pack_events(LoggedEvents(REMOVED, [name], at_ms=[self._now_ms()]))
        nonce = self._random.getrandbits(63)
        deadline_s = asyncio.get_running_loop().time() + self._settings.timeout_s
        minute = await shard.now_ms(deadline_s) // 60_000
        while True:
            windows = await shard.windows(deadline_s)
            keys = [shard.keys.meta, shard.keys.log, shard.keys.minute(minute)]
            keys += [shard.keys.record(window) for window in windows]
            reply = await shard.commit(REMOVE, keys, [board.id, nonce, event, name, *windows], deadline_s)
            if isinstance(reply, LogEntry) or reply[0] == b"ok":
                entry = reply if isinstance(reply, LogEntry) else await shard.entry_of(nonce)
                await shard.follow(self._follow, entry, deadline_s)
                return True
            if reply[0] == b"absent":
                return False

    async def lookup(self, board: Board, window: str, player: str) -> float | None:
        """The order key of a player in a window, None if he has no record there; asked together with others."""
        name = check_player(player)
        batcher = self._lookups.setdefault(
            (board.id, window), Batcher(lambda names: self._lookup(board, window, names))
        )
        try:
            return await batcher.ask(name)
        finally:
            if batcher.is_idle:
                self._lookups.pop((board.id, window), None)

    async def lookup_many(self, board: Board, window: str, players: Sequence[str]) -> list[float | None]:
        """The order keys of many players, in their order."""
        return await self._lookup(board, window, check_players(players))

    async def _lookup(self, board: Board, window: str, names: Sequence[bytes]) -> list[float | None]:
        keys = await self.find_keys(board, window, names)
        return [None if math.isnan(key) else key for key in keys.tolist()]

    async def find_keys(self, board: Board, window: str, names: Sequence[bytes]) -> Keys:
        """The order keys of players by the bytes of their ids, NaN for those without a record."""
        places: dict[int, list[int]] = {}
        for place, number in enumerate(board.shard_hash.of_many(names).tolist()):
            places.setdefault(number, []).append(place)
        questions: list[Question] = []
        for number, at in places.items():
            key = self._schema.shard(board.tags[number]).record(window)
            questions.append((key, ("ZMSCORE", key, *(names[place] for place in at))))
        replies = await ask_all(self._link, questions, timeout_s=self._settings.timeout_s)
        found = np.full(len(names), np.nan)
        for at, keys in zip(places.values(), replies, strict=True):
            found[at] = keys  # None becomes NaN
        return found

    def _lane(self, board: Board, number: int) -> Lane:
        tag, shard = board.tags[number], self._shard(board, number)
        if tag not in self._lanes:
            self._lanes[tag] = Lane(
                shard,
                kept_until_ms=lambda board, window: self._kept_until_ms(board, tag, window),
                nonce=lambda: self._random.getrandbits(63),
                follow=lambda entry, deadline_s: shard.follow(self._follow, entry, deadline_s),
            )
        return self._lanes[tag]

    def _shard(self, board: Board, number: int) -> Shard:
        tag = board.tags[number]
        shard = self._shards.setdefault(tag, Shard(self._link, self._schema, board, number))
        shard.board = board  # what may be changed of it may have been
        return shard

    def forget(self, board: Board) -> None:
        """A deleted board has no more use for its lanes."""
        for tag in board.tags:
            self._lanes.pop(tag, None)
            self._shards.pop(tag, None)

    def _kept_until_ms(self, board: Board, tag: str, window: Window) -> int | None:
        """Redis' own expiry, a safety net below the keeper; jittered, so that shards do not expire all at once."""
        kept = window.kept_until_ms(self._settings.grace_ms, board.config.retention_days * DAY_MS)
        return None if kept is None else kept + DAY_MS + int.from_bytes(tag.encode(), "little") % JITTER_MS


def _gather(outcomes: Outcomes, parts: Sequence[Part], written: Sequence[Outcomes]) -> Outcomes:
    """Put what became of the parts in the batch's order."""
    for part, answer in zip(parts, written, strict=True):
        outcomes.codes[part.places] = answer.codes
        outcomes.before[part.places] = answer.before
        outcomes.after[part.places] = answer.after
        outcomes.error = outcomes.error or answer.error
    errors = [answer.error for answer in written]
    # Nothing was written anywhere, and it is known: that is an error, not a batch of unknowns.
    if errors and all(isinstance(error, RedisUnavailable | BoardNotFound) for error in errors):
        raise next(error for error in errors if error is not None)
    return outcomes
