"""What the record takes of Redis' memory, by kind of key, beside plain ZSETs of the same players in as many keys.

Two scales: MEMORY USAGE of each key, every element looked at; and by how much used_memory falls when the keys of a kind
are deleted. For that all other connections are closed first, since their buffers count as used, and deleting frees at
once, not in the background.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

from experiments.bench.batches import make_batches
from experiments.bench.boards import count_groups
from experiments.bench.flights import fly
from experiments.bench.parts import Job
from experiments.bench.progress import Track
from experiments.bench.record_results import SHARDS, KeyBytes, Sizes
from experiments.bench.servers import BenchServer, open_server
from hybrid.config import Board, BoardConfig
from hybrid.engine import Engine
from hybrid.events import Batch
from hybrid.link import Node, parse_url

RECORDS, TOKENS, LOG, NONCES = "records", "tokens", "log", "nonces"
TOP, REST, PLAIN = "top", "the rest", "plain ZSET"
KINDS = (RECORDS, TOKENS, LOG, NONCES, TOP, REST)

MANY, MANY_IDS = "batches", "batches, an id each"
SINGLES, FEW = "one by one, an id each", "few players"

FREE_AT_ONCE = {"lazyfree-lazy-user-del": "no"}


@dataclass(frozen=True, slots=True)
class Fill:
    """How a board was filled: one event of each player."""

    name: str
    players: int
    batch: int
    callers: int
    has_ids: bool = False


def list_fills(sizes: Sizes) -> list[Fill]:
    return [
        Fill(MANY, sizes.stored_players, sizes.batch, sizes.in_flight),
        Fill(MANY_IDS, sizes.stored_players, sizes.batch, sizes.in_flight, has_ids=True),
        Fill(SINGLES, sizes.stored_singly, 1, 1, has_ids=True),
        Fill(FEW, sizes.few_players, sizes.batch, sizes.in_flight),
    ]


async def measure_memory(sizes: Sizes, job: Job, track: Track) -> list[KeyBytes]:
    rows: list[KeyBytes] = []
    for fill in track(list_fills(sizes), "record: memory"):
        async with open_server(job.data_dir, options=FREE_AT_ONCE) as server:
            board = await _fill(server, fill, job.seed)
            groups = await count_groups(server, board)
            await _weigh(server, fill, REST, [], groups)  # whatever the first weighing allocates, is there now
            found = sort_keys(await server.ask("KEYS", "*"))
            rows += [await _weigh(server, fill, kind, found[kind], groups) for kind in KINDS]
            keys = await _fill_plain(server, board, fill, job.seed)
            rows.append(await _weigh(server, fill, PLAIN, keys, 0))
    return rows


def _make_batches(fill: Fill, seed: int, batch: int) -> list[Batch]:
    numbers = np.random.default_rng(seed).permutation(fill.players)
    return make_batches(numbers, seed, batch, has_ids=fill.has_ids)


async def _fill(server: BenchServer, fill: Fill, seed: int) -> Board:
    async with Engine(Node(parse_url(server.redis.url)), random=Random(seed)) as engine:
        board, _ = await engine.boards.create("bench", BoardConfig(shards=SHARDS))
        await fly(lambda batch: engine.record.submit(board, batch), _make_batches(fill, seed, fill.batch), fill.callers)
    return board


async def _fill_plain(server: BenchServer, board: Board, fill: Fill, seed: int) -> list[str]:
    """The same players and scores in plain ZSETs, as many and as full as the record's."""
    keys = [f"plain:{shard}" for shard in range(SHARDS)]
    for batch in _make_batches(fill, seed, 1_000):
        names = [player.encode() for player in batch.players]
        shards = board.shard_hash.of_many(names).tolist()
        rows: Iterable[tuple[int, Any, bytes]] = zip(shards, batch.scores, names, strict=True)
        await server.ask_all([("ZADD", keys[shard], score, name) for shard, score, name in rows])
    return keys


def sort_keys(keys: Sequence[bytes]) -> dict[str, list[str]]:
    """All keys by kind, each once."""
    marks = {":rec:": RECORDS, ":day:": TOKENS, ":log": LOG, ":min:": NONCES, ":top:": TOP, ":state": TOP}
    found: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for key in map(bytes.decode, keys):
        found[next((kind for mark, kind in marks.items() if mark in key), REST)].append(key)
    return found


async def _weigh(server: BenchServer, fill: Fill, kind: str, keys: Sequence[str], groups: int) -> KeyBytes:
    """Weigh the keys of a kind, and delete them."""
    await server.be_alone()
    sizes = await server.ask_all([("MEMORY", "USAGE", key, "SAMPLES", 0) for key in keys])
    before = await server.used_bytes()
    await server.ask("DEL", "nothing", *keys)
    freed = before - await server.used_bytes()
    return KeyBytes(fill.name, kind, fill.players, groups, len(keys), sum(sizes), freed)
