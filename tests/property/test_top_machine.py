"""The top under any interleaving, with engines that die, failovers that lose entries, and logs that are trimmed.

Then rules of the protocol are taken away one by one, and the same runs must go wrong: a rule that nothing needs would
be one too many. Races that are too narrow to come up by chance are played in test_top_races.py.
"""

import asyncio
import logging

import pytest

from hybrid.embedded import EmbeddedRedis
from hybrid.errors import RedisUnavailable
from tests.property.top_rules import RULES
from tests.property.top_world import DEATHS, SHARD_FAILOVERS, TOP_FAILOVERS, TRIMS, Broken, play

EVENTS = (DEATHS, SHARD_FAILOVERS, TOP_FAILOVERS, TRIMS)

log = logging.getLogger(__name__)


def test_the_top_is_right_under_any_interleaving(redis_server: EmbeddedRedis) -> None:
    runs = asyncio.run(play(redis_server.url, range(100)))
    assert min(runs[event] for event in EVENTS) >= 10, runs


@pytest.mark.slow
def test_the_top_is_right_in_ten_thousand_runs(redis_server: EmbeddedRedis) -> None:
    runs = asyncio.run(play(redis_server.url, range(100_000, 110_000)))
    log.info("runs with %s", ", ".join(f"{event}: {runs[event]}" for event in EVENTS))
    assert min(runs[event] for event in EVENTS) >= 1000, runs


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
def test_without_this_rule_the_top_goes_wrong(redis_server: EmbeddedRedis, rule: str) -> None:
    # Unavailable: a writer that waits for ever for an entry which is gone keeps all others from writing.
    with RULES[rule](), pytest.raises((Broken, RedisUnavailable)):
        asyncio.run(play(redis_server.url, range(200_000, 201_000)))
