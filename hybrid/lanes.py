"""Lanes: the writes of one shard, one group at a time.

While a group is on its way, whatever arrives waits and becomes the next group. An idle lane starts in the next turn of
the event loop, so single submits of one turn are written together; under load, and with an fsync for every group, the
groups grow by themselves to what the shard can take.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from redis.exceptions import ResponseError

from hybrid.config import Board
from hybrid.errors import HybridError, OutcomeUnknown, RedisUnavailable
from hybrid.groups import Group, Rows
from hybrid.link import Argument, Command
from hybrid.log import (
    BEST,
    SET,
    LogEntry,
    LoggedEvents,
    WindowRows,
    pack_events,
    parse_keys,
    quote_keys,
    render_keys,
    render_players,
)
from hybrid.orderkey import Keys
from hybrid.outcomes import Outcomes, Status
from hybrid.parts import Part
from hybrid.place import Reply
from hybrid.scripts import WRITE
from hybrid.shard import Shard
from hybrid.windows import DAY_MS, Window

GROUP_ITEMS = 2000
READ_FIRST = 200  # players; see _commit

_LEEWAY_S = 0.05  # a group that runs to its deadline answers by itself, and says more


class Lane:
    """Writes parts to one shard, in the order in which they came."""

    def __init__(
        self,
        shard: Shard,
        *,
        kept_until_ms: Callable[[Board, Window], int | None],
        nonce: Callable[[], int],
        follow: Callable[[LogEntry, float], Awaitable[None]],
    ) -> None:
        self._shard = shard
        self._follow = follow
        self._kept_until_ms = kept_until_ms
        self._nonce = nonce
        self._waiting: deque[tuple[Part, float, asyncio.Future[Outcomes]]] = deque()
        self._task: asyncio.Task[None] | None = None

    def write(self, part: Part, deadline_s: float) -> asyncio.Future[Outcomes]:
        """What became of these events; unknown, with the error, where nobody can say.

        A group goes on until the latest deadline in it, but each caller is answered by his own. It is a future, not a
        coroutine: a batch has a part for every shard, and a task for each of them is dear.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Outcomes] = loop.create_future()
        timer = loop.call_at(deadline_s + _LEEWAY_S, self._give_up, part, future)
        future.add_done_callback(lambda _: self._release(future, timer))
        self._waiting.append((part, deadline_s, future))
        if self._task is None:
            self._task = asyncio.create_task(self._drain())
        return future

    def _give_up(self, part: Part, future: asyncio.Future[Outcomes]) -> None:
        """The deadline has passed."""
        error: HybridError = OutcomeUnknown("Redis did not answer before the deadline; the write may have happened")
        if self._withdraw(future):
            error = RedisUnavailable("too much was waiting before it; nothing was written")
        if not future.done():
            future.set_result(Outcomes.unknown(self._shard.board, len(part), error))

    def _release(self, future: asyncio.Future[Outcomes], timer: asyncio.TimerHandle) -> None:
        timer.cancel()
        if future.cancelled():
            self._withdraw(future)

    def _withdraw(self, future: asyncio.Future[Outcomes]) -> bool:
        """Take a part back that has not been written yet; False when it is on its way."""
        before = len(self._waiting)
        self._waiting = deque(item for item in self._waiting if item[2] is not future)
        return len(self._waiting) < before

    async def _drain(self) -> None:
        try:
            while self._waiting:
                await self._write_next()
        finally:
            self._task = None
            for _, _, future in self._waiting:
                future.cancel()

    async def _write_next(self) -> None:
        taken = self._take_group()
        futures = [future for _, _, future in taken]
        try:
            group = Group(self._shard.board, [part for part, _, _ in taken], self._nonce())
            try:
                await self._commit(group, max(deadline_s for _, deadline_s, _ in taken))
            except HybridError as error:
                group.fail(error)
            except ResponseError as error:
                group.fail(OutcomeUnknown(f"Redis answered with an error: {error}"))
        except BaseException as error:
            for future in futures:
                _fail(future, error)
            if not isinstance(error, Exception):
                raise
            return
        for future, outcomes in zip(futures, group.split(), strict=True):
            if not future.done():
                future.set_result(outcomes)

    def _take_group(self) -> list[tuple[Part, float, asyncio.Future[Outcomes]]]:
        """The parts that come next."""
        taken = [self._waiting.popleft()]
        items = len(taken[0][0])
        while self._waiting and items + len(self._waiting[0][0]) <= GROUP_ITEMS:
            taken.append(self._waiting.popleft())
            items += len(taken[-1][0])
        return taken

    async def _commit(self, group: Group, deadline_s: float) -> None:
        """Plan and write, until the plan holds: no token is known, and no record has moved since it was read.

        `best` needs no reading. But many players are read all the same: Redis reads faster than Lua does, and then only
        what changes has to be sent and written.
        """
        must_read = self._shard.board.config.strategy != "best"
        reads_first = must_read or len(group.table) >= READ_FIRST
        while True:
            seen, old = await self._read_after(group, deadline_s) if reads_first else (BEST, None)
            rows = group.plan_best() if old is None else group.plan_set(old)
            if await self._forgive_duplicates(group, deadline_s):
                continue
            if not group.is_alive.any():
                break
            tokens = group.tokens()
            logged = group.logged(BEST if old is None else SET)
            now_ms = await self._shard.now_ms(deadline_s)
            args = [*_describe(group, logged, tokens, now_ms), seen, *self._describe_windows(rows)]
            reply = await self._shard.commit(WRITE, self._keys(rows, now_ms), args, deadline_s)
            if isinstance(reply, LogEntry) or reply[0] == b"ok":
                written = reply if isinstance(reply, LogEntry) else _written(rows, logged, reply)
                await self._follow(written, deadline_s)
                if old is None:
                    group.meet(written.rows)
                group.settle()
                break
            if reply[0] == b"known":
                group.drop_known([tokens[int(number) - 1] for number in reply[1:]])
            else:
                reads_first = must_read
        if (group.outcomes.codes == Status.DUPLICATE).any():
            with suppress(HybridError):  # it is written; that the record cannot be shown now changes nothing
                group.show_duplicates(await self._read(group, deadline_s))

    async def _forgive_duplicates(self, group: Group, deadline_s: float) -> bool:
        """An event that would be refused now, but was written before, is a duplicate: then plan again without it."""
        tokens = group.tokens(Status.REFUSED)
        if not tokens:
            return False
        days = self._days(await self._shard.now_ms(deadline_s))
        commands: list[Command] = [("SMISMEMBER", day, *tokens) for day in days]
        replies = await self._shard.ask(commands, deadline_s)
        known = [token for token, *is_known in zip(tokens, *replies, strict=True) if any(is_known)]
        group.drop_known(known)
        return bool(known)

    def _days(self, now_ms: int) -> list[str]:
        """The token sets of yesterday, today and tomorrow: clocks that differ around midnight see the same three."""
        day = now_ms // DAY_MS
        return [self._shard.keys.day(number) for number in (day - 1, day, day + 1)]

    async def _read(self, group: Group, deadline_s: float) -> Keys:
        """The keys of all players of the group, a row a window, NaN for none."""
        questions = self._questions(group)
        return _parse_found(group, await self._shard.ask(questions, deadline_s) if questions else [])

    async def _read_after(self, group: Group, deadline_s: float) -> tuple[str, Keys]:
        """The last log entry, and the keys as they were then or later."""
        last: Command = ("HGET", self._shard.keys.meta, "last")
        entry, *found = await self._shard.ask([last, *self._questions(group)], deadline_s)
        return (entry or b"").decode(), _parse_found(group, found)

    def _questions(self, group: Group) -> list[Command]:
        return [("ZMSCORE", self._shard.keys.record(window.name), *group.table) for window in group.windows]

    def _keys(self, rows: Sequence[Rows], now_ms: int) -> list[str]:
        """KEYS of lua/write.lua."""
        names = self._shard.keys
        minute = names.minute(now_ms // 60_000)
        return [names.meta, names.log, minute, *self._days(now_ms), *(names.record(row.window.name) for row in rows)]

    def _describe_windows(self, rows: Sequence[Rows]) -> Iterator[Argument]:
        """What lua/write.lua is told of each window."""
        before: Rows | None = None
        for row in rows:
            kept = self._kept_until_ms(self._shard.board, row.window)
            yield from (row.window.name, "" if kept is None else kept)
            if before is not None and row.keys is before.keys:
                yield from ("=", "")
            else:
                yield from (render_players(row.players), quote_keys(row.keys))
            yield render_keys(row.expected)
            before = row


def _describe(group: Group, logged: LoggedEvents, tokens: Sequence[bytes], now_ms: int) -> list[Argument]:
    """What lua/write.lua is told of the whole group, but for the deadline."""
    kept_until_ms = (now_ms // DAY_MS + 2) * DAY_MS
    return [group.board.id, group.nonce, len(logged.players), pack_events(logged), kept_until_ms, b"".join(tokens)]


def _fail(future: asyncio.Future[Outcomes], error: BaseException) -> None:
    if future.done():
        return
    if isinstance(error, Exception):
        future.set_exception(error)
    else:
        future.cancel()


def _parse_found(group: Group, found: Sequence[Any]) -> Keys:
    return np.array(found, np.float64).reshape(len(group.windows), len(group.table))


def _written(rows: Sequence[Rows], logged: LoggedEvents, reply: Reply) -> LogEntry:
    """The entry that a script says it has written."""
    _, previous, entry_id, *found = reply
    is_best = logged.kind == BEST
    old = map(parse_keys, found) if is_best else [row.expected for row in rows]
    met = zip(rows, old, strict=True)
    written = {row.window.name: WindowRows(row.players, keys, row.keys, is_best) for row, keys in met}
    return LogEntry(entry_id.decode(), previous.decode(), logged, written)
