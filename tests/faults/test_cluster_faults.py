"""A cluster whose nodes are silent, slow, or of different minds: nodes that say what a test wants, on real sockets."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import hiredis
import pytest
from redis.crc import key_slot

from hybrid.cluster import ClusterLink
from hybrid.errors import OutcomeUnknown, RedisUnavailable
from tests.redis_cluster import HOST, at_most

SLOT = key_slot(b"k")


@dataclass
class FakeNode:
    """Answers SET with OK and questions for the table with what it holds to be true; frozen, it only takes."""

    master: "FakeNode | None" = None  # of all slots, and since this epoch; None for itself
    epoch: int = 1
    hides_hosts: bool = False
    is_plain: bool = False
    is_frozen: bool = False
    answer: bytes = b"+OK\r\n"
    sets: int = 0
    port: int = 0
    _thawed: asyncio.Event = field(default_factory=asyncio.Event)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        parser = hiredis.Reader()
        while data := await reader.read(65536):
            parser.feed(data)
            while (command := parser.gets()) is not False:
                self.sets += command[0] == b"SET"
                if self.is_frozen:
                    await self._thawed.wait()
                writer.write(self._reply(command))
        writer.close()

    def thaw(self) -> None:
        self.is_frozen = False
        self._thawed.set()

    def _reply(self, command: list[bytes]) -> bytes:
        master = self.master or self
        if self.is_plain and command[0] == b"CLUSTER":
            return b"-ERR This instance has cluster support disabled\r\n"
        if command[:2] == [b"CLUSTER", b"SLOTS"]:
            host = b"_\r\n" if self.hides_hosts else b"+%b\r\n" % HOST.encode()
            return b"*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n%b:%d\r\n+id%d\r\n" % (host, master.port, master.port)
        if command[:2] == [b"CLUSTER", b"NODES"]:
            line = b"id%d :0@0 master - 0 0 %d connected 0-16383\n" % (master.port, self.epoch)
            return b"$%d\r\n%b\r\n" % (len(line), line)
        return self.answer if command[0] == b"SET" else b"+OK\r\n"


@asynccontextmanager
async def serving(*nodes: FakeNode) -> AsyncIterator[None]:
    servers = [await asyncio.start_server(node.serve, HOST, 0) for node in nodes]
    for node, server in zip(nodes, servers, strict=True):
        node.port = server.sockets[0].getsockname()[1]
    try:
        yield
    finally:
        for node, server in zip(nodes, servers, strict=True):
            node.thaw()
            server.close()


@asynccontextmanager
async def linked(*seeds: FakeNode) -> AsyncIterator[ClusterLink]:
    link = ClusterLink([(HOST, node.port) for node in seeds])
    try:
        yield link
    finally:
        await link.close()


async def set_key(link: ClusterLink, *, timeout_s: float = 2.0) -> Any:
    return await link.run("k", [("SET", "k", 1)], timeout_s=timeout_s)


@pytest.mark.parametrize("word", [b"MOVED", b"ASK"])
def test_a_redirect_without_a_host_means_the_host_that_was_asked(word: bytes) -> None:
    async def check() -> None:
        new, old = FakeNode(), FakeNode()
        async with serving(new, old), linked(old) as link:
            old.answer = b"-%b %d :%d\r\n" % (word, SLOT, new.port)
            assert await set_key(link) == [b"OK"]
            assert (old.sets, new.sets) == (1, 1)

    asyncio.run(check())


def test_a_table_without_hosts_means_the_host_that_was_asked() -> None:
    async def check() -> None:
        master = FakeNode()
        seed = FakeNode(master, hides_hosts=True)
        async with serving(master, seed), linked(seed) as link:
            assert await set_key(link) == [b"OK"]
            assert (seed.sets, master.sets) == (0, 1)

    asyncio.run(check())


@pytest.mark.parametrize("is_turned", [False, True])
def test_where_nodes_differ_the_newer_epoch_is_right(is_turned: bool) -> None:
    async def check() -> None:
        old, new = FakeNode(epoch=9), FakeNode(epoch=10)  # as numbers, not as text
        seeds = (new, old) if is_turned else (old, new)
        async with serving(old, new), linked(*seeds) as link:
            assert await set_key(link) == [b"OK"]
            assert (old.sets, new.sets) == (0, 1)

    asyncio.run(check())


def test_a_frozen_master_gets_one_write_and_its_successor_the_next() -> None:
    async def check() -> None:
        master, successor = FakeNode(), FakeNode()
        other = FakeNode(master)
        async with serving(master, successor, other), linked(other, master) as link:
            assert await set_key(link) == [b"OK"]
            master.is_frozen = True
            with pytest.raises(OutcomeUnknown):
                await set_key(link, timeout_s=0.1)
            other.master, other.epoch = successor, 2
            with at_most(0.2):  # and nobody waits for the frozen one
                assert await set_key(link) == [b"OK"]
            assert (master.sets, successor.sets) == (2, 1)

    asyncio.run(check())


def test_nothing_is_sent_to_a_frozen_master_that_nobody_has_replaced_until_it_answers() -> None:
    async def check() -> None:
        master = FakeNode()
        async with serving(master, other := FakeNode(master)), linked(other) as link:
            assert await set_key(link) == [b"OK"]
            master.is_frozen = True
            with pytest.raises(OutcomeUnknown):
                await set_key(link, timeout_s=0.1)
            with at_most(0.8), pytest.raises(RedisUnavailable, match=f"{HOST}:{master.port}: Redis did not answer"):
                await set_key(link, timeout_s=0.5)
            assert master.sets == 2
            waiting = asyncio.create_task(set_key(link))
            asyncio.get_running_loop().call_later(0.1, master.thaw)
            with at_most(0.3):
                assert await waiting == [b"OK"]

    asyncio.run(check())


def test_a_caller_in_a_hurry_is_not_held_up_by_a_load() -> None:
    async def check() -> None:
        async with serving(silent := FakeNode(is_frozen=True)), linked(silent) as link:
            patient = asyncio.create_task(set_key(link, timeout_s=0.6))
            with at_most(0.2), pytest.raises(RedisUnavailable):
                await set_key(link, timeout_s=0.05)
            with pytest.raises(RedisUnavailable):
                await patient
            assert silent.sets == 0

    asyncio.run(check())


def test_a_silent_seed_does_not_keep_a_cluster_from_being_found() -> None:
    async def check() -> None:
        silent, master = FakeNode(is_frozen=True), FakeNode()
        async with serving(silent, master), linked(silent, master) as link:
            with at_most(0.8):
                assert await set_key(link) == [b"OK"]

    asyncio.run(check())


def test_a_server_that_is_no_cluster_says_so() -> None:
    async def check() -> None:
        async with serving(plain := FakeNode(is_plain=True)), linked(plain) as link:
            with pytest.raises(RedisUnavailable, match="cluster support disabled"):
                await set_key(link, timeout_s=0.1)

    asyncio.run(check())
