"""From what the engine says to what goes over the wire."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from msgspec import UNSET

from hybrid import seek, standing
from hybrid.config import Board
from hybrid.config import BoardConfig as Config
from hybrid.config import Subscore as HybridSubscore
from hybrid.inventory import Inventory
from hybrid.orderkey import KEY_BITS
from hybrid.outcomes import Outcomes, Status
from toptail import wire

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_STATUSES: dict[int, wire.Status] = {status: status.name.lower() for status in Status}  # type: ignore[misc]


@lru_cache(maxsize=4096)
def render_time(at_ms: int) -> datetime:
    return EPOCH + timedelta(milliseconds=at_ms)


def parse_time(time: wire.Time) -> int:
    """Epoch milliseconds; parts of one are cut off."""
    return time if isinstance(time, int) else (time - EPOCH) // timedelta(milliseconds=1)


def render_standing(found: standing.Standing) -> wire.Standing:
    """A standing; what has no value is left out. (Spelled out: this is on the way of every question.)"""
    player = UNSET if found.player is None else found.player
    subscore = UNSET if found.subscore is None else found.subscore
    at = UNSET if found.at_ms is None else render_time(found.at_ms)
    as_of = render_time(found.as_of_ms)
    if isinstance(found, standing.Exact):
        return wire.RankStanding(
            player=player,
            score=found.score,
            subscore=subscore,
            at=at,
            window=found.window,
            rank=found.rank,
            percentile=found.percentile,
            top_percent=found.top_percent,
            players=found.players,
            as_of=as_of,
            seq=found.seq,
        )
    return wire.PercentileStanding(
        player=player,
        score=found.score,
        subscore=subscore,
        at=at,
        window=found.window,
        percentile=found.percentile,
        percentile_low=found.percentile_low,
        percentile_high=found.percentile_high,
        rank_low=found.rank_low,
        rank_high=found.rank_high,
        top_percent=found.top_percent,
        players=found.players,
        as_of=as_of,
        seq=found.seq,
    )


def render_standings(rows: Iterable[standing.Standing | None]) -> list[wire.Standing | None]:
    return [None if row is None else render_standing(row) for row in rows]


def render_entry(board: Board, entry: seek.Entry) -> wire.Entry:
    parts = board.key.decode(entry.place.key)
    return wire.Entry(
        rank=entry.rank,
        player=entry.place.player.decode(),
        score=board.score_of(parts.points),
        subscore=board.subscore_of(parts.subpoints) if board.config.subscore else UNSET,
        at=render_time(board.at_of(parts.ticks)) if board.key.has_time else UNSET,
    )


def render_results(players: Sequence[str], outcomes: Outcomes) -> list[wire.ScoreResult]:
    """What became of each event; made from columns, because there may be thousands."""
    codes, scores, previous = outcomes.codes.tolist(), outcomes.scores(outcomes.after), outcomes.scores(outcomes.before)
    results = [
        wire.ScoreResult(player=player, status=_STATUSES[code], score=score, previous=before)
        for player, code, score, before in zip(players, codes, scores, previous, strict=True)
    ]
    for row, windows in outcomes.closed.items():
        results[row].closed = list(windows)
    return results


def render_config(config: Config) -> wire.BoardConfig:
    return wire.BoardConfig(
        top_n=config.top_n,
        shards=config.shards,
        strategy=config.strategy,
        direction=config.direction,
        tie_break=config.tie_break,
        score_min=config.score_min,  # type: ignore[arg-type]  # a Decimal only where Python code made the board
        score_max=config.score_max,  # type: ignore[arg-type]
        decimals=config.decimals,
        windows=list(config.windows),
        time_from=render_time(config.time_from_ms),
        time_to=render_time(config.time_to_ms),
        resolution=config.resolution_ms or 1,
        title=config.title,
        retention_days=config.retention_days,
        subscore=UNSET if config.subscore is None else _render_subscore(config.subscore),
    )


def render_head(board: Board) -> wire.BoardHead:
    return wire.BoardHead(board=board.name, created=render_time(board.created_ms), config=render_config(board.config))


def render_board(board: Board, inventory: Inventory, now_ms: int) -> wire.BoardInfo:
    key = board.key
    return wire.BoardInfo(
        board=board.name,
        created=render_time(board.created_ms),
        config=render_config(board.config),
        bits=wire.Bits(score=key.score.bits, subscore=key.subscore.bits, time=key.time.bits, spare=KEY_BITS - key.bits),
        players=inventory.players,
        windows=inventory.windows,
        seq=inventory.seq,
        as_of=render_time(now_ms),
        bytes=inventory.size_bytes,
    )


def parse_spec(spec: wire.BoardSpec) -> Config:
    """A board's config as the engine takes it."""
    return Config(
        top_n=spec.top_n,
        shards=spec.shards,
        strategy=spec.strategy,
        direction=spec.direction,
        tie_break=spec.tie_break,
        score_min=spec.score_min,
        score_max=spec.score_max,
        decimals=spec.decimals,
        subscore=None if spec.subscore is None else _parse_subscore(spec.subscore),
        windows=spec.windows,
        time_from_ms=parse_time(spec.time_from),
        time_to_ms=parse_time(spec.time_to),
        resolution_ms=spec.resolution,
        title=spec.title,
        retention_days=spec.retention_days,
    )


def _parse_subscore(subscore: wire.Subscore) -> HybridSubscore:
    return HybridSubscore(min=subscore.min, max=subscore.max, decimals=subscore.decimals, direction=subscore.direction)


def _render_subscore(subscore: HybridSubscore) -> wire.Subscore:
    return wire.Subscore(
        min=subscore.min,  # type: ignore[arg-type]
        max=subscore.max,  # type: ignore[arg-type]
        decimals=subscore.decimals,
        direction=subscore.direction,
    )
