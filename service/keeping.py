"""The keeper as a process: of boards and of trends, with its metrics, and the size of our Redis' append-only file."""

import asyncio
import logging
import time

from redis.exceptions import ResponseError

from hybrid.engine import Engine
from hybrid.errors import HybridError
from hybrid.keeper import Keeper, KeeperSettings, Tick
from hybrid.trends.keeper import TrendKeeper, TrendTick
from service.auditing import measure_boards
from service.engines import make_engine
from service.metrics import Metrics
from service.orders import Orders, run_child, work_until
from service.redis_facts import read_ack, read_info

AUDIT_S = 15.0  # between audits
LOOK_S = 5.0  # between looks at Redis' figures
REWRITE_BYTES = 64 * 1024 * 1024  # below this an append-only file is left as it is

log = logging.getLogger(__name__)


async def keep(orders: Orders, stop: asyncio.Event) -> None:
    """Keep house until told to stop."""
    engine, metrics = make_engine(orders, is_silent=True), orders.make_metrics()
    settings = KeeperSettings(share=orders.settings.sampling_share)
    keeper = Keeper(engine, settings, on_tick=lambda tick: _count(metrics, tick))
    trends = TrendKeeper(
        engine.trends, has_lease=lambda: keeper.is_keeping, on_tick=lambda ticks: _count_trends(metrics, ticks)
    )
    try:
        await work_until(
            stop,
            keeper.run(),
            trends.run(),
            _look(engine, metrics, orders),
            _audit(engine, keeper, metrics),
            _save(metrics),
        )
    finally:
        await engine.link.close()


def _count(metrics: Metrics, tick: Tick) -> None:
    metrics.add("toptail_samples_taken", by=tick.sampled)
    metrics.set("toptail_keeper_tick_timestamp_seconds", time.time())
    metrics.set("toptail_digest_age_seconds", tick.oldest_s)


def _count_trends(metrics: Metrics, ticks: list[TrendTick]) -> None:
    for name in ("events", "floor"):
        metrics.clear(f"toptail_trend_{name}")
    for tick in ticks:
        for fate in ("counted", "late", "capped"):
            metrics.set("toptail_trend_events", getattr(tick.sums, fate), tick.trend, fate)
        metrics.set("toptail_trend_floor", tick.floor, tick.trend)
    metrics.set("toptail_trend_tick_timestamp_seconds", time.time())


async def _audit(engine: Engine, keeper: Keeper, metrics: Metrics) -> None:
    """Compare what is served with what is true, now and then."""
    while True:
        await asyncio.sleep(AUDIT_S)
        try:
            await measure_boards(engine, await keeper.wanted(), metrics)
        except (HybridError, ResponseError) as error:
            log.debug("no audit", extra={"reason": str(error)})


async def _save(metrics: Metrics) -> None:
    while True:
        metrics.save()
        await asyncio.sleep(1.0)


async def _look(engine: Engine, metrics: Metrics, orders: Orders) -> None:
    """Look at Redis now and then: what it uses, and whether its file wants to be rewritten."""
    has_warned = orders.is_embedded
    while True:
        try:
            if not has_warned and await read_ack(engine.link) == "unknown":
                log.warning("redis does not say when it syncs: acks have the level `unknown`")
            has_warned = True
            used = [int(info["used_memory"]) for info in await read_info(engine.link, "memory")]
            metrics.set("toptail_redis_used_bytes", sum(used))
            if orders.is_embedded:
                await rewrite_if_due(engine)
        except HybridError:
            pass  # the keeper itself says so
        except (ResponseError, KeyError) as error:
            log.debug("redis does not give its figures", extra={"reason": str(error)})
        await asyncio.sleep(LOOK_S)


async def rewrite_if_due(engine: Engine, *, least_bytes: int = REWRITE_BYTES) -> bool:
    """Have the append-only file rewritten when it has doubled since the last time; never two at a time."""
    (info,) = await read_info(engine.link, "persistence")
    if not is_rewrite_due(info, least_bytes):
        return False
    log.info("append-only file is rewritten", extra={"bytes": info["aof_current_size"], "was": info["aof_base_size"]})
    await engine.link.run(engine.schema.keeper, [("BGREWRITEAOF",)])
    return True


def is_rewrite_due(info: dict[str, str], least_bytes: int) -> bool:
    """Whether a Redis with these figures should rewrite its file now."""
    is_busy = any(info.get(name) == "1" for name in ("aof_rewrite_in_progress", "aof_rewrite_scheduled"))
    size, base = int(info.get("aof_current_size", 0)), int(info.get("aof_base_size", 0))
    return not is_busy and size > max(least_bytes, 2 * base)


if __name__ == "__main__":
    run_child(keep)
