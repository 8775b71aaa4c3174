"""Every key in Redis is built here; this is the schema.

    tt:boards             HASH    board name -> the board, as JSON
                                  "!schema"  -> version of this schema
                                  "!<id>"    -> a deleted board whose keys are still to be removed
                                  "!+<id>"   -> a board that is being made
    tt:{b/s}:meta         HASH    id    the board's; a script that finds another one, or none, refuses
                                  seq   number of events logged by this shard
                                  last  id of the last log entry
                                  v:<window> -> until when it is kept (ms), "" for ever; one for each that exists
    tt:{b/s}:rec:<window> ZSET    player -> order key                    expires as a safety net only
    tt:{b/s}:log          STREAM  accepted events and what they changed, ids <seq>-<nonce> (log.py)
    tt:{b/s}:day:<d>      SET     tokens of day d since 1970, kept over the day after
    tt:{b/s}:min:<m>      SET     nonces of the groups written in minute m, for our own retries
    tt:{b/s}:cdf:<window> STRING  samples of the record at exact ranks, with time and log entry (lua/sample.lua)
    tt:{b}:state          HASH    a:<s> the last log entry of shard s that the tops include; f:<window> the floor, key
                                  and player with a line feed between; w:<window> one that has a top; x:<window> a
                                  running refill; r a running reset
    tt:{b}:top:<window>   ZSET    player -> order key, the best of all shards (top.py)
    tt:{b}:touched:<w>    SET     players whom a log entry touched since the refill of window w began
    tt:{b}:past           HASH    window -> its leaders and digest when it was over, kept for ever (past.py)
    tt:wanted             ZSET    "<board id> <board> <window>" -> when it was last asked for, ms
    tt:watched            ZSET    "<trend id> <window> top|all" -> the same for trends
    tt:keeper             STRING  who keeps house (keeper.py)
    tt:trends             HASH    as tt:boards, for trends
    tt:{t/p}:meta         HASH    id  the trend's; seq  rows that came in; events  what they sum to (own streams only)
    tt:{t/p}:in           STREAM  rows of partition p of trend t that are yet to be folded, ids <seq>-<nonce>
    tt:{t/p}:day:<d>, :min:<m>    as those of a shard
    tt:{t/p}:pos          HASH    at    the last entry that the panes include; kept  which panes, and what they sum to
    tt:{t/p}:pane:<l>:<n> STRING  pane number n of those that are l ms long (trends/pane.py)
    tt:{t}:top:<w>        STRING  window w as the keeper merged it: its heaviest items (trends/publishing.py)
    tt:{t}:all:<w>        STRING  the same for any item
    tt:{t}:hidden         SET     items that are kept off the board
    tt:rate, tt:{b/s}:rate   ZSET    API key, player -> when he may go on, where rates are limited (service/limits.py)

`tt` is a setting. b is the board's id and s the shard, with a suffix that spreads the shards over a cluster's slots.
The braces make all keys of one (board, shard) one slot, so that one script may write them all. Names of boards and
players are never part of a key: they are fields and members, which take any bytes.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from redis.crc import key_slot

from hybrid.errors import InvalidField

SCHEMA_VERSION = 1
SCHEMA_FIELD = b"!schema"
DELETED_MARK = "!"
MAKING_MARK = "!+"
SLOTS = 16_384

_PREFIX = re.compile(r"[A-Za-z0-9_-]{1,32}")


@dataclass(frozen=True, slots=True)
class Keys:
    """All keys under one prefix."""

    prefix: str = "tt"

    def __post_init__(self) -> None:
        if not _PREFIX.fullmatch(self.prefix):
            raise InvalidField("prefix", f"a key prefix is 1 to 32 of A-Z a-z 0-9 _ -, not {self.prefix!r}")

    @property
    def boards(self) -> str:
        return f"{self.prefix}:boards"

    @property
    def wanted(self) -> str:
        return f"{self.prefix}:wanted"

    @property
    def trends(self) -> str:
        return f"{self.prefix}:trends"

    @property
    def watched(self) -> str:
        return f"{self.prefix}:watched"

    @property
    def keeper(self) -> str:
        return f"{self.prefix}:keeper"

    def shard(self, tag: str) -> "ShardKeys":
        return ShardKeys(f"{self.prefix}:{{{tag}}}")

    def board(self, board_id: str) -> "BoardKeys":
        return BoardKeys(f"{self.prefix}:{{{board_id}}}")

    def partition(self, tag: str) -> "PartitionKeys":
        return PartitionKeys(f"{self.prefix}:{{{tag}}}")

    def trend(self, trend_id: str) -> "TrendKeys":
        return TrendKeys(f"{self.prefix}:{{{trend_id}}}")


@dataclass(frozen=True, slots=True)
class ShardKeys:
    """The keys of one (board, shard)."""

    stem: str

    @property
    def meta(self) -> str:
        return f"{self.stem}:meta"

    @property
    def log(self) -> str:
        return f"{self.stem}:log"

    def record(self, window: str) -> str:
        return f"{self.stem}:rec:{window}"

    def samples(self, window: str) -> str:
        return f"{self.stem}:cdf:{window}"

    def day(self, day: int) -> str:
        return f"{self.stem}:day:{day}"

    def minute(self, minute: int) -> str:
        return f"{self.stem}:min:{minute}"


@dataclass(frozen=True, slots=True)
class BoardKeys:
    """The keys of a board that belong to no shard."""

    stem: str

    @property
    def state(self) -> str:
        return f"{self.stem}:state"

    @property
    def past(self) -> str:
        return f"{self.stem}:past"

    def top(self, window: str) -> str:
        return f"{self.stem}:top:{window}"

    def touched(self, window: str) -> str:
        return f"{self.stem}:touched:{window}"


@dataclass(frozen=True, slots=True)
class PartitionKeys:
    """The keys of one (trend, partition)."""

    stem: str

    @property
    def meta(self) -> str:
        return f"{self.stem}:meta"

    @property
    def stream(self) -> str:
        return f"{self.stem}:in"

    @property
    def position(self) -> str:
        return f"{self.stem}:pos"

    def pane(self, pane_ms: int, number: int) -> str:
        return f"{self.stem}:pane:{pane_ms}:{number}"

    def day(self, day: int) -> str:
        return f"{self.stem}:day:{day}"

    def minute(self, minute: int) -> str:
        return f"{self.stem}:min:{minute}"


@dataclass(frozen=True, slots=True)
class TrendKeys:
    """The keys of a trend that belong to no partition."""

    stem: str

    @property
    def hidden(self) -> str:
        return f"{self.stem}:hidden"

    def top(self, window: str) -> str:
        return f"{self.stem}:top:{window}"

    def all(self, window: str) -> str:
        return f"{self.stem}:all:{window}"


def make_tags(board_id: str, shards: int) -> tuple[str, ...]:
    """One hash tag a shard, chosen so that the shards' slots spread evenly over all slots."""
    return tuple(next(_tags_in_part(board_id, shard, shards)) for shard in range(shards))


def _tags_in_part(board_id: str, shard: int, shards: int) -> Iterator[str]:
    """Tags of this shard whose slot lies in the shard's own part of the slots."""
    suffix = 0
    while True:
        tag = f"{board_id}/{shard}.{suffix}"
        if key_slot(f"{{{tag}}}".encode()) * shards // SLOTS == shard:
            yield tag
        suffix += 1
