"""What a board holds right now: players, windows, events, and the bytes that it takes in Redis."""

import asyncio
from dataclasses import dataclass

from hybrid.config import Board
from hybrid.keys import Keys
from hybrid.link import Command, Link


@dataclass(frozen=True, slots=True)
class Inventory:
    """`players` are those of the board's first window as it is now, `windows` all that are kept whole."""

    players: int
    windows: list[str]
    seq: int
    size_bytes: int


async def take_inventory(link: Link, schema: Keys, board: Board, window: str) -> Inventory:
    """Ask all shards of a board, and its own slot."""

    async def ask(tag: str) -> tuple[int, set[str], int, int]:
        keys = schema.shard(tag)
        (meta,) = await link.run(keys.meta, [("HGETALL", keys.meta)])
        windows = {field[2:].decode() for field in meta if field.startswith(b"v:")}
        names = [keys.meta, keys.log, *(name for w in windows for name in (keys.record(w), keys.samples(w)))]
        commands: list[Command] = [("ZCARD", keys.record(window)), *(("MEMORY", "USAGE", name) for name in names)]
        players, *sizes = await link.run(keys.meta, commands)
        return players, windows, int(meta.get(b"seq", 0)), sum(size or 0 for size in sizes)

    shards = await asyncio.gather(*map(ask, board.tags))
    windows = set[str]().union(*(found for _, found, _, _ in shards))
    shared = schema.board(board.id)
    names = [shared.state, shared.past, *(shared.top(name) for name in windows)]
    sizes = await link.run(shared.state, [("MEMORY", "USAGE", name) for name in names])
    return Inventory(
        sum(players for players, _, _, _ in shards),
        sorted(windows),
        sum(seq for _, _, seq, _ in shards),
        sum(size for _, _, _, size in shards) + sum(size or 0 for size in sizes),
    )
