"""The exact top of a board: a state machine over the logs of its shards.

The top of a window is a ZSET with the best rows of all shards, in the board's own slot. Beside it stands a *floor*, a
place: every player better than it is in the top, with the very key that his record has. And for each shard the id of
the last log entry that the top includes.

    apply    a writer applies its own entry before it acknowledges: rows better than the floor go in, others out. An
             entry is applied only right after its predecessor, so none is ever left out or taken twice
    help     somebody died between writing and applying: whoever comes next applies what is missing, from the log
    trim     too many rows: the floor moves up to the first that is dropped
    refill   too few: rows are read from the shards, and the floor moves down. Meanwhile every change reaches the top,
             and whom it touches is noted, because a row that was read may be older. A newer refill wins; no lock
    reset    the log no longer has the entry where the top stands, or the state is gone: then nothing is proved, ranks
             are counted in the shards, and the top is made anew from snapshots

tests/property/test_top_machine.py runs all of it under any interleaving, and takes rules away to see it go wrong.
"""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hybrid.config import Board
from hybrid.errors import EntryLost
from hybrid.keys import BoardKeys, Keys
from hybrid.link import Argument, Link, Script
from hybrid.log import LogEntry, parse_entry
from hybrid.orderkey import Ints
from hybrid.orderkey import Keys as OrderKeys
from hybrid.reading import ATTEMPT_S, run_all
from hybrid.scripts import APPLY, LEADERS, REFILL, RESET, SNAPSHOT
from hybrid.seek import Place

NO_FLOOR = Place(float("inf"), b"")
NEVER = "0-0"

_PAGE = 100
_BEGIN_REFILL = Script("""
if redis.call('HEXISTS', KEYS[1], 'a:0') == 0 or redis.call('HEXISTS', KEYS[1], 'r') == 1 then return 0 end
redis.call('HSET', KEYS[1], 'x:' .. ARGV[1], ARGV[2])
redis.call('DEL', KEYS[2])
return 1
""")
# Give a refill a new id, if it is not over and the top is as far as its rows; replies where the top stands.
_MAKE_READY = Script("""
local function seq_of(id) return tonumber(string.match(id, '^%d+')) end
if redis.call('HGET', KEYS[1], 'x:' .. ARGV[1]) ~= ARGV[2] then return {} end
local stands = {}
for i = 4, #ARGV do
  local applied = redis.call('HGET', KEYS[1], 'a:' .. (i - 4))
  if not applied or seq_of(applied) < seq_of(ARGV[i]) then return {} end
  stands[#stands + 1] = applied
end
redis.call('HSET', KEYS[1], 'x:' .. ARGV[1], ARGV[3])
return stands
""")
_BEGIN_RESET = Script("""
local windows = {}
for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
  if string.sub(field, 1, 2) == 'w:' then windows[#windows + 1] = string.sub(field, 3)
  else redis.call('HDEL', KEYS[1], field) end
end
redis.call('HSET', KEYS[1], 'r', ARGV[1])
return windows
""")
# End a reset if the top includes these entries of the shards: what was acknowledged while there was no top.
_END_RESET = Script("""
if redis.call('HGET', KEYS[1], 'r') ~= ARGV[1] then return 'other' end
for i = 2, #ARGV do
  local applied = redis.call('HGET', KEYS[1], 'a:' .. (i - 2))
  if not applied then return 'other' end
  if tonumber(string.match(applied, '^%d+')) < tonumber(string.match(ARGV[i], '^%d+')) then return 'behind' end
end
redis.call('HDEL', KEYS[1], 'r')
return 'ok'
""")


@dataclass(frozen=True, slots=True)
class Leaders:
    """What the top says: down to where it is complete, how many that are, and where some players stand in it.

    Of each player who was asked for: his key there (NaN if he is not in), his rank from 0 (-1 if he is not in), and how
    many in the top have a better score, and his or a better score.
    """

    floor: Place
    seq: int
    rows: int
    keys: OrderKeys
    ranks: Ints
    better: Ints
    up_to: Ints

    @property
    def has_all(self) -> bool:
        """Whether every player is in the top."""
        return self.floor == NO_FLOOR


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """One shard at one entry of its log: the windows it has, and the best rows of some of them."""

    last: str
    windows: list[str]
    rows: dict[str, list[Place]]


class Top:
    """The tops of all boards behind one link."""

    def __init__(self, link: Link, schema: Keys, *, random: random.Random) -> None:
        self._link = link
        self._schema = schema
        self._random = random
        self._bounds: dict[tuple[str, str], Place] = {}
        self._waiting: dict[tuple[str, str | int], str | bytes] = {}

    async def follow(self, board: Board, shard: int, entry: LogEntry) -> None:
        """See that the top includes this entry of a shard, and everything before it."""
        while True:
            reply = await self._apply(board, shard, entry)
            if reply[0] in (b"ok", b"unproved"):
                return
            if reply[0] == b"at":
                applied = reply[1].decode()
                if not await self._has_entry(board, shard, applied):
                    await self.reset(board)
                elif seq_of(applied) >= entry.seq:
                    return
                elif not await self._has_entry(board, shard, entry.id):
                    raise EntryLost("written, but lost in a failover before the top included it")
                else:
                    await self.help(board, shard, applied, until=entry.previous)

    async def help(self, board: Board, shard: int, applied: str, *, until: str) -> None:
        """Apply the entries after `applied`, up to `until`, that somebody wrote and did not apply."""
        log = self._schema.shard(board.tags[shard]).log
        while seq_of(applied) < seq_of(until):
            start = "-" if applied == NEVER else f"({applied}"
            (page,) = await self._link.run(log, [("XRANGE", log, start, "+", "COUNT", _PAGE)])
            entries = [parse_entry(reply) for reply in page]
            if entries and entries[0].previous != applied:
                await self.reset(board)
                return
            if not entries or not await self._apply_all(board, shard, entries):
                return
            applied = entries[-1].id

    async def refill(self, board: Board, window: str) -> bool:
        """Fill the top of a window from the shards; False if it must be tried again."""
        keys = self._schema.board(board.id)
        refill = f"{self._random.getrandbits(64):x}"
        if not await _BEGIN_REFILL.run(self._link, [keys.state, keys.touched(window)], [window, refill]):
            await self.reset(board)
            return True
        keep, _ = sizes(board)
        snapshots, bounds = await self._snapshots(board, [window])
        for shard, snapshot in enumerate(snapshots):
            applied = await self._applied(keys, shard)
            if applied is None:
                return False
            if not await self._has_entry(board, shard, applied):
                return await self.reset(board)
            await self.help(board, shard, applied, until=snapshot.last)
        ready = await self._make_ready(board, window, refill, [snapshot.last for snapshot in snapshots])
        if ready is None:
            return False
        args: list[Argument] = [window, ready, keep, *_bound_args(bounds[window])]
        args += [part for row in _better(snapshots, window, bounds[window]) for part in (row.player, row.key)]
        done = await REFILL.run(self._link, [keys.state, keys.top(window), keys.touched(window)], args)
        self._bounds.pop((board.id, window), None)
        return bool(done)

    async def _make_ready(self, board: Board, window: str, refill: str, lasts: Sequence[str]) -> str | None:
        """The id under which a refill may end, once the top includes the entries up to which its rows were read.

        It is a new one: a failover of the top to a time when it was not as far would bring back the old. Both the rows'
        entries and those where the top stands must be in the logs after that: then they are of one line, and a top that
        stands there can no longer follow a log which lost them.
        """
        ready = f"{self._random.getrandbits(64):x}"
        state = self._schema.board(board.id).state
        stands = await _MAKE_READY.run(self._link, [state], [window, refill, ready, *lasts])
        if not stands:
            return None
        for shard, (last, applied) in enumerate(zip(lasts, stands, strict=True)):
            for entry in (last, applied.decode()):
                if not await self._has_entry(board, shard, entry):
                    return None
        return ready

    async def reset(self, board: Board) -> bool:
        """Make all tops of a board anew from snapshots of its shards; False if another reset began meanwhile."""
        keys = self._schema.board(board.id)
        reset = f"{self._random.getrandbits(64):x}"
        # Also windows that have a top and, after a failover, no records: their tops must go.
        windows = sorted(name.decode() for name in await _BEGIN_RESET.run(self._link, [keys.state], [reset]))
        while True:
            snapshots, bounds = await self._snapshots(board, windows)
            seen = {window for snapshot in snapshots for window in snapshot.windows}
            if seen <= set(windows):
                break
            windows = sorted(seen.union(windows))  # one that was never applied, or came up between two looks
        args: list[Argument] = [reset, len(snapshots), *(snapshot.last for snapshot in snapshots)]
        for window in windows:
            rows = _better(snapshots, window, bounds[window])
            args += [window, *_bound_args(bounds[window]), len(rows)]
            args += [part for row in rows for part in (row.player, row.key)]
        done = await RESET.run(self._link, [keys.state, *(keys.top(window) for window in windows)], args)
        for window in windows:
            self._bounds.pop((board.id, window), None)
        return bool(done) and await self._end_reset(board, reset)

    async def _end_reset(self, board: Board, reset: str) -> bool:
        """See that the top includes what was acknowledged while there was none; only then is anything proved."""
        keys = self._schema.board(board.id)
        while True:
            lasts = [await self._last(board, shard) for shard in range(len(board.tags))]
            for shard, last in enumerate(lasts):
                applied = await self._applied(keys, shard)
                if applied is None:
                    return False
                await self.help(board, shard, applied, until=last)
            reply = await _END_RESET.run(self._link, [keys.state], [reset, *lasts])
            if reply != b"behind":
                return bool(reply == b"ok")

    async def _last(self, board: Board, shard: int) -> str:
        meta = self._schema.shard(board.tags[shard]).meta
        (last,) = await self._link.run(meta, [("HGET", meta, "last")])
        return str(last.decode())

    async def tend(self, board: Board, windows: Sequence[str]) -> None:
        """See that the tops of a board are proved, have caught up with the logs and are full.

        What is behind may be on its way: it is helped when nothing has moved since the last look.
        """
        keys = self._schema.board(board.id)
        (state,) = await self._link.run(keys.state, [("HGETALL", keys.state)])
        is_resetting = b"r" in state
        if self._is_stuck((board.id, "r"), state.get(b"r")) or (b"a:0" not in state and not is_resetting):
            await self.reset(board)
        if is_resetting or b"a:0" not in state:
            return
        for shard, tag in enumerate(board.tags):
            applied, meta = state[b"a:%d" % shard].decode(), self._schema.shard(tag).meta
            (last,) = await self._link.run(meta, [("HGET", meta, "last")])
            if last is not None and self._is_stuck((board.id, shard), applied if applied != last.decode() else None):
                if not await self._has_entry(board, shard, applied):
                    await self.reset(board)
                    return
                await self.help(board, shard, applied, until=last.decode())
        for window in windows:
            is_stuck = self._is_stuck((board.id, window), state.get(f"x:{window}".encode()))
            top = await self.leaders(board, window, [], np.empty(0))
            keep, spare = sizes(board)
            # Before it is too short: while it is, everybody has to be counted.
            if is_stuck or (top is not None and not top.has_all and top.rows < keep - spare // 2):
                await self.refill(board, window)

    async def leaders(self, board: Board, window: str, players: Sequence[bytes], keys: OrderKeys) -> Leaders | None:
        """What the top says of players who are believed to have these keys; None while nothing is proved."""
        names = self._schema.board(board.id)
        points = board.key.points(keys)
        ends = zip(players, board.key.best(points).tolist(), board.key.worst(points).tolist(), strict=True)
        args: list[Argument] = [window, len(board.tags), *(part for end in ends for part in end)]
        (reply,) = await run_all(self._link, LEADERS, [([names.state, names.top(window)], args)])
        if reply[0] == b"unproved":
            return None
        key, player, seq, rows, *found = reply
        floor = self._bounds[board.id, window] = Place(float(key), player)
        return Leaders(
            floor,
            int(seq),
            rows,
            np.array([np.nan if text is None else float(text) for text in found[::4]]),
            np.array([-1 if rank is None else rank for rank in found[1::4]], np.int64),
            np.array(found[2::4], np.int64),
            np.array(found[3::4], np.int64),
        )

    def forget(self, board: Board) -> None:
        """A deleted board has no more tops."""
        for name in [name for name in self._bounds if name[0] == board.id]:
            del self._bounds[name]

    def known_floor(self, board: Board, window: str) -> Place:
        """The floor as it was last seen here."""
        return self._bounds.get((board.id, window), NO_FLOOR)

    def _is_stuck(self, what: tuple[str, str | int], state: str | bytes | None) -> bool:
        """Whether something is as it was when it was looked at last; None is as it should be."""
        if state is None:
            self._waiting.pop(what, None)
            return False
        before, self._waiting[what] = self._waiting.get(what), state
        return before == state

    async def _apply_all(self, board: Board, shard: int, entries: Sequence[LogEntry]) -> bool:
        """Apply entries one after the other; False when somebody else has moved on."""
        for entry in entries:
            reply = await self._apply(board, shard, entry)
            while reply[0] == b"need":
                reply = await self._apply(board, shard, entry)
            if reply[0] != b"ok":
                return False
        return True

    async def _apply(self, board: Board, shard: int, entry: LogEntry) -> list[Any]:
        keys = self._schema.board(board.id)
        names = [keys.state]
        args: list[Argument] = [shard, entry.previous, entry.id, *sizes(board)]
        for window, rows in entry.rows.items():
            bound = self.known_floor(board, window)
            changes = rows.changes(bound.key)
            names += [keys.top(window), keys.touched(window)]
            args += [window, *_bound_args(bound), len(changes)]
            for change in changes:
                args += [change.player, "nan" if change.new is None else change.new]
        reply: list[Any] = await APPLY.run(self._link, names, args, timeout_s=ATTEMPT_S)
        if reply[0] in (b"ok", b"need"):
            for window, key, player in zip(entry.rows, reply[1::2], reply[2::2], strict=True):
                self._bounds[board.id, window] = Place(float(key), player)
        return reply

    async def _snapshots(self, board: Board, windows: Sequence[str]) -> tuple[list[_Snapshot], dict[str, Place]]:
        """The best rows of every shard, and down to where those of each window are complete."""
        keep, _ = sizes(board)
        shards = range(len(board.tags))
        # One more than is kept: the last row is the first of which it is not known what stands behind it.
        wanted = min(keep, 2 * keep // len(shards) + 50) + 1
        snapshots = await asyncio.gather(*(self._snapshot(board, shard, windows, wanted) for shard in shards))
        bounds = {}
        for window in windows:
            # A shard that gave as many as were asked for may have more, from its last row on.
            cut = [snapshot.rows[window][-1] for snapshot in snapshots if len(snapshot.rows[window]) == wanted]
            bounds[window] = min(cut, default=NO_FLOOR)
        return snapshots, bounds

    async def _snapshot(self, board: Board, shard: int, windows: Sequence[str], wanted: int) -> _Snapshot:
        keys = self._schema.shard(board.tags[shard])
        names = [keys.meta, *(keys.record(window) for window in windows)]
        last, seen, *found = await SNAPSHOT.run(self._link, names, [wanted])
        rows = {
            window: [Place(float(key), player) for player, key in zip(flat[::2], flat[1::2], strict=True)]
            for window, flat in zip(windows, found, strict=True)
        }
        return _Snapshot(last.decode(), [window.decode() for window in seen], rows)

    async def _has_entry(self, board: Board, shard: int, entry: str) -> bool:
        """Whether the entry where the top stands is in the log; trimmed or lost, nobody knows what came after it."""
        log = self._schema.shard(board.tags[shard]).log
        if entry == NEVER:
            (first,) = await self._link.run(log, [("XRANGE", log, "-", "+", "COUNT", 1)])
            return not first or parse_entry(first[0]).previous == NEVER
        (found,) = await self._link.run(log, [("XRANGE", log, entry, entry)])
        return bool(found)

    async def _applied(self, keys: BoardKeys, shard: int) -> str | None:
        (applied,) = await self._link.run(keys.state, [("HGET", keys.state, f"a:{shard}")])
        return None if applied is None else applied.decode()


def sizes(board: Board) -> tuple[int, int]:
    """How many rows a top keeps, and how many more it may have before it is trimmed.

    The spare lets leaders leave without a refill each time; the slack lets them come without a trim each time.
    """
    spare = board.config.top_n // 10 + 10
    return board.config.top_n + spare, spare


def seq_of(entry: str) -> int:
    return int(entry.partition("-")[0])


def _better(snapshots: Sequence[_Snapshot], window: str, bound: Place) -> list[Place]:
    return sorted(row for snapshot in snapshots for row in snapshot.rows[window] if row < bound)


def _bound_args(bound: Place) -> tuple[str | float, bytes]:
    return ("inf" if bound.key == NO_FLOOR.key else bound.key), bound.player
