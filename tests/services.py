"""`toptail serve` as a real process, and what there is to ask and to know of it."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

READY_S = 30.0
_COMMAND = (sys.executable, "-P", "-c", "from service.cli import main; main()", "serve")


def wait_for(is_so: Callable[[], Any], within_s: float, what: str) -> float:
    """Ask until it is so; returns how long that took."""
    began_s = time.monotonic()
    while not is_so():
        if time.monotonic() - began_s > within_s:
            raise AssertionError(f"{what}: not within {within_s} s")
        time.sleep(0.01)
    return time.monotonic() - began_s


class Service:
    """A running service."""

    def __init__(self, process: subprocess.Popen[bytes], said: IO[bytes], logged: IO[bytes]) -> None:
        self.process, self._said, self._logged = process, said, logged
        self.url = ""

    def wait_ready(self) -> None:
        """Until it has said where it is."""
        wait_for(lambda: "API docs" in self.said or self.process.poll() is not None, READY_S, "a ready service")
        if self.process.poll() is not None:
            raise AssertionError(self.logged)
        found = re.search(r"dashboard +(http://\S+)/\n", self.said)
        if found is None:
            raise AssertionError(self.said)
        self.url = found[1]

    @property
    def said(self) -> str:
        return os.pread(self._said.fileno(), 1 << 20, 0).decode()

    @property
    def logged(self) -> str:
        return os.pread(self._logged.fileno(), 1 << 20, 0).decode()

    def ask(self, method: str, path: str, body: Any = None, *, key: str = "") -> tuple[int, Any]:
        """Status and body of an answer; (0, None) when there is none."""
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
        address = urlsplit(self.url)
        connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=10)
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            text = answer.read().decode()
            return answer.status, json.loads(text) if "json" in answer.headers.get("Content-Type", "") else text
        except (OSError, http.client.HTTPException):
            return 0, None
        finally:
            connection.close()

    def is_ready(self) -> bool:
        return self.ask("GET", "/readyz")[0] == 200

    def children(self, kind: str = "") -> list[int]:
        """Its processes: all of them, or those of a kind (`service.worker`, `service.keeping`, `redis`)."""
        return [pid for pid in child_pids(self.process.pid) if kind in read_command(pid)]

    def stop(self, number: int = signal.SIGTERM) -> int:
        """End it; returns its exit code."""
        self.process.send_signal(number)
        return self.process.wait(30)


def child_pids(parent: int) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, ppid = entry.read_text().rpartition(")")[2].split()[:2]
            if int(ppid) == parent and state not in "ZX":
                found.append(int(entry.parent.name))
    return found


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def read_command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


@contextmanager
def running_service(data_dir: Path, *flags: str, **environment: str) -> Iterator[Service]:
    """A service that is ready; it and all its processes are gone at the end."""
    with start_service(data_dir, *flags, **environment) as service:
        service.wait_ready()
        yield service


@contextmanager
def start_service(data_dir: Path, *flags: str, **environment: str) -> Iterator[Service]:
    """A service that was just started."""
    command = (*_COMMAND, "--port", "0", "--data", str(data_dir), *flags)
    with (
        tempfile.TemporaryFile() as said,
        tempfile.TemporaryFile() as logged,
        subprocess.Popen(command, stdout=said, stderr=logged, env=_environment(data_dir, environment)) as process,
    ):
        service = Service(process, said, logged)
        try:
            yield service
        finally:
            children = service.children()
            process.kill()
            process.wait()
            for pid in children:
                with suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)


def _environment(data_dir: Path, more: dict[str, str]) -> dict[str, str]:
    """Ours, with temporary files where the test removes them."""
    return {**os.environ, "TMPDIR": str(data_dir.parent), **more}


def run_refused(data_dir: Path, *flags: str, **environment: str) -> str:
    """What a service says that refuses to start."""
    command = (*_COMMAND, "--port", "0", "--data", str(data_dir), *flags)
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=READY_S, check=False, env=_environment(data_dir, environment)
    )
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr.strip().splitlines()[-1]
