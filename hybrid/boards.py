"""The registry of boards: one hash, name -> board, and a script for every change to it.

A board gets a new id each time it is made. Its keys are made first and its name last, so a board that can be found can
be written. Deleting goes the other way: in one step the name goes and the id is noted as deleted, then every shard
forgets the id, and from then on refuses every write; `sweep` removes the rest, and may be run again by anybody. What
was cut short in the making is noted too, and swept after a while.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from hybrid.config import CHANGEABLE, Board, BoardConfig, check_name, complete, differing_fields
from hybrid.errors import BoardNotFound, Conflict, InvalidBoard, SchemaTooNew
from hybrid.keys import DELETED_MARK, MAKING_MARK, SCHEMA_FIELD, SCHEMA_VERSION, Keys, make_tags
from hybrid.link import Argument, Link, Script
from hybrid.windows import DAY_MS

_ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"
_ID_CHARS = 10
ABANDONED_MS = 600_000

# Put a board back changed, if it still is what was read.
_REPLACE = Script("""
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return 1
""")

# Give a board its name, if nobody has it, and take the mark away that it is being made.
_NAME = Script("""
if redis.call('HSETNX', KEYS[1], ARGV[1], ARGV[2]) == 0 then return 0 end
redis.call('HDEL', KEYS[1], ARGV[3])
return 1
""")

# Take a board's name away and note what is left to remove, if it still is what was read.
_DELETE = Script("""
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('HSET', KEYS[1], ARGV[3], ARGV[2])
return 1
""")


class Boards:
    """All boards under one prefix. Clock and randomness are arguments."""

    def __init__(
        self,
        link: Link,
        schema: Keys,
        *,
        now_ms: Callable[[], int],
        random: random.Random,
        on_delete: Callable[[Board], None],
    ) -> None:
        self._on_delete = on_delete
        self._link = link
        self._schema = schema
        self._now_ms = now_ms
        self._random = random

    async def open(self) -> None:
        """Refuse data that a newer release has written; stamp data that nobody has."""
        key = self._schema.boards
        (version,) = await self._link.run(key, [("HGET", key, SCHEMA_FIELD)])
        if version is None:
            commands = [("HSETNX", key, SCHEMA_FIELD, SCHEMA_VERSION), ("HGET", key, SCHEMA_FIELD)]
            _, version = await self._link.run(key, commands)
        if int(version) > SCHEMA_VERSION:
            raise SchemaTooNew(
                f"{key} was written under schema {int(version)}; this release knows {SCHEMA_VERSION}: use a newer one"
            )

    async def create(self, name: str, config: BoardConfig) -> tuple[Board, bool]:
        """The board of this name and config, and whether it is new; one that differs raises Conflict."""
        wanted = complete(config)
        existing = await self._load(check_name(name))
        if existing is None:
            board = self._make(name, wanted)
            mark = MAKING_MARK + board.id
            await self._link.run(self._schema.boards, [("HSET", self._schema.boards, mark, _render(board))])
            await self._write_metas(board)
            if await _NAME.run(self._link, [self._schema.boards], [name, _render(board), mark]):
                return board, True
            await self._unlink(board)  # somebody else was quicker
            await self._link.run(self._schema.boards, [("HDEL", self._schema.boards, mark)])
            existing = await self.describe(name)
        fields = differing_fields(existing.config, wanted)
        if fields:
            raise Conflict(f"board {name!r} exists with other {', '.join(fields)}", fields)
        return existing, False

    async def describe(self, name: str) -> Board:
        return (await self._read(name))[1]

    async def list(self, prefix: str = "", *, limit: int = 100, after: str = "") -> list[Board]:
        """Boards by name: at most `limit` that begin with the prefix and come after a name, for pages."""
        key = self._schema.boards
        (fields,) = await self._link.run(key, [("HKEYS", key)])
        names = sorted(field.decode() for field in fields if not field.startswith(DELETED_MARK.encode()))
        page = [name for name in names if name.startswith(prefix) and name > after][:limit]
        return list((await self.find(page)).values())

    async def find(self, names: Sequence[str]) -> dict[str, Board]:
        """The boards of these names, as far as there are such."""
        if not names:
            return {}
        key = self._schema.boards
        (values,) = await self._link.run(key, [("HMGET", key, *names)])
        return {name: _parse(value) for name, value in zip(names, values, strict=True) if value is not None}

    async def patch(self, name: str, **changes: Any) -> Board:
        """Change what may be changed after a board was made."""
        refused = sorted(changes.keys() - set(CHANGEABLE))
        if refused:
            raise InvalidBoard(refused[0], f"{refused[0]} stays as it was made; {', '.join(CHANGEABLE)} can be changed")
        while True:
            raw, board = await self._read(name)
            changed = msgspec.structs.replace(board, config=complete(msgspec.structs.replace(board.config, **changes)))
            args: list[Argument] = [name, raw, _render(changed)]
            if await _REPLACE.run(self._link, [self._schema.boards], args):
                return changed

    async def delete(self, name: str) -> None:
        """Remove a board: at once for everybody who asks or writes, and then its keys."""
        while True:
            raw, board = await self._read(name)
            args: list[Argument] = [name, raw, DELETED_MARK + board.id]
            if await _DELETE.run(self._link, [self._schema.boards], args):
                break
        self._on_delete(board)
        await self.sweep()

    async def sweep(self) -> int:
        """Remove the keys of boards that were deleted; returns how many boards that were."""
        key = self._schema.boards
        (fields,) = await self._link.run(key, [("HGETALL", key)])
        marked = {name: _parse(fields[name]) for name in fields if name.startswith(b"!") and name != SCHEMA_FIELD}
        # Boards that are being made are left alone, unless that was cut short long ago.
        long_ago_ms = self._now_ms() - ABANDONED_MS
        deleted = [n for n, b in marked.items() if not n.startswith(b"!+") or b.created_ms < long_ago_ms]
        for name in deleted:
            await self._unlink(marked[name])
            await self._link.run(key, [("HDEL", key, name)])
        return len(deleted)

    def _make(self, name: str, config: BoardConfig) -> Board:
        board_id = "".join(self._random.choices(_ALPHABET, k=_ID_CHARS))
        secret = self._random.randbytes(16)
        tags = make_tags(board_id, config.shards)
        return Board(name=name, id=board_id, tags=tags, secret=secret, created_ms=self._now_ms(), config=config)

    async def _read(self, name: str) -> tuple[bytes, Board]:
        """The board, and the very bytes that say so: those a change must still find."""
        (value,) = await self._link.run(self._schema.boards, [("HGET", self._schema.boards, check_name(name))])
        if value is None:
            raise BoardNotFound(f"there is no board {name!r}")
        return value, _parse(value)

    async def _load(self, name: str) -> Board | None:
        (value,) = await self._link.run(self._schema.boards, [("HGET", self._schema.boards, name)])
        return None if value is None else _parse(value)

    async def _write_metas(self, board: Board) -> None:
        for tag in board.tags:
            meta = self._schema.shard(tag).meta
            await self._link.run(meta, [("HSET", meta, "id", board.id, "seq", 0, "last", "0-0")])
        state = self._schema.board(board.id).state
        applied = [part for number in range(len(board.tags)) for part in (f"a:{number}", "0-0")]
        await self._link.run(state, [("HSET", state, *applied)])

    async def _unlink(self, board: Board) -> None:
        """Remove every key of a board, so that it can be done again from any point.

        First the ids, and with them every writer; the meta keys, which list the windows, go last.
        """
        for tag in board.tags:
            meta = self._schema.shard(tag).meta
            await self._link.run(meta, [("HDEL", meta, "id")])
        await self._unlink_shared(board)
        for tag in board.tags:
            keys = self._schema.shard(tag)
            windows = await self._windows(keys.meta, b"v:")
            ((seconds, _),) = await self._link.run(keys.meta, [("TIME",)])  # by which tokens are dated
            today = int(seconds) * 1000 // DAY_MS
            rest = [
                keys.log,
                *(keys.record(window) for window in windows),
                *(keys.samples(window) for window in windows),
            ]
            rest += [keys.day(day) for day in range(today - 2, today + 3)]
            await self._link.run(keys.meta, [("UNLINK", *rest, keys.meta)])

    async def _unlink_shared(self, board: Board) -> None:
        """Remove the tops, of windows that the state knows and of those that only shards know."""
        keys = self._schema.board(board.id)
        windows = set(await self._windows(keys.state, b"w:"))
        for tag in board.tags:
            windows.update(await self._windows(self._schema.shard(tag).meta, b"v:"))
        tops = [key for window in sorted(windows) for key in (keys.top(window), keys.touched(window))]
        await self._link.run(keys.state, [("UNLINK", *tops, keys.past, keys.state)])

    async def _windows(self, key: str, mark: bytes) -> Sequence[str]:
        (fields,) = await self._link.run(key, [("HKEYS", key)])
        return [field[2:].decode() for field in fields if field.startswith(mark)]


def _render(board: Board) -> bytes:
    return msgspec.json.encode(board)


def _parse(value: bytes) -> Board:
    return msgspec.json.decode(value, type=Board)
