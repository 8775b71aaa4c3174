"""Addresses of Redis, and errors in our words."""

import asyncio

import pytest

from hybrid.cluster import ClusterLink
from hybrid.engine import make_link
from hybrid.errors import InvalidField, RedisUnavailable
from hybrid.link import Node, parse_url


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("redis://localhost", {"host": "localhost", "port": 6379, "db": 0, "ssl": False}),
        (
            "redis://u:p%40ss@h:7/3",
            {"host": "h", "port": 7, "db": 3, "ssl": False, "username": "u", "password": "p@ss"},
        ),
        ("rediss://h:7", {"host": "h", "port": 7, "db": 0, "ssl": True}),
        ("unix:///run/a%20b.sock?db=2", {"path": "/run/a b.sock", "db": 2}),
    ],
)
def test_addresses_are_read(url: str, options: dict[str, object]) -> None:
    assert parse_url(url) == options


@pytest.mark.parametrize(
    "url", ["http://h", "redis://h/x", "localhost:6379", "", "redis+cluster://", "redis+cluster://h"]
)
def test_an_address_that_is_none_is_refused_and_quoted(url: str) -> None:
    with pytest.raises(InvalidField, match="not ") as error:
        make_link(url)
    assert repr(url) in str(error.value)


def test_the_scheme_chooses_the_link() -> None:
    assert isinstance(make_link("redis://h"), Node)
    assert isinstance(make_link("redis+cluster://a:1,b:2"), ClusterLink)


def test_a_redis_that_is_not_there_is_unavailable_not_unknown() -> None:
    async def main() -> None:
        with pytest.raises(RedisUnavailable, match="cannot be reached"):
            await make_link("redis://127.0.0.1:1").run("k", [("PING",)], timeout_s=1.0)

    asyncio.run(main())
