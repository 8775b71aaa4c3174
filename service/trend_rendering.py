"""Trends, from what the engine says to what goes over the wire, and back."""

from collections.abc import Sequence

from msgspec import UNSET

from hybrid.trends.config import Source, Trend, TrendConfig
from hybrid.trends.events import TrendBatch
from hybrid.trends.partition import Sums
from hybrid.trends.publishing import Row
from hybrid.trends.trends import Found, Top, TopRow
from service.rendering import parse_time, render_time
from toptail import trend_wire as wire


def parse_trend(spec: wire.TrendSpec) -> TrendConfig:
    """A trend's config as the engine takes it."""
    source = spec.source
    return TrendConfig(
        capacity=spec.capacity,
        windows=spec.windows,
        partitions=spec.partitions,
        source=None if source is None else Source(source.board, source.count),
        actor_cap=spec.actor_cap,
        title=spec.title,
    )


def make_batch(events: Sequence[str | wire.Event], now_ms: int) -> TrendBatch:
    """Events in columns; what no event says has none."""
    if set(map(type, events)) <= {str}:
        return TrendBatch(events)  # the usual case, and by far the quickest
    whole = [wire.Event(item=event) if isinstance(event, str) else event for event in events]
    has_times = any(event.at is not UNSET for event in whole)
    has_actors = any(event.actor is not UNSET for event in whole)
    return TrendBatch(
        [event.item for event in whole],
        [event.count for event in whole],
        [now_ms if event.at is UNSET else parse_time(event.at) for event in whole] if has_times else None,
        [None if event.actor is UNSET else event.actor for event in whole] if has_actors else None,
    )


def render_trend_config(config: TrendConfig) -> wire.TrendConfig:
    source = config.source
    return wire.TrendConfig(
        capacity=config.capacity,
        windows=list(config.windows),
        partitions=config.partitions,
        title=config.title,
        source=UNSET if source is None else wire.TrendSource(board=source.board, count=source.count),
        actor_cap=UNSET if config.actor_cap is None else config.actor_cap,
    )


def render_trend_head(trend: Trend) -> wire.TrendHead:
    config = render_trend_config(trend.config)
    return wire.TrendHead(trend=trend.name, created=render_time(trend.created_ms), config=config)


def render_trend(trend: Trend, sums: Sums, backlog: int, now_ms: int) -> wire.TrendInfo:
    return wire.TrendInfo(
        trend=trend.name,
        created=render_time(trend.created_ms),
        config=render_trend_config(trend.config),
        events=wire.EventSums(counted=sums.counted, late=sums.late, capped=sums.capped),
        backlog=backlog,
        as_of=render_time(now_ms),
    )


def render_trend_top(top: Top, window: str) -> wire.TrendTop:
    head = top.head
    return wire.TrendTop(
        items=list(map(_render_item, top.rows)),
        window=window,
        total=head.total,
        floor=head.floor,
        late=head.late,
        capped=head.capped,
        start=render_time(head.from_ms),
        end=render_time(head.as_of_ms),
        as_of=render_time(head.as_of_ms),
    )


def render_item_count(found: Found, window: str) -> wire.ItemCount:
    return wire.ItemCount(
        item=found.item,
        count=found.high,
        low=found.low,
        high=found.high,
        window=window,
        total=found.head.total,
        start=render_time(found.head.from_ms),
        end=render_time(found.head.as_of_ms),
        as_of=render_time(found.head.as_of_ms),
    )


def _render_item(shown: TopRow) -> wire.TrendItem:
    row = shown.row
    return wire.TrendItem(
        item=row.item,
        count=row.high,
        low=row.low,
        high=row.high,
        guaranteed=shown.is_guaranteed,
        surge=_render_surge(row),
        actors=UNSET if row.actors is None else row.actors,
        actors_low=UNSET if row.actors_low is None else row.actors_low,
        actors_high=UNSET if row.actors_high is None else row.actors_high,
    )


def _render_surge(row: Row) -> wire.Surge | None:
    return None if row.expected is None else wire.Surge(expected=row.expected, z=row.z)
