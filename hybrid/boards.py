"""The boards: made, found, changed, deleted (registry.py has the steps), and the keys that come and go with them.

Keys that every script names are made with the board. When it is deleted, every shard forgets the board's id first, and
from then on refuses every write.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from hybrid.config import CHANGEABLE, Board, BoardConfig, check_name, complete, differing_fields
from hybrid.errors import BoardNotFound, Conflict, InvalidBoard, SchemaTooNew
from hybrid.keys import SCHEMA_FIELD, SCHEMA_VERSION, Keys, make_tags
from hybrid.link import Link
from hybrid.registry import Registry, make_id
from hybrid.windows import DAY_MS


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
        self._registry = Registry(
            link,
            schema.boards,
            Board,
            now_ms=now_ms,
            not_found=lambda name: BoardNotFound(f"there is no board {name!r}"),
            make_keys=self._make_keys,
            remove_keys=self._remove_keys,
        )

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
        existing = (await self.find([check_name(name)])).get(name)
        if existing is None:
            board = self._make(name, wanted)
            if await self._registry.add(board):
                return board, True
            existing = await self.describe(name)
        fields = differing_fields(existing.config, wanted)
        if fields:
            raise Conflict(f"board {name!r} exists with other {', '.join(fields)}", fields)
        return existing, False

    async def describe(self, name: str) -> Board:
        return await self._registry.get(check_name(name))

    async def list(self, prefix: str = "", *, limit: int = 100, after: str = "") -> list[Board]:
        """Boards by name: at most `limit` that begin with the prefix and come after a name, for pages."""
        return await self._registry.list(prefix, limit=limit, after=after)

    async def find(self, names: Sequence[str]) -> dict[str, Board]:
        """The boards of these names, as far as there are such."""
        return await self._registry.find(names)

    async def patch(self, name: str, **changes: Any) -> Board:
        """Change what may be changed after a board was made."""
        refused = sorted(changes.keys() - set(CHANGEABLE))
        if refused:
            raise InvalidBoard(refused[0], f"{refused[0]} stays as it was made; {', '.join(CHANGEABLE)} can be changed")

        def change(board: Board) -> Board:
            config = complete(msgspec.structs.replace(board.config, **changes))
            return msgspec.structs.replace(board, config=config)

        return await self._registry.change(check_name(name), change)

    async def delete(self, name: str) -> None:
        """Remove a board: at once for everybody who asks or writes, and then its keys."""
        self._on_delete(await self._registry.delete(check_name(name)))
        await self.sweep()

    async def sweep(self) -> int:
        """Remove the keys of boards that were deleted; returns how many boards that were."""
        return await self._registry.sweep()

    def _make(self, name: str, config: BoardConfig) -> Board:
        board_id = make_id(self._random)
        secret = self._random.randbytes(16)
        tags = make_tags(board_id, config.shards)
        return Board(name=name, id=board_id, tags=tags, secret=secret, created_ms=self._now_ms(), config=config)

    async def _make_keys(self, board: Board) -> None:
        for tag in board.tags:
            meta = self._schema.shard(tag).meta
            await self._link.run(meta, [("HSET", meta, "id", board.id, "seq", 0, "last", "0-0")])
        state = self._schema.board(board.id).state
        applied = [part for number in range(len(board.tags)) for part in (f"a:{number}", "0-0")]
        await self._link.run(state, [("HSET", state, *applied)])

    async def _remove_keys(self, board: Board) -> None:
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
