"""Standings over HTTP: one a request beside a bare handler and a naive one, many a request, and with two workers.

All take turns on one Redis: in each round another one begins. Under writes, the paced writer writes to our board
whoever is being measured.
"""

from collections.abc import Sequence

from experiments.bench.answers_crowds import Crowd
from experiments.bench.service_peer import BARE, NAIVE, PLAIN, fill_plain
from experiments.bench.service_processes import peering, serving, writing_apart
from experiments.bench.service_results import Round
from experiments.bench.service_stages import Aim, Stage, shoot
from experiments.bench.service_wrk import Names, save_names

OURS = "toptail"
TWO = "toptail, two workers"
BATCHED = "toptail, a batch a request"

_BOARD = "bench"


async def measure_standings(stage: Stage) -> list[Round]:
    sizes, server = stage.sizes, stage.server
    crowd = await stage.make_crowd(_BOARD, sizes.players, sizes.top_n)
    await fill_plain(server, crowd)
    names = save_names(stage.folder, _BOARD, crowd.players)
    async with (
        serving(server) as url,
        peering(BARE, server, PLAIN) as bare_url,
        peering(NAIVE, server, PLAIN) as naive_url,
    ):
        singles = [_aim_one(stage, names, *aim) for aim in ((OURS, url), (BARE, bare_url), (NAIVE, naive_url))]
        found = await _race(stage, crowd, [*singles, _aim_batch(stage, names, url)])
    async with serving(server, workers=2) as url:
        found += await _race(stage, crowd, [_aim_one(stage, names, TWO, url)])
    await server.ask("UNLINK", PLAIN)
    await stage.remove_board(_BOARD)
    return found


async def _race(stage: Stage, crowd: Crowd, aims: Sequence[Aim]) -> list[Round]:
    """So many rounds, each at rest and under writes."""
    found = []
    await crowd.settle()
    for turn in stage.track(range(stage.sizes.rounds), f"service: standings, {aims[0].who}"):
        first = turn % len(aims)
        for is_written in (False, True):
            async with writing_apart(stage.server, crowd, is_written=is_written) as writer:
                for aim in (*aims[first:], *aims[:first]):
                    found.append(await shoot(aim, stage.sizes.round_s, writer))
    return found


def _aim_one(stage: Stage, names: Names, who: str, url: str) -> Aim:
    return Aim(who, url, names.ask_one(stage.stand.seed), names.players, stage.sizes.connections)


def _aim_batch(stage: Stage, names: Names, url: str) -> Aim:
    sizes = stage.sizes
    script = names.ask_batch(stage.stand.seed, sizes.batch)
    return Aim(BATCHED, url, script, names.players, sizes.few_connections, sizes.batch)
