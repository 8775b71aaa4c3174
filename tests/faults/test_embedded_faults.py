"""The redis-server of our own, when things go wrong: killed parents, two owners, other versions, full disks."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from hybrid import launcher
from hybrid.datadir import ROOM_BYTES
from hybrid.embedded import SOCKET_PATH_BYTES, EmbeddedRedis
from hybrid.errors import DirInUse, DirRefused, EmbeddedError, NoServer, StartFailed
from hybrid.servers import Server, find_server, list_servers, load_server, ping
from tests.redis_cluster import ask, eventually, frozen, kill

every_server = pytest.mark.parametrize("server", list_servers(), ids=str)

GONE_WITHIN_S = 2.0

Meanwhile = Callable[[EmbeddedRedis, int], Coroutine[None, None, None]]

# Starts a server and says its pid, then writes for ever and says each number once Redis has acknowledged it.
PARENT = """
import asyncio, itertools, sys
from redis.asyncio import Redis
from hybrid.embedded import EmbeddedRedis
from hybrid.servers import load_server

async def main():
    async with EmbeddedRedis(sys.argv[1], server=load_server(sys.argv[2]), fsync="always") as redis:
        print(redis.pid, flush=True)
        async with Redis.from_url(redis.url) as client:
            for number in itertools.count(1):
                await client.set(f"key:{number}", number)
                print(number, flush=True)

asyncio.run(main())
"""

# Starts a server; at Ctrl-C asks it for signs of life, for half a second, before stopping it.
INTERRUPTED = """
import asyncio, signal, sys
from hybrid.embedded import EmbeddedRedis
from hybrid.servers import ping

async def main():
    interrupted = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, interrupted.set)
    async with EmbeddedRedis(sys.argv[1]) as redis:
        print(redis.pid, flush=True)
        await interrupted.wait()
        signs = set()
        for _ in range(25):
            signs.add(await ping(redis.socket_path))
            await asyncio.sleep(0.02)
        print(signs, flush=True)

asyncio.run(main())
"""

# Starts a server in a process that may write no file larger than a few kilobytes.
CRAMPED = """
import asyncio, resource, sys
from hybrid.embedded import EmbeddedRedis
from hybrid.errors import StartFailed

resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    asyncio.run(EmbeddedRedis(sys.argv[1]).start())
except StartFailed as error:
    print(error)
"""


@contextmanager
def parent_of(data_dir: Path, server: Server) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A process with a server of its own, and that server's pid; both are gone at the end."""
    command = [sys.executable, "-c", PARENT, str(data_dir), server.path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        try:
            yield parent, pid
        finally:
            parent.kill()
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)


def read_until(parent: subprocess.Popen[str], number: int) -> None:
    assert parent.stdout is not None
    while int(parent.stdout.readline()) < number:
        pass


def read_last(parent: subprocess.Popen[str], default: int) -> int:
    """The last number that a parent said before it died."""
    assert parent.stdout is not None
    return [default, *map(int, parent.stdout.read().split())][-1]


def members(group: int) -> list[int]:
    """The processes of a group, from /proc; one that only waits to be reaped is none."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, pgrp = entry.read_text().rpartition(")")[2].split()[:3]
            if int(pgrp) == group and state not in "ZX":
                found.append(int(entry.parent.name))
    return found


async def wait_until_gone(group: int, *, within_s: float = GONE_WITHIN_S) -> None:
    async def is_gone() -> bool:
        return not members(group)

    await eventually(is_gone, within_s=within_s)


def make_fake(folder: Path, says: str, does: str = "exit 1") -> str:
    """A program that answers --version as it is told, and otherwise does what it is told."""
    path = folder / "redis-server"
    path.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo "{says}" && exit 0\n{does}\n')
    path.chmod(0o700)
    return str(path)


def make_fake_server(folder: Path, version: str, does: str = "exit 1") -> Server:
    folder.mkdir(exist_ok=True)
    return load_server(make_fake(folder, f"Redis server v={version} sha=00000000:0 malloc=libc bits=64", does))


async def write_and_stop(data_dir: Path, server: Server | None = None) -> None:
    async with EmbeddedRedis(data_dir, server=server) as redis:
        await ask(redis, "SET", "key", "value")


# Killed parents


async def leave_alone(_: EmbeddedRedis, pid: int) -> None:
    assert members(pid) == [pid]


async def freeze(_: EmbeddedRedis, pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)


async def keep_busy(redis: EmbeddedRedis, _: int) -> None:
    with pytest.raises(RedisTimeoutError):
        await ask(redis, "EVAL", "while true do end", 0, wait_s=0.1)


async def rewrite_slowly(redis: EmbeddedRedis, pid: int, *, key_s: int = 1) -> None:
    """Begin an AOF rewrite that takes so long for each key, and looks up only between two of them."""
    await ask(redis, "CONFIG", "SET", "rdb-key-save-delay", key_s * 1_000_000)
    await ask(redis, "EVAL", "for number = 1, 60 do redis.call('SET', 'many:' .. number, number) end", 0)
    await ask(redis, "BGREWRITEAOF")
    assert len(members(pid)) == 2


@every_server
@pytest.mark.parametrize("meanwhile", [leave_alone, freeze, keep_busy, rewrite_slowly])
def test_a_killed_parent_leaves_no_server(server: Server, meanwhile: Meanwhile, tmp_path: Path) -> None:
    with parent_of(tmp_path, server) as (parent, pid):
        read_until(parent, 10)
        asyncio.run(meanwhile(EmbeddedRedis(tmp_path), pid))
        parent.kill()
        asyncio.run(wait_until_gone(pid))


@every_server
def test_a_second_owner_is_refused_until_the_killed_ones_server_is_gone(server: Server, tmp_path: Path) -> None:
    """Tried from the moment of the kill on, while a fork of the server lives; then nothing acknowledged is missing."""

    async def check() -> None:
        refusals = []
        second = EmbeddedRedis(tmp_path, server=server)
        async with asyncio.timeout(30):
            while not second.is_running():
                try:
                    await second.start()
                except DirInUse as refusal:
                    refusals.append(str(refusal))
                    await asyncio.sleep(0.01)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(second.stop)
            assert members(pid) == []
            assert len(refusals) > 10
            assert all(f"redis-server pid {pid}, started by pid {parent.pid}" in refusal for refusal in refusals)
            acknowledged = read_last(parent, default=200)
            missing = [n for n in range(1, acknowledged + 1) if await ask(second, "EXISTS", f"key:{n}") == 0]
            assert missing == []

    with parent_of(tmp_path, server) as (parent, pid):
        read_until(parent, 200)
        asyncio.run(rewrite_slowly(EmbeddedRedis(tmp_path), pid))
        parent.kill()
        asyncio.run(check())


def test_a_server_does_not_start_for_a_parent_that_is_gone() -> None:
    command = [sys.executable, "-I", "-S", launcher.__file__, str(os.getpid() + 1), "/bin/echo", "started"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode != 0
    assert answer.stdout == ""
    assert f"pid {os.getpid() + 1}" in answer.stderr


def test_ctrl_c_does_not_stop_redis_before_its_owner_does(tmp_path: Path) -> None:
    command = [sys.executable, "-c", INTERRUPTED, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, process_group=0) as owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        os.killpg(owner.pid, signal.SIGINT)
        assert owner.stdout.read() == "{b'+PONG'}\n"
        assert owner.wait() == 0
    assert members(pid) == []


# Servers that die


@every_server
def test_a_killed_server_is_revived_with_its_data(server: Server, tmp_path: Path) -> None:
    async def check() -> None:
        async with EmbeddedRedis(tmp_path, server=server) as redis:
            assert not await redis.revive()
            await ask(redis, "SET", "key", "value")
            first = redis.pid
            kill(redis)
            await eventually(redis.revive, within_s=GONE_WITHIN_S)
            assert redis.pid != first
            assert await ask(redis, "GET", "key") == "value"

    asyncio.run(check())


@every_server
def test_a_fork_that_a_killed_server_left_behind_is_ended_before_the_next_one_starts(
    server: Server, tmp_path: Path
) -> None:
    async def check() -> None:
        async with EmbeddedRedis(tmp_path, server=server) as redis:
            first = redis.pid
            await rewrite_slowly(redis, first, key_s=60)
            kill(redis)
            await eventually(redis.revive, within_s=GONE_WITHIN_S)
            assert members(first) == []
            assert await ask(redis, "DBSIZE") == 60
            assert list(redis.data_dir.rglob("temp-*")) == []

    asyncio.run(check())


def test_a_watched_server_comes_back_by_itself(tmp_path: Path) -> None:
    async def check() -> None:
        async with EmbeddedRedis(tmp_path) as redis:
            watch = asyncio.create_task(redis.watch([0.0, 0.1]))
            for number in range(1, 3):
                assert await ask(redis, "INCR", "writes") == number
                died = redis.pid
                kill(redis)

                async def is_back(died: int = died) -> bool:
                    return redis.pid != died and await ping(redis.socket_path) == b"+PONG"

                await eventually(is_back, within_s=10)
        async with asyncio.timeout(10):
            await watch

    asyncio.run(check())


def test_the_watch_ends_with_the_last_failure_when_its_pauses_are_used_up(tmp_path: Path) -> None:
    async def check() -> None:
        async with EmbeddedRedis(tmp_path) as redis:
            redis.data_dir.chmod(0o755)
            kill(redis)
            with pytest.raises(DirRefused, match="chmod 700"):
                async with asyncio.timeout(10):
                    await redis.watch([0.0, 0.0])
            redis.data_dir.chmod(0o700)
            assert await redis.revive()

    asyncio.run(check())


def test_a_server_that_dies_at_every_start_is_given_up(tmp_path: Path) -> None:
    async def check() -> None:
        async with EmbeddedRedis(tmp_path) as redis:
            watch = asyncio.create_task(redis.watch([0.0, 0.0]))
            async with asyncio.timeout(20):
                while not watch.done():
                    with suppress(ProcessLookupError):
                        kill(redis)
                    await asyncio.sleep(0.001)
            with pytest.raises(StartFailed):
                watch.result()

    asyncio.run(check())


def test_a_frozen_server_is_stopped_cleanly(tmp_path: Path) -> None:
    async def check() -> None:
        redis = EmbeddedRedis(tmp_path)
        await redis.start()
        os.kill(redis.pid, signal.SIGSTOP)
        pid = redis.pid
        await redis.stop()
        assert members(pid) == []
        assert "ready to exit" in redis.log_path.read_text()

    asyncio.run(check())


def test_a_server_that_does_not_end_is_killed_after_its_time(tmp_path: Path) -> None:
    async def check() -> None:
        redis = EmbeddedRedis(tmp_path, stop_s=0.2)
        await redis.start()
        pid = redis.pid
        await keep_busy(redis, pid)
        await redis.stop()
        assert members(pid) == []

    asyncio.run(check())


# Servers that do not come up


def test_a_server_that_ends_at_once_is_quoted(tmp_path: Path) -> None:
    server = make_fake_server(tmp_path / "bin", "7.0.0", "echo 'Bad directive' >&2; exit 3")
    with pytest.raises(StartFailed, match=r"(?s)redis 7\.0\.0 ended with code 3.*Bad directive"):
        asyncio.run(EmbeddedRedis(tmp_path / "data", server=server).start())


def test_a_server_that_stays_silent_is_ended_at_the_deadline(tmp_path: Path) -> None:
    async def check() -> None:
        server = make_fake_server(tmp_path / "bin", "7.0.0", "echo $$; exec sleep 600")
        redis = EmbeddedRedis(tmp_path / "data", server=server, start_s=0.2)
        with pytest.raises(StartFailed, match=r"did not answer in 0\.2 s"):
            await redis.start()
        assert members(int(redis.log_path.read_text())) == []

    asyncio.run(check())


def test_a_start_that_is_cancelled_leaves_nothing_behind(tmp_path: Path) -> None:
    async def check() -> None:
        server = make_fake_server(tmp_path / "bin", "6.2.0", "echo $$; exec sleep 600")
        redis = EmbeddedRedis(tmp_path / "data", server=server, start_s=600)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await redis.start()
        assert members(int(redis.log_path.read_text())) == []
        await write_and_stop(tmp_path / "data")

    asyncio.run(check())


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(StartFailed, match=f"(?s)ended with code.*{port}.*in use"):
            asyncio.run(EmbeddedRedis(tmp_path, port=port).start())


def test_a_start_from_another_thread_is_refused(tmp_path: Path) -> None:
    failures: list[EmbeddedError] = []

    def start() -> None:
        try:
            asyncio.run(EmbeddedRedis(tmp_path).start())
        except EmbeddedError as error:
            failures.append(error)

    thread = threading.Thread(target=start, name="side")
    thread.start()
    thread.join()
    assert ["main thread, not from 'side'" in str(error) for error in failures] == [True]
    asyncio.run(write_and_stop(tmp_path))


# Directories


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
