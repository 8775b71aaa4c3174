"""One way in for items and one for values: what is taken, what is refused, and that a refusal changes nothing."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sketches import CountMin, InvalidInput, SketchError, SpaceSaving, Tally, TDigest, TooLarge, tally

KEY = b"0123456789abcdef"


@pytest.mark.parametrize(
    "values",
    [
        [1, 2.5, -3],
        (1.0, 2.5, -3.0),
        np.array([1, 2.5, -3], np.float32),
        pa.array([1, 2.5, -3]),
        pa.chunked_array([[1.0], [2.5, -3.0]]),
    ],
)
def test_values_come_from_lists_numpy_or_arrow(values: Any) -> None:
    digest = TDigest()
    digest.update(values)
    assert (digest.count, digest.min, digest.max) == (3, -3, 2.5)


def test_a_single_number_is_a_batch_of_one() -> None:
    digest = TDigest()
    digest.update(7)
    assert digest.cdf(7.0) == 0.5


def test_a_buffer_that_its_owner_writes_over_does_not_change_the_digest() -> None:
    values = np.array([1.0, 2.0, 3.0])
    digest = TDigest()
    digest.update(values)
    values[:] = 99
    assert digest.max == 3


@pytest.mark.parametrize(
    "empty", [[], (), np.array([]), np.array([], str), pa.array([]), pa.chunked_array([], pa.string())]
)
def test_empty_input_means_that_nothing_happened(empty: Any) -> None:
    digest, summary, counts = TDigest(), SpaceSaving(4), CountMin(8, 2, key=KEY)
    blobs = [sketch.to_bytes() for sketch in (digest, summary, counts)]
    digest.update(empty)
    digest.update(empty, empty)
    summary.update(empty)
    counts.update(empty, empty)
    digest.merge()
    summary.merge(SpaceSaving(9))
    counts.merge()
    assert [sketch.to_bytes() for sketch in (digest, summary, counts)] == blobs


def test_empty_questions_have_empty_answers() -> None:
    digest = TDigest()
    assert digest.cdf([]).size == digest.quantile([]).size == digest.bounds([])[0].size == 0
    assert CountMin(8, 2, key=KEY).estimate([]).size == 0
    assert SpaceSaving(4).bounds([])[1].size == 0
    assert SpaceSaving(4).top(3) == []
    assert SpaceSaving(4).guaranteed(3) == []


@pytest.mark.parametrize("ask", [lambda d: d.cdf(1), lambda d: d.quantile(0.5), lambda d: d.bounds(1), lambda d: d.min])
def test_an_empty_digest_has_no_answers_and_says_so(ask: Any) -> None:
    with pytest.raises(SketchError, match="empty"):
        ask(TDigest())


@pytest.mark.parametrize(
    ("values", "weights", "quoted"),
    [
        ([1.0, float("nan")], None, "nan"),
        ([float("inf")], None, "inf"),
        ([-np.inf, 3], None, "-inf"),
        (["12"], None, "'12'"),
        ([None], None, "None"),
        ([True, False], None, "True"),
        ([1j], None, "1j"),
        (pa.array([1, None]), None, "null"),
        ([[1, 2], [3, 4]], None, r"\(2, 2\)"),
        ([[1], [2, 3]], None, "flat list"),
        ([1, 2], [1], "2 values"),
        ([1, 2], [1, 0], "0"),
        ([1], [-2.5], "-2.5"),
        ([1], [float("nan")], "nan"),
        ([1], [1e300], "2\\^53"),
    ],
)
def test_bad_values_are_refused_quoted_and_change_nothing(values: Any, weights: Any, quoted: str) -> None:
    digest = TDigest()
    digest.update([1, 2, 3])
    before = digest.to_bytes()
    with pytest.raises(SketchError, match=quoted):
        digest.update(values, weights)
    assert digest.to_bytes() == before


@pytest.mark.parametrize(
    "items",
    [
        ["b", "a", "b"],
        ("b", "a", "b"),
        np.array(["b", "a", "b"]),
        np.array(["b", "a", "b"], object),
        pa.array(["b", "a", "b"]),
        pa.array(["b", "a", "b"], pa.large_string()),
        pa.array(["b", "a", "b"], pa.string_view()),
        pa.array(["b", "a", "b"]).dictionary_encode(),
        pa.array(["x", "b", "a", "b", "y"])[1:4],
        pa.chunked_array([["b"], ["a", "b"]]),
    ],
)
def test_items_come_from_lists_numpy_or_arrow(items: Any) -> None:
    summary, counts = SpaceSaving(4), CountMin(1024, 3, key=KEY)
    summary.update(items)
    counts.update(items)
    assert summary.top(2) == [("b", 2, 0), ("a", 1, 0)]
    assert counts.estimate(items).tolist() == [2, 1, 2]


def test_a_tally_feeds_both_sketches_and_is_counted_once() -> None:
    batch = tally(["x", "y", "x"], [5, 0, 2])
    assert isinstance(batch, Tally)
    assert (batch.items.to_pylist(), batch.counts.tolist(), batch.total) == (["x"], [7], 7)
    summary, counts = SpaceSaving(4), CountMin(8, 2, key=KEY)
    summary.update(batch)
    counts.update(batch)
    assert summary.total == counts.total == 7
    with pytest.raises(InvalidInput, match="counts already"):
        summary.update(batch, [1])


BROKEN_UTF8 = pa.StringArray.from_buffers(1, pa.py_buffer(np.array([0, 2], np.int32)), pa.py_buffer(b"\xff\xfe"))
TORN_OFFSETS = pa.StringArray.from_buffers(2, pa.py_buffer(np.array([0, 900, 2], np.int32)), pa.py_buffer(b"ab"))


@pytest.mark.parametrize(
    ("items", "counts", "quoted"),
    [
        ("text", None, "'text'"),
        ([b"bytes"], None, "b'bytes'"),
        ([1, 2], None, "int64, as in 1"),
        (["a", None], None, "null"),
        ([None, None], None, "null"),
        (["a", 1], None, "strings"),
        (["\ud800"], None, "surrogates"),
        (5, None, "strings"),
        (["a" * 65_536], None, "65536"),
        (BROKEN_UTF8, None, "UTF8"),
        (TORN_OFFSETS, None, "strings: "),
        (["a"], [1.5], "1.5"),
        (["a"], [True], "True"),
        (["a"], [-1], "-1"),
        (["a"], ["1"], "'1'"),
        (["a", "b"], [1], "2 items"),
        (["a"], [2**63], "9223372036854775808"),
        (["a", "b"], [2**62, 2**62], "9223372036854775808"),
    ],
)
def test_bad_items_are_refused_quoted_and_change_nothing(items: Any, counts: Any, quoted: str) -> None:
    for sketch in (SpaceSaving(4), CountMin(8, 2, key=KEY)):
        sketch.update(["kept"])
        before = sketch.to_bytes()
        with pytest.raises(SketchError, match=quoted):
            sketch.update(items, counts)
        assert sketch.to_bytes() == before


@pytest.mark.parametrize(
    ("make", "quoted"),
    [
        (lambda: TDigest(9), "9"),
        (lambda: TDigest(10_001), "10001"),
        (lambda: TDigest(500.0), "500.0"),  # type: ignore[arg-type]
        (lambda: TDigest(scale="k9"), "'k9'"),
        (lambda: SpaceSaving(0), "0"),
        (lambda: SpaceSaving(True), "True"),
        (lambda: CountMin(1000, 4, key=KEY), "1000"),
        (lambda: CountMin(1, 4, key=KEY), "1"),
        (lambda: CountMin(1024, 17, key=KEY), "17"),
        (lambda: CountMin(1024, 4, key=b"short"), "b'short'"),
        (lambda: TDigest().cdf([], rule="median"), "'median'"),  # type: ignore[call-overload]
        (lambda: TDigest().bounds([], side="both"), "'both'"),  # type: ignore[call-overload]
        (lambda: SpaceSaving(5).top(-1), "-1"),
    ],
)
def test_bad_parameters_are_refused_and_quoted(make: Any, quoted: str) -> None:
    with pytest.raises(InvalidInput, match=quoted):
        make()


@pytest.mark.parametrize("q", [-0.1, 1.1, [0.5, 2], float("nan"), "0.5"])
def test_a_share_outside_0_to_1_is_refused(q: Any) -> None:
    digest = TDigest()
    digest.update([1, 2])
    with pytest.raises(InvalidInput, match="q must"):
        digest.quantile(q)


def test_totals_beyond_63_bits_are_refused_before_anything_is_counted() -> None:
    for sketch in (SpaceSaving(4), CountMin(8, 2, key=KEY)):
        sketch.update(["a"], [2**63 - 1])
        before = sketch.to_bytes()
        with pytest.raises(TooLarge, match="2\\^63"):
            sketch.update(["a"])
        with pytest.raises(TooLarge, match="2\\^63"):
            sketch.merge(sketch)  # type: ignore[arg-type]
        assert sketch.to_bytes() == before
