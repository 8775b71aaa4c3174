"""A Redis Cluster behind the same interface: our own table of slots over plain nodes.

Why not the library's cluster client: it sends ASKING, and WAIT, on other connections than the command they belong to.

    MOVED       the slot lives elsewhere now: note it, ask there
    ASK         this key has moved already, the slot not yet: ASKING + command in one write, there
    TRYAGAIN    half of the keys have moved: wait a little, ask again
    CLUSTERDOWN, READONLY, a node that is gone: load the table again, and ask again while nothing was sent

In all of these Redis ran nothing, so asking again is safe; what may have run (OutcomeUnknown) is left to the caller,
who has a token. Commands of one `run` must concern one slot. When a slot moves between two of them both are asked
again, so send one command, or such as may run twice.
"""

import asyncio
from collections.abc import Sequence
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
from hybrid.link import TIMEOUT_S, Command, Node, hide_password, raise_reply

SCHEME = "redis+cluster://"

_PAUSE_S = 0.02
_REDIRECTS = (MovedError, AskError, TryAgainError, ClusterDownError, MasterDownError, ReadOnlyError)

Address = tuple[str, int]


class ClusterLink:
    """All masters of a cluster, found from any one node of it."""

    def __init__(self, seeds: Sequence[Address], *, username: str | None = None, password: str | None = None) -> None:
        self._seeds = list(seeds)
        self._username = username
        self._password = password
        self._nodes: dict[Address, Node] = {}
        self._masters: dict[int, Address] = {}
        self._is_stale = False
        self._reloading = asyncio.Lock()

    async def run(self, key: str, commands: Sequence[Command], *, timeout_s: float = TIMEOUT_S) -> list[Any]:
        """The replies of whoever has the slot of `key` now."""
        slot = key_slot(key.encode())
        deadline_s = asyncio.get_running_loop().time() + timeout_s
        asked_at: Address | None = None
        while True:
            left_s = deadline_s - asyncio.get_running_loop().time()
            if left_s <= 0:
                raise RedisUnavailable(f"no node of the cluster took slot {slot} in time")
            try:
                replies = await self._ask(slot, commands, asked_at, left_s)
            except RedisUnavailable:
                await self._pause_and_reload(left_s)
                asked_at = None
                continue
            except OutcomeUnknown:
                self._is_stale = True  # whoever did not answer may have lost the slot
                raise
            redirect = next((reply for reply in replies if isinstance(reply, _REDIRECTS)), None)
            if redirect is None:
                return raise_reply(replies)
            asked_at = await self._follow(redirect, slot, left_s)

    async def masters(self) -> list[Node]:
        """One node for each master that has slots."""
        if not self._masters:
            await self._reload(TIMEOUT_S)
        return [self._node(address) for address in sorted(set(self._masters.values()))]

    async def close(self) -> None:
        for node in self._nodes.values():
            await node.close()

    async def _ask(
        self, slot: int, commands: Sequence[Command], asked_at: Address | None, timeout_s: float
    ) -> list[Any]:
        if asked_at is not None:
            with_asking = [part for command in commands for part in (("ASKING",), command)]
            return (await self._node(asked_at).exchange(with_asking, timeout_s))[1::2]
        if slot not in self._masters or self._is_stale:
            await self._reload(timeout_s)
        if slot not in self._masters:
            raise RedisUnavailable(f"no node of the cluster has slot {slot}")
        return await self._node(self._masters[slot]).exchange(commands, timeout_s)

    async def _follow(self, redirect: ResponseError, slot: int, left_s: float) -> Address | None:
        """Where to ask next, and ASKING there; None for whoever the table names."""
        if isinstance(redirect, MovedError):
            self._masters[slot] = (redirect.host, redirect.port)
        elif isinstance(redirect, AskError):
            return (redirect.host, redirect.port)
        elif isinstance(redirect, TryAgainError):
            await asyncio.sleep(min(_PAUSE_S, left_s))
        else:
            await self._pause_and_reload(left_s)
        return None

    async def _pause_and_reload(self, left_s: float) -> None:
        """The node that had the slot is gone or gave it up: in a while another one will say that it has it."""
        await asyncio.sleep(min(_PAUSE_S, left_s))
        self._is_stale = True
        await self._reload(left_s)

    async def _reload(self, timeout_s: float) -> None:
        """Load the table, once for all who want it."""
        async with self._reloading:
            if self._is_stale or not self._masters:
                await self._load(timeout_s)
                self._is_stale = False

    async def _load(self, timeout_s: float) -> None:
        """The table from the first node that answers; without an answer it stays as it is."""
        now_s = asyncio.get_running_loop().time
        deadline_s = now_s() + timeout_s
        for address in [*set(self._masters.values()), *self._seeds]:
            if (left_s := deadline_s - now_s()) <= 0:
                return
            try:
                (ranges,) = await self._node(address).exchange([("CLUSTER", "SLOTS")], min(left_s, 1.0))
            except (RedisUnavailable, OutcomeUnknown):
                continue
            if not isinstance(ranges, ResponseError) and ranges:
                self._masters = _parse_slots(ranges, address[0])
                return

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


def _parse_slots(ranges: Any, asked_host: str) -> dict[int, Address]:
    """Slot -> master, from the answer to CLUSTER SLOTS; a node without a name is the one that was asked."""
    table = {}
    for first, last, master, *_ in ranges:
        address = (master[0].decode() if master[0] else asked_host, int(master[1]))
        table.update(dict.fromkeys(range(first, last + 1), address))
    return table
