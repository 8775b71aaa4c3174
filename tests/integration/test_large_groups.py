"""Large groups of `best` are read before they are written; nobody can tell, whatever moves in between."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from hybrid.config import Board, BoardConfig
from hybrid.engine import Engine
from hybrid.events import Batch
from hybrid.lanes import READ_FIRST
from hybrid.link import TIMEOUT_S, Command, Link
from hybrid.log import LogEntry, parse_entry
from hybrid.scripts import WRITE
from tests.engines import fresh_prefix, make_engine

MANY = 2 * READ_FIRST
NAMES = [f'p{n} "\\"/ é🂡' for n in range(MANY)]  # all that JSON has to escape, and more than ASCII


@dataclass
class InterruptedLink:
    """Lets somebody else write before the first script that writes."""

    link: Link
    rival: Engine
    board: Board
    batch: Batch | None = None
    writes: int = 0

    async def run(self, key: str, commands: Sequence[Command], *, timeout_s: float = TIMEOUT_S) -> list[Any]:
        if {WRITE.sha, WRITE.text}.intersection(commands[0]):
            self.writes += 1
            batch, self.batch = self.batch, None
            if batch:
                await self.rival.record.submit(self.board, batch)
        return await self.link.run(key, commands, timeout_s=timeout_s)

    async def close(self) -> None:
        await self.link.close()


async def read_log(engine: Engine, board: Board) -> list[LogEntry]:
    log = engine.record._schema.shard(board.tags[0]).log
    (entries,) = await engine.link.run(log, [("XRANGE", log, "-", "+")])
    return [parse_entry(entry) for entry in entries]


def test_a_large_group_does_what_its_events_do_one_by_one(link: Link) -> None:
    async def scenario() -> None:
        dice = random.Random(3)
        async with make_engine(link) as engine:
            config = BoardConfig(shards=1, windows=("alltime", "daily"))
            large, small = [(await engine.boards.create(name, config))[0] for name in ("large", "small")]
            for turn in range(3):
                players = dice.sample(NAMES, MANY - 9) + dice.choices(NAMES, k=20)
                batch = Batch(players, [dice.randrange(9) for _ in players], ids=[f"{turn}"] * len(players))
                outcomes = list(await engine.record.submit(large, batch))
                for number, player in enumerate(players):
                    one = Batch([player], [batch.scores[number]], ids=[f"{turn}"])
                    (alone,) = await engine.record.submit(small, one)
                    assert outcomes[number] == alone or alone.status.name == outcomes[number].status.name == "DUPLICATE"
            assert [entry.events.kind for entry in await read_log(engine, large)] == ["set"] * 3
            for window in ("alltime", "daily:2037-11-17"):
                found = [await engine.record.lookup_many(board, window, NAMES) for board in (large, small)]
                assert found[0] == found[1]

    asyncio.run(scenario())


@pytest.mark.parametrize(("player", "writes"), [(NAMES[7], 2), ("a stranger", 1)], ids=["moved", "another moved"])
def test_what_moves_between_reading_and_writing_is_not_lost(link: Link, player: str, writes: int) -> None:
    async def scenario() -> None:
        prefix = fresh_prefix()
        async with make_engine(link, prefix=prefix, seed=1) as rival:
            board, _ = await rival.boards.create("b", BoardConfig(shards=1))
            interrupted = InterruptedLink(link, rival, board, Batch([player], [50]))
            engine = make_engine(interrupted, prefix=prefix)
            scores = [n % 100 for n in range(MANY)]
            outcomes = await engine.record.submit(board, Batch(NAMES, scores))
            assert interrupted.writes == writes
            before = [50 if name == player else None for name in NAMES]
            assert [outcome.previous for outcome in outcomes] == before
            assert [outcome.score for outcome in outcomes] == [
                max(s, b or 0) for s, b in zip(scores, before, strict=True)
            ]
            logged = [change for entry in await read_log(rival, board) for change in entry.rows["alltime"].changes()]
            stored = await rival.record.lookup_many(board, "alltime", [*NAMES, player])
            last = {change.player: change.new for change in logged}
            assert stored == [last[name.encode()] for name in [*NAMES, player]]

    asyncio.run(scenario())
