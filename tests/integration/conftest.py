"""The same tests on the embedded Redis, on a cluster, and on fakeredis."""

import pytest

from hybrid.embedded import EmbeddedRedis
from hybrid.engine import make_link
from hybrid.link import Link
from tests.engines import FakeLink
from tests.redis_cluster import RedisCluster

BACKENDS = ("embedded", "cluster", "fake")


@pytest.fixture(params=BACKENDS)
def link(request: pytest.FixtureRequest) -> Link:
    """A fresh link to one of the backends; keys are told apart by prefix."""
    if request.param == "fake":
        return FakeLink()
    if request.param == "cluster":
        cluster: RedisCluster = request.getfixturevalue("redis_cluster")
        return make_link(cluster.url)
    redis: EmbeddedRedis = request.getfixturevalue("redis_server")
    return make_link(redis.url)
