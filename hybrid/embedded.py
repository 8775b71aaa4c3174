"""A redis-server of our own: a child on a unix socket in a private directory, which never outlives us.

    async with EmbeddedRedis("/var/lib/toptail") as redis:
        client = Redis.from_url(redis.url)

The directory:

    redis.lock          locked as long as the server lives, or anything it forked; names who has it
    redis.stamp         which server, at least, may read the directory
    redis.conf          made again at every start
    redis.sock          0700, like the directory
    redis.log           and redis.log.1, 1 MiB each
    appendonly...       the data, as the server lays it out

**One owner.** The lock belongs to a file descriptor that only the server holds: it inherits it, and we close ours. So
the directory is free exactly when the server and its forks are gone, whatever became of us. Two servers on one
directory would each lose the other's writes without a word.

**The stamp** comes before the server: written, synced and renamed under the lock, *then* the server starts. A newer
server may convert the data at once (7.0 moves the append-only file where 6.2 finds nothing, starts empty and takes
writes), so a stamp written after it would leave a moment in which a crash lets the older one in again. The price: an
upgrade that fails to start still shuts out the older server. Data without a stamp is not ours, and is refused.

Not handled: network file systems, whose locks and sockets differ; a directory moved or deleted under a running server.
"""

import asyncio
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal, Self
from urllib.parse import quote

from hybrid.datadir import STAMP, check_room, check_stamp, clear, lock_dir, make_dir, write, write_durably
from hybrid.errors import DirRefused, EmbeddedError, StartFailed
from hybrid.servers import Server, ServerProcess, find_server, ping

Fsync = Literal["always", "everysec", "no"]

REFUSED_COMMANDS = ("FLUSHALL", "FLUSHDB", "DEBUG")
SOCKET_PATH_BYTES = 107 if sys.platform == "linux" else 103
LOG_BYTES = 1 << 20

_POLL_S = 0.02
_TAIL_LINES = 8
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT

log = logging.getLogger(__name__)


class EmbeddedRedis:
    """A redis-server that belongs to this process.

    Guarantee   One server per directory. With fsync "always" what was acknowledged is on disk; with "everysec" a crash
                (ours too) may take the last two seconds, with "no" one of the machine what the kernel still held.
                The server ends within moments of this process, also when that is killed -9 (Linux; launcher.py).
    Start       from the main thread, in any event loop; the object may be used from several loops one after the other.
                A directory in use is waited for up to `lock_wait_s`. `start_s` bounds the silence of the server, not
                its loading: it counts anew while Redis says that it loads.
    Port        none unless one is given, and then on 127.0.0.1 only.
    Does not    restart by itself: run `watch`, or call `revive`. Rewrite its append-only file in time: the keeper does;
                a rewrite at each doubling from 4 GB on only guards the disk should the keeper be gone.
    """

    def __init__(
        self,
        data_dir: str | Path,
        *,
        fsync: Fsync = "always",
        server: Server | None = None,
        port: int | None = None,
        refused_commands: Sequence[str] = REFUSED_COMMANDS,
        options: Mapping[str, str] | None = None,
        start_s: float = 10.0,
        stop_s: float = 10.0,
        lock_wait_s: float = 0.0,
    ) -> None:
        if fsync not in ("always", "everysec", "no"):
            raise ValueError(f"fsync is always, everysec or no, not {fsync!r}")
        self.data_dir = Path(data_dir).absolute()
        self.socket_path = self.data_dir / "redis.sock"
        self.log_path = self.data_dir / "redis.log"
        self.server = server
        self.port = port
        self._fsync = fsync
        self._refused_commands = refused_commands
        self._options = options or {}
        self._start_s, self._stop_s, self._lock_wait_s = start_s, stop_s, lock_wait_s
        self._process: ServerProcess | None = None
        self._is_wanted = False
        self._up_since_s = 0.0
        self._log_from = 0
        self._turn = asyncio.Lock()

    @property
    def url(self) -> str:
        return f"unix://{quote(str(self.socket_path))}"

    @property
    def pid(self) -> int:
        if self._process is None:
            raise EmbeddedError(f"the Redis of {self.data_dir} was not started")
        return self._process.pid

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def is_running(self) -> bool:
        return self._process is not None and not self._process.has_ended()

    async def start(self) -> None:
        """Start the server and wait until it answers; on any failure nothing is left running."""
        async with self._turn:
            if self._is_wanted:
                raise StartFailed(f"the Redis of {self.data_dir} was started already, as pid {self.pid}")
            await self._start(self._lock_wait_s)
            self._is_wanted = True

    async def stop(self) -> None:
        """End the server cleanly, or after `stop_s` by force. Stopping twice is fine."""
        async with self._turn:
            self._is_wanted = False
            process, self._process = self._process, None
            if process is None:
                return
            try:
                await process.terminate(self._stop_s)
            finally:
                process.kill()
            log.info("redis stopped pid=%d code=%s dir=%s", process.pid, process.exit_code, self.data_dir)

    async def revive(self) -> bool:
        """Start a server that died again; False when it lives, or was stopped."""
        async with self._turn:
            if not self._is_wanted or self.is_running():
                return False
            log.warning("redis died code=%s dir=%s", self._process and self._process.exit_code, self.data_dir)
            # Its forks were killed with it but may take a moment to let go of the lock.
            await self._start(self._lock_wait_s + self._stop_s)
            return True

    async def watch(self, pauses_s: Sequence[float]) -> None:
        """Revive the server whenever it dies, until it is stopped.

        Each attempt waits for the next of `pauses_s`; when there is none left, the last failure is raised. They start
        over when the server has stayed up for longer than the longest of them.
        """
        attempts = 0
        failure: EmbeddedError = StartFailed(f"the Redis of {self.data_dir} died again and again")
        while self._is_wanted:
            if self.is_running():
                self._rotate_log()
                if asyncio.get_running_loop().time() - self._up_since_s > max(pauses_s, default=0):
                    attempts = 0
                await asyncio.sleep(_POLL_S)
                continue
            if attempts == len(pauses_s):
                raise failure
            await asyncio.sleep(pauses_s[attempts])
            attempts += 1
            try:
                await self.revive()
            except EmbeddedError as error:
                failure = error
                log.error("redis not revived attempt=%d error=%s", attempts, error)

    async def _start(self, lock_wait_s: float) -> None:
        server = self.server = self.server or find_server()
        _check_socket_path(self.socket_path)
        make_dir(self.data_dir)
        lock = await lock_dir(self.data_dir, lock_wait_s)
        try:
            check_stamp(self.data_dir, server)
            clear(self.data_dir)
            check_room(self.data_dir)
            write_durably(self.data_dir / STAMP, server.render_stamp())
            self._process = self._spawn(server, lock)
        except OSError as error:
            raise StartFailed(f"cannot prepare {self.data_dir}: {error}") from error
        finally:
            os.close(lock)
        try:
            await self._wait_until_ready(self._process)
        except BaseException:
            self._process.kill()
            raise
        self._up_since_s = asyncio.get_running_loop().time()
        log.info("redis started pid=%d server=%s dir=%s fsync=%s", self.pid, server, self.data_dir, self._fsync)

    def _spawn(self, server: Server, lock: int) -> ServerProcess:
        config_path = self.data_dir / "redis.conf"
        write(config_path, self._render_config())
        self._rotate_log()
        with config_path.open("rb") as config, open(os.open(self.log_path, _APPEND, 0o600), "ab") as said:
            self._log_from = said.tell()
            process = server.spawn(config_fd=config.fileno(), log_fd=said.fileno(), keep_fd=lock)
        with suppress(OSError):  # a courtesy to those whom the lock will refuse
            os.pwrite(lock, f"{process.pid} {os.getpid()}\n".encode(), 0)
        return process

    async def _wait_until_ready(self, process: ServerProcess) -> None:
        now_s = asyncio.get_running_loop().time
        deadline_s = now_s() + self._start_s
        while (answer := await ping(self.socket_path)) != b"+PONG":
            if process.has_ended():
                raise StartFailed(f"{self.server} ended with code {process.exit_code} in {self._render_tail()}")
            if answer.startswith(b"-LOADING"):
                deadline_s = now_s() + self._start_s
            if now_s() > deadline_s:
                raise StartFailed(f"{self.server} did not answer in {self._start_s} s in {self._render_tail()}")
            await asyncio.sleep(_POLL_S)

    def _render_config(self) -> str:
        """Only options that Redis 6.2, 7.0 and Valkey know alike."""
        options = {
            "dir": str(self.data_dir),
            "unixsocket": str(self.socket_path),
            "unixsocketperm": "700",
            "port": str(self.port or 0),
            "bind": "127.0.0.1",
            "protected-mode": "yes",
            "daemonize": "no",
            "loglevel": "notice",
            "logfile": str(self.log_path),
            "save": "",
            "appendonly": "yes",
            "appendfsync": self._fsync,
            # A rewrite must not suspend the fsync that an acknowledgement promises.
            "no-appendfsync-on-rewrite": "no",
            # A crash may cut the last, unacknowledged command short; anything worse stops the start.
            "aof-load-truncated": "yes",
            # Rewritten files begin as an RDB: smaller, and several times faster to load than commands.
            "aof-use-rdb-preamble": "yes",
            "auto-aof-rewrite-percentage": "100",
            "auto-aof-rewrite-min-size": "4gb",
            "maxmemory-policy": "noeviction",
            "lazyfree-lazy-eviction": "yes",
            "lazyfree-lazy-expire": "yes",
            "lazyfree-lazy-server-del": "yes",
            "lazyfree-lazy-user-del": "yes",
            "lazyfree-lazy-user-flush": "yes",
            "replica-lazy-flush": "yes",
            **self._options,
        }
        lines = [f"{name} {_quote(value)}" for name, value in options.items()]
        lines += [f'rename-command {command} ""' for command in self._refused_commands]
        return "\n".join(lines) + "\n"

    def _rotate_log(self) -> None:
        """Redis opens its log anew for every line, so the file can be moved while it runs."""
        with suppress(FileNotFoundError):
            if self.log_path.stat().st_size > LOG_BYTES:
                self.log_path.replace(f"{self.log_path}.1")

    def _render_tail(self) -> str:
        """The directory and what the server said since it was started, as the end of a sentence."""
        said = self.log_path.read_bytes()[self._log_from :].decode(errors="replace").splitlines()
        quoted = "\n".join(f"    {line}" for line in said[-_TAIL_LINES:])
        return f"{self.data_dir}; the end of its log:\n{quoted}" if quoted else f"{self.data_dir}; its log is empty"


def _check_socket_path(path: Path) -> None:
    size_bytes = len(os.fsencode(path))
    if size_bytes > SOCKET_PATH_BYTES:
        raise DirRefused(
            f"the socket {str(path)!r} would have a path of {size_bytes} bytes; the system takes {SOCKET_PATH_BYTES}. "
            "Choose a data directory with a shorter path"
        )


def _quote(value: str) -> str:
    """A value as Redis reads it from its configuration, whatever bytes a path may have."""
    plain = "".join(
        chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\' else f"\\x{byte:02x}" for byte in os.fsencode(value)
    )
    return f'"{plain}"'
