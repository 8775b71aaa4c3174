"""The keeper: samples what is asked for, mends tops, leaves the rest alone."""

import asyncio
import random

from hybrid.config import Board, BoardConfig
from hybrid.embedded import EmbeddedRedis
from hybrid.engine import Engine, make_link
from hybrid.events import Batch
from hybrid.keeper import Keeper, KeeperSettings
from hybrid.link import Link
from hybrid.standing import Estimate, Exact
from hybrid.tail import WANTED_MS
from tests.engines import Clock, fresh_prefix, make_engine

PLENTY = KeeperSettings(share=1e6)


async def make_board(link: Link, clock: Clock, name: str = "game", **options: object) -> tuple[Engine, Board]:
    engine = make_engine(link, clock, fresh_s=0.0)
    await engine.boards.open()
    config = {"top_n": 5, "shards": 3, "score_max": 1000, **options}
    board, _ = await engine.boards.create(name, BoardConfig(**config))  # type: ignore[arg-type]
    await submit(engine, board, 100)
    return engine, board


async def submit(engine: Engine, board: Board, players: int, seed: int = 1) -> None:
    dice = random.Random(seed)
    names = [f"p{number}" for number in range(players)]
    await engine.record.submit(board, Batch(names, [dice.randrange(1000) for _ in names]))


def test_only_what_was_asked_for_within_a_minute_and_has_changed_is_sampled(link: Link) -> None:
    async def run() -> None:
        clock = Clock()
        engine, board = await make_board(link, clock)
        keeper = Keeper(engine, PLENTY)
        assert await keeper.tick() == 0  # nobody asked
        await engine.standings.of_player(board, "p1")
        assert await keeper.tick() == 3
        assert await keeper.tick() == 0  # nothing changed
        await engine.record.submit(board, Batch(["p1"], [1000]))
        assert await keeper.tick() == 1  # one shard did
        await submit(engine, board, 100, seed=2)
        clock.now_ms += WANTED_MS + 1
        assert await keeper.tick() == 0  # too long ago
        await engine.link.close()

    asyncio.run(run())


def test_a_board_whose_players_are_all_in_the_top_is_never_sampled(link: Link) -> None:
    async def run() -> None:
        engine, board = await make_board(link, Clock(), top_n=200)
        await engine.standings.of_player(board, "p1")
        assert await Keeper(engine, PLENTY).tick() == 0
        await engine.link.close()

    asyncio.run(run())


def test_sampling_keeps_to_its_share_and_takes_the_oldest_first(link: Link) -> None:
    async def run() -> None:
        clock = Clock()
        engine, board = await make_board(link, clock)
        await engine.standings.of_player(board, "p1")
        keeper = Keeper(engine, KeeperSettings(share=1e-9))
        seen = []
        for seed in range(3):  # the first call is free, and then there is no time left for years
            await submit(engine, board, 100, seed=seed)
            seen.append(await keeper.tick())
        assert seen == [1, 0, 0]
        await engine.link.close()

    asyncio.run(run())


def test_a_top_that_ran_short_is_filled_again(link: Link) -> None:
    async def run() -> None:
        engine, board = await make_board(link, Clock())
        keeper = Keeper(engine, PLENTY)
        page = await engine.pages.page(board, limit=60)
        order = [entry.place.player.decode() for entry in page.entries]
        for name in order[:22]:
            await engine.remove_player(board, name)
        served = await engine.tail.served(board, "alltime")
        assert served.top is not None
        assert served.top.rows < 5
        await keeper.tick()
        served = await engine.tail.served(board, "alltime")
        assert served.top is not None
        assert served.top.rows >= 5
        standings = list(await engine.standings.of_players(board, order[22:32]))
        assert [isinstance(standing, Exact) for standing in standings] == [True] * 5 + [False] * 5
        assert [standing.rank for standing in standings if isinstance(standing, Exact)] == [1, 2, 3, 4, 5]
        await engine.link.close()

    asyncio.run(run())


def test_a_top_that_lost_its_state_is_made_again_and_answers_stay_exact_meanwhile(link: Link) -> None:
    async def run() -> None:
        engine, board = await make_board(link, Clock())
        keeper = Keeper(engine, PLENTY)
        before = list(await engine.standings.of_players(board, [f"p{number}" for number in range(100)]))
        state = engine.schema.board(board.id).state
        await engine.link.run(state, [("DEL", state)])
        during = list(await engine.standings.of_players(board, [f"p{number}" for number in range(100)]))
        assert during == before
        await keeper.tick()
        served = await engine.tail.served(board, "alltime")
        assert served.top is not None
        assert served.top.rows >= 5
        await engine.link.close()

    asyncio.run(run())


def test_an_entry_that_its_writer_never_brought_to_the_top_is_brought_there(link: Link) -> None:
    async def run() -> None:
        engine, board = await make_board(link, Clock())
        keeper = Keeper(engine, PLENTY)
        deserter = Engine(link, prefix=engine.schema.prefix, now_ms=engine.now_ms, random=random.Random(9))

        async def desert(*_: object) -> None:
            """As if the writer had died after writing."""

        deserter.record._follow = desert
        await deserter.record.submit(board, Batch(["p50"], [1000]))
        first = await engine.standings.of_player(board, "p50")
        assert isinstance(first, Exact)  # record and top disagree: counted
        assert first.rank == 1
        await keeper.tick()  # may be on its way
        await keeper.tick()
        top = await engine.top.leaders(
            board, "alltime", [b"p50"], await engine.record.find_keys(board, "alltime", [b"p50"])
        )
        assert top is not None
        assert top.ranks.tolist() == [0]
        await engine.link.close()

    asyncio.run(run())


def test_a_refill_whose_keeper_died_is_begun_again(link: Link) -> None:
    async def run() -> None:
        engine, board = await make_board(link, Clock())
        keeper = Keeper(engine, PLENTY)
        state = engine.schema.board(board.id).state
        await engine.standings.of_player(board, "p1")
        await engine.link.run(state, [("HSET", state, "x:alltime", "dead")])
        await keeper.tick()
        await keeper.tick()
        (running,) = await engine.link.run(state, [("HGET", state, "x:alltime")])
        assert running is None
        await engine.link.close()

    asyncio.run(run())


def test_the_lease_lets_one_keeper_work_and_passes_on_when_it_ends(redis_server: EmbeddedRedis) -> None:
    async def run() -> None:
        engine, _ = await make_board(make_link(redis_server.url), Clock())
        settings = KeeperSettings(lease_s=0.2, pause_s=0.01)
        keepers = [Keeper(engine, settings) for _ in range(2)]
        tasks = [asyncio.create_task(keeper.run()) for keeper in keepers]
        owners = [keeper._owner.encode() for keeper in keepers]
        first = await owner_of(engine, owners)
        tasks[owners.index(first)].cancel()
        assert await owner_of(engine, [owner for owner in owners if owner != first])
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await engine.link.close()

    async def owner_of(engine: Engine, owners: list[bytes]) -> bytes:
        """Whichever of these gets the lease first."""
        key = engine.schema.keeper
        async with asyncio.timeout(5):
            while True:
                (owner,) = await engine.link.run(key, [("GET", key)])
                if owner in owners:
                    return bytes(owner)
                await asyncio.sleep(0.01)

    asyncio.run(run())


def test_a_deleted_board_leaves_nothing_behind(link: Link) -> None:
    async def run() -> None:
        clock = Clock()
        engine, board = await make_board(link, clock, windows=("alltime", "daily"))
        await engine.standings.of_player(board, "p1")
        keeper = Keeper(engine, PLENTY)
        await keeper.tick()
        await engine.past.write_down(board, "alltime", is_whole=True)
        await engine.boards.delete("game")
        await keeper.tick()
        await keeper.round()
        for tag in board.tags:
            keys = engine.schema.shard(tag)
            names = [keys.meta, keys.log, keys.record("alltime"), keys.samples("alltime")]
            (left,) = await engine.link.run(keys.meta, [("EXISTS", *names)])
            assert left == 0
        shared = engine.schema.board(board.id)
        (left,) = await engine.link.run(shared.state, [("EXISTS", shared.state, shared.top("alltime"), shared.past)])
        assert left == 0
        await engine.link.close()

    asyncio.run(run())


def test_a_published_sample_is_never_replaced_by_an_older_one(link: Link) -> None:
    """Sampling and publishing are one step, so a keeper that slept cannot publish what it saw before."""

    async def run() -> None:
        clock, prefix = Clock(), fresh_prefix()
        engines = [make_engine(link, clock, prefix=prefix, fresh_s=0.0, seed=seed) for seed in range(2)]
        await engines[0].boards.open()
        board, _ = await engines[0].boards.create("game", BoardConfig(top_n=5, shards=1))
        seqs = []
        for seed in range(5):
            await submit(engines[0], board, 50, seed=seed)
            samples = await asyncio.gather(*(engine.tail.sample(board, 0, "alltime") for engine in engines))
            served = await engines[0].tail.served(board, "alltime")
            assert served.view is not None
            assert served.view.seq == max(sample.seq for sample in samples if sample is not None)
            seqs.append(served.view.seq)
        assert seqs == [50, 100, 150, 200, 250]
        standing = await engines[1].standings.of_player(board, "p1")
        assert isinstance(standing, Estimate | Exact)
        await engines[0].link.close()

    asyncio.run(run())
