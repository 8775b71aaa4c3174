"""What docs/benchmarks.md says about answers; no figure of its own, all are read from the results."""

from experiments.bench import answers_tables as tables
from experiments.bench.answers_budgets import sampling_share
from experiments.bench.answers_results import Results
from experiments.bench.answers_sizes import PACE, SHARDS, WRITE_BATCH
from experiments.bench.budgets import show_percent
from experiments.bench.stamp import render_machine
from experiments.bench.tables import render_captioned, render_table

_STAMP = "A rate of lookups is the best of {repeats}; everything else was measured once. {machine}"

_AUDIT = """\
## Answers

One redis-server (fsync everysec), {shards} shards a board, leaders down to rank {top_n:,}. *Written* means that
{pace:,.0f} scores/s came in meanwhile, in submits of {batch}, players drawn uniformly, through the same process.

### Audit

{players:,} players, strategy `latest`, one score each and {updates} updates a player on average, at times spread over a
month; then {removed} of them were removed. {audited:,} standings, of players drawn uniformly, were compared with exact
ones asked for right after. Both say how many changes they include. A change moves a rank by one place at most, so the
exact rank may lie outside by as many places as there were *changes between*, and no more; at rest by none. *Not true*
counts ranks and percentiles that lie further out, and leaders who are not. Players whose own score changed between the
two answers are not compared.

Widths are shares of all players. Errors under writes are mostly what changed between the two answers.
"""

_AGES = """\
The age of an answer is the time since the oldest of its shards was sampled. Nobody waits for samples, and the keeper
takes at most {share} of Redis' time for them: on a machine that has something else to do, answers are older.
"""

_REFRESH = """\
### What the keeper does

Sampling one shard, called from Python and with what is read from it parsed; the median of {calls} calls, boards of all
sizes in turn on one server. The view is made of the samples of all {shards} shards.
"""

_LOADS = """\
Then boards with four windows each are written {pace:,.0f} scores/s altogether, and every window is asked every
{ask_pause_s:g} s, while a keeper runs in a process of its own: one board of {players:,} players, and {busy} boards of
{busy_players:,}, alone and beside {idle:,} idle ones. Redis does not say what a script took, so the time for sampling
is the difference that a keeper makes: {sampling} of Redis' time, the readers' loading of new samples included. Where
there is more to sample than fits into that share, answers get older. Without a keeper they get as old as you wait.

An idle board takes {empty_kb:.1f} KB empty and {filled_kb:.1f} KB with {idle_players} players in four windows, its log
included. It costs time in the rounds only, one in ten minutes: a round over {boards:,} boards took {round_s:.2f} s, of
them {round_python_s:.2f} s of the keeper's processor time and {round_redis_s:.2f} s of Redis'.
"""

_LOOKUPS = """\
### Lookups

{players:,} players, and {callers:,} callers who each ask for one player after the other, in one process. Those who ask
in one turn of the event loop are answered together. *redis-py* is what one would write without us: `ZSCORE`, `ZREVRANK`
and `ZCARD` of one plain ZSET in a pipeline for each question, over 32 connections of a blocking pool. The same three
commands through our own link to Redis show how much of the difference is the client. All take turns on one server.
"""

_ROWS = """\
### Rows

All rows of the {players:,} by cursor, while one player in five moves all the time: of the {unmoved:,} others nobody may
be skipped or repeated. And all rows as a stream; its memory is what Python allocates at most, in a run of its own.
"""

_LATENCIES = """\
And single questions on the same board, one after the other. An exact standing counts in all shards; a page from a rank
on looks for its first row by bisection.
"""


def render_stamp(results: Results) -> str:
    machine = render_machine(results.stamp, results.seed, results.server)
    return _STAMP.format(repeats=results.sizes.lookup_repeats, machine=machine)


def render_sections(results: Results) -> list[str]:
    return [*_audit_sections(results), *_keeper_sections(results), *_read_sections(results)]


def _audit_sections(results: Results) -> list[str]:
    sizes = results.sizes
    return [
        _AUDIT.format(
            shards=SHARDS,
            top_n=sizes.top_n,
            pace=PACE,
            batch=WRITE_BATCH,
            players=sizes.players,
            updates=sizes.updates,
            removed=f"{100 * sizes.removed_share:g} %",
            audited=sizes.audited,
        ),
        render_table(tables.audit_table(results)),
        _AGES.format(share=f"{100 * sizes.keeper_share:g} %"),
        render_table(tables.age_table(results)),
    ]


def _keeper_sections(results: Results) -> list[str]:
    sizes, idle = results.sizes, results.idle
    return [
        _REFRESH.format(calls=results.refreshes[0].calls, shards=SHARDS),
        render_table(tables.refresh_table(results)),
        _LOADS.format(
            pace=PACE,
            ask_pause_s=sizes.ask_pause_s,
            players=sizes.players,
            busy=sizes.busy_boards,
            busy_players=sizes.busy_players,
            idle=sizes.idle_boards,
            sampling=show_percent(sampling_share(results)),
            empty_kb=idle.empty_bytes / 1000,
            filled_kb=idle.filled_bytes / 1000,
            idle_players=idle.players,
            boards=idle.boards,
            round_s=idle.round_s,
            round_python_s=idle.round_python_s,
            round_redis_s=idle.round_redis_s,
        ),
        render_table(tables.load_table(results)),
    ]


def _read_sections(results: Results) -> list[str]:
    sizes = results.sizes
    return [
        _LOOKUPS.format(players=sizes.players, callers=sizes.callers),
        render_table(tables.lookup_table(results)),
        _ROWS.format(players=sizes.players, unmoved=results.walk.unmoved),
        render_table(tables.rows_table(results)),
        _LATENCIES,
        render_captioned(tables.latency_table(results)),
    ]
