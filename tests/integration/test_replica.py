"""The replica of a board in numpy: it samples as the script in Redis does, to the last bound."""

import asyncio

import numpy as np
import pytest

from experiments.study.board_spec import make_config
from experiments.study.replica import Replica
from experiments.study.stands import names_of, open_stand
from experiments.study.workloads import SHAPES, Shape
from hybrid.windows import ALLTIME

PLAYERS = 20_000


@pytest.mark.parametrize("shape", SHAPES[:4], ids=lambda shape: shape.name)
def test_the_replica_knows_exactly_what_the_board_knows(shape: Shape) -> None:
    async def run() -> None:
        scores = shape.make(np.random.default_rng(4), PLAYERS)
        async with open_stand(seed=4) as stand:
            board = await stand.fill("game", make_config(scores, shards=3, top_n=500), scores)
            await stand.settle(board)
            engine, names = stand.engine, [name.encode() for name in names_of(range(PLAYERS))]
            found = []
            for _ in range(2):  # the second time all scores that many share are known
                found = [await engine.tail.sample(board, shard, ALLTIME) for shard in range(3)]
            keys = await engine.record.find_keys(board, ALLTIME, names)
            floor = engine.top.known_floor(board, ALLTIME).key
        replica = Replica(board.key, keys, board.shard_hash.of_many(names), 3, floor)
        for real, ours in zip(found, replica.samples(), strict=True):
            assert real is not None
            assert real.players == ours.players
            assert real.ranks.tolist() == ours.ranks.tolist()
            assert real.keys.tolist() == ours.keys.tolist()
            assert real.bounds.tolist() == ours.bounds.tolist()
            assert real.counts.tolist() == ours.counts.tolist()

    asyncio.run(run())
