"""A registry: one hash, name -> thing, and a script for every change to it. Boards and trends each have one.

A thing gets a new id each time it is made. Its keys are made first and its name last, so what can be found can be
written. Deleting goes the other way: in one step the name goes and the id is noted as deleted, then its keys go, and
whoever comes after may end what was cut short. What was cut short in the making is noted too, and swept after a while.
"""

import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, Protocol, TypeVar

import msgspec

from hybrid.errors import HybridError
from hybrid.keys import DELETED_MARK, MAKING_MARK, SCHEMA_FIELD
from hybrid.link import Argument, Link, Script

ABANDONED_MS = 600_000
_ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"
_ID_CHARS = 10

# Put a thing back changed, if it still is what was read.
_REPLACE = Script("""
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return 1
""")

# Give a thing its name, if nothing has it, and take the mark away that it is being made.
_NAME = Script("""
if redis.call('HSETNX', KEYS[1], ARGV[1], ARGV[2]) == 0 then return 0 end
redis.call('HDEL', KEYS[1], ARGV[3])
return 1
""")

# Take a thing's name away and note what is left to remove, if it still is what was read.
_DELETE = Script("""
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('HSET', KEYS[1], ARGV[3], ARGV[2])
return 1
""")


class Registered(Protocol):
    """What can be registered."""

    @property
    def name(self) -> str: ...
    @property
    def id(self) -> str: ...
    @property
    def created_ms(self) -> int: ...


Thing = TypeVar("Thing", bound=Registered)


class Registry(Generic[Thing]):
    """Things by name. `make_keys` and `remove_keys` are about their own keys, and may be run again."""

    def __init__(
        self,
        link: Link,
        key: str,
        kind: type[Thing],
        *,
        now_ms: Callable[[], int],
        not_found: Callable[[str], HybridError],
        make_keys: Callable[[Thing], Awaitable[None]],
        remove_keys: Callable[[Thing], Awaitable[None]],
    ) -> None:
        self._link, self._key, self._kind = link, key, kind
        self._now_ms, self._not_found = now_ms, not_found
        self._make_keys, self._remove_keys = make_keys, remove_keys

    async def add(self, thing: Thing) -> bool:
        """Make it under its name; False if something else was quicker, and then nothing is left of it."""
        mark = MAKING_MARK + thing.id
        await self._link.run(self._key, [("HSET", self._key, mark, _render(thing))])
        await self._make_keys(thing)
        if await _NAME.run(self._link, [self._key], [thing.name, _render(thing), mark]):
            return True
        await self._remove_keys(thing)
        await self._link.run(self._key, [("HDEL", self._key, mark)])
        return False

    async def get(self, name: str) -> Thing:
        return (await self._read(name))[1]

    async def find(self, names: Sequence[str]) -> dict[str, Thing]:
        """The things of these names, as far as there are such."""
        if not names:
            return {}
        (values,) = await self._link.run(self._key, [("HMGET", self._key, *names)])
        return {name: self._parse(value) for name, value in zip(names, values, strict=True) if value is not None}

    async def list(self, prefix: str = "", *, limit: int = 100, after: str = "") -> list[Thing]:
        """Things by name: at most `limit` that begin with the prefix and come after a name, for pages."""
        (fields,) = await self._link.run(self._key, [("HKEYS", self._key)])
        names = sorted(field.decode() for field in fields if not field.startswith(DELETED_MARK.encode()))
        page = [name for name in names if name.startswith(prefix) and name > after][:limit]
        return list((await self.find(page)).values())

    async def change(self, name: str, change: Callable[[Thing], Thing]) -> Thing:
        """Put it back changed."""
        while True:
            raw, thing = await self._read(name)
            changed = change(thing)
            args: list[Argument] = [name, raw, _render(changed)]
            if await _REPLACE.run(self._link, [self._key], args):
                return changed

    async def delete(self, name: str) -> Thing:
        """Take its name away, at once for everybody; `sweep` removes its keys."""
        while True:
            raw, thing = await self._read(name)
            args: list[Argument] = [name, raw, DELETED_MARK + thing.id]
            if await _DELETE.run(self._link, [self._key], args):
                return thing

    async def sweep(self) -> int:
        """Remove the keys of what was deleted; returns how many things that were."""
        (fields,) = await self._link.run(self._key, [("HGETALL", self._key)])
        marked = {name: self._parse(fields[name]) for name in fields if name.startswith(b"!") and name != SCHEMA_FIELD}
        # What is being made is left alone, unless that was cut short long ago.
        long_ago_ms = self._now_ms() - ABANDONED_MS
        deleted = [n for n, thing in marked.items() if not n.startswith(b"!+") or thing.created_ms < long_ago_ms]
        for name in deleted:
            await self._remove_keys(marked[name])
            await self._link.run(self._key, [("HDEL", self._key, name)])
        return len(deleted)

    async def _read(self, name: str) -> tuple[bytes, Thing]:
        """The thing, and the very bytes that say so: those a change must still find."""
        (value,) = await self._link.run(self._key, [("HGET", self._key, name)])
        if value is None:
            raise self._not_found(name)
        return value, self._parse(value)

    def _parse(self, value: bytes) -> Thing:
        return msgspec.json.decode(value, type=self._kind)


def make_id(random: random.Random) -> str:
    return "".join(random.choices(_ALPHABET, k=_ID_CHARS))


def _render(thing: Registered) -> bytes:
    return msgspec.json.encode(thing)
