"""A Redis Cluster for tests: three masters, a replica each, on loopback, gone when the test process is.

    async with RedisCluster(tmp_path) as cluster:
        cluster.url                                     redis+cluster://127.0.0.1:<port of the first node>
        node = await cluster.master_of(slot)
        with frozen(node): ...                          SIGSTOP, and SIGCONT at the end
        kill(node)                                      kill -9; then, back on its port and empty (nothing is on disk):
        await eventually(node.revive, within_s=5)

Every node is an EmbeddedRedis with a port, so it ends with its parent, and its log is in its directory. Ports are below
the range from which the system gives out its own, bus ports (10,000 above) too. It takes about two seconds whatever we
do: a fresh master waits that long before it says that the cluster is ok.
"""

import asyncio
import os
import random
import signal
import socket
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from hybrid.embedded import EmbeddedRedis
from hybrid.errors import StartFailed
from hybrid.servers import Server, find_server

SLOTS = 16384
MASTERS = 3
HOST = "127.0.0.1"

_BUS_OFFSET = 10_000
_PORTS = range(12_000, 22_000)
_MEET_AGAIN_S = 1.0


class RedisCluster:
    """Three masters with a third of the slots each, and one replica of each."""

    def __init__(
        self, base_dir: Path, *, server: Server | None = None, node_timeout_ms: int = 2000, start_s: float = 30.0
    ) -> None:
        self._base_dir = base_dir
        self._server = server
        self._node_timeout_ms = node_timeout_ms
        self._start_s = start_s
        self.nodes: list[EmbeddedRedis] = []

    @property
    def url(self) -> str:
        return f"redis+cluster://{HOST}:{self.nodes[0].port}"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        self.nodes = self._make_nodes()
        try:
            started = await asyncio.gather(*(node.start() for node in self.nodes), return_exceptions=True)
            for failure in filter(None, started):
                raise failure
            await self._form()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        await asyncio.gather(*(node.stop() for node in self.nodes))

    async def master_of(self, slot: int) -> EmbeddedRedis:
        return (await self.nodes_of(slot))[0]

    async def replica_of(self, slot: int) -> EmbeddedRedis:
        return (await self.nodes_of(slot))[1]

    async def flush(self) -> None:
        """Empty every master, and wait for the replicas to follow."""
        for node in self.nodes:
            if (await ask(node, "ROLE"))[0] == "master":
                await ask(node, "FLUSHALL")
        await eventually(self._is_empty, within_s=self._start_s)

    async def _is_empty(self) -> bool:
        return not any([await ask(node, "DBSIZE") for node in self.nodes])

    async def nodes_of(self, slot: int) -> list[EmbeddedRedis]:
        """The slot's master and then its replica, if it has one now, by the word of the first node that answers."""
        ranges = await self._ask_any("CLUSTER", "SLOTS")
        ports = next([node[1] for node in nodes] for first, last, *nodes in ranges if first <= slot <= last)
        by_port = {node.port: node for node in self.nodes}
        return [by_port[port] for port in ports]

    async def _ask_any(self, *command: str) -> Any:
        for node in self.nodes:
            try:
                return await ask(node, *command, wait_s=1.0)
            except (RedisError, OSError):
                continue
        raise StartFailed("no node of the cluster answers")

    def _make_nodes(self) -> list[EmbeddedRedis]:
        server = self._server or find_server()
        options = {
            "appendonly": "no",
            "cluster-enabled": "yes",
            "cluster-node-timeout": str(self._node_timeout_ms),
            # 7.0 waits five seconds for more replicas before it sends them anything.
            "repl-diskless-sync": "yes",
            "repl-diskless-sync-delay": "0",
            # And it lists a replica only when that has had something from its master: a ping, by default after 10 s.
            "repl-ping-replica-period": "1",
        }
        return [
            EmbeddedRedis(self._base_dir / f"{port}", server=server, port=port, refused_commands=(), options=options)
            for port in free_ports(2 * MASTERS)
        ]

    async def _form(self) -> None:
        masters, replicas = self.nodes[:MASTERS], self.nodes[MASTERS:]
        ids = [await ask(node, "CLUSTER", "MYID") for node in self.nodes]
        for number, node in enumerate(self.nodes):
            await ask(node, "CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        for number, node in enumerate(masters):
            slots = range(SLOTS * number // MASTERS, SLOTS * (number + 1) // MASTERS)
            await ask(node, "CLUSTER", "ADDSLOTS", *slots)
        await self._meet(ids)
        for node, master_id in zip(replicas, ids, strict=False):
            await ask(node, "CLUSTER", "REPLICATE", master_id)
        await eventually(self._is_ok, within_s=self._start_s)

    async def _meet(self, ids: Sequence[str]) -> None:
        """Introduce all to all: gossip would get there too, some seconds later. A handshake that failed is repeated."""
        deadline_s = time.monotonic() + self._start_s
        while time.monotonic() < deadline_s:
            for number, node in enumerate(self.nodes):
                for other in self.nodes[:number]:
                    await ask(node, "CLUSTER", "MEET", HOST, str(other.port))
            try:
                return await eventually(lambda: self._is_acquainted(ids), within_s=_MEET_AGAIN_S)
            except TimeoutError:
                continue
        raise TimeoutError(f"the nodes did not meet within {self._start_s} s")

    async def _is_acquainted(self, ids: Sequence[str]) -> bool:
        tables = [await ask(node, "CLUSTER", "NODES") for node in self.nodes]
        return all(_linked(table) == set(ids) for table in tables)

    async def _is_ok(self) -> bool:
        """Every node sees all slots served and a replica of each, and every replica has its master's data."""
        for node in self.nodes:
            if "cluster_state:ok" not in await ask(node, "CLUSTER", "INFO"):
                return False
            if [len(served) for served in await ask(node, "CLUSTER", "SLOTS")] != [4] * MASTERS:
                return False
        roles = [await ask(node, "ROLE") for node in self.nodes[MASTERS:]]
        return all(role[0] == "slave" and role[3] == "connected" for role in roles)


def _linked(table: str) -> set[str]:
    """The ids in CLUSTER NODES that are through with their handshake and connected."""
    rows = [line.split() for line in table.splitlines()]
    return {row[0] for row in rows if "handshake" not in row[2] and row[7] == "connected"}


async def ask(node: EmbeddedRedis, *command: str | int, wait_s: float = 5.0) -> Any:
    """One command on a connection of its own, straight to this node, once."""
    once = Retry(NoBackoff(), retries=0)
    path = str(node.socket_path)
    client = Redis(unix_socket_path=path, decode_responses=True, socket_timeout=wait_s, retry=once)
    async with client:
        return await client.execute_command(*command)  # type: ignore[no-untyped-call]


def kill(node: EmbeddedRedis) -> None:
    """kill -9, and nothing else."""
    os.kill(node.pid, signal.SIGKILL)


@contextmanager
def frozen(node: EmbeddedRedis) -> Iterator[None]:
    """The server takes connections and commands, and does nothing with them until the end."""
    os.kill(node.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(node.pid, signal.SIGCONT)


async def eventually(holds: Callable[[], Awaitable[bool]], *, within_s: float, every_s: float = 0.02) -> None:
    """Poll until it holds; TimeoutError when it did not in time."""
    deadline_s = time.monotonic() + within_s
    while not await holds():
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"did not come true within {within_s} s")
        await asyncio.sleep(every_s)


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Fails when what is done inside took longer."""
    start_s = time.monotonic()
    yield
    assert time.monotonic() - start_s < seconds


def free_ports(count: int) -> list[int]:
    """Ports that are free now, with their bus ports. Drawn at random, so that two test runs seldom meet."""
    ports: list[int] = []
    for port in random.SystemRandom().sample(_PORTS, len(_PORTS)):
        if _is_free(port) and _is_free(port + _BUS_OFFSET):
            ports.append(port)
        if len(ports) == count:
            return ports
    raise OSError(f"no {count} free ports between {_PORTS.start} and {_PORTS.stop}")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
