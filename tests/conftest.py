"""Real servers for tests: started once, emptied for each test that asks for a clean one.

They belong to no event loop; a test runs its own with `asyncio.run`. A test that kills a server starts one of its own.
"""

import asyncio
from collections.abc import Iterator

import pytest

from hybrid.embedded import EmbeddedRedis
from tests.redis_cluster import RedisCluster, ask


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedRedis]:
    """One Redis for all tests. It does not sync, and FLUSHALL and DEBUG are there."""
    redis = EmbeddedRedis(tmp_path_factory.mktemp("redis"), fsync="no", refused_commands=())
    asyncio.run(redis.start())
    yield redis
    asyncio.run(redis.stop())


@pytest.fixture(scope="session")
def redis_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisCluster]:
    """One cluster for all tests: three masters and a replica of each."""
    cluster = RedisCluster(tmp_path_factory.mktemp("cluster"))
    asyncio.run(cluster.start())
    yield cluster
    asyncio.run(cluster.stop())


@pytest.fixture
def clean_redis(redis_server: EmbeddedRedis) -> str:
    """The URL of a Redis with nothing in it."""
    asyncio.run(ask(redis_server, "FLUSHALL"))
    return redis_server.url


@pytest.fixture
def clean_cluster(redis_cluster: RedisCluster) -> RedisCluster:
    """A cluster with nothing in it."""
    asyncio.run(redis_cluster.flush())
    return redis_cluster
