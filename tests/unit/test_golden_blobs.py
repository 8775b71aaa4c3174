"""Blobs of earlier releases, byte for byte: tomorrow's code reads today's bytes, and writes them again.

A new version of the format adds files; these never change. `python -m tests.unit.test_golden_blobs` writes those that
are missing.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sketches import CountMin, SpaceSaving, TDigest

KEY = b"0123456789abcdef"
GOLDEN = Path(__file__).parents[1] / "golden"


def make_tdigest() -> TDigest:
    digest = TDigest(50, scale="k1")
    digest.update(np.arange(1000) ** 2 / 7)
    digest.update([0.5, 0.5, -3.25], [10, 20, 30])
    return digest


def make_spacesaving() -> SpaceSaving:
    summary = SpaceSaving(5)
    for _ in range(3):
        summary.update(["a", "b", "ü", "日本", "", "x", "y", "z"], [1, 2, 3, 4, 5, 6, 7, 8])
    return summary


def make_countmin(conservative: bool) -> CountMin:
    counts = CountMin(16, 3, key=KEY, conservative=conservative)
    counts.update([f"item {i}" for i in range(40)], list(range(40)))
    return counts


MADE: dict[str, Callable[[], TDigest | SpaceSaving | CountMin]] = {
    "tdigest-v1.bin": make_tdigest,
    "spacesaving-v1.bin": make_spacesaving,
    "countmin-v1.bin": lambda: make_countmin(False),
    "countmin-conservative-v1.bin": lambda: make_countmin(True),
}


def load(name: str) -> TDigest | SpaceSaving | CountMin:
    data = (GOLDEN / name).read_bytes()
    if name.startswith("tdigest"):
        return TDigest.from_bytes(data)
    return SpaceSaving.from_bytes(data) if name.startswith("space") else CountMin.from_bytes(data, key=KEY)


@pytest.mark.parametrize("name", MADE)
def test_todays_code_reads_and_rewrites_the_golden_blob(name: str) -> None:
    assert load(name).to_bytes() == (GOLDEN / name).read_bytes()


@pytest.mark.parametrize("name", sorted(MADE.keys() - {"tdigest-v1.bin"}))
def test_the_same_stream_still_makes_the_same_bytes(name: str) -> None:
    assert MADE[name]().to_bytes() == (GOLDEN / name).read_bytes()


def test_the_golden_digest_answers_what_it_was_made_of() -> None:
    digest = load("tdigest-v1.bin")
    assert isinstance(digest, TDigest)
    assert (digest.count, digest.min, digest.max) == (1060, -3.25, 999**2 / 7)
    assert digest.bounds(0.5, "right") == (62 / 1060, 62 / 1060)
    assert digest.cdf(500**2 / 7) == pytest.approx(560.5 / 1060, abs=0.002)


def test_the_golden_summary_answers_what_it_was_made_of() -> None:
    summary = load("spacesaving-v1.bin")
    assert isinstance(summary, SpaceSaving)
    assert summary.top(2) == [("z", 24, 0), ("y", 21, 0)]
    assert summary.total == 108


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for file, make in MADE.items():
        if not (GOLDEN / file).exists():
            (GOLDEN / file).write_bytes(make().to_bytes())
