"""Past windows: what is left of a window when its records are gone.

A window that is over stays whole for as long again as it was, and a week at least. Before its records go, the keeper
writes down its leaders, row by row, and a t-digest of everybody's points: a few KB that stay for ever. From these:

    a leader            his exact rank and percentile, as they were
    any score           the standing that it would have had, from the digest's cells
    everybody else      nothing by name: the record of who had which score is gone

A player who is removed later is taken out of the leaders, too; the digest still counts him.
"""

import asyncio
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import cached_property

import msgspec
import numpy as np

from hybrid.config import Board
from hybrid.errors import RankingUnavailable
from hybrid.keys import Keys as KeySchema
from hybrid.link import Command, Link, Script
from hybrid.orderkey import Ints, Keys
from hybrid.seek import Entry, Place, Seeker
from hybrid.standing import Moment, Rows, estimated_places, exact_places
from hybrid.tail import Tail
from hybrid.view import View, digest_of
from hybrid.windows import Window
from sketches import TDigest

_MOST_KEPT = 64  # past windows in memory
_AGAIN_S = 1.0  # how long it is believed that a window is still whole
LET_GO_MS = 60_000  # how long after it was written down for good its records go

# Write a window down if what is written of it is still what was read.
_WRITE = Script("""
local before = redis.call('HGET', KEYS[1], ARGV[1])
if (before or '') ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return 1
""")


class Past(msgspec.Struct, frozen=True, array_like=True, dict=True):
    """A window as it was: its leaders, best first, and the digest of all.

    `last_up_to` is how many had the last leader's score or a better one: his ties reach further than the leaders.
    `is_whole`: it still has its records, and they answer. `is_final`: they are being let go, and are read no more.
    """

    window: str
    players: int
    seq: int
    as_of_ms: int
    is_whole: bool
    names: list[bytes]
    keys_le: bytes
    last_up_to: int
    digest: bytes
    is_final: bool = False

    @cached_property
    def keys(self) -> Keys:
        return np.frombuffer(self.keys_le, "<f8").astype(np.float64)

    @cached_property
    def ranks(self) -> dict[bytes, int]:
        return {name: number for number, name in enumerate(self.names, 1)}

    @property
    def moment(self) -> Moment:
        return Moment(self.players, self.as_of_ms, self.seq)

    def view(self, board: Board) -> View:
        """What the digest proves."""
        return View.of_digest(TDigest.from_bytes(self.digest), board.key, seq=self.seq, as_of_ms=self.as_of_ms)

    def count_up_to(self, place: Place) -> int:
        """How many leaders stand at a place or before it; who stood there may have been removed since."""
        return bisect_right(list(map(Place, self.keys.tolist(), self.names)), place)

    def entries(self, first: int, most: int) -> list[Entry]:
        """Leaders from a rank on."""
        span = slice(first - 1, first - 1 + most)
        places = map(Place, self.keys[span].tolist(), self.names[span])
        return [Entry(first + number, place) for number, place in enumerate(places)]

    def of_players(self, board: Board, players: Sequence[str], names: Sequence[bytes], ranking: str) -> Rows:
        """Where leaders stood; the others have no record any more."""
        ranks = np.array([self.ranks.get(name, 0) for name in names], np.int64)
        here = np.flatnonzero(ranks)
        keys = np.full(len(names), np.nan)
        keys[here] = self.keys[ranks[here] - 1]
        rows = Rows.unknown(board, self.window, players, keys)
        points = board.key.decode(keys[here]).points
        up_to = self._up_to(board, points)
        shown = self._ranked(board, points, ranks[here], ranking)
        rows.settle(here, exact_places(shown, up_to, self.players), self.moment, is_exact=True)
        return rows

    def of_points(self, board: Board, points: Ints, ranking: str) -> Rows:
        """Where newcomers with these points would have stood, last among equals."""
        rows, view = Rows.unknown(board, self.window, [None] * len(points), board.key.worst(points)), self.view(board)
        has_all = len(self.names) == self.players
        is_leader = np.full(len(points), has_all) if has_all or not self.names else rows.keys < self.keys[-1]
        if ranking == "dense" and not is_leader.all():
            raise RankingUnavailable("ranking", f"dense ranks are known of the first {len(self.names)} only")
        moment, everybody = Moment(self.players + 1, self.as_of_ms, self.seq), np.arange(len(points))
        if not is_leader.all():
            up_to = view.up_to(rows.keys)
            position = (view.before(board.key.best(points)) if ranking == "competition" else up_to).bounds
            rows.settle(everybody, estimated_places(view, position, up_to, own=0), moment, is_exact=False)
        leaders = everybody[is_leader]
        up_to_leaders = self._up_to(board, points[leaders])
        ranks = self._ranked(board, points[leaders], up_to_leaders + 1, ranking)
        rows.settle(leaders, exact_places(ranks, up_to_leaders + 1, self.players + 1), moment, is_exact=True)
        return rows

    def without(self, board: Board, name: bytes) -> "Past":
        """The same without a player who was removed."""
        row = self.ranks[name] - 1
        names, keys = self.names[:row] + self.names[row + 1 :], np.delete(self.keys, row)
        distances = board.key.split(self.keys)[0]
        is_last_of_score = row == len(names) and (row == 0 or distances[row] != distances[row - 1])
        last_up_to = row if is_last_of_score else self.last_up_to - 1
        return msgspec.structs.replace(
            self, players=self.players - 1, names=names, keys_le=keys.tobytes(), last_up_to=last_up_to
        )

    def _up_to(self, board: Board, points: Ints) -> Ints:
        """How many had these points or more, of points that leaders have."""
        up_to = np.searchsorted(self.keys, board.key.worst(points), "right")
        return np.where(up_to == len(self.keys), self.last_up_to, up_to) if len(self.keys) else up_to

    def _ranked(self, board: Board, points: Ints, unique: Ints, ranking: str) -> Ints:
        if ranking == "competition":
            return np.searchsorted(self.keys, board.key.best(points), "left") + 1
        if ranking == "dense":
            distances: Ints = board.key.score.distance(points)
            return np.searchsorted(np.unique(board.key.split(self.keys)[0]), distances) + 1
        return unique


class PastWindows:
    """The past windows of all boards behind one link."""

    def __init__(
        self, link: Link, schema: KeySchema, seek: Seeker, tail: Tail, *, now_ms: Callable[[], int], grace_ms: int
    ) -> None:
        self._link = link
        self._schema = schema
        self._seek = seek
        self._tail = tail
        self._now_ms = now_ms
        self._grace_ms = grace_ms
        self._known: OrderedDict[tuple[str, str], tuple[Past | None, float]] = OrderedDict()

    async def find(self, board: Board, window: Window) -> Past | None:
        """What is left of a window; None while it is whole, or when nothing ever was."""
        if not window.is_closed(self._now_ms(), self._grace_ms):
            return None
        name, now_s = (board.id, window.name), asyncio.get_running_loop().time()
        known = self._known.get(name)
        if known is None or now_s > known[1] + _AGAIN_S:
            past, _ = await self._load(board, window.name)
            known = self._known[name] = (None if past is None or past.is_whole else past, now_s)
            while len(self._known) > _MOST_KEPT:
                self._known.popitem(last=False)
        return known[0]

    async def write_down(self, board: Board, window: str, *, is_whole: bool) -> bool:
        """Keep leaders and digest of a window as its records have them; False if somebody else just did."""
        _, before = await self._load(board, window)
        sampled = await asyncio.gather(*(self._tail.sample(board, shard, window) for shard in range(len(board.tags))))
        samples = [shard for shard in sampled if shard is not None]
        if not samples:
            return False  # its records are gone already: what is written of it is all there is
        leaders = [place async for place in self._seek.rows(board, window, most=board.config.top_n)]
        keys = np.array([place.key for place in leaders])
        counted = await self._seek.count(board, window, keys[-1:], [place.player for place in leaders[-1:]])
        past = Past(
            window,
            counted.players,
            counted.seq,
            self._now_ms(),
            is_whole,
            [place.player for place in leaders],
            keys.astype("<f8").tobytes(),
            int(counted.up_to.sum()),
            digest_of(samples, board.key).to_bytes(),
        )
        return await self._write(board, window, before, past)

    async def retire(self, board: Board, window: str) -> bool:
        """Write a window down for good and, a while later, let its records go; False while there is more to do.

        Readers turn to what is written before the records go: some believe for a moment that the window is whole. And
        whoever is removed while it is written down may be written all the same: then it is written again.
        """
        past, before = await self._load(board, window)
        if past is None or not past.is_final:
            leaders = [place async for place in self._seek.rows(board, window, most=board.config.top_n)]
            if past is None or past.is_whole or [place.player for place in leaders] != past.names:
                await self.write_down(board, window, is_whole=False)
                return False
            if self._now_ms() < past.as_of_ms + LET_GO_MS:
                return False
            if not await self._write(board, window, before, msgspec.structs.replace(past, is_final=True)):
                return False
        for tag in board.tags:
            keys = self._schema.shard(tag)
            commands: list[Command] = [
                ("UNLINK", keys.record(window), keys.samples(window)),
                ("HDEL", keys.meta, f"v:{window}"),
            ]
            await self._link.run(keys.meta, commands)
        shared = self._schema.board(board.id)
        fields = [f"{kind}:{window}" for kind in "wfx"]
        await self._link.run(
            shared.state, [("HDEL", shared.state, *fields), ("UNLINK", shared.top(window), shared.touched(window))]
        )
        return True

    async def remove(self, board: Board, name: bytes) -> bool:
        """Take a player out of the leaders of every past window; False if he was in none."""
        key, was_there = self._schema.board(board.id).past, False
        (windows,) = await self._link.run(key, [("HKEYS", key)])
        for window in windows:
            while True:
                past, before = await self._load(board, window.decode())
                if past is None or name not in past.ranks:
                    break
                was_there = True
                if await self._write(board, past.window, before, past.without(board, name)):
                    break
        return was_there

    async def _load(self, board: Board, window: str) -> tuple[Past | None, bytes]:
        key = self._schema.board(board.id).past
        (text,) = await self._link.run(key, [("HGET", key, window)])
        return (None if text is None else msgspec.msgpack.decode(text, type=Past)), text or b""

    async def _write(self, board: Board, window: str, before: bytes, past: Past) -> bool:
        key = self._schema.board(board.id).past
        done = await _WRITE.run(self._link, [key], [window, before, msgspec.msgpack.encode(past)])
        self._known.pop((board.id, window), None)
        return bool(done)
