"""The studies beside other sketches: rivals are wrapped right, and what they find is drawn and judged."""

import sys
from collections import Counter
from dataclasses import replace
from itertools import product
from random import Random

import datasketches
import numpy as np
import pyarrow as pa
import pytest
from ddsketch import DDSketch

from experiments.bench.budgets import is_broken
from experiments.bench.ranks import true_ranks
from experiments.studies import merging, orders, rival_counters, rival_digests, rival_summaries, rivals, ties
from experiments.study import plots
from experiments.study.budgets import load_budgets
from experiments.study.catalog import load_study
from experiments.study.study import Job, Tables
from experiments.study.workloads import Items, Scores
from sketches.values import Floats

KEY = b"0123456789abcdef"
NAMES = ("ranks", "ties", "merging", "orders", "heavy", "countmin", "limits")
PROMISES = {rivals.REQ: 0.1, rivals.KLL: 0.03}  # 4 KB: about three times the normalised error; t-digests: far less


@pytest.fixture(scope="module")
def values() -> Floats:
    return np.random.default_rng(3).lognormal(size=50_000)


@pytest.fixture(scope="module")
def found() -> dict[str, Tables]:
    return {name: load_study(name).measure(Job(is_fast=True)) for name in NAMES}


@pytest.fixture(scope="module")
def events() -> pa.LargeStringArray:
    numbers = np.random.default_rng(5).zipf(1.3, 20_000) % 3_000
    return pa.array([f"item {number}" for number in numbers], pa.large_string())


@pytest.mark.parametrize(("size", "sketch"), list(product(rival_digests.SIZES, rivals.SKETCHES)))
def test_every_digest_is_near_the_exact_ranks_alone_and_merged(size: str, sketch: str, values: Floats) -> None:
    contestant = rivals.load_digests(size, values)[sketch]
    points = np.quantile(values, np.linspace(0.001, 0.999, 200))
    truth = true_ranks(np.sort(values), points).below
    whole, size_bytes = rivals.digest_of(contestant, values)
    shards = [rivals.digest_of(contestant, part)[0] for part in np.array_split(values, 4)]
    for digest in (whole, contestant.merge(shards)):
        answers = np.asarray(contestant.ranks(digest, contestant.take(points)))
        assert np.abs(answers - truth).max() < PROMISES.get(sketch, 0.004)
    assert size_bytes < 1.2 * (4_000 if size == rivals.SMALL else 16_200)


def test_a_ddsketch_of_batches_is_that_of_single_values() -> None:
    values = np.concatenate((np.random.default_rng(1).normal(0, 5, 3_000), np.zeros(50)))
    wrapped = rival_digests.DdSketch(0.01)
    batched, single = wrapped.build([values[:1_000], values[1_000:]]), DDSketch(0.01)
    for value in values.tolist():
        single.add(value)
    for ours, theirs in zip(rival_digests._bins(batched), rival_digests._bins(single), strict=True):
        assert ours.tolist() == theirs.tolist()
    half = rival_digests.DdSketch(0.01, inside="half")
    assert half.ranks(batched, np.array([0.0]))[0] == pytest.approx(((values < 0).sum() + 25) / len(values))


def test_what_a_ddsketch_says_of_quantiles_is_what_we_read_as_ranks(values: Floats) -> None:
    wrapped = rival_digests.DdSketch(0.005)
    sketch = wrapped.build([values])
    shares = np.linspace(0.01, 0.99, 25)
    at = np.array([sketch.get_quantile_value(share) for share in shares])
    assert np.abs(wrapped.ranks(sketch, at) - shares).max() < 0.005  # a bin has 1 % of the values at most


def test_the_range_of_the_values_takes_no_more_bins_than_it_may() -> None:
    rng = np.random.default_rng(2)
    for drawn in (rng.normal(size=5_000), 10.0 ** rng.uniform(-150, 150, 5_000), np.zeros(3), np.array([7.0])):
        wrapped = rival_digests.DdSketch(rival_digests.fit_accuracy(drawn, 400))
        assert wrapped.reload(wrapped.build([drawn]))[1] <= rival_digests.BIN_BYTES * 400


def test_a_sketch_of_single_precision_takes_no_part_in_what_it_cannot_hold() -> None:
    assert rivals.REQ in rivals.load_digests(rivals.LARGE, np.array([1.0, 3e38]))
    assert rivals.REQ not in rivals.load_digests(rivals.LARGE, np.array([1.0, 4e38]))


def test_a_missing_library_is_named_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "experiments.studies.rival_digests")
    monkeypatch.setitem(sys.modules, "ddsketch", None)
    with pytest.raises(rivals.MissingPeer, match=r"pip install 'toptail\[peers\]' \(ddsketch is missing\)$"):
        rivals.load_digests(rivals.LARGE, np.ones(3))


def test_ours_is_judged_by_mid_and_others_by_what_suits_them() -> None:
    values = np.repeat([1.0, 2.0], 500)
    asked = rivals.ask(values, 100, np.random.default_rng(0))
    for sketch, contestant in rivals.load_digests(rivals.LARGE, values, is_tied=True).items():
        row = rivals.judge_digest(sketch, contestant, rivals.digest_of(contestant, values)[0], asked)
        if sketch == rivals.OURS:
            assert (row["rule"], row["max_error_percent"], row["outside"]) == ("mid", 0, 0)
        elif sketch in (rivals.KLL, rivals.REQ):
            assert (row["rule"], row["outside"]) == ("min", None)


def test_levels_are_equally_frequent_and_a_share_is_one_value() -> None:
    values = np.random.default_rng(4).lognormal(size=10_000)
    assert set(Counter(ties.round_to_levels(values, 50).tolist()).values()) == {200}
    tied = ties.replace_share(values, 0.4, np.random.default_rng(0))
    assert 0.37 < (tied == np.median(values)).mean() < 0.43


def test_zooming_in_goes_from_both_ends_to_the_middle() -> None:
    assert orders.zoom_in(np.array([3.0, 1.0, 5.0, 2.0, 4.0])).tolist() == [1, 5, 2, 4, 3]


@pytest.mark.parametrize("count", [1, 2, 16])
def test_every_deal_gives_each_value_to_one_shard(count: int, values: Floats) -> None:
    for deal in merging.DEALS:
        parts = deal(values, count)
        assert len(parts) == count
        assert np.array_equal(np.sort(np.concatenate(parts)), np.sort(values))


def test_a_heap_holds_the_largest_offers() -> None:
    """Estimates grow as Count-Min's do: every item that comes is offered its count so far."""
    random, seen, heap = Random(7), Counter[int](), rival_counters.TopK(10)
    for _ in range(5_000):
        item = int(random.paretovariate(0.6)) % 200
        seen[item] += 1
        heap.offer(item, seen[item])
        assert len(heap.counts) <= 10
    assert sorted(heap.counts.values()) == sorted(count for _, count in seen.most_common(10))


def test_count_min_with_a_heap_counts_as_its_paper_says(events: pa.LargeStringArray) -> None:
    coded = rival_summaries.code(events)
    narrow, wide = (rival_counters.CountMinHeap(coded.names, width, 20, key=KEY) for width in (64, 65_536))
    for summary in (narrow, wide):
        summary.update(coded.events.tolist())
    items = range(len(coded.names))
    rows = [Counter[int]() for _ in range(rival_counters.COUNT_MIN_DEPTH)]
    for row, item in product(range(len(rows)), items):
        rows[row][narrow._places[item][row]] += int(coded.truth[item])
    assert [narrow.estimate(item) for item in items] == [
        min(row[place] for row, place in zip(rows, narrow._places[item], strict=True)) for item in items
    ]
    assert [wide.heap.counts[item] for item in wide.heap.top(20)] == sorted(coded.truth.tolist(), reverse=True)[:20]


def test_heavy_keeper_counts_exactly_where_nobody_collides(events: pa.LargeStringArray) -> None:
    coded = rival_summaries.code(events)
    keeper = rival_counters.HeavyKeeper(coded.names, 1_000_000, 20, key=KEY, random=Random(1))
    keeper.update(coded.events.tolist())
    assert [keeper.estimate(item) for item in range(len(coded.names))] == coded.truth.tolist()
    assert [keeper.heap.counts[item] for item in keeper.heap.top(20)] == sorted(coded.truth.tolist(), reverse=True)[:20]


def test_heavy_keeper_hardly_ever_overestimates_and_keeps_elephants(events: pa.LargeStringArray) -> None:
    """Two items of one fingerprint in one bucket would: 3,000 items, 16 bits and 64 buckets make that rare."""
    coded = rival_summaries.code(events)
    keeper = rival_counters.HeavyKeeper(coded.names, 64, 20, key=KEY, random=Random(1))
    keeper.update(coded.events.tolist())
    estimates = np.array([keeper.estimate(item) for item in range(len(coded.names))])
    assert (estimates > coded.truth).sum() <= 2
    assert set(np.argsort(-coded.truth)[:5].tolist()) <= set(keeper.heap.top(20))


def test_a_bucket_decays_with_the_chance_of_the_paper() -> None:
    """One owner of count c, then a stranger: the count falls with a chance of 1.08^-c; 4 sigma of 4,000 tosses."""
    names, trials = pa.array(["owner", "stranger"], pa.large_string()), 4_000
    for count in (1, 10, 30):
        falls, keeper = 0, rival_counters.HeavyKeeper(names, 1, 1, key=KEY, random=Random(count))
        owner = keeper._fingerprints[0]
        for _ in range(trials):
            keeper._counts[0], keeper._owners[0] = count, owner
            keeper.update([1])
            falls += (keeper._counts[0], keeper._owners[0]) != (count, owner)
        chance = 1.08**-count
        assert abs(falls / trials - chance) <= 4 * (chance * (1 - chance) / trials) ** 0.5


@pytest.mark.parametrize("map_size", [8, 10])
def test_summaries_take_the_bytes_they_are_said_to(map_size: int, events: pa.LargeStringArray) -> None:
    coded = rival_summaries.code(events)
    most = rival_summaries.map_bytes(coded, map_size)
    asked = np.argsort(-coded.truth, kind="stable")[: rival_summaries.K]
    for name, ask in rival_summaries.make_summaries(coded, map_size, np.random.default_rng(0)).items():
        row = rival_summaries.judge_answer(ask(asked), coded.truth, asked)
        assert 0 <= row["precision"] <= 1, name
        assert row["recall"] > 0.4, name
    peer = datasketches.frequent_strings_sketch(map_size)
    for event in events.to_pylist():
        peer.update(event)
    assert len(peer.serialize()) < 1.05 * most


@pytest.mark.parametrize("name", NAMES)
def test_a_fast_run_keeps_its_promises_and_is_drawn_and_told(name: str, found: dict[str, Tables]) -> None:
    study, tables = load_study(name), found[name]
    judged = study.judge(tables, load_budgets(is_full=False))
    assert judged
    assert not is_broken(judged)
    assert study.say(tables)
    assert study.fails(tables) or name in ("ties", "countmin")
    for table in study.tabulate(tables):
        assert {len(row) for row in table.rows} == {len(table.columns)}
    with plots.style():
        assert plots.render_svg(study.draw(tables)) == plots.render_svg(study.draw(tables))


@pytest.mark.parametrize("name", NAMES)
def test_every_figure_to_reach_can_be_missed(name: str, found: dict[str, Tables]) -> None:
    budgets = load_budgets()
    harder = {key: figure._replace(reach=-1 if figure.is_at_most else 2) for key, figure in budgets.figures.items()}
    judged = load_study(name).judge(found[name], replace(budgets, figures=harder))
    assert {budget.verdict for budget in judged} == {"missed"}


def test_studies_take_scores_and_items_of_ones_own() -> None:
    rng = np.random.default_rng(8)
    scores = Scores("mine", rng.integers(-5_000, 5_000, 3_000), 2)
    items = Items("clicks", pa.array([f"page {n}" for n in rng.integers(0, 60, 3_000)], pa.large_string()))
    for name in NAMES:
        study = load_study(name)
        if study.takes:
            tables = study.measure(Job(is_fast=True, data=scores if study.takes == "scores" else items))
            assert not is_broken(study.judge(tables, load_budgets()))
            assert study.say(tables)
            with plots.style():
                study.draw(tables)
