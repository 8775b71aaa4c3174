"""Exact places at any depth: ranks, pages, neighbours, all rows.

A *place* is a pair (order key, player): all players of all shards stand in one line of places, best first, and no two
share one. How many stand before a place is asked of every shard (lua/seek.lua) and added up; that is an exact rank.
Rows of shards, each in order, are merged into rows of the board.

A cursor is a place, not a rank: a row that does not move is neither skipped nor repeated, whatever moves around it.
Answers are exact for the state in which each shard was when it was asked; while writes go on, shards are asked at
slightly different times, and `seq` says how much they had taken in.
"""

import heapq
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hybrid.config import Board
from hybrid.keys import Keys
from hybrid.link import Argument, Link
from hybrid.orderkey import Ints
from hybrid.orderkey import Keys as OrderKeys
from hybrid.reading import ask_all, run_all
from hybrid.scripts import COUNT, SEEK

ROWS_A_CALL = 1000
NEAR = 50  # rows from a place within which its neighbours are read instead of halving on


class Place(NamedTuple):
    """Where a player stands, or would stand; places sort best first."""

    key: float
    player: bytes


START = Place(0.0, b"")  # before every place: order keys are positive


class Entry(NamedTuple):
    """A row of the board."""

    rank: int
    place: Place


@dataclass(frozen=True, slots=True)
class Around:
    """What stands around a place: how many before it, and rows before (best first) and from it on."""

    players: int
    seq: int
    ahead: int
    above: list[Place]
    below: list[Place]

    @property
    def rank(self) -> int:
        """The rank of a player who stands there."""
        return self.ahead + 1


@dataclass(frozen=True, slots=True)
class Counted:
    """Where places stand: how many before each, how many with a better score, how many with its or a better score."""

    players: int
    seq: int
    ahead: Ints
    better: Ints
    up_to: Ints


@dataclass(frozen=True, slots=True)
class _ShardView:
    """One shard's answer."""

    players: int
    seq: int
    ahead: int
    rows: list[Place]
    above: int  # how many of the rows stand before the place


class Seeker:
    """Exact reads of all boards behind one link."""

    def __init__(self, link: Link, schema: Keys) -> None:
        self._link = link
        self._schema = schema

    async def around(self, board: Board, window: str, place: Place, *, before: int = 0, after: int = 0) -> Around:
        """Where a place stands, with so many rows before it and from it on."""
        views = await self._ask(board.tags, window, place, before, after)
        above = sorted(row for view in views for row in view.rows[: view.above])
        below = sorted(row for view in views for row in view.rows[view.above :])
        return Around(
            sum(view.players for view in views),
            sum(view.seq for view in views),
            sum(view.ahead for view in views),
            above[len(above) - before :] if before < len(above) else above,
            below[:after],
        )

    async def count(self, board: Board, window: str, keys: OrderKeys, players: Sequence[bytes]) -> Counted:
        """Where these places stand, all of them in one call a shard."""
        points = board.key.decode(keys).points
        columns = zip(
            keys.tolist(), players, board.key.best(points).tolist(), board.key.worst(points).tolist(), strict=True
        )
        args: list[Argument] = [part for row in columns for part in row]
        shards = [self._schema.shard(tag) for tag in board.tags]
        replies = await run_all(self._link, COUNT, [([names.record(window), names.meta], args) for names in shards])
        counts = np.array([reply[2:] for reply in replies], np.int64).sum(axis=0)
        return Counted(
            sum(reply[0] for reply in replies),
            sum(int(reply[1]) for reply in replies),
            counts[0::3],
            counts[1::3],
            counts[2::3],
        )

    async def page(self, board: Board, window: str, after: Place, limit: int) -> tuple[list[Entry], Around]:
        """The rows that come after a place (START for the first page), with their ranks."""
        around = await self._below(board, window, after, limit + 1)
        is_there = bool(around.below) and around.below[0] == after
        rows = around.below[1:] if is_there else around.below[:limit]
        first = around.rank + is_there
        return [Entry(first + number, row) for number, row in enumerate(rows)], around

    async def _below(self, board: Board, window: str, place: Place, most: int) -> Around:
        """The same as `around`, with less to read: each shard has about its share of the rows."""
        share = min(most, 2 * most // len(board.tags) + 50)
        views = await self._ask(board.tags, window, place, 0, share)
        # A shard that gave as many as were asked for may have more, from its last row on.
        end = min((view.rows[-1] for view in views if len(view.rows) == share), default=None)
        rows = sorted(row for view in views for row in view.rows if end is None or row <= end)
        if end is not None and len(rows) < most:
            return await self.around(board, window, place, after=most)
        players, seq, ahead = (
            sum(column) for column in zip(*((v.players, v.seq, v.ahead) for v in views), strict=True)
        )
        return Around(players, seq, ahead, [], rows[:most])

    async def at_rank(self, board: Board, window: str, rank: int) -> Place | None:
        """The place of this rank, or None when there are fewer players.

        Rows may move while it is sought, so that none is left in question: then it begins again.
        """
        while True:
            views = await self._ask(board.tags, window, START, 0, 0)
            if not 0 < rank <= sum(view.players for view in views):
                return None
            found = await self._bisect(board, window, rank - 1, [view.players for view in views])
            if found is not None:
                return found

    async def _bisect(self, board: Board, window: str, wanted: int, high: list[int]) -> Place | None:
        """The place that so many stand before, None if it got out of sight.

        Over all shards at once: the middle row of the shard with most candidates left is sought in all of them, and
        either what stands before it or the rest is no longer in question. Once it is near, the rows around have it.
        """
        low = [0] * len(high)
        while True:
            number = max(range(len(high)), key=lambda shard: high[shard] - low[shard])
            pivot = await self._row(board, number, window, (low[number] + high[number]) // 2)
            if pivot is None or high[number] <= low[number]:
                return None
            views = await self._ask(board.tags, window, pivot, 0, 0)
            ahead = sum(view.ahead for view in views)
            if abs(ahead - wanted) <= NEAR:
                return await self._near(board, window, wanted, pivot)
            for shard, view in enumerate(views):
                if ahead < wanted:
                    low[shard] = max(low[shard], view.ahead + (shard == number))
                else:
                    high[shard] = min(high[shard], view.ahead)

    async def _near(self, board: Board, window: str, wanted: int, place: Place) -> Place | None:
        """The place that so many stand before, if it is among the rows around another one."""
        around = await self.around(board, window, place, before=2 * NEAR, after=2 * NEAR)
        rows = around.above + around.below
        index = wanted - (around.ahead - len(around.above))
        return rows[index] if 0 <= index < len(rows) else None

    async def rows(
        self, board: Board, window: str, after: Place = START, *, most: int | None = None
    ) -> AsyncIterator[Place]:
        """All rows after a place, or the first of them, best first; a thousand of each shard in memory at a time."""
        streams = [self._shard_rows(tag, window, after) for tag in board.tags]
        heads: list[tuple[Place, int]] = []
        for number, stream in enumerate(streams):
            head = await anext(stream, None)
            if head is not None:
                heads.append((head, number))
        heapq.heapify(heads)
        while heads and most != 0:
            place, number = heads[0]
            yield place
            most = None if most is None else most - 1
            head = await anext(streams[number], None)
            if head is None:
                heapq.heappop(heads)
            else:
                heapq.heapreplace(heads, (head, number))

    async def _shard_rows(self, tag: str, window: str, after: Place) -> AsyncIterator[Place]:
        while True:
            (view,) = await self._ask([tag], window, after, 0, ROWS_A_CALL + 1)
            rows = [row for row in view.rows if row > after]
            for row in rows:
                yield row
            if len(view.rows) <= ROWS_A_CALL:
                return
            after = rows[-1]

    async def _ask(self, tags: Sequence[str], window: str, place: Place, before: int, after: int) -> list[_ShardView]:
        """What shards say of a place, with so many rows before it and from it on."""
        shards = [self._schema.shard(tag) for tag in tags]
        args: list[Argument] = [place.key, place.player, before, after]
        replies = await run_all(self._link, SEEK, [([names.record(window), names.meta], args) for names in shards])
        return [_parse_view(reply, before) for reply in replies]

    async def _row(self, board: Board, number: int, window: str, index: int) -> Place | None:
        key = self._schema.shard(board.tags[number]).record(window)
        (rows,) = await ask_all(self._link, [(key, ("ZRANGE", key, index, index, "WITHSCORES"))])
        if not rows:
            return None
        player, order_key = rows[0] if isinstance(rows[0], list) else rows
        return Place(float(order_key), player)


def _parse_view(reply: list[Any], before: int) -> _ShardView:
    players, seq, ahead, *flat = reply
    rows = [Place(float(key), player) for player, key in zip(flat[::2], flat[1::2], strict=True)]
    return _ShardView(players, int(seq), ahead, rows, min(ahead, before))
