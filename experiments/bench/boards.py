"""What a board has in Redis: its keys, and what is in its logs."""

from typing import Any

from experiments.bench.servers import BenchServer
from hybrid.config import Board
from hybrid.keys import Keys
from hybrid.windows import ALLTIME


def list_records(board: Board) -> list[str]:
    """The keys of its records of all time."""
    return [Keys().shard(tag).record(ALLTIME) for tag in board.tags]


def list_logs(board: Board) -> list[str]:
    return [Keys().shard(tag).log for tag in board.tags]


async def count_groups(server: BenchServer, board: Board) -> int:
    """In how many groups its events were written: each has one log entry."""
    sizes: list[int] = await server.ask_all([("XLEN", log) for log in list_logs(board)])
    return sum(sizes)


async def measure_logs(server: BenchServer, board: Board) -> int:
    """Bytes of all names and values in its logs."""
    size_bytes = 0
    for log in list_logs(board):
        entries = await server.ask("XRANGE", log, "-", "+")
        size_bytes += sum(len(text) for _, fields in entries for text in _flatten(fields))
    return size_bytes


def _flatten(fields: Any) -> list[bytes]:
    """Names and values, which come as one list or as a map."""
    return [*fields, *fields.values()] if isinstance(fields, dict) else fields
