"""The rules of the top's protocol, each as a way to take it away: without any of them the top must go wrong."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

from hybrid import top as top_module
from hybrid.config import Board
from hybrid.link import Script
from hybrid.top import Top


@contextmanager
def without(script_name: str, rule: str, instead: str) -> Iterator[None]:
    """The protocol with a line of one of its scripts changed."""
    script: Script = getattr(top_module, script_name)
    assert rule in script.text
    with patch.object(top_module, script_name, Script(script.text.replace(rule, instead))):
        yield


@contextmanager
def without_help() -> Iterator[None]:
    async def follow_once(self: Top, board: Board, shard: int, entry: Any) -> None:
        while (await self._apply(board, shard, entry))[0] == b"need":
            pass

    with patch.object(Top, "follow", follow_once):
        yield


@contextmanager
def without_looking_into_the_log() -> Iterator[None]:
    async def believe(*_: Any) -> bool:
        return True

    with patch.object(Top, "_has_entry", believe):
        yield


ENOUGH_ROWS = "rows are chosen by a bound no tighter than the floor"
AS_FAR_AS_THE_ROWS = "a refill ends only when the top is as far as its rows"
IN_THE_LOG = "the entries that the top is made from must be in the log"

RULES: dict[str, Callable[[], AbstractContextManager[None]]] = {
    ENOUGH_ROWS: lambda: without("APPLY", "then is_short = true end", "then end"),
    AS_FAR_AS_THE_ROWS: lambda: without(
        "_MAKE_READY", "if not applied or seq_of(applied) < seq_of(ARGV[i]) then return {} end", ""
    ),
    IN_THE_LOG: without_looking_into_the_log,
    "an entry is applied only after its predecessor": lambda: without(
        "APPLY", "if applied ~= BEFORE then return {'at', applied} end", ""
    ),
    "a row that is no longer better than the floor goes out": lambda: without(
        "APPLY", "redis.call('ZREM', window.top, unpack(worse, from, math.min(from + STEP - 1, #worse)))", ""
    ),
    "the floor moves when rows are dropped": lambda: without(
        "APPLY", "redis.call('HSET', KEYS[1], 'f:' .. window.name, first[2] .. '\\n' .. first[1])", ""
    ),
    "the floor is a place, not a key": lambda: without("APPLY", "return is_less(player, other_player)", "return false"),
    "every change reaches a top that is being refilled": lambda: without(
        "APPLY", "if window.is_refilled then window.key, window.player = 'inf', '' else", "do"
    ),
    "a refill leaves alone whom an entry touched": lambda: without(
        "REFILL", "if redis.call('SISMEMBER', KEYS[3], ARGV[i]) == 0 then", "do"
    ),
    "a newer refill wins": lambda: without(
        "REFILL", "if redis.call('HGET', KEYS[1], 'x:' .. WINDOW) ~= REFILL then return 0 end", ""
    ),
    "rows beyond the floor go when a refill ends": lambda: without(
        "REFILL", "redis.call('ZREMRANGEBYRANK', KEYS[2], count_before(KEYS[2], key, player), -1)", ""
    ),
    "whoever comes next helps": without_help,
}
