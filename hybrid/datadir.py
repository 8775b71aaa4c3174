"""The data directory of a redis-server: private, locked, stamped, and with room to write.

`embedded.py` says why each of these steps is there, and in which order they must come.
"""

import asyncio
import fcntl
import os
import pwd
from pathlib import Path

from hybrid.errors import DirInUse, DirRefused, StartFailed
from hybrid.servers import Server

STAMP = "redis.stamp"
ROOM_BYTES = 1 << 20

_POLL_S = 0.02
_DATA = ("appendonly.aof", "appendonlydir", "dump.rdb")


def make_dir(path: Path) -> None:
    """Make the directory, or see that it is private and belongs to who we are."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.stat()
    except OSError as error:
        raise DirRefused(f"cannot make the data directory {path}: {error.strerror}") from error
    if found.st_uid != os.geteuid():
        raise DirRefused(
            f"the data directory {path} belongs to {_render_user(found.st_uid)}, and this process runs as "
            f"{_render_user(os.geteuid())}; run it as the owner, or choose another directory"
        )
    if found.st_mode & 0o077:
        doors = [_render_access("its group", found.st_mode >> 3), _render_access("everybody", found.st_mode)]
        raise DirRefused(f"{path} is not private: {', '.join(filter(None, doors))}. To close it: chmod 700 {path}")


def _render_access(who: str, bits: int) -> str:
    verbs = [verb for verb, bit in (("read", 4), ("write", 2), ("enter", 1)) if bits & bit]
    return f"{who} may {' and '.join(verbs)} it" if verbs else ""


async def lock_dir(data_dir: Path, wait_s: float) -> int:
    """A descriptor with the directory's lock."""
    now_s = asyncio.get_running_loop().time
    deadline_s = now_s() + wait_s
    try:
        lock = os.open(data_dir / "redis.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise DirRefused(f"cannot open the lock of {data_dir}: {error.strerror}") from error
    try:
        while not _try_lock(lock):
            if now_s() >= deadline_s:
                raise DirInUse(_render_owner(data_dir, os.pread(lock, 100, 0)))
            await asyncio.sleep(_POLL_S)
        os.ftruncate(lock, 0)
    except BaseException:
        os.close(lock)
        raise
    return lock


def _try_lock(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _render_owner(data_dir: Path, note: bytes) -> str:
    pids = note.decode(errors="replace").split()
    who = "redis-server pid {}, started by pid {}".format(*pids) if len(pids) == 2 else "a server that just starts"
    return f"the data directory {data_dir} is in use by {who}; stop that one first, or choose another directory"


def check_stamp(data_dir: Path, server: Server) -> None:
    """Refuse data that this server must not read, or that we know nothing about."""
    path = data_dir / STAMP
    strangers = [name for name in _DATA if (data_dir / name).exists()]
    if path.exists():
        server.check_stamp(path.read_text(errors="replace"), data_dir)
    elif strangers:
        raise DirRefused(f"{data_dir} has {strangers[0]} and no {STAMP}: not of our making; choose another directory")


def clear(data_dir: Path) -> None:
    """Remove what a killed server had half rewritten; the next one would leave it there for ever."""
    for pattern in ("temp-*.rdb", "temp-*.aof", "appendonlydir/temp-*"):
        for leftover in data_dir.glob(pattern):
            leftover.unlink()


def check_room(data_dir: Path) -> None:
    """See that the disk takes a megabyte: Redis starts on a full one, and dies at its first write."""
    path = data_dir / "redis.room"
    try:
        write(path, "\0" * ROOM_BYTES)
    except OSError as error:
        raise StartFailed(f"cannot write {ROOM_BYTES} bytes in {data_dir}: {error.strerror}; make room") from error
    finally:
        path.unlink(missing_ok=True)


def write_durably(path: Path, text: str) -> None:
    """Old or new text after a crash, never a part of it; nothing to do when it is there."""
    if path.exists() and path.read_text(errors="replace") == text:
        return
    fresh = path.with_name(path.name + ".new")
    write(fresh, text)
    fresh.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def write(path: Path, text: str) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _render_user(uid: int) -> str:
    try:
        return f"{pwd.getpwuid(uid).pw_name} (uid {uid})"
    except KeyError:
        return f"uid {uid}"
