"""The cluster that tests start is a whole one: all slots, a replica of each, and faults go where they belong."""

import asyncio
from pathlib import Path

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from hybrid.servers import Server, list_servers
from tests.redis_cluster import MASTERS, SLOTS, RedisCluster, ask, eventually, frozen, kill

# One tag in each third of the slots.
TAGS = {"{b}": 3300, "{c}": 7365, "{a}": 15495}


def test_every_slot_is_served_and_every_node_agrees(redis_cluster: RedisCluster) -> None:
    async def check() -> None:
        tables = [await ask(node, "CLUSTER", "SLOTS") for node in redis_cluster.nodes]
        for ranges in tables:
            covered = [slot for first, last, *_ in ranges for slot in range(first, last + 1)]
            assert sorted(covered) == list(range(SLOTS))
            assert [len(nodes) for _, _, *nodes in ranges] == [2] * MASTERS
        assert len({str(sorted((r[0], r[1], r[2][1]) for r in ranges)) for ranges in tables}) == 1

    asyncio.run(check())


def test_a_write_to_each_third_of_the_slots_reaches_its_replica(clean_cluster: RedisCluster) -> None:
    async def check() -> None:
        masters = set()
        for tag, slot in TAGS.items():
            master, replica = await clean_cluster.master_of(slot), await clean_cluster.replica_of(slot)
            assert await ask(master, "CLUSTER", "KEYSLOT", tag) == slot
            await ask(master, "SET", tag, slot)
            assert await ask(master, "WAIT", 1, 1000) == 1
            assert await ask(replica, "CLUSTER", "GETKEYSINSLOT", slot, 10) == [tag]
            masters.add(master.port)
        assert len(masters) == MASTERS

    asyncio.run(check())


def test_a_clean_cluster_is_empty_on_every_node(redis_cluster: RedisCluster) -> None:
    async def check() -> None:
        master, replica = await redis_cluster.master_of(TAGS["{a}"]), await redis_cluster.replica_of(TAGS["{a}"])
        await ask(master, "SET", "{a}", 1)
        await ask(master, "WAIT", 1, 1000)
        assert await ask(replica, "DBSIZE") == 1
        await redis_cluster.flush()
        assert [await ask(node, "DBSIZE") for node in redis_cluster.nodes] == [0] * 2 * MASTERS

    asyncio.run(check())


def test_a_frozen_replica_is_missed_by_wait_and_catches_up_when_thawed(clean_cluster: RedisCluster) -> None:
    async def check() -> None:
        slot = TAGS["{b}"]
        master, replica = await clean_cluster.master_of(slot), await clean_cluster.replica_of(slot)
        with frozen(replica):
            await ask(master, "SET", "{b}", 1)
            assert await ask(master, "WAIT", 1, 100) == 0
            with pytest.raises((RedisTimeoutError, RedisConnectionError)):
                await ask(replica, "PING", wait_s=0.1)
        assert await ask(master, "WAIT", 1, 5000, wait_s=10) == 1

    asyncio.run(check())


@pytest.mark.slow
@pytest.mark.parametrize("server", list_servers(), ids=str)
def test_a_killed_master_is_replaced_by_its_replica_and_comes_back_as_one(server: Server, tmp_path: Path) -> None:
    async def check() -> None:
        slot = TAGS["{c}"]
        async with RedisCluster(tmp_path, server=server, node_timeout_ms=500) as cluster:
            master, replica = await cluster.master_of(slot), await cluster.replica_of(slot)
            await ask(master, "SET", "{c}", 1)
            assert await ask(master, "WAIT", 1, 1000) == 1
            kill(master)

            async def is_replaced() -> bool:
                return bool((await ask(replica, "ROLE"))[0] == "master")

            async def is_back() -> bool:
                return await cluster.nodes_of(slot) == [replica, master]

            await eventually(is_replaced, within_s=20)
            assert await ask(replica, "GET", "{c}") == "1"
            assert await master.revive()
            await eventually(is_back, within_s=20)

    asyncio.run(check())
