"""How long one standing takes on boards of all sizes, under writes; in turns on one server, by few callers."""

from experiments.bench.service_processes import writing_apart
from experiments.bench.service_results import Round
from experiments.bench.service_stages import Aim, Stage, shoot
from experiments.bench.service_standings import OURS
from experiments.bench.service_wrk import save_names


async def measure_boards(stage: Stage, url: str) -> list[Round]:
    sizes, aims = stage.sizes, []
    for players in stage.track(sizes.boards, "service: boards of all sizes, filled"):
        crowd = await stage.make_crowd(f"bench-{players}", players, sizes.boards_top_n)
        script = save_names(stage.folder, crowd.board.name, players).ask_one(stage.stand.seed)
        aims.append((crowd, Aim(OURS, url, script, players, sizes.few_connections)))
    found = []
    for _ in stage.track(range(sizes.board_rounds), "service: boards of all sizes"):
        for crowd, aim in aims:
            await crowd.settle()  # nobody asked for it in the last minute: let it have samples first
            async with writing_apart(stage.server, crowd) as writer:
                found.append(await shoot(aim, sizes.board_s, writer))
    for crowd, _ in aims:
        await stage.remove_board(crowd.board.name)
    return found
