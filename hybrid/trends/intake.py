"""Intake: events into the streams of their partitions, each request once.

    submit   check all of it -> sum it up -> deal it to partitions -> one entry a turn of the loop and partition

Requests that wait for the same partition become one entry. Each has a token of its own, if it was named; one that is
known already is left out, and the others are written without it. Nothing is written while the keeper is far behind.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

from hybrid.batching import Batcher
from hybrid.errors import HybridError, InvalidField, OutcomeUnknown, Overloaded, TrendNotFound
from hybrid.events import check_request
from hybrid.keys import Keys
from hybrid.link import Argument, Command, Link
from hybrid.place import Place
from hybrid.reading import ask_all
from hybrid.scripts import TREND_ADD
from hybrid.trends.config import Trend
from hybrid.trends.events import Rows, TrendBatch, check_events, deal, pack_rows, sum_rows
from hybrid.windows import DAY_MS

ENTRY_ROWS = 200_000  # more become several entries
_LOOK_S = 0.5  # how often the backlog is looked at


@dataclass(frozen=True, slots=True)
class IntakeSettings:
    """How patient the intake is, and how much may pile up."""

    timeout_s: float = 5.0  # until a write is answered, or unknown
    most_waiting: int = 4_000_000  # rows that wait to be written, or in a partition's stream to be folded


class Taken(NamedTuple):
    """Events that were taken in, and those that are too old for any pane: these are counted as late."""

    accepted: int
    late: int


class _Piece(NamedTuple):
    """What one request has for one partition."""

    rows: Rows
    token: bytes | None


class Intake:
    """The way in for all trends behind one link."""

    def __init__(
        self, link: Link, schema: Keys, *, now_ms: Callable[[], int], random: random.Random, settings: IntakeSettings
    ) -> None:
        self._link, self._schema, self._now_ms, self._random = link, schema, now_ms, random
        self._settings = settings
        self._batchers: dict[str, Batcher[_Piece, HybridError | None]] = {}
        self._places: dict[str, Place] = {}
        self._looked: dict[str, tuple[float, int]] = {}
        self._waiting = 0

    async def submit(self, trend: Trend, batch: TrendBatch, request: str | None = None) -> Taken:
        """Take in a batch: all of it is checked before any of it is written."""
        if trend.config.source is not None:
            raise InvalidField("trend", f"trend {trend.name!r} is fed by board {trend.config.source.board!r} alone")
        token = None if request is None else _make_token(trend, request)
        now_ms = self._now_ms()
        rows = check_events(trend, batch, now_ms)
        if not len(rows):
            return Taken(0, 0)
        if self._waiting + len(rows) > self._settings.most_waiting:
            raise Overloaded(f"{self._waiting} rows are waiting to be written already")
        await self._check_backlog(trend)
        parts = deal(trend, rows)
        self._waiting += len(rows)
        try:
            asked = (self._ask(trend, number, _Piece(part, token)) for number, part in parts.items())
            answers = await asyncio.gather(*asked, return_exceptions=True)
        finally:
            self._waiting -= len(rows)
        errors = [answer for answer in answers if isinstance(answer, BaseException)]
        if errors and len(errors) < len(answers):
            raise OutcomeUnknown(f"some of it was written, some perhaps not: {errors[0]}") from errors[0]
        if errors:
            raise next((error for error in errors if isinstance(error, OutcomeUnknown)), errors[0])
        longest = trend.levels[-1]
        is_late = rows.buckets * trend.bucket_ms // longest.pane_ms < longest.oldest(now_ms)
        late = int(rows.counts[is_late].sum())
        return Taken(rows.total - late, late)

    async def backlog(self, trend: Trend) -> int:
        """Rows that came in and are not kept in panes yet, in the partition that has most of them."""
        fed = [(self._schema.shard(tag).meta, "last") for tag in trend.feed]
        own = [(self._schema.partition(tag).meta, "seq") for tag in trend.tags]
        positions = [self._schema.partition(tag).position for tag in trend.tags]
        commands: list[tuple[str, Command]] = [(key, ("HGET", key, name)) for key, name in fed or own]
        commands += [(key, ("HGET", key, "at")) for key in positions]
        seqs = [int((found or b"0").partition(b"-")[0]) for found in await ask_all(self._link, commands)]
        return max(end - at for end, at in zip(seqs[: len(positions)], seqs[len(positions) :], strict=True))

    def forget(self, trend: Trend) -> None:
        """Nothing more will be written to it."""
        for tag in trend.tags:
            self._places.pop(tag, None)
        self._looked.pop(trend.id, None)

    async def _check_backlog(self, trend: Trend) -> None:
        now_s = asyncio.get_running_loop().time()
        looked_s, rows = self._looked.get(trend.id, (-_LOOK_S, 0))
        if now_s - looked_s >= _LOOK_S:
            self._looked[trend.id] = now_s, rows  # others need not look at the same time
            rows = await self.backlog(trend)
            self._looked[trend.id] = now_s, rows
        if rows > self._settings.most_waiting:
            raise Overloaded(f"{rows} rows of trend {trend.name!r} are waiting to be counted already")

    async def _ask(self, trend: Trend, number: int, piece: _Piece) -> None:
        tag = trend.tags[number]
        batcher = self._batchers.setdefault(tag, Batcher(lambda pieces: self._write_all(trend, tag, pieces)))
        try:
            error = await batcher.ask(piece)
        finally:
            if batcher.is_idle:
                self._batchers.pop(tag, None)
        if error is not None:
            raise error

    async def _write_all(self, trend: Trend, tag: str, pieces: list[_Piece]) -> list[HybridError | None]:
        """What went wrong with each piece, if anything did."""
        deadline_s = asyncio.get_running_loop().time() + self._settings.timeout_s
        groups: list[list[_Piece]] = [[]]
        for piece in pieces:
            if sum(len(each.rows) for each in groups[-1]) >= ENTRY_ROWS:
                groups.append([])
            groups[-1].append(piece)
        errors: list[HybridError | None] = []
        for group in groups:
            error: HybridError | None = None
            try:
                await self._write(trend, tag, group, deadline_s)
            except HybridError as found:
                error = found
            errors += [error] * len(group)
        return errors

    async def _write(self, trend: Trend, tag: str, pieces: Sequence[_Piece], deadline_s: float) -> None:
        """One entry of what is not known yet."""
        place, keys = self._place(trend, tag), self._schema.partition(tag)
        now_ms = await place.now_ms(deadline_s)
        day = now_ms // DAY_MS
        written = [keys.meta, keys.stream, keys.minute(now_ms // 60_000), *(keys.day(day + d) for d in (-1, 0, 1))]
        named = {piece.token: piece for piece in pieces if piece.token is not None}  # the same one twice counts once
        unnamed = [piece for piece in pieces if piece.token is None]
        while named or unnamed:
            rows = sum_rows([piece.rows for piece in (*unnamed, *named.values())])
            tokens = list(named)
            args: list[Argument] = [trend.id, self._random.getrandbits(63), len(rows), rows.total, pack_rows(rows)]
            reply = await place.write(TREND_ADD, written, [*args, (day + 2) * DAY_MS, *tokens], deadline_s)
            if reply[0] != b"known":
                return
            for index in reply[1:]:
                del named[tokens[int(index) - 1]]

    def _place(self, trend: Trend, tag: str) -> Place:
        if tag not in self._places:
            gone = TrendNotFound(f"trend {trend.name!r} was deleted")
            self._places[tag] = Place(self._link, self._schema.partition(tag).meta, lambda: gone)
        return self._places[tag]


def _make_token(trend: Trend, request: str) -> bytes:
    return blake2b(trend.secret + check_request(request).encode(), digest_size=16, person=b"toptail request").digest()
