"""What docs/benchmarks.md says about the sketches; no figure of its own, all are read from the results."""

from experiments.bench import sketch_tables as tables
from experiments.bench.losses import find_losses
from experiments.bench.sketch_results import ALONE, SETTLED, Results
from experiments.bench.stamp import render_machine
from experiments.bench.tables import render_bullets, render_captioned, render_table

_STAMP = "A time is the best of {repeats} (heavy hitters: of {event_repeats}). {machine}"

_LOSSES = """\
## Sketches: where others are better

Every comparison of this run that we lose. Each peer stands at compression 500 as ours does, and once more with a
setting at which it takes about as many bytes. Half of our bytes hold the ranges of the centroids: they add little to
the guess, but make the bounds a proof.
"""

_SPEED = """\
## Quantile digests

### Speed and size

{values:,} lognormal doubles in batches of {batch:,}. A query asks for the ranks of {queries:,} points drawn from them,
unsorted; single points are not measured. An update counts when nothing is left undone: what a library puts off is
asked for under the clock. The first query goes to a digest that was just loaded, later ones to the same digest again.
Every library gets its numbers in the form that it takes fastest, made outside the clock: numpy arrays, and plain lists
for fastdigest.

- datasketches answers many ranks by `get_cdf`, which wants sorted and distinct points; making them so is under the
  clock. Its t-digest's `get_quantile` is wrong in 5.2.0 and is not used.
- fastdigest answers by `cdf_vec` and merges by `merge_all`.
- crick and tdigest have no byte format: counted are 16 bytes a centroid.
- tdigest is pure Python. It got every 50th value and point, and its times are multiplied by 50, but for the merge.

There are two tables because memory matters. glibc gives large freed blocks back to the system, and pays for new ones
in page faults, until the process has once freed a block of many megabytes; then it keeps them. An update of ours makes
numpy temporaries of half a megabyte, so it is slower in a new process that does nothing else than in a settled one; by
how much differs from run to run, with the layout of the heap.
*Settled process*: such a block was freed first, and all took turns. *New process*: each digest alone in one of its own.
All other tables come from the settled process.
"""

_ERROR = """\
### Rank error

{queries:,} points drawn from the values, the worst of {seeds} seeds. Digests are asked as they come back from their
bytes, where they have a byte format.

A value that occurs often has no single rank. Ours are judged by the mean of the share below it and the share up to it
(*mid*). The libraries differ in this, and on 40 % zeros some differ from their own documentation; so each peer is
judged by that one of *min* (below), *mid* and *max* (up to) which makes its error on that workload least. The cell
says which. Without ties the three agree. tdigest is measured on continuous values only, and on every 50th of them.
"""

_MERGED = """\
The values cut into {shards} consecutive shards, each digested, saved and loaded, then merged at once:
"""

_INTERVALS = """\
### Proved intervals

`bounds` returns an interval that contains the true share of the values below x, or up to x. No peer here proves one;
KLL states one that holds with a high probability. Widths are the worst of {seeds} seeds, and the truth was compared
with both intervals at every point, on the single and on the merged digest.
"""

_PROOF = """\
Then {digests:,} random digests (distributions, 1 to 5,000 values, compressions, scales, cuts into updates, merge trees,
rank samples) were asked at, next to and between all their values: {questions:,} questions, and {violations:,} times
the truth was outside.
"""

_HITTERS = """\
## Heavy hitters

### Speed

{events:,} strings, Zipf 1.1 over {items:,} items, in batches of {batch:,}. Each contestant feeds a summary of the
heaviest items, SpaceSaving(4096) or frequent_strings(12), and a Count-Min of 32,768 x 5. Ours counts a batch once
(`tally`) for both. datasketches takes one string a call: *item by item* is its loop, run in C by `map`. *Counted first*
hands it each distinct item of a batch with its count, which is our idea applied to it. Its summary holds at most
3,072 items, ours 4,096. Lists become Arrow for us, and Arrow becomes Python strings for datasketches, both under the
clock.

P@100 tolerates ties: an item counts as right if it occurred at least as often as the true number 100. The relative
error is the mean over the true top 100. Bounds are checked for every distinct item of the stream, {checked:,} of them.
"""

_GRID = """\
### Accuracy

{grid_events:,} strings over {items:,} items. Ours absorbs each batch as an exact summary, so large batches find more.
datasketches goes item by item (batch 1), with a map that holds at least as many items as ours: frequent_strings(9) up
to 384, frequent_strings(11) up to 1,536. The *floor* is the most that an item which is not tracked can have occurred;
*guaranteed* are those of the top 100 that surely belong there. Where all items are equally frequent there is nothing
to find, and the bounds say so: nothing is guaranteed.
"""


def render_stamp(results: Results) -> str:
    sizes = results.sizes
    machine = render_machine(results.stamp, results.seed)
    return _STAMP.format(repeats=sizes.repeats, event_repeats=sizes.event_repeats, machine=machine)


def render_sections(results: Results) -> list[str]:
    return [
        _LOSSES,
        render_bullets(find_losses(results)) or "None.\n",
        *_render_digests(results),
        *_render_hitters(results),
    ]


def _render_digests(results: Results) -> list[str]:
    sizes, proof = results.sizes, results.proof
    return [
        _SPEED.format(values=sizes.values, batch=sizes.batch, queries=sizes.queries),
        render_captioned(tables.speed_table(results, SETTLED)),
        render_captioned(tables.speed_table(results, ALONE)),
        _ERROR.format(queries=sizes.queries, seeds=sizes.seeds),
        render_captioned(tables.max_error_table(results)),
        render_captioned(tables.mean_error_table(results)),
        _MERGED.format(shards=sizes.shards),
        render_captioned(tables.merged_error_table(results)),
        _INTERVALS.format(seeds=sizes.seeds),
        render_table(tables.interval_table(results)),
        _PROOF.format(digests=proof.digests, questions=proof.questions, violations=proof.violations),
    ]


def _render_hitters(results: Results) -> list[str]:
    sizes = results.sizes
    checked = results.hitter_speed[0].checked
    return [
        _HITTERS.format(events=sizes.events, items=sizes.items, batch=sizes.batch, checked=checked),
        render_table(tables.hitter_speed_table(results)),
        _GRID.format(grid_events=sizes.grid_events, items=sizes.items),
        render_table(tables.hitter_accuracy_table(results)),
    ]
