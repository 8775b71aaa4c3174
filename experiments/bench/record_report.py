"""What docs/benchmarks.md says about the record; no figure of its own, all are read from the results."""

from experiments.bench import durability, memory, writes
from experiments.bench import record_tables as tables
from experiments.bench.budgets import show_count, show_ratio
from experiments.bench.record_budgets import find_bytes, find_write, rate_of, ratio_to_raw
from experiments.bench.record_results import SHARDS, Results, SubmitSpeed
from experiments.bench.stamp import render_machine
from experiments.bench.tables import Table, render_captioned, render_table

_STAMP = "A rate is the best of {repeats} (submits by fsync: of {submit_repeats}). {machine}"

_RECORD = """\
## The record

In one glance:
"""

_WRITES = """\
### Writes

{scores:,} scores from 0 to 1,000,000, of players drawn uniformly from {players:,}, in batches of {batch:,} to {shards}
shards; fsync everysec; {in_flight} batches in flight, and then {few_in_flight}. Ids are UUIDs, players' names have 16
to 24 characters. All contestants write the same scores through one event loop to the same server, one after the other,
each from nothing.

*Raw* is the least that a leaderboard with a log can send: a `ZADD` and an `XADD` for each shard of a batch, packed
before the clock starts, in one write each, on connections like our own. Its log entry has as many bytes an event as
ours of `best`: {log_bytes:.0f}. With `GT` it keeps the best score, as `best` does. It checks nothing, and knows no old
value, no retry and no status.

*Ours* is `submit` with lists of str and int: everything checked, dealt to shards, the old values read, records, tokens,
contiguous seq and log entry written by one script a group, a status for every score, and the exact top of the board
kept up by a second script. *Record alone* is the same without the top. The batches that wait for a shard are written
together as a group, so that more in flight is faster. Rows with ids and windows also log more than raw does.

Raw is bound by Redis alone and leaves Python nearly idle. Ours keeps both busy: on a machine that has something else to
do it loses more than raw does, and *cores busy* shows it.
"""

_SUBMITS = """\
### What an fsync costs

`best` without ids. With fsync *always* an answer means that the score is on disk; with *everysec* a crash may take the
last two seconds. A small append with an fsync took {fsync_ms:.2f} ms on this disk (median). Each caller sends its next
submit when the last one is answered; latency is what it waits. *Scores a group* shows the lanes at work: while a
shard's group is on its way, what arrives becomes the next one. Where *Python* times the rate is near one second, Python
is the limit, and more callers only wait longer.
"""

_MEMORY = """\
### Memory

One event of each player. The plain ZSETs have the same players and whole scores, in {shards} keys like ours. There are
two scales: `MEMORY USAGE` with every element looked at, and by how much `used_memory` falls when the keys are deleted.

An order key is a double like any score, so that a large record takes what a plain ZSET takes. Not so a small one: up to
128 players a shard Redis keeps a ZSET as one string of texts, and the text of an order key is longer than that of a
whole score.
"""

_BESIDE = """\
Beside the records stand, per event: the *tokens* that recognise an id that was sent before, kept until the end of the
next day; the *log*, kept until it is archived; the *nonces* of our own retries, one a group, kept for ten minutes;
the *top*, which has its limit; *the rest* does not grow with the events. The log shares its overhead among the events
of a group, so that single events are the dearest.
"""


def render_stamp(results: Results) -> str:
    sizes = results.sizes
    machine = render_machine(results.stamp, results.seed, results.server)
    return _STAMP.format(repeats=sizes.repeats, submit_repeats=sizes.submit_repeats, machine=machine)


def render_sections(results: Results) -> list[str]:
    sizes = results.sizes
    return [
        _RECORD,
        render_table(glance_table(results)),
        _WRITES.format(
            scores=sizes.scores,
            players=sizes.players,
            batch=sizes.batch,
            in_flight=sizes.in_flight,
            few_in_flight=sizes.few_in_flight,
            shards=SHARDS,
            log_bytes=results.log_bytes,
        ),
        render_captioned(tables.write_table(results, sizes.in_flight)),
        render_captioned(tables.write_table(results, sizes.few_in_flight)),
        _SUBMITS.format(fsync_ms=1000 * results.fsync_s),
        render_table(tables.submit_table(results)),
        _MEMORY.format(shards=SHARDS),
        render_captioned(tables.record_bytes_table(results)),
        _BESIDE,
        render_captioned(tables.event_bytes_table(results)),
    ]


def glance_table(results: Results) -> Table:
    """The few figures that most readers want."""
    rows = [_glance_at_write(results, case.name) for case in (writes.BEST, writes.BEST_IDS, writes.WINDOWS)]
    singles, lone = (_find_submits(results, callers) for callers in (results.sizes.callers, 1))
    rate = f"{show_count(singles.submits / singles.seconds)} submits/s"
    rows.append([f"single submits, {singles.callers} callers, on disk when answered", rate, ""])
    rows.append(["one caller, median of a submit, on disk when answered", f"{1000 * lone.p50_s:.2f} ms", ""])
    ours, plain = (find_bytes(results, memory.MANY_IDS, kind) for kind in (memory.RECORDS, memory.PLAIN))
    ratio = f"{show_ratio(ours.freed_bytes / plain.freed_bytes)} of a plain ZSET"
    rows.append(["a player, per window", f"{ours.freed_bytes / ours.events:.0f} bytes", ratio])
    log, tokens = (find_bytes(results, memory.MANY_IDS, kind) for kind in (memory.LOG, memory.TOKENS))
    sizes = f"{log.freed_bytes / log.events:.0f} bytes of log, {tokens.freed_bytes / tokens.events:.0f} of token"
    rows.append(["an event with an id", sizes, ""])
    return Table("In one glance", ("what", "figure", "beside"), rows, labels=3)


def _glance_at_write(results: Results, contestant: str) -> list[str]:
    row = find_write(results, contestant, results.sizes.in_flight)
    ratios = [show_ratio(ratio_to_raw(results, row, raw)) for raw in (writes.RAW, writes.RAW_BEST)]
    return [contestant, f"{show_count(rate_of(row))} scores/s", "{} of raw, {} of raw with GT".format(*ratios)]


def _find_submits(results: Results, callers: int) -> SubmitSpeed:
    """Single submits of so many callers, on disk when they are answered."""
    wanted = (durability.ALWAYS, callers, 1)
    return next(row for row in results.submits if (row.fsync, row.callers, row.batch) == wanted)
