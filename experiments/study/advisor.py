"""The advisor: from what is wanted to a config, with its memory and its error. Pure arithmetic over measured figures.

Where a prediction comes from:

    samples    the ranks of hybrid/samples.py for a shard of this size (replica.py has the rule)
    width      a shard knows a place to within a gap between two samples; the shards' gaps add up, and the asker himself
               is one player. At most: the widest gap everywhere. On the mean: a place falls into a gap as often as the
               gap is long
    records    bytes a record, measured by `toptail bench record` (experiments/results/bench/record.json) for names of
               20 bytes; other names by the 16-byte steps in which Redis' allocator serves them
    log        bytes an event from the same run, in proportion to what an entry holds (hybrid/log.py): the event (name +
               14 bytes), and for each window name, new key and old key as text (name + 33 bytes)
    top        a record for each of top_n and its spare
    samples'   a line of rank, key and name (name + 26 bytes), in the allocator's steps for large strings
    refresh    Redis' time for a shard's samples (`toptail bench answers`), within the keeper's share of it
    floor      Space-Saving: an item that is not listed has at most 1 / capacity of the events of its partition's pane

`toptail experiments run advisor` holds predictions against real boards. Not handled: tokens (about 70 bytes an id for
two days), replicas, fragmentation, the fork of a rewrite.
"""

import math
from dataclasses import dataclass
from functools import cache

import numpy as np

from experiments.bench import answers_results, record_results
from experiments.bench.answers_sizes import SHARDS
from experiments.bench.memory import LOG, MANY, RECORDS
from experiments.bench.results import FOLDER
from experiments.study.replica import sample_ranks
from hybrid.config import MAX_SHARDS, MAX_TOP_N
from hybrid.keeper import KeeperSettings
from hybrid.samples import PARTS
from hybrid.trends.config import DEPTH, MAX_CAPACITY, ROWS_SHARE
from hybrid.trends.ladder import make_levels
from hybrid.trends.pane import width_of
from hybrid.windows import KINDS
from sketches.values import Ints

GB = 10**9

_BENCH_NAME_BYTES = 20
_TREND_WINDOWS = ("1m", "1h", "1d")
_LEAST_CAPACITY = 1024
_SIGMAS = 4


@dataclass(frozen=True, slots=True)
class Wish:
    """What is wanted. `events` is how many a player sends before the log is archived; no `trend_items`: no trend."""

    players: int
    max_width_percent: float = 0.1
    windows: int = 1
    leaders: int = 10_000
    name_bytes: int = _BENCH_NAME_BYTES
    events: float = 1.0
    node_gb: float = 16.0
    trend_items: int = 0
    trend_rows: int = 100
    trend_error_percent: float = 0.1


@dataclass(frozen=True, slots=True)
class BoardAdvice:
    """A board as it is recommended, and what to expect of it. Widths are in percent of the players."""

    shards: int
    top_n: int
    samples: int
    width_percent: float
    mean_width_percent: float
    records_bytes: int
    log_bytes: int
    top_bytes: int
    samples_bytes: int
    refresh_s: float

    @property
    def total_bytes(self) -> int:
        return self.records_bytes + self.log_bytes + self.top_bytes + self.samples_bytes


@dataclass(frozen=True, slots=True)
class TrendAdvice:
    """A trend; `floor_percent` is the most of a pane's events that an item can have and not be listed."""

    capacity: int
    windows: tuple[str, ...]
    floor_percent: float
    panes: int
    pane_bytes: int

    @property
    def total_bytes(self) -> int:
        return self.panes * self.pane_bytes


def advise(wish: Wish) -> BoardAdvice:
    """The board for a wish: eight shards, or as many as spread it over nodes of this size."""
    one = predict(wish, SHARDS)
    nodes = math.ceil(one.total_bytes / (wish.node_gb * GB))
    # Two shards a node at least, so that a node that is added has something to take.
    return predict(wish, min(max(SHARDS, 1 << (2 * nodes - 1).bit_length()), MAX_SHARDS) if nodes > 1 else SHARDS)


def predict(wish: Wish, shards: int) -> BoardAdvice:
    """What a board of so many shards would be like."""
    top_n = max(min(wish.leaders, wish.players, MAX_TOP_N), 1)
    shard_players = max(wish.players // shards, 1)
    kept = min(top_n + top_n // 10 + 10, wish.players)
    ranks = sample_ranks(shard_players, kept // shards)
    tail = ranks[ranks >= min(top_n // shards, ranks[-1])]
    record_bytes = _record_bytes(wish.name_bytes)
    text_bytes = len(ranks) * (wish.name_bytes + 26)
    return BoardAdvice(
        shards,
        top_n,
        len(ranks),
        _widest_percent(wish.players, shards),
        _mean_percent(wish.players, shards, tail),
        round(wish.players * wish.windows * record_bytes),
        round(wish.players * wish.events * _log_bytes(wish.name_bytes, wish.windows)),
        round(kept * wish.windows * record_bytes),
        shards * wish.windows * _allocated(text_bytes),
        shards * wish.windows * _refresh_s(shard_players) / KeeperSettings().share,
    )


def advise_trend(wish: Wish) -> TrendAdvice:
    """The trend for a wish: counters enough for the rows shown and for the error allowed."""
    wanted = max(_LEAST_CAPACITY, ROWS_SHARE * wish.trend_rows, math.ceil(100 / wish.trend_error_percent))
    capacity = min(1 << (wanted - 1).bit_length(), MAX_CAPACITY)
    panes = sum(level.kept for level in make_levels(_TREND_WINDOWS))
    counters = min(capacity, wish.trend_items) * (wish.name_bytes + 18)
    floor_percent = 0.0 if wish.trend_items <= capacity else 100 / capacity
    return TrendAdvice(capacity, _TREND_WINDOWS, floor_percent, panes, counters + 4 * DEPTH * width_of(capacity))


def list_caveats(wish: Wish, board: BoardAdvice) -> list[str]:
    """What of a wish cannot be had, and what there is instead."""
    lines = []
    if board.width_percent > wish.max_width_percent:
        lines.append(
            f"An interval of {wish.max_width_percent:g} % takes {math.ceil(100 / wish.max_width_percent):,} parts, and "
            f"boards are sampled in {PARTS:,}: expect up to {board.width_percent:.3g} %, or ask with exact=true."
        )
    if wish.leaders > board.top_n:
        lines.append(f"A board has at most {MAX_TOP_N:,} leaders, and no more than players.")
    if wish.windows > len(KINDS):
        lines.append(f"A board has at most {len(KINDS)} windows: {', '.join(KINDS)}.")
    if board.refresh_s > 1:
        lines.append(
            f"If all shards and windows change all the time, samples are up to {board.refresh_s:.1f} s old at the "
            f"keeper's share of {KeeperSettings().share:.0%} of Redis' time; in a cluster each node has its own share."
        )
    return lines


def _widest_percent(players: int, shards: int) -> float:
    """At most so wide is an interval, in percent of the players: the widest gap in all shards, the asker and a half."""
    even = players / shards
    largest = even + _SIGMAS * math.sqrt(even)  # players are dealt by chance
    between = min(shards * math.floor(largest / PARTS), players / PARTS)
    return 100 * (between + 2) / players


def _mean_percent(players: int, shards: int, ranks: Ints) -> float:
    """So wide is an interval of the tail on the mean, in percent of the players."""
    gaps = np.diff(ranks).astype(np.float64)
    mean_gap = float((gaps * gaps).sum() / gaps.sum()) if gaps.size else 1.0
    # The asker is one player; half of another comes from counting the others instead of all.
    return 100 * (shards * (mean_gap - 1) + 1.5) / players


@cache
def _record_results() -> record_results.Results:
    return record_results.load_results(FOLDER / "record.json")


@cache
def _answers_results() -> answers_results.Results:
    return answers_results.load_results(FOLDER / "answers.json")


def _bench_bytes(kind: str) -> float:
    """Bytes an event that the benchmark measured."""
    row = next(row for row in _record_results().memory if (row.fill, row.kind) == (MANY, kind))
    return row.freed_bytes / row.events


def _record_bytes(name_bytes: int) -> float:
    return _bench_bytes(RECORDS) + _name_bytes(name_bytes) - _name_bytes(_BENCH_NAME_BYTES)


def _name_bytes(name_bytes: int) -> int:
    """What a name takes: 2 bytes of header and end, from 32 bytes on 4, in steps of 16."""
    return -(-(name_bytes + (2 if name_bytes < 32 else 4)) // 16) * 16


def _log_bytes(name_bytes: int, windows: int) -> float:
    def text(name: int, rows: int) -> int:
        return name + 14 + rows * (name + 33)

    return _bench_bytes(LOG) * text(name_bytes, windows) / text(_BENCH_NAME_BYTES, 1)


def _allocated(size_bytes: int) -> int:
    """What the allocator gives for a large string: four steps a doubling."""
    step = 1 << max(size_bytes.bit_length() - 3, 4)
    return -(-size_bytes // step) * step


def _refresh_s(shard_players: int) -> float:
    """Redis' time for the samples of a shard, between the sizes that were measured."""
    rows = _answers_results().refreshes
    sizes = np.log([row.players / SHARDS for row in rows])
    return float(np.interp(math.log(shard_players), sizes, [row.redis_s for row in rows]))
