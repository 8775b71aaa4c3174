"""The redis-server of our own and its directory: two owners, other versions, full disks."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from redis.exceptions import RedisError

from hybrid.datadir import ROOM_BYTES
from hybrid.embedded import SOCKET_PATH_BYTES, EmbeddedRedis
from hybrid.errors import DirInUse, DirRefused, NoServer, StartFailed
from hybrid.servers import Server, find_server, list_servers, load_server
from tests.faults.embedded_tools import (
    CRAMPED,
    GONE_WITHIN_S,
    every_server,
    make_fake,
    make_fake_server,
    write_and_stop,
)
from tests.redis_cluster import ask, eventually, frozen


def test_a_directory_in_use_is_refused_and_its_owner_named(tmp_path: Path) -> None:
    async def check() -> None:
        async with EmbeddedRedis(tmp_path) as first:
            with pytest.raises(DirInUse, match=f"redis-server pid {first.pid}, started by pid {os.getpid()}"):
                await EmbeddedRedis(tmp_path).start()
            with frozen(first), pytest.raises(DirInUse):
                await EmbeddedRedis(tmp_path).start()
            assert await ask(first, "PING")

    asyncio.run(check())


def test_a_patient_owner_waits_for_the_directory(tmp_path: Path) -> None:
    async def check() -> None:
        first, second = EmbeddedRedis(tmp_path), EmbeddedRedis(tmp_path, lock_wait_s=30)
        await first.start()
        taking = asyncio.create_task(second.start())
        await asyncio.sleep(0)
        assert not taking.done()
        await first.stop()
        await taking
        assert await ask(second, "PING")
        await second.stop()

    asyncio.run(check())


@pytest.mark.parametrize(
    ("stamp", "says"),
    [
        (
            '{"server": "redis", "version": "99.1.2", "append_only": "many files"}',
            r"written by redis 99\.1\.2, and .* is ",
        ),
        (
            '{"server": "valkey", "version": "6.2.0", "append_only": "many files"}',
            r"written by valkey 6\.2\.0, and .* is ",
        ),
        ('{"server": "redis", "version": 7}', "none of ours"),
        ("[]", "none of ours"),
        ("\udcff", "none of ours"),
    ],
)
def test_a_directory_stamped_by_a_newer_or_other_server_is_refused(stamp: str, says: str, tmp_path: Path) -> None:
    async def check() -> None:
        await write_and_stop(tmp_path)
        (tmp_path / "redis.stamp").write_bytes(os.fsencode(stamp))
        with pytest.raises(DirRefused, match=says) as refusal:
            await EmbeddedRedis(tmp_path).start()
        assert "99.1.2" not in stamp or str(find_server()) in str(refusal.value)
        assert (tmp_path / "redis.stamp").read_bytes() == os.fsencode(stamp)

    asyncio.run(check())


@every_server
def test_data_without_a_stamp_is_refused_and_left_alone(server: Server, tmp_path: Path) -> None:
    asyncio.run(write_and_stop(tmp_path, server))
    (tmp_path / "redis.stamp").unlink()
    (tmp_path / "temp-1.rdb").touch()
    with pytest.raises(DirRefused, match="not of our making"):
        asyncio.run(EmbeddedRedis(tmp_path, server=server).start())
    assert (tmp_path / "temp-1.rdb").exists()


@pytest.fixture
def two_servers() -> tuple[Server, Server]:
    """An older and a newer server of one family."""
    servers = sorted((s for s in list_servers() if s.name == "redis"), key=lambda server: server.version)
    if len(servers) < 2:
        pytest.skip(f"needs two versions of Redis; at hand: {', '.join(map(str, servers)) or 'none'}")
    return servers[0], servers[-1]


def test_an_older_server_is_refused_where_a_newer_one_wrote(two_servers: tuple[Server, Server], tmp_path: Path) -> None:
    async def check() -> None:
        older, newer = two_servers
        await write_and_stop(tmp_path, newer)
        with pytest.raises(DirRefused, match=f"written by {newer}, and {older.path} is {older}"):
            await EmbeddedRedis(tmp_path, server=older).start()
        async with EmbeddedRedis(tmp_path, server=newer) as redis:
            assert await ask(redis, "GET", "key") == "value"

    asyncio.run(check())


def test_a_newer_server_takes_over_the_data_and_shuts_the_older_one_out(
    two_servers: tuple[Server, Server], tmp_path: Path
) -> None:
    async def check() -> None:
        older, newer = two_servers
        await write_and_stop(tmp_path, older)
        async with EmbeddedRedis(tmp_path, server=newer) as redis:
            assert await ask(redis, "GET", "key") == "value"
        with pytest.raises(DirRefused, match=f"written by {newer}"):
            await EmbeddedRedis(tmp_path, server=older).start()

    asyncio.run(check())


def test_the_stamp_is_there_before_the_server_that_it_names(tmp_path: Path) -> None:
    """A newer server that crashes while it starts may have converted the data already."""
    crashing = make_fake_server(tmp_path / "bin", "99.0.0", f"cat {tmp_path}/data/redis.stamp; exit 1")
    asyncio.run(write_and_stop(tmp_path / "data"))
    with pytest.raises(StartFailed, match=r'"version": "99\.0\.0"'):
        asyncio.run(EmbeddedRedis(tmp_path / "data", server=crashing).start())
    with pytest.raises(DirRefused, match=r"written by redis 99\.0\.0"):
        asyncio.run(write_and_stop(tmp_path / "data"))


def test_a_socket_path_that_is_too_long_is_refused_and_one_that_just_fits_is_not(tmp_path: Path) -> None:
    fits = tmp_path / ("d" * (SOCKET_PATH_BYTES - len(f"{tmp_path}//redis.sock")))
    asyncio.run(write_and_stop(fits))
    with pytest.raises(DirRefused, match=f"{SOCKET_PATH_BYTES + 1} bytes; the system takes {SOCKET_PATH_BYTES}"):
        asyncio.run(write_and_stop(fits.with_name(fits.name + "d")))
    # In bytes, not in characters.
    with pytest.raises(DirRefused, match=f"{SOCKET_PATH_BYTES + 1} bytes"):
        asyncio.run(write_and_stop(fits.with_name(fits.name[1:] + "é")))


def test_a_directory_of_somebody_else_is_refused(tmp_path: Path) -> None:
    theirs = Path("/")
    if os.geteuid() == 0:
        theirs = tmp_path
        os.chown(theirs, 12345, -1)
    with pytest.raises(DirRefused, match=rf"belongs to .*\(?uid {theirs.stat().st_uid}\)?, .* runs as"):
        asyncio.run(EmbeddedRedis(theirs).start())
    assert not (theirs / "redis.lock").exists()


@pytest.mark.parametrize(
    ("mode", "says"),
    [
        (0o750, "its group may read and enter it"),
        (0o702, "everybody may write it"),
        (0o777, "its group may read and write and enter it, everybody may read and write and enter it"),
    ],
)
def test_a_directory_that_is_open_to_others_is_refused(mode: int, says: str, tmp_path: Path) -> None:
    tmp_path.chmod(mode)
    with pytest.raises(DirRefused, match=f"{says}.*chmod 700"):
        asyncio.run(EmbeddedRedis(tmp_path).start())


def test_a_directory_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DirRefused, match="Not a directory"):
        asyncio.run(EmbeddedRedis(tmp_path / "file" / "data").start())


# Programs


def test_without_any_server_the_error_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(NoServer, match=r"Install Redis 6\.2\.0 or newer, or name one with TOPTAIL_REDIS_SERVER"):
        find_server(search_path=str(tmp_path), wheel="no_such_package")


def test_a_named_server_that_is_not_there_is_quoted(tmp_path: Path) -> None:
    with pytest.raises(NoServer, match="no-such-redis"):
        find_server(str(tmp_path / "no-such-redis"))


def test_a_server_that_is_too_old_is_refused_when_named_and_passed_over_when_found(tmp_path: Path) -> None:
    old = make_fake(tmp_path, "Redis server v=6.0.16 sha=00000000:0 malloc=jemalloc-5.2.1 bits=64 build=0")
    with pytest.raises(NoServer, match=r"is redis 6\.0\.16; the oldest that can be used is 6\.2\.0"):
        find_server(old)
    with pytest.raises(NoServer, match=r"redis 6\.0\.16.*Install"):
        find_server(search_path=str(tmp_path), wheel=None)
    assert find_server(search_path=str(tmp_path)).version >= (6, 2, 0)


@pytest.mark.parametrize("says", ["", "KeyDB server v=6.3.4", "hello"])
def test_a_program_that_is_no_redis_is_refused(says: str, tmp_path: Path) -> None:
    with pytest.raises(NoServer, match=f"answered '{says}'"):
        find_server(make_fake(tmp_path, says))


def test_valkey_is_known_by_its_name(tmp_path: Path) -> None:
    server = load_server(make_fake(tmp_path, "Valkey server v=8.1.3 sha=00000000:0 malloc=libc bits=64 build=0"))
    assert (server.name, server.version) == ("valkey", (8, 1, 3))


# Disks


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A directory of four megabytes."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={4 * ROOM_BYTES},mode=0700", "tmpfs", str(disk)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"needs to mount a small tmpfs, which only root can: {error}")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)  # noqa: S607


def fill(disk: Path) -> Path:
    filler = disk / "filler"
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    return filler


@every_server
def test_a_full_disk_is_named_at_the_start(server: Server, small_disk: Path) -> None:
    filler = fill(small_disk)
    with pytest.raises(StartFailed, match="No space left on device; make room"):
        asyncio.run(write_and_stop(small_disk, server))
    filler.unlink()
    asyncio.run(write_and_stop(small_disk, server))


@every_server
def test_a_disk_that_fills_up_loses_nothing_that_was_acknowledged(server: Server, small_disk: Path) -> None:
    async def write(redis: EmbeddedRedis) -> int:
        """Write until Redis gives up; how many writes it acknowledged."""
        for number in range(1000):
            try:
                await ask(redis, "SET", f"key:{number}", "x" * 1000)
            except RedisError:
                return number
        return 1000

    async def check() -> None:
        async with EmbeddedRedis(small_disk, server=server) as redis:
            await ask(redis, "SET", "first", 1)
            filler = fill(small_disk)
            acknowledged = await write(redis)
            assert acknowledged < 1000
            with pytest.raises(StartFailed, match="No space left on device; make room"):
                await eventually(redis.revive, within_s=GONE_WITHIN_S)
            filler.unlink()
            assert await redis.revive()
            assert await ask(redis, "GET", "first") == "1"
            assert await ask(redis, "DBSIZE") >= 1 + acknowledged

    asyncio.run(check())


def test_a_disk_that_takes_no_more_is_named_also_without_root(tmp_path: Path) -> None:
    command = [sys.executable, "-c", CRAMPED, str(tmp_path)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f"cannot write {ROOM_BYTES} bytes in {tmp_path}: File too large" in answer.stdout
