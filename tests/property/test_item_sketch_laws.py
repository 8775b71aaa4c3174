"""Laws of Space-Saving and Count-Min, for any stream, any cut into batches and any merge tree."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sketches import CountMin, Incompatible, SpaceSaving, tally
from tests.oracle import tallied

KEY = b"0123456789abcdef"
ITEMS = st.one_of(st.sampled_from([f"item {i}" for i in range(12)]), st.text(max_size=12))
BATCH = st.lists(st.tuples(ITEMS, st.integers(0, 100)), max_size=30)
BATCHES = st.lists(BATCH, max_size=12)


@dataclass
class Summary:
    """What was fed, the summary made of it by some merge tree, and the smallest capacity in that tree."""

    truth: Counter[str]
    sketch: SpaceSaving
    smallest: int


@st.composite
def summaries(draw: st.DrawFn) -> Summary:
    batches = draw(BATCHES)
    capacities = draw(st.lists(st.integers(1, 9), min_size=1, max_size=4))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    forest = [SpaceSaving(capacity) for capacity in capacities]
    for batch in batches:
        sketch = forest[random.integers(len(forest))]
        sketch.update([item for item, _ in batch], [count for _, count in batch])
    while len(forest) > 1:
        taken = [forest.pop() for _ in range(min(int(random.integers(1, 3)), len(forest) - 1))]
        forest[random.integers(len(forest))].merge(*taken)
    return Summary(tallied(batches), forest[0], min(capacities))


@given(summaries())
def test_space_saving_bounds_contain_the_truth(summary: Summary) -> None:
    asked = [*summary.truth, "never seen"]
    low, high = summary.sketch.bounds(asked)
    for item, least, most in zip(asked, low, high, strict=True):
        assert least <= summary.truth[item] <= most
    for item, count, error in summary.sketch.top(9):
        assert (count - error, count) == summary.sketch.bounds(item)


@given(summaries())
def test_floor_is_at_most_total_over_the_smallest_capacity(summary: Summary) -> None:
    assert summary.sketch.total == summary.truth.total()
    assert summary.sketch.floor * summary.smallest <= summary.sketch.total
    assert len(summary.sketch) <= summary.sketch.capacity


@given(summaries(), st.integers(0, 12))
def test_guaranteed_items_are_in_the_true_top_k(summary: Summary, k: int) -> None:
    for heavy, is_guaranteed in zip(summary.sketch.top(k), summary.sketch.guaranteed(k), strict=True):
        better = sum(count > summary.truth[heavy.item] for count in summary.truth.values())
        assert not is_guaranteed or better < k


@given(BATCHES)
def test_space_saving_with_room_for_all_is_exact_and_ordered(batches: list[list[tuple[str, int]]]) -> None:
    sketch = SpaceSaving(1000)
    for batch in batches:
        sketch.update([item for item, _ in batch], [count for _, count in batch])
    truth = tallied(batches)
    by_rank = sorted(truth.items(), key=lambda pair: (-pair[1], pair[0].encode()))
    assert sketch.top(1000) == [(item, count, 0) for item, count in by_rank]
    assert sketch.guaranteed(3) == [True] * min(3, len(truth))
    assert sketch.floor == 0


@given(BATCH, st.randoms(use_true_random=False), st.integers(1, 5))
def test_the_order_inside_a_batch_changes_nothing(batch: list[tuple[str, int]], random: object, capacity: int) -> None:
    blobs = set()
    for _ in range(3):
        random.shuffle(batch)  # type: ignore[attr-defined]
        sketch = SpaceSaving(capacity)
        sketch.update([item for item, _ in batch], [count for _, count in batch])
        blobs.add(sketch.to_bytes())
    assert len(blobs) == 1


@given(summaries(), summaries())
def test_space_saving_round_trips_and_merge_spares_its_argument(first: Summary, second: Summary) -> None:
    blob = second.sketch.to_bytes()
    assert SpaceSaving.from_bytes(blob).to_bytes() == blob
    first.sketch.merge(second.sketch, second.sketch)
    first.sketch.update(["more"])
    assert second.sketch.to_bytes() == blob


@given(BATCHES, st.booleans(), st.sampled_from([2, 8, 64]), st.integers(1, 4), st.integers(1, 3))
def test_count_min_is_never_under(
    batches: list[list[tuple[str, int]]], conservative: bool, width: int, depth: int, leaves: int
) -> None:
    forest = [CountMin(width, depth, key=KEY, conservative=conservative) for _ in range(leaves)]
    for at, batch in enumerate(batches):
        forest[at % leaves].update([item for item, _ in batch], [count for _, count in batch])
    before = [sketch.to_bytes() for sketch in forest[1:]]
    forest[0].merge(*forest[1:])
    truth = tallied(batches)
    estimates = forest[0].estimate([*truth, "never seen"]).tolist()
    assert all(estimate >= truth[item] for item, estimate in zip([*truth, "never seen"], estimates, strict=True))
    assert all(estimate <= truth.total() for estimate in estimates)
    assert forest[0].total == truth.total()
    assert [sketch.to_bytes() for sketch in forest[1:]] == before


@given(BATCHES, st.booleans())
def test_count_min_round_trips_bit_equal(batches: list[list[tuple[str, int]]], conservative: bool) -> None:
    sketch = CountMin(16, 3, key=KEY, conservative=conservative)
    for batch in batches:
        sketch.update([item for item, _ in batch], [count for _, count in batch])
    blob = sketch.to_bytes()
    assert CountMin.from_bytes(blob, key=KEY).to_bytes() == blob


@given(BATCHES)
def test_plain_count_min_merged_equals_one_sketch_of_all(batches: list[list[tuple[str, int]]]) -> None:
    whole, parts = CountMin(16, 3, key=KEY), [CountMin(16, 3, key=KEY) for _ in range(3)]
    for at, batch in enumerate(batches):
        counted = tally([item for item, _ in batch], [count for _, count in batch])
        whole.update(counted)
        parts[at % 3].update(counted)
    parts[0].merge(*parts[1:])
    assert parts[0].to_bytes() == whole.to_bytes()


def test_conservative_update_is_never_above_plain() -> None:
    random = np.random.default_rng(7)
    plain, careful = (CountMin(64, 3, key=KEY, conservative=c) for c in (False, True))
    for _ in range(50):
        batch = [f"item {i}" for i in random.zipf(1.3, 100)]
        plain.update(batch)
        careful.update(batch)
    asked = [f"item {i}" for i in range(500)]
    assert (careful.estimate(asked) <= plain.estimate(asked)).all()
    assert careful.estimate(asked).sum() < plain.estimate(asked).sum()


def test_count_min_error_bound_holds_as_often_as_promised() -> None:
    """A chance of exp(-3) = 5 % for each of 2,000 items is promised; over 12 % would be broken, not unlucky."""
    random = np.random.default_rng(11)
    sketch = CountMin(256, 3, key=KEY)
    items = [f"item {i}" for i in random.zipf(1.2, 50_000) % 5000]
    sketch.update(items)
    truth = Counter(items)
    asked = sorted(truth)[:2000]
    excess = sketch.estimate(asked) - np.array([truth[item] for item in asked])
    bound = sketch.error_bound()
    assert (excess > bound.excess).mean() <= 2.4 * bound.chance


def test_count_min_cells_widen_before_they_wrap() -> None:
    sketch = CountMin(4, 2, key=KEY)
    sketch.update(["a"], [2**32 - 1])
    narrow = len(sketch.to_bytes())
    sketch.update(["a"], [5])
    assert sketch.estimate(["a"])[0] == 2**32 + 4
    assert len(sketch.to_bytes()) > narrow
    twice = CountMin.from_bytes(sketch.to_bytes(), key=KEY)
    twice.merge(sketch)
    assert twice.estimate(["a"])[0] == 2**33 + 8


@pytest.mark.parametrize(
    "other",
    [
        CountMin(32, 3, key=KEY),
        CountMin(16, 2, key=KEY),
        CountMin(16, 3, key=KEY[::-1]),
        CountMin(16, 3, key=KEY, conservative=True),
        SpaceSaving(3),
    ],
)
def test_count_min_refuses_to_merge_another_shape_key_or_kind(other: CountMin) -> None:
    sketch = CountMin(16, 3, key=KEY)
    with pytest.raises(Incompatible):
        sketch.merge(CountMin(16, 3, key=KEY), other)
    assert sketch.total == 0


def test_a_key_never_shows() -> None:
    sketch = CountMin(16, 3, key=KEY)
    assert KEY.decode() not in repr(sketch)
    assert KEY not in sketch.to_bytes()
    with pytest.raises(Incompatible, match="another key"):
        CountMin.from_bytes(sketch.to_bytes(), key=bytes(16))
