"""A trend under any sequence of requests, retries, ticks of two keepers, deaths between two calls, and time.

Invariant: whoever begins at what is kept and folds the rest of the streams finds every event that was taken in once, at
every length of panes, and bounds around the exact counts (trends_world.py); and so does a keeper after a tick.
"""

import asyncio
from contextlib import suppress
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from hybrid.embedded import EmbeddedRedis
from hybrid.trends import partition as partition_module
from hybrid.trends.config import TrendConfig
from tests.interleaving import BlockingLink
from tests.property.answers_world import MortalLink
from tests.trends_oracle import Event
from tests.trends_world import Watched, World

KEEPERS = st.integers(0, 1)
AGO_MS = st.sampled_from([0, 0, 0, 4_000, 30_000, 70_000, 7_200_000, 40 * 86_400_000, -60_000])
PLANS = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 9), AGO_MS), min_size=1, max_size=12)
SPANS_MS = st.sampled_from([1_000, 5_000, 61_000, 3_600_000, 86_400_000])
NEVER_S, AT_ONCE_S = 1e9, 0.0


class TrendMachine(RuleBasedStateMachine):
    """The rules; `url` is where the Redis is."""

    url = ""
    requests = Bundle("requests")

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.world = World(BlockingLink(self.url))
        self.keepers: list[Watched] = []

    @initialize(partitions=st.integers(1, 3), windows=st.sampled_from([("1m",), ("1h", "1m"), ("1d",)]))
    def start(self, partitions: int, windows: tuple[str, ...]) -> None:
        config = TrendConfig(capacity=16, partitions=partitions, windows=windows)
        self.runner.run(self.world.start(config))
        self.keepers = [self.world.make_keeper() for _ in range(2)]

    @rule(target=requests, plan=PLANS)
    def submit(self, plan: list[tuple[int, int, int]]) -> tuple[str, list[Event]]:
        now_ms = self.world.clock.now_ms
        events = [Event(f"item {item}", count, now_ms - ago_ms) for item, count, ago_ms in plan]
        name = f"request {self.world.naive.events}"
        self.runner.run(self.world.submit(events, name))
        return name, events

    @rule(request=requests)
    def retry(self, request: tuple[str, list[Event]]) -> None:
        name, events = request
        self.runner.run(self.world.send(events, name))

    @rule(first=PLANS, second=PLANS)
    def submit_at_once(self, first: list[tuple[int, int, int]], second: list[tuple[int, int, int]]) -> None:
        """Two requests of one turn of the loop, one of them twice."""
        now_ms = self.world.clock.now_ms
        batches = [[Event(f"item {i}", count, now_ms - ago) for i, count, ago in plan] for plan in (first, second)]
        name = f"request {self.world.naive.events}"

        async def send() -> None:
            again = self.world.make_engine()
            await asyncio.gather(
                self.world.submit(batches[0], f"{name} a"),
                self.world.send(batches[0], f"{name} a", engine=again),
                self.world.submit(batches[1]),
            )

        self.runner.run(send())

    @rule(span_ms=SPANS_MS)
    def wait(self, span_ms: int) -> None:
        self.world.clock.now_ms += span_ms

    @rule(number=KEEPERS, keep_s=st.sampled_from([NEVER_S, AT_ONCE_S]))
    def tick(self, number: int, keep_s: float) -> None:
        with patch.object(partition_module, "KEEP_S", keep_s):
            self.runner.run(self.keepers[number].keeper.tick())
        assert self.keepers[number].seen == self.world.naive.events

    @rule(number=KEEPERS, calls=st.integers(0, 12), is_last_done=st.booleans(), keep_s=st.sampled_from([0.0, 1e9]))
    def die_and_start_again(self, number: int, calls: int, is_last_done: bool, keep_s: float) -> None:
        mortal = MortalLink(self.world.link, calls, is_last_done)
        with patch.object(partition_module, "KEEP_S", keep_s), suppress(asyncio.CancelledError):
            self.runner.run(self.world.make_keeper(mortal).keeper.tick())
        self.keepers[number] = self.world.make_keeper()

    @rule(number=KEEPERS)
    def stop(self, number: int) -> None:
        """Everything is kept, and nothing stays in memory."""
        self.runner.run(self.keepers[number].keeper.close())

    @rule()
    def check(self) -> None:
        self.runner.run(self.world.check())

    def teardown(self) -> None:
        try:
            if self.keepers:
                self.runner.run(self.world.check())
                self.runner.run(self.world.engine.trends.delete("t"))
        finally:
            self.runner.run(self.world.link.close())
            self.runner.close()


def run_machine(redis: EmbeddedRedis, *, examples: int, steps: int) -> None:
    class Machine(TrendMachine):
        url = redis.url

    quietly = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )
    run_state_machine_as_test(Machine, settings=quietly)


def test_every_event_is_counted_once_whatever_happens(redis_server: EmbeddedRedis) -> None:
    run_machine(redis_server, examples=20, steps=20)


@pytest.mark.slow
def test_every_event_is_counted_once_whatever_happens_in_250_runs(redis_server: EmbeddedRedis) -> None:
    run_machine(redis_server, examples=250, steps=40)
