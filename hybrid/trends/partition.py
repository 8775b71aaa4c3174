"""One partition as the keeper has it: its panes in memory, and what of them is kept in Redis.

    fold   read the entries after the position, sum them all up, absorb them as one batch into the pane of each length
    keep   write every pane that changed together with the position, if Redis still has the position that was expected

Between two writes memory is ahead of Redis. When a keeper dies, the next one begins at what was kept and folds the same
entries again: they stay in the stream until a position behind them was kept. When two keepers fold the same partition,
one of them finds another position than it expected; it forgets what it has and loads what is there. So every entry is
counted once, whoever dies, and whoever was asleep.

By level, events counted + late + capped are the events that the entries say: `sums`.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec
import numpy as np

from hybrid.errors import EntryLost, HybridError, TrendNotFound
from hybrid.keys import PartitionKeys
from hybrid.link import Argument, Command, Link
from hybrid.orderkey import Ints
from hybrid.reading import ask_all
from hybrid.scripts import TREND_KEEP
from hybrid.trends.config import Trend
from hybrid.trends.events import Rows, join_rows
from hybrid.trends.ladder import Level
from hybrid.trends.pane import Pane, PaneBatch
from hybrid.trends.sources import START, OwnStream, Source

BATCH_ROWS = 65_536  # after so many, what was read is absorbed
KEEP_S = 10.0  # what was folded is written at least so often
KEEP_ROWS = 1_000_000  # and after so many rows

SPARE_MS = 3_600_000  # a pane's key outlives the pane by so much: clocks differ

PaneName = tuple[int, int]  # the length of its kind in ms, and its number


class Sums(msgspec.Struct, array_like=True):
    """What became of all events ever, at one level."""

    counted: int = 0
    late: int = 0
    capped: int = 0


class Kept(msgspec.Struct):
    """What is kept with a position: the panes that there are, and the sums by the length of panes."""

    panes: list[PaneName] = []
    sums: dict[int, Sums] = {}


@dataclass(slots=True)
class _Memory:
    """What is folded so far; `kept_at` is the position in Redis, `position` the one in memory."""

    kept_at: str
    position: str
    panes: dict[PaneName, Pane]
    sums: dict[int, Sums]
    changed: set[PaneName] = field(default_factory=set)
    rows: int = 0  # folded since the last write
    kept_s: float = 0.0


class Partition:
    """The panes of one partition."""

    def __init__(self, link: Link, keys: PartitionKeys, trend: Trend, source: Source) -> None:
        self._link, self._keys, self._trend, self._source = link, keys, trend, source
        self._memory: _Memory | None = None
        self._forgotten: dict[int, Sums] = {}

    @property
    def is_open(self) -> bool:
        """Whether it is in memory."""
        return self._memory is not None

    @property
    def sums(self) -> dict[int, Sums]:
        """What became of the events folded so far, by the length of panes."""
        return self._memory.sums if self._memory else self._forgotten

    def panes(self, pane_ms: int, numbers: Iterable[int]) -> dict[int, Pane]:
        """The panes of these numbers, as far as there are any."""
        panes = self._memory.panes if self._memory else {}
        return {number: panes[pane_ms, number] for number in numbers if (pane_ms, number) in panes}

    async def open(self) -> None:
        """Have it in memory, at least as it was kept."""
        await self._open()

    async def fold(self, now_ms: int) -> bool:
        """Fold what came in, up to a batch; whether there is more."""
        memory = await self._open()
        pieces: list[Rows] = []
        position, rows, is_end = memory.position, 0, False
        try:
            while rows < BATCH_ROWS and not is_end:
                page = await self._source.read(position)
                pieces += page.pieces
                rows += sum(map(len, page.pieces))
                position, is_end = page.last, page.is_end
        except EntryLost:
            await self._begin_again(position)
            return True
        if pieces and memory.position == START and (await self._read_position())[0] != memory.kept_at:
            self._memory = None  # there is no entry at the start that would be missed if somebody has trimmed since
            return True
        if pieces:
            self._absorb(memory, join_rows(pieces), now_ms)
        memory.position = position
        memory.rows += rows
        return not is_end

    async def keep(self, now_ms: int, *, is_due: bool = False) -> None:
        """Write what changed, if it is time to, if it is much, or if it is said to be due."""
        memory = await self._open()
        if memory.position in (memory.kept_at, START):
            return
        waited_s = asyncio.get_running_loop().time() - memory.kept_s
        if is_due or waited_s >= KEEP_S or memory.rows >= KEEP_ROWS:
            await self._write(memory, now_ms)

    def forget(self) -> None:
        """Let go of what is in memory: somebody else may fold now."""
        self._forgotten, self._memory = self.sums, None

    async def _open(self) -> _Memory:
        if self._memory is None:
            self._memory = await self._load()
        return self._memory

    async def _load(self) -> _Memory:
        key = self._keys.position
        while True:
            at, kept = await self._read_position()
            commands: list[Command] = [("GET", self._keys.pane(*name)) for name in kept.panes]
            blobs = await ask_all(self._link, [(key, command) for command in commands])
            if (await self._read_position())[0] == at:
                break
        found = zip(kept.panes, blobs, strict=True)
        panes = {name: Pane.from_bytes(self._trend, blob) for name, blob in found if blob is not None}  # else expired
        # As if it were long ago: keepers that die often still get on, because the first thing they fold is kept.
        now_s = asyncio.get_running_loop().time() - KEEP_S
        return _Memory(at, at, panes, {level.pane_ms: Sums() for level in self._trend.levels} | kept.sums, kept_s=now_s)

    async def _read_position(self) -> tuple[str, Kept]:
        key = self._keys.position
        ((at, kept),) = await ask_all(self._link, [(key, ("HMGET", key, "at", "kept"))])
        if at is None:
            raise TrendNotFound(f"trend {self._trend.name!r} was deleted")
        return at.decode(), msgspec.json.decode(kept, type=Kept) if kept else Kept()

    async def _begin_again(self, lost: str) -> None:
        """Begin at what is kept now, because an entry is gone; where that is the very entry, as the source says.

        Mostly it is another one: it was in memory only, or somebody else has kept more since and trimmed it.
        """
        self._memory = None
        memory = await self._open()
        if memory.kept_at == lost:
            memory.position = await self._source.rebase(lost)

    def _absorb(self, memory: _Memory, rows: Rows, now_ms: int) -> None:
        at_ms = rows.buckets * self._trend.bucket_ms
        counts = rows.counts
        allowed = self._cap(memory, rows, at_ms, now_ms)
        whole = PaneBatch(self._trend, rows, allowed)  # mostly all of it is of one pane, at every level
        for level in self._trend.levels:
            sums = memory.sums[level.pane_ms]
            numbers = at_ms // level.pane_ms
            is_late = numbers < level.oldest(now_ms)
            if is_late.any():
                late = int(counts[is_late].sum())
                self._pane(memory, level, level.pane_of(now_ms)).late += late
                sums.late += late
            for number in np.unique(numbers[~is_late]).tolist():
                places = np.flatnonzero(numbers == number)
                is_whole = len(places) == len(rows)
                batch = whole if is_whole else PaneBatch(self._trend, rows.take(places), allowed[places])
                pane = self._pane(memory, level, number)
                pane.absorb(batch)
                capped = int(counts[places].sum()) - batch.tally.total
                pane.capped += capped
                sums.capped += capped
                sums.counted += batch.tally.total

    def _cap(self, memory: _Memory, rows: Rows, at_ms: Ints, now_ms: int) -> Ints:
        """How much of each row counts: an actor is capped in the shortest pane that is still there."""
        allowed, cap = rows.counts.copy(), self._trend.config.actor_cap
        if cap is None or not rows.has_actors:
            return allowed
        is_open = rows.actors.is_valid().to_numpy(zero_copy_only=False)
        for level in self._trend.levels:
            numbers = at_ms // level.pane_ms
            is_here = is_open & (numbers >= level.oldest(now_ms))
            for number in np.unique(numbers[is_here]).tolist():
                places = np.flatnonzero(is_here & (numbers == number))
                chosen = rows.take(places)
                allowed[places] = self._pane(memory, level, number).cap(chosen.actors, chosen.counts, cap)
            is_open &= ~is_here
        return allowed

    def _pane(self, memory: _Memory, level: Level, number: int) -> Pane:
        """The pane, to be changed."""
        name = (level.pane_ms, number)
        memory.changed.add(name)
        if name not in memory.panes:
            memory.panes[name] = Pane(self._trend)
        return memory.panes[name]

    async def _write(self, memory: _Memory, now_ms: int) -> None:
        levels = {level.pane_ms: level for level in self._trend.levels}
        living = {
            (pane_ms, number): pane
            for (pane_ms, number), pane in memory.panes.items()
            if number >= levels[pane_ms].oldest(now_ms)
        }
        written = [name for name in sorted(memory.changed) if name in living]
        stream = self._keys.stream if isinstance(self._source, OwnStream) else self._keys.meta
        keys = [self._keys.meta, self._keys.position, stream, *(self._keys.pane(*name) for name in written)]
        kept = msgspec.json.encode(Kept(sorted(living), memory.sums))
        args: list[Argument] = [self._trend.id, memory.kept_at, memory.position, kept]
        for name in written:
            left_ms = levels[name[0]].end_ms(name[1]) - now_ms
            args += [left_ms + SPARE_MS, living[name].to_bytes()]
        try:
            reply = await TREND_KEEP.run(self._link, keys, args)
        except HybridError:
            self._memory = None  # nobody knows whether it was written: look
            raise
        if reply[0] == b"gone":
            raise TrendNotFound(f"trend {self._trend.name!r} was deleted")
        if reply[0] != b"ok":
            self._memory = None
            return
        memory.kept_at, memory.panes, memory.rows = memory.position, living, 0
        memory.changed.clear()
        memory.kept_s = asyncio.get_running_loop().time()
