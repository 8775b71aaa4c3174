"""What docs/benchmarks.md says about the service; no figure of its own, all are read from the results."""

from experiments.bench import service_tables as tables
from experiments.bench.answers_sizes import PACE, WRITE_BATCH
from experiments.bench.budgets import show_ratio
from experiments.bench.service_budgets import ratio_to
from experiments.bench.service_results import Results
from experiments.bench.service_standings import OURS, TWO
from experiments.bench.stamp import render_machine
from experiments.bench.tables import render_table

_STAMP = "Rounds are taken in turns, and medians count; the load was measured once. {machine}"

_STANDINGS = """\
## The service

`toptail serve` as a process, on a redis-server of its own; whoever asks is a process too, and so is whoever writes. All
of them share the {cores} cores of one machine: read rates as ratios. Latency is what wrk waits at full speed, and so
mostly the queue that its own connections make.

### Standings over HTTP

{players:,} players, leaders down to rank {top_n:,}, players drawn uniformly, wrk with one thread and {connections}
connections; one worker, fsync everysec; {rounds} rounds of {round_s} s. *Written* means that {pace:,.0f} scores/s came
in meanwhile for players of the same board, in submits of {batch}, from a process of its own through the engine.

*Bare* is an aiohttp handler on uvloop that answers the same path with a constant: the most that this HTTP server can
do, and it has no Redis to share the cores with. *Naive* is what one would write without us: `ZREVRANK`, `ZSCORE` and
`ZCARD` of one plain ZSET of the same players, in a pipeline for each request, over a blocking pool of 32 connections.
*Least - most* is the slowest and the quickest round.
"""

_TWO = """\
Two workers answer {at_rest} times as many requests as one at rest, {written} times under writes. wrk and Redis need
their share of the {cores} cores as well; the two were measured after the others, not in turns with them.

In batches, {batch:,} players a request over {few_connections} connections:
"""

_BOARDS = """\
### Boards of all sizes

One standing a request over {few_connections} connections, while {pace:,.0f} scores/s come in for the same board; boards
in turns on one server, {rounds} rounds of {board_s} s. Leaders go down to rank {top_n:,}, so that on every board most
players are of the tail.
"""

_BULKS = """\
### Scores over HTTP

In bulk: {scores:,} scores of players drawn uniformly from {players:,}, to a board that is empty at first, strategy
`best`, {bulk:,} scores a request and {in_flight} requests in flight, fsync everysec. They are sent by an aiohttp client
in a process of its own, bodies encoded beforehand. *In process* is `submit` with the same scores in batches of the same
size, as many in flight, on the same server, without HTTP, JSON and a second process.
"""

_SUBMITS = """\
One score a request, fsync *always*, so that a score is on disk when it is answered:
"""

_LOAD = """\
And a CSV file of {rows:,} players by `toptail load`, fsync *always*; time and memory are those of the whole command,
from its start to its end, without the service's:
"""


def render_stamp(results: Results) -> str:
    return _STAMP.format(machine=render_machine(results.stamp, results.seed, results.server, results.wrk))


def render_sections(results: Results) -> list[str]:
    return [*_standing_sections(results), *_board_sections(results), *_write_sections(results)]


def _standing_sections(results: Results) -> list[str]:
    sizes, cores = results.sizes, results.stamp.cores
    at_rest, written = (show_ratio(ratio_to(results, TWO, OURS, is_written)) for is_written in (False, True))
    return [
        _STANDINGS.format(
            cores=cores,
            players=sizes.players,
            top_n=sizes.top_n,
            connections=sizes.connections,
            rounds=sizes.rounds,
            round_s=sizes.round_s,
            pace=PACE,
            batch=WRITE_BATCH,
        ),
        render_table(tables.standing_table(results)),
        _TWO.format(
            at_rest=at_rest,
            written=written,
            cores=cores,
            batch=sizes.batch,
            few_connections=sizes.few_connections,
        ),
        render_table(tables.batch_table(results)),
    ]


def _board_sections(results: Results) -> list[str]:
    sizes = results.sizes
    return [
        _BOARDS.format(
            few_connections=sizes.few_connections,
            pace=PACE,
            rounds=sizes.board_rounds,
            board_s=sizes.board_s,
            top_n=sizes.boards_top_n,
        ),
        render_table(tables.board_table(results)),
    ]


def _write_sections(results: Results) -> list[str]:
    sizes = results.sizes
    return [
        _BULKS.format(scores=sizes.scores, players=sizes.players, bulk=sizes.bulk, in_flight=sizes.in_flight),
        render_table(tables.bulk_table(results)),
        _SUBMITS,
        render_table(tables.submit_table(results)),
        _LOAD.format(rows=results.load.rows),
        render_table(tables.load_table(results)),
    ]
