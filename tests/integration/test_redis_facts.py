"""What a Redis says about itself: acknowledgements, figures, and when its file is rewritten."""

import asyncio
from pathlib import Path
from typing import Literal

import pytest

from hybrid.embedded import EmbeddedRedis
from hybrid.engine import Engine, make_link
from service.keeping import is_rewrite_due, rewrite_if_due
from service.redis_facts import parse_info, read_ack, read_info
from tests.redis_cluster import RedisCluster, eventually


async def ack_of(url: str) -> str:
    link = make_link(url)
    try:
        return await read_ack(link)
    finally:
        await link.close()


@pytest.mark.parametrize(("fsync", "ack"), [("always", "fsync"), ("everysec", "memory"), ("no", "memory")])
def test_an_ack_is_worth_what_redis_is_set_to(
    fsync: Literal["always", "everysec", "no"], ack: str, tmp_path: Path
) -> None:
    async def run() -> str:
        async with EmbeddedRedis(tmp_path / "data", fsync=fsync) as redis:
            return await ack_of(redis.url)

    assert asyncio.run(run()) == ack


def test_without_a_file_an_ack_is_worth_memory_only(tmp_path: Path) -> None:
    async def run() -> str:
        async with EmbeddedRedis(tmp_path / "data", options={"appendonly": "no"}) as redis:
            return await ack_of(redis.url)

    assert asyncio.run(run()) == "memory"


def test_a_redis_that_refuses_config_is_unknown(tmp_path: Path) -> None:
    async def run() -> str:
        async with EmbeddedRedis(tmp_path / "data", refused_commands=("CONFIG",)) as redis:
            return await ack_of(redis.url)

    assert asyncio.run(run()) == "unknown"


def test_all_masters_of_a_cluster_are_asked(redis_cluster: RedisCluster) -> None:
    async def run() -> tuple[str, int]:
        link = make_link(redis_cluster.url)
        try:
            return await read_ack(link), len(await read_info(link, "memory"))
        finally:
            await link.close()

    assert asyncio.run(run()) == ("memory", 3)


def test_a_file_that_doubled_is_rewritten_once(tmp_path: Path) -> None:
    async def run() -> None:
        async with EmbeddedRedis(tmp_path / "data") as redis, Engine(make_link(redis.url)) as engine:
            for _ in range(200):
                await engine.link.run("key", [("SET", "key", "x" * 1000)])
            assert not await rewrite_if_due(engine)
            assert await rewrite_if_due(engine, least_bytes=10_000)

            async def is_small() -> bool:
                (info,) = await read_info(engine.link, "persistence")
                return int(info["aof_current_size"]) < 10_000

            await eventually(is_small, within_s=10)
            assert not await rewrite_if_due(engine, least_bytes=10_000)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("size", "base", "busy", "is_due"),
    [(101, 0, "0", True), (100, 0, "0", False), (201, 100, "0", True), (200, 100, "0", False), (999, 0, "1", False)],
)
def test_a_rewrite_is_due_over_a_size_and_twice_the_last_and_one_at_a_time(
    size: int, base: int, busy: str, is_due: bool
) -> None:
    info = {"aof_current_size": str(size), "aof_base_size": str(base), "aof_rewrite_in_progress": busy}
    assert is_rewrite_due(info, 100) is is_due


def test_figures_are_read_from_text_and_bytes() -> None:
    assert parse_info(b"# Memory\r\nused_memory:5\r\nname:a:b\r\n") == {"used_memory": "5", "name": "a:b"}
    assert parse_info("used_memory:5\r\n") == {"used_memory": "5"}
