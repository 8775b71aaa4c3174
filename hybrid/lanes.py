"""Lanes: the writes of one shard, one group at a time.

While a group is on its way, whatever arrives waits and becomes the next group. An idle lane starts in the next turn of
the event loop, so single submits of one turn are written together; under load, and with an fsync for every group, the
groups grow by themselves to what the shard can take.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from hybrid.errors import HybridError
from hybrid.groups import Group, Rows
from hybrid.link import Argument, Command
from hybrid.log import LogEntry, pack_events, parse_keys, render_keys
from hybrid.orderkey import Keys
from hybrid.outcomes import Outcomes, Status
from hybrid.parts import Part
from hybrid.shard import WRITE, Shard
from hybrid.windows import DAY_MS, Window

GROUP_ITEMS = 2000


class Lane:
    """Writes parts to one shard, in the order in which they came."""

    def __init__(
        self, shard: Shard, *, kept_until_ms: Callable[[Window], int | None], nonce: Callable[[], int]
    ) -> None:
        self._shard = shard
        self._kept_until_ms = kept_until_ms
        self._nonce = nonce
        self._waiting: deque[tuple[Part, float, asyncio.Future[Outcomes]]] = deque()
        self._task: asyncio.Task[None] | None = None

    async def write(self, part: Part, deadline_s: float) -> Outcomes:
        """What became of these events; unknown, with the error, where nobody can say."""
        future: asyncio.Future[Outcomes] = asyncio.get_running_loop().create_future()
        self._waiting.append((part, deadline_s, future))
        if self._task is None:
            self._task = asyncio.create_task(self._drain())
        return await future

    async def _drain(self) -> None:
        try:
            while self._waiting:
                await self._write_next()
        finally:
            self._task = None
            for _, _, future in self._waiting:
                future.cancel()

    async def _write_next(self) -> None:
        taken = [self._waiting.popleft()]
        items = len(taken[0][0])
        while self._waiting and items + len(self._waiting[0][0]) <= GROUP_ITEMS:
            taken.append(self._waiting.popleft())
            items += len(taken[-1][0])
        group = Group(self._shard.board, [part for part, _, _ in taken], self._nonce())
        try:
            await self._commit(group, min(deadline_s for _, deadline_s, _ in taken))
        except HybridError as error:
            group.outcomes.error = error
        except BaseException as error:
            for _, _, future in taken:
                _fail(future, error)
            if not isinstance(error, Exception):
                raise
            return
        for (_, _, future), outcomes in zip(taken, group.split(), strict=True):
            if not future.done():
                future.set_result(outcomes)

    async def _commit(self, group: Group, deadline_s: float) -> None:
        """Plan and write, until the plan holds: no token is known, and no record has moved since it was read."""
        while True:
            old = await self._read(group) if group.is_set else None
            rows = group.plan_best() if old is None else group.plan_set(old)
            if await self._forgive_duplicates(group):
                continue
            if not group.is_alive.any():
                break
            tokens = group.tokens()
            keys, args = await self._call(group, rows, tokens)
            reply = await self._shard.commit(WRITE, keys, args, deadline_s)
            if isinstance(reply, LogEntry):
                group.settle(_merge(group, old, reply.old_keys()))
                break
            if reply[0] == b"ok":
                met = zip(rows, map(parse_keys, reply[3:]), strict=True)
                group.settle(_merge(group, old, {row.window.name: (row.players, keys) for row, keys in met}))
                break
            if reply[0] == b"known":
                group.drop_known([tokens[int(number) - 1] for number in reply[1:]])
        await self._look_up_duplicates(group)

    async def _forgive_duplicates(self, group: Group) -> bool:
        """An event that would be refused now, but was written before, is a duplicate: then plan again without it."""
        tokens = group.tokens(Status.REFUSED)
        if not tokens:
            return False
        days = await self._days()
        replies = await self._shard.link.run(days[0], [("SMISMEMBER", day, *tokens) for day in days])
        known = [token for token, *is_known in zip(tokens, *replies, strict=True) if any(is_known)]
        group.drop_known(known)
        return bool(known)

    async def _days(self) -> list[str]:
        """The token sets of yesterday, today and tomorrow: clocks that differ around midnight see the same three."""
        day = await self._shard.now_ms() // DAY_MS
        return [self._shard.keys.day(number) for number in (day - 1, day, day + 1)]

    async def _read(self, group: Group) -> Keys:
        """The keys of all players of the group, a row a window, NaN for none."""
        keys = self._shard.keys
        commands: list[Command] = [("ZMSCORE", keys.record(window.name), *group.table) for window in group.windows]
        replies = await self._shard.link.run(keys.meta, commands) if commands else []
        return np.array(replies, np.float64).reshape(len(group.windows), len(group.table))

    async def _call(self, group: Group, rows: Sequence[Rows], tokens: list[bytes]) -> tuple[list[str], list[Argument]]:
        """Keys and arguments of lua/write.lua, but for the deadline."""
        names = self._shard.keys
        now_ms = await self._shard.now_ms()
        logged = group.logged()
        keys = [names.meta, names.log, names.minute(now_ms // 60_000), *await self._days()]
        keys += [names.record(row.window.name) for row in rows]
        args: list[Argument] = [group.board.id, group.nonce, len(logged.players), pack_events(logged)]
        args += [(now_ms // DAY_MS + 2) * DAY_MS, "set" if group.is_set else "best", len(tokens), *tokens]
        before: Rows | None = None
        for row in rows:
            kept = self._kept_until_ms(row.window)
            args += [row.window.name, "" if kept is None else kept]
            if before is not None and row.expected is None and row.keys is before.keys:
                args.append("=")
            else:
                args += [len(row.players), *row.players, *render_keys(row.keys)]
                args += [] if row.expected is None else render_keys(row.expected)
            before = row
        return keys, args

    async def _look_up_duplicates(self, group: Group) -> None:
        """A duplicate is answered with the record as it stands."""
        if (group.outcomes.codes == Status.DUPLICATE).any():
            group.show_duplicates(await self._read(group))


def _fail(future: asyncio.Future[Outcomes], error: BaseException) -> None:
    if future.done():
        return
    if isinstance(error, Exception):
        future.set_exception(error)
    else:
        future.cancel()


def _merge(group: Group, read: Keys | None, met: Mapping[str, tuple[Sequence[bytes], Keys]]) -> Keys:
    """The keys that the write met: those it reported, and for players whom it left alone those read before."""
    old = np.full((len(group.windows), len(group.table)), np.nan) if read is None else read.copy()
    for row, window in enumerate(group.windows):
        if window.name in met:
            players, keys = met[window.name]
            old[row, group.slots_of(players)] = keys
    return old
