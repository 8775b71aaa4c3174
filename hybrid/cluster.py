"""A Redis Cluster behind the same interface: our own table of slots over plain nodes.

Why not the library's cluster client: it sends ASKING, and WAIT, on other connections than the command they belong to.

    MOVED       the slot lives elsewhere now: note it, ask there
    ASK         this key has moved already, the slot not yet: ASKING + command in one write, there
    TRYAGAIN    half of the keys have moved: wait a little, ask again
    CLUSTERDOWN, READONLY, a node that cannot be reached: it is in doubt, ask again while nothing was sent

In all of these Redis ran nothing, so asking again is safe; what may have run (OutcomeUnknown) is left to the caller,
who has a token. Commands of one `run` must concern one slot. When a slot moves between two of them both are asked
again, so send one command, or such as may run twice.

A node that gave no answer is in doubt until it gives one, and meanwhile nobody waits for it: for its slots the table
is loaded again and again, by asking all nodes at once what they hold to be true. Where they differ the newer epoch is
right, as it is among themselves, so neither a node that slept nor one that has not heard yet leads us back:

    7001: slots 0-5460 have been 7000's since epoch 1       a moment after 7000 froze and 7003 took its place
    7002: slots 0-5460 have been 7003's since epoch 7       -> 7003

Not made for hundreds of masters: a load asks all of them.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import unquote

from redis.crc import key_slot
from redis.exceptions import (
    AskError,
    ClusterDownError,
    MasterDownError,
    MovedError,
    ReadOnlyError,
    ResponseError,
    TryAgainError,
)

from hybrid.errors import InvalidField, OutcomeUnknown, RedisUnavailable
from hybrid.link import PAUSE_S, TIMEOUT_S, Command, Node, hide_password, raise_reply

SCHEME = "redis+cluster://"

_ANSWER_S = 0.25  # how long a load waits for a node to say who has which slots
_QUESTION_S = 1.0  # and when the question is given up, to be put again on a fresh connection
_TABLE: tuple[Command, ...] = (("CLUSTER", "SLOTS"), ("CLUSTER", "NODES"))
_REDIRECTS = (MovedError, AskError, TryAgainError, ClusterDownError, MasterDownError, ReadOnlyError)

Address = tuple[str, int]
Claim = tuple[int, int, int, Address]  # since which epoch, the first and the last slot, whose they are


class ClusterLink:
    """All masters of a cluster, found from any one node of it."""

    def __init__(self, seeds: Sequence[Address], *, username: str | None = None, password: str | None = None) -> None:
        self._seeds = list(seeds)
        self._username = username
        self._password = password
        self._nodes: dict[Address, Node] = {}
        self._masters: dict[int, Address] = {}
        self._doubts: dict[Address, str] = {}
        self._questions: dict[Address, asyncio.Task[set[Claim]]] = {}
        self._loading: asyncio.Task[None] | None = None

    async def run(self, key: str, commands: Sequence[Command], *, timeout_s: float = TIMEOUT_S) -> list[Any]:
        """The replies of whoever has the slot of `key` now."""
        slot = key_slot(key.encode())
        now_s = asyncio.get_running_loop().time
        deadline_s = now_s() + timeout_s
        asking: Address | None = None
        while (left_s := deadline_s - now_s()) > 0:
            address = asking or self._master_of(slot)
            if address is None:
                await self._reload(left_s)
                if self._master_of(slot) is None:
                    await asyncio.sleep(min(PAUSE_S, left_s))
                continue
            try:
                replies = await self._ask(address, commands, left_s, is_asking=asking is not None)
            except RedisUnavailable:
                asking = None
                await asyncio.sleep(min(PAUSE_S, left_s))
                continue
            redirect = next((reply for reply in replies if isinstance(reply, _REDIRECTS)), None)
            if redirect is None:
                return raise_reply(replies)
            asking = await self._follow(redirect, slot, address)
        doubts = "".join(f"; {host}:{port}: {why}" for (host, port), why in self._doubts.items())
        raise RedisUnavailable(f"no node of the cluster took slot {slot} in time{doubts}")

    async def masters(self) -> list[Node]:
        """One node for each master that has slots."""
        if not self._masters:
            await self._reload(TIMEOUT_S)
        return [self._node(address) for address in sorted(set(self._masters.values()))]

    async def close(self) -> None:
        asked = [*self._questions.values(), *([self._loading] if self._loading else [])]
        for task in asked:
            task.cancel()
        await asyncio.gather(*asked, return_exceptions=True)
        for node in self._nodes.values():
            await node.close()

    def _master_of(self, slot: int) -> Address | None:
        """Whom to ask; None while nobody is named, or one who is in doubt."""
        address = self._masters.get(slot)
        return None if address in self._doubts else address

    async def _ask(
        self, address: Address, commands: Sequence[Command], timeout_s: float, *, is_asking: bool = False
    ) -> list[Any]:
        """The node's replies, error replies among them. Any answer ends a doubt, and none begins one."""
        sent = [part for command in commands for part in (("ASKING",), command)] if is_asking else commands
        try:
            replies = await self._node(address).exchange(sent, timeout_s)
        except (RedisUnavailable, OutcomeUnknown) as error:
            self._doubts[address] = str(error)
            raise
        self._doubts.pop(address, None)
        return replies[1::2] if is_asking else replies

    async def _follow(self, redirect: ResponseError, slot: int, asked: Address) -> Address | None:
        """Where to ask next, and ASKING there; None for whoever the table names."""
        if isinstance(redirect, AskError):  # MOVED is one too; without a host it means the one that was asked
            there = (redirect.host or asked[0], redirect.port)
            if not isinstance(redirect, MovedError):
                return there
            self._masters[slot] = there
            return None
        if not isinstance(redirect, TryAgainError):
            self._doubts[asked] = str(redirect)
        await asyncio.sleep(PAUSE_S)
        return None

    async def _reload(self, timeout_s: float) -> None:
        """Load the table, once for all who want it, and no longer than this one can wait."""
        if self._loading is None or self._loading.done():
            self._loading = asyncio.create_task(self._load())
        loading = self._loading
        await asyncio.wait({loading}, timeout=timeout_s)
        if loading.done() and not loading.cancelled():
            loading.result()

    async def _load(self) -> None:
        """Ask every node, and wait for those that are not in doubt; the others may answer in a later load."""
        known = {*self._masters.values(), *self._seeds}
        for address in known - self._questions.keys():
            self._questions[address] = asyncio.create_task(self._ask_table(address))
        awaited = known - self._doubts.keys() or known
        await asyncio.wait([self._questions[address] for address in awaited], timeout=_ANSWER_S)
        claims: set[Claim] = set()
        for address, question in list(self._questions.items()):
            if question.done():
                claims |= self._questions.pop(address).result()
            else:
                self._doubts.setdefault(address, "Redis did not answer in time")
        if claims:
            self._masters = _draw_table(claims)

    async def _ask_table(self, address: Address) -> set[Claim]:
        """What one node holds to be true; nothing when it does not say."""
        try:
            ranges, nodes = raise_reply(await self._ask(address, _TABLE, _QUESTION_S))
        except (RedisUnavailable, OutcomeUnknown, ResponseError) as error:
            self._doubts[address] = str(error)
            return set()
        return _parse_claims(ranges, nodes, address[0])

    def _node(self, address: Address) -> Node:
        if address not in self._nodes:
            options = {"host": address[0], "port": address[1], "username": self._username, "password": self._password}
            self._nodes[address] = Node(options)
        return self._nodes[address]


def parse_cluster_url(url: str) -> ClusterLink:
    """redis+cluster://host:port,host:port"""
    rest = url.removeprefix(SCHEME).rstrip("/")
    credentials, _, hosts = rest.rpartition("@")
    username, _, password = credentials.rpartition(":")
    try:
        seeds = [_parse_address(host) for host in hosts.split(",")]
    except ValueError:
        raise InvalidField(
            "redis", f"a cluster's address is {SCHEME}host:port,host:port, not {hide_password(url)!r}"
        ) from None
    return ClusterLink(seeds, username=unquote(username) or None, password=unquote(password) or None)


def _parse_address(text: str) -> Address:
    host, colon, port = text.rpartition(":")
    if not colon:
        raise ValueError(text)
    return host.strip("[]"), int(port)


def _parse_claims(ranges: Any, nodes: bytes, asked_host: str) -> set[Claim]:
    """Who has which slots, from CLUSTER SLOTS, and since when, from CLUSTER NODES; no host means the asked one."""
    rows = [line.split() for line in nodes.splitlines()]
    epochs = {row[0]: int(row[6]) for row in rows}
    return {
        (epochs.get(node_id, 0), first, last, ((host or b"").decode() or asked_host, port))
        for first, last, (host, port, node_id, *_), *_ in ranges
    }


def _draw_table(claims: Iterable[Claim]) -> dict[int, Address]:
    """Slot -> master: newer claims are drawn over older ones."""
    table: dict[int, Address] = {}
    for _, first, last, address in sorted(claims):
        table.update(dict.fromkeys(range(first, last + 1), address))
    return table
