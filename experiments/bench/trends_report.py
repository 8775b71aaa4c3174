"""What docs/benchmarks.md says about trends; no figure of its own, all are read from the results."""

from experiments.bench import trends_tables as tables
from experiments.bench.answers_sizes import PACE, SHARDS
from experiments.bench.stamp import render_machine
from experiments.bench.tables import render_table
from experiments.bench.trends_fairness import ITS_ITEMS, ITS_SHARE, SHAPE
from experiments.bench.trends_rates import SKETCHES
from experiments.bench.trends_results import Results
from experiments.bench.trends_sizes import CAPACITY, PARTITIONS, K

_STAMP = "Rounds over HTTP are medians, all else was measured once. {machine}"

_RATES = """\
## Trends

Streams of strings over {items:,} items, each stage on a redis-server of its own.

### Events over HTTP

{events:,} events, Zipf 1.1, to `toptail serve` with one worker and a trend with default settings. They are sent by an
aiohttp client in a process of its own, {in_flight} requests in flight, bodies encoded beforehand; all processes share
{cores} cores. *Acknowledged* is the rate until the last request was answered, *counted* until the keeper had counted
and published all of it; it does so once a second, and waiting for that is part of it. *{sketches}* is one
Space-Saving and one Count-Min as a pane has them, fed with the same events from memory: no HTTP, no Redis, one pane
instead of four, and nothing that would survive a crash.
"""

_PACE = """\
At a steady pace, {request} events a request, JSON, for {paced_s:g} s, while somebody asks for the top {k} of an hour
over HTTP ten times a second. The append-only file is not rewritten meanwhile: this is what is appended, not what is
kept.
"""

_HOURS = """\
### How true a window is

{events:,} events of one hour, spread evenly, {request} a request; capacity {capacity:,}, {partitions} partitions, a
window of 60 panes. Intake, streams, keeper and publishing are the real ones, but the clock moves from one tick of the
keeper to the next, {ticks:,} an hour, as soon as all is done. True counts were kept beside them. *Held against bounds*
are all rows that the board may show, and items that were looked up one by one.
"""

_ANSWERS = """\
How long `top` takes in process, one question after the other: from what a worker has in memory, which it reads again
four times a second, and read from Redis for every question.
"""

_KILLS = """\
### Killed

A keeper is started and killed with SIGKILL within half a second of work, and then the next one; now and then Redis is
killed as well, and started again on its files (fsync *always*). Requests of {request} events have names and are sent
until they are acknowledged, and one in ten once more after that. There are fewer items than counters, so that every
item is held against exactly what was acknowledged of it.
"""

_FED = """\
### Fed by a board

Three trends on one board of {shards} shards; {pace:,.0f} scores/s come in, half of them for {stars} of its {players:,}
players, while the trends' keeper is killed again and again. The truth is read from the board's log, entry by entry.
"""

_FAIRNESS = """\
### One actor among many

{percent:.0f} % of all events are of one actor, spread evenly over {its_items:,} items of his own; {actors:,} others
send {shape} events. The cap is what one actor may add to a pane of a partition.
"""


def render_stamp(results: Results) -> str:
    return _STAMP.format(machine=render_machine(results.stamp, results.seed, results.server))


def render_sections(results: Results) -> list[str]:
    return [*_service_sections(results), *_hour_sections(results), *_fault_sections(results)]


def _service_sections(results: Results) -> list[str]:
    sizes = results.sizes
    return [
        _RATES.format(
            items=sizes.items,
            events=sizes.events,
            in_flight=sizes.in_flight,
            cores=results.stamp.cores,
            sketches=SKETCHES.capitalize(),
        ),
        render_table(tables.rate_table(results)),
        _PACE.format(request=sizes.request_events, paced_s=sizes.paced_s, k=K),
        render_table(tables.pace_table(results)),
    ]


def _hour_sections(results: Results) -> list[str]:
    sizes = results.sizes
    return [
        _HOURS.format(
            events=sizes.hour_events,
            request=sizes.request_events,
            capacity=CAPACITY,
            partitions=PARTITIONS,
            ticks=sizes.ticks,
        ),
        render_table(tables.hour_table(results)),
        _ANSWERS,
        render_table(tables.answer_table(results)),
    ]


def _fault_sections(results: Results) -> list[str]:
    sizes = results.sizes
    return [
        _KILLS.format(request=sizes.request_events),
        render_table(tables.kill_table(results)),
        _FED.format(shards=SHARDS, pace=PACE, stars=sizes.fed_stars, players=sizes.fed_players),
        render_table(tables.fed_table(results)),
        _FAIRNESS.format(percent=100 * ITS_SHARE, its_items=ITS_ITEMS, actors=sizes.fair_actors, shape=SHAPE),
        render_table(tables.fairness_table(results)),
    ]
