"""Rate limits: how many requests a second an API key may make, how many scores a second a player of a board may get.

GCRA in Redis, so that all workers count together. A limit of r a second takes one each 1/r seconds on average, and at
once as many as a second's worth (at least one). What is kept is one number for each who was counted lately, the time
at which all he took will be paid off:

    tt:rate           ZSET    id of an API key -> when it is paid off, microseconds
    tt:{b/s}:rate     ZSET    player -> the same

Whoever is paid off is as good as absent, so one ZREMRANGEBYSCORE forgets them all, and a key that nobody asks for
expires. Time is Redis' own.

A batch is taken whole or not at all, shard by shard: when one shard refuses, scores in others were counted already,
although nothing is written. A limit that cannot be checked refuses; nothing is waved through while Redis is away.
Not handled: callers without a key have no limit of requests; the service listens on loopback only then.
"""

import asyncio
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hybrid.config import Board
from hybrid.engine import Engine
from hybrid.errors import OutcomeUnknown, RedisUnavailable
from hybrid.events import check_players
from hybrid.link import Argument, Link, Script
from service.errors import ApiError
from service.settings import Settings

# KEYS[1] who is paid off when. ARGV: microseconds that one takes, and that may be owed; then who, how many, ...
# Returns {} when all of them were taken, else {who (from 1) has to wait longest, microseconds} and nothing was.
_TAKE = Script("""
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local each, most = tonumber(ARGV[1]), tonumber(ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now))
local paid, longest, who, wait = {}, now, 0, 0
for i = 3, #ARGV, 2 do
    local from = tonumber(redis.call('ZSCORE', KEYS[1], ARGV[i]) or now)
    paid[i] = from + ARGV[i + 1] * each
    longest = math.max(longest, paid[i])
    if paid[i] - most - now > wait then who, wait = (i - 1) / 2, paid[i] - most - now end
end
if who > 0 then return {who, math.ceil(wait)} end
for i = 3, #ARGV, 2 do redis.call('ZADD', KEYS[1], string.format('%.0f', paid[i]), ARGV[i]) end
redis.call('PEXPIRE', KEYS[1], math.ceil((longest - now) / 1000) + 1000)
return {}
""")


@dataclass(frozen=True, slots=True)
class Rate:
    """So many a second, and a second's worth of them at once."""

    per_s: float

    @property
    def burst(self) -> int:
        return max(1, math.floor(self.per_s))

    @property
    def each_us(self) -> int:
        return max(1, round(1e6 / self.per_s))

    async def take(self, link: Link, key: str, wanted: Mapping[bytes, int]) -> tuple[bytes, float] | None:
        """Take for each as many as wanted; else who has to wait longest, and how many seconds."""
        args: list[Argument] = [self.each_us, self.each_us * self.burst]
        for who, count in wanted.items():
            args += (who, count)
        try:
            reply = await _TAKE.run(link, [key], args)
        except OutcomeUnknown as error:
            raise RedisUnavailable(f"the rate limit could not be checked, nothing was done: {error}") from error
        return (list(wanted)[reply[0] - 1], reply[1] / 1e6) if reply else None


class Limits:
    """The limits of a service; a rate that is None is none."""

    def __init__(self, engine: Engine, *, per_key: Rate | None, per_player: Rate | None) -> None:
        self._link, self._schema = engine.link, engine.schema
        self._per_key, self._per_player = per_key, per_player

    async def take_request(self, key_id: str) -> None:
        """Count a request of an API key, or refuse it."""
        if self._per_key is None:
            return
        late = await self._per_key.take(self._link, f"{self._schema.prefix}:rate", {key_id.encode(): 1})
        if late is not None:
            raise _limited(f"this key may make {self._per_key.per_s:g} requests a second", late[1])

    async def take_scores(self, board: Board, players: Sequence[str]) -> None:
        """Count the scores of players, or refuse them all."""
        if self._per_player is None or not players:
            return
        counts = Counter(check_players(players))
        self._check_burst(counts)
        names, shards = list(counts), board.shard_hash.of_many(list(counts)).tolist()
        parts: dict[int, dict[bytes, int]] = {}
        for name, shard in zip(names, shards, strict=True):
            parts.setdefault(shard, {})[name] = counts[name]
        late = await asyncio.gather(*(self._take_shard(board, shard, part) for shard, part in parts.items()))
        who, wait_s = max((found for found in late if found), key=lambda found: found[1], default=(b"", 0.0))
        if who:
            told = f"player {who.decode()!r} may get {self._per_player.per_s:g} scores a second"
            raise _limited(told, wait_s)

    async def _take_shard(self, board: Board, shard: int, wanted: dict[bytes, int]) -> tuple[bytes, float] | None:
        if self._per_player is None:
            return None
        return await self._per_player.take(self._link, f"{self._schema.shard(board.tags[shard]).stem}:rate", wanted)

    def _check_burst(self, counts: Counter[bytes]) -> None:
        """More at once than ever can be taken is no matter of waiting."""
        ((who, most),) = counts.most_common(1)
        if self._per_player is not None and most > self._per_player.burst:
            raise ApiError(
                "too_large",
                f"a request has at most {self._per_player.burst} scores of one player, not {most} of {who.decode()!r}",
            )


def make_limits(engine: Engine, settings: Settings) -> Limits | None:
    """The limits that are set; None when there are none."""
    per_key, per_player = (Rate(rate) if rate else None for rate in (settings.rate_per_key, settings.rate_per_player))
    return Limits(engine, per_key=per_key, per_player=per_player) if per_key or per_player else None


def _limited(told: str, wait_s: float) -> ApiError:
    # Retry-After counts whole seconds: rounded up, or who keeps to it would come too early.
    return ApiError("rate_limited", f"{told}; try again in {wait_s:.3f} s", retry_after_s=math.ceil(wait_s))
