"""The redis-server of our own, when processes go wrong: killed parents, frozen and failing servers."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import pytest

from hybrid import launcher
from hybrid.embedded import EmbeddedRedis
from hybrid.errors import DirInUse, DirRefused, EmbeddedError, StartFailed
from hybrid.servers import Server, ping
from tests.faults.embedded_tools import (
    GONE_WITHIN_S,
    INTERRUPTED,
    Meanwhile,
    every_server,
    freeze,
    keep_busy,
    leave_alone,
    make_fake_server,
    members,
    parent_of,
    read_last,
    read_until,
    rewrite_slowly,
    wait_until_gone,
    write_and_stop,
)
from tests.redis_cluster import ask, eventually, kill


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
