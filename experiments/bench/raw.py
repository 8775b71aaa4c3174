"""The least that a leaderboard with a log can send: `ZADD` and `XADD`, packed before the clock starts.

Nothing is checked, no old value is asked for, nothing is known of a retry: it is what the record is measured against.
A batch is dealt to the same shards as ours; each shard's pair of commands goes out in one write, on connections like
those of a Node.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from hiredis import pack_command
from redis.asyncio.connection import AbstractConnection

from experiments.bench.record_results import SHARDS
from hybrid.config import Board
from hybrid.events import Batch
from hybrid.link import CONNECTIONS, make_connection, parse_url

Pair = list[bytes]
RECORDS = [f"raw:rec:{shard}" for shard in range(SHARDS)]
LOGS = [f"raw:log:{shard}" for shard in range(SHARDS)]


@dataclass(frozen=True, slots=True)
class RawBatch:
    """A batch as it goes out: a pair of commands for each shard that it concerns."""

    pairs: list[Pair]


def pack_batch(board: Board, batch: Batch, log_bytes: float, *options: str) -> RawBatch:
    """`ZADD` with these options and `XADD` for each shard; the entry has as many bytes an event as ours have."""
    names = [player.encode() for player in batch.players]
    rows: dict[int, list[Any]] = {}
    for shard, name, score in zip(board.shard_hash.of_many(names).tolist(), names, batch.scores, strict=True):
        rows.setdefault(shard, []).extend((score, name))
    return RawBatch([_pack_pair(shard, flat, log_bytes, options) for shard, flat in rows.items()])


def _pack_pair(shard: int, flat: list[Any], log_bytes: float, options: Sequence[str]) -> Pair:
    entry = bytes(round(log_bytes * len(flat) / 2))
    commands: list[tuple[Any, ...]] = [
        ("ZADD", RECORDS[shard], *options, *flat),
        ("XADD", LOGS[shard], "*", "e", entry),
    ]
    return [pack_command(command) for command in commands]


class Pipes:
    """Connections like those of a Node, for commands that are packed already; open for a while."""

    def __init__(self, url: str) -> None:
        self._idle: list[AbstractConnection] = [make_connection(parse_url(url)) for _ in range(CONNECTIONS)]
        self._all = tuple(self._idle)
        self._slots = asyncio.Semaphore(CONNECTIONS)

    async def __aenter__(self) -> Self:
        for connection in self._all:
            await connection.connect()  # type: ignore[no-untyped-call]
        return self

    async def __aexit__(self, *_: object) -> None:
        for connection in self._all:
            await connection.disconnect()

    async def send_batch(self, batch: RawBatch) -> None:
        await asyncio.gather(*(self._send(pair) for pair in batch.pairs))

    async def _send(self, packed: Pair) -> None:
        async with self._slots:
            connection = self._idle.pop()
            await connection.send_packed_command(packed, check_health=False)
            for _ in packed:
                await connection.read_response(disconnect_on_error=False)
            self._idle.append(connection)
