"""Trends that a board feeds, beside the board's own log, while their keeper is killed again and again.

Half of the scores are of a hundred stars, half of anybody. What is true is read from the log when all is over, entry by
entry: who submitted, whose record changed, and by how many points it became better.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from random import Random

from experiments.bench.answers_crowds import Crowd, make_crowd, writing
from experiments.bench.answers_shapes import LOGNORMAL
from experiments.bench.answers_stands import Stand
from experiments.bench.boards import list_logs
from experiments.bench.servers import BenchServer, open_server
from experiments.bench.timing import now_s
from experiments.bench.trends_processes import keeping_apart, kill_keeper, wait_until_counted
from experiments.bench.trends_results import Fed
from experiments.bench.trends_sizes import CAPACITY
from experiments.bench.trends_stages import WINDOW, Stage
from experiments.bench.trends_truth import count_outside, rows_of
from hybrid.config import Board
from hybrid.engine import Engine
from hybrid.link import Node, parse_url
from hybrid.log import Change, LogEntry, parse_entry
from hybrid.trends.config import Counted, Source, Trend, TrendConfig
from hybrid.windows import ALLTIME

COUNTS: tuple[Counted, ...] = ("submissions", "changes", "gain")


async def measure_fed(stage: Stage) -> list[Fed]:
    sizes, seed, dice = stage.sizes, stage.job.seed, Random(stage.job.seed)
    async with (
        open_server(stage.job.data_dir) as server,
        Engine(Node(parse_url(server.redis.url)), random=Random(seed)) as engine,
    ):
        crowd = await make_crowd(Stand(server, engine, seed), LOGNORMAL, sizes.fed_players, strategy="latest")
        trends = {count: await _make_trend(crowd, count) for count in COUNTS}
        began_s = now_s()
        async with writing([crowd, replace(crowd, players=sizes.fed_stars)]) as writer:
            for _ in stage.track(range(sizes.fed_kills), "trends: kills, fed by a board"):
                await kill_keeper(server.redis.url, dice)
        seconds, entries = now_s() - began_s, await _read_log(server, crowd.board)
        async with keeping_apart(server.redis.url):
            return [
                Fed(count, sizes.fed_kills, writer.scores, seconds, **await _judge(crowd, trend, entries, count))
                for count, trend in trends.items()
            ]


async def _make_trend(crowd: Crowd, count: Counted) -> Trend:
    config = TrendConfig(capacity=CAPACITY, windows=(WINDOW,), source=Source(crowd.board.name, count))
    trend, _ = await crowd.engine.trends.create(f"bench-{count}", config)
    return trend


async def _judge(crowd: Crowd, trend: Trend, entries: list[LogEntry], count: Counted) -> dict[str, int]:
    """What was counted, beside what the log says."""
    trends, truth = crowd.engine.trends, count_log(crowd.board, entries, count)
    counted = await wait_until_counted(trends, trend, truth.total())
    rows = rows_of(await trends.top(trend, limit=trend.most_rows))
    violations = count_outside(rows, [truth[row.item] for row in rows])
    return {"logged": truth.total(), "counted": counted, "rows": len(rows), "violations": violations}


async def _read_log(server: BenchServer, board: Board) -> list[LogEntry]:
    pages = [await server.ask("XRANGE", log, "-", "+") for log in list_logs(board)]
    return [parse_entry(entry) for page in pages for entry in page]


def count_log(board: Board, entries: Iterable[LogEntry], count: Counted) -> Counter[str]:
    """What a log says of each player, one entry after the other."""
    truth: Counter[str] = Counter()
    for entry in entries:
        if count == "submissions":
            truth.update(player.decode() for player in entry.events.players)
            continue
        for change in entry.rows[ALLTIME].changes():
            truth[change.player.decode()] += 1 if count == "changes" else _gain(board, change)
    return truth


def _gain(board: Board, change: Change) -> int:
    if change.old is None or change.new is None:
        return 0
    old, new = (int(board.key.decode(key).points) for key in (change.old, change.new))
    return max(new - old, 0)
