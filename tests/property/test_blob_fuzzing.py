"""Damaged and forged blobs: one clear error each, in bounded time and memory, and never a sketch that is not sound."""

import struct
import time
import tracemalloc
from collections.abc import Callable, Iterator
from hashlib import blake2b

import numpy as np
import pytest

from sketches import CorruptBlob, CountMin, Incompatible, SketchError, SpaceSaving, TDigest, blob

KEY = b"0123456789abcdef"
Sketch = TDigest | SpaceSaving | CountMin

LOAD: dict[str, Callable[[bytes], Sketch]] = {
    "tdigest": TDigest.from_bytes,
    "spacesaving": SpaceSaving.from_bytes,
    "countmin": lambda data: CountMin.from_bytes(data, key=KEY),
}
SLOWEST_S = 1.0


def sound_blobs(kind: str) -> list[bytes]:
    """A few small blobs of each kind, full and empty."""
    random = np.random.default_rng(3)
    made: list[Sketch] = []
    for size in (0, 1, 30, 400):
        if kind == "tdigest":
            digest = TDigest(20)
            digest.update(np.concatenate((random.normal(size=size), np.zeros(size // 2))))
            made.append(digest)
        elif kind == "spacesaving":
            summary = SpaceSaving(16)
            for _ in range(3):
                summary.update([f"item {i} é" for i in random.zipf(1.3, size)])
            made.append(summary)
        else:
            counts = CountMin(8, 2, key=KEY, conservative=size == 30)
            counts.update([f"item {i}" for i in random.zipf(1.3, size)], [2**31] * size if size == 400 else None)
            made.append(counts)
    return [sketch.to_bytes() for sketch in made]


def reseal(data: bytes) -> bytes:
    """The blob with its checksum put right, as a forger would."""
    return data[:-8] + blake2b(data[:-8], digest_size=8, person=b"toptail blob").digest()


def relength(data: bytes) -> bytes:
    """The blob with its length field put right."""
    return data[:40] + struct.pack("<Q", len(data) - 56) + data[48:]


def mutate(data: bytes, random: np.random.Generator) -> bytes:
    """One to four random edits: bits, bytes, whole words with interesting values, cuts, repeats."""
    changed = bytearray(data)
    for _ in range(random.integers(1, 5)):
        at = int(random.integers(len(changed))) if changed else 0
        match int(random.integers(7)):
            case 0 if changed:
                changed[at] ^= 1 << int(random.integers(8))
            case 1 if changed:
                changed[at] = int(random.integers(256))
            case 2 | 3 if len(changed) > 8:
                at = min(at // 8 * 8, len(changed) - 8)
                changed[at : at + 8] = struct.pack("<Q", int(random.choice(WORDS)))
            case 4:
                del changed[at : at + int(random.integers(1, 20))]
            case 5:
                changed[at:at] = changed[at : at + int(random.integers(1, 20))]
            case _:
                changed[at:at] = bytes(int(random.integers(1, 20)))
    return bytes(changed)


NAN, INF = (struct.unpack("<Q", struct.pack("<d", number))[0] for number in (float("nan"), float("inf")))
WORDS = np.array([0, 1, 2, 255, 2**16, 2**31, 2**32, 2**53, 2**62, 2**63, 2**64 - 1, NAN, INF, 1 << 52], np.uint64)


def mutants(kind: str, count: int, seed: int) -> Iterator[tuple[bytes, bool]]:
    """(blob, whether its checksum was repaired), none of them equal to a sound one."""
    random = np.random.default_rng(seed)
    sound = sound_blobs(kind)
    while count:
        data = mutate(sound[random.integers(len(sound))], random)
        is_forged = bool(random.integers(2)) and len(data) >= 56
        data = reseal(relength(data) if random.integers(2) else data) if is_forged else data
        if data not in sound:
            count -= 1
            yield data, is_forged


def use(sketch: Sketch) -> None:
    """A sketch that was let in must answer and merge like any other."""
    if isinstance(sketch, TDigest):
        if sketch.count:
            low, high = sketch.bounds([-1.0, 0.0, 1.0])
            guess = sketch.cdf([-1.0, 0.0, 1.0], "min")
            assert ((low <= guess) & (guess <= high)).all()
            assert sketch.min <= sketch.quantile(0.5) <= sketch.max
        sketch.update([1.0, 2.0])
    elif isinstance(sketch, SpaceSaving):
        assert all(0 <= error <= count for _, count, error in sketch.top(100))
    else:
        assert (sketch.estimate(["a", "b"]) >= 0).all()


def fuzz(kind: str, count: int, seed: int) -> int:
    """How many forged blobs turned out to be sound sketches of other data; everything else must be refused."""
    let_in = 0
    for data, is_forged in mutants(kind, count, seed):
        started = time.process_time()
        try:
            sketch = LOAD[kind](data)
        except (CorruptBlob, Incompatible):
            pass
        else:
            assert is_forged, f"a damaged blob was accepted: {data.hex()}"
            assert sketch.to_bytes() == data
            use(sketch)
            let_in += 1
        assert time.process_time() - started < SLOWEST_S
    return let_in


@pytest.mark.parametrize("kind", LOAD)
def test_damaged_and_forged_blobs_are_refused(kind: str) -> None:
    assert fuzz(kind, 3_000, seed=1) < 3_000 / 4


@pytest.mark.slow
@pytest.mark.parametrize("kind", LOAD)
def test_a_hundred_thousand_damaged_and_forged_blobs_are_refused(kind: str) -> None:
    assert fuzz(kind, 100_000, seed=2) < 100_000 / 4


@pytest.mark.parametrize("kind", LOAD)
def test_every_cut_and_every_flipped_bit_is_seen(kind: str) -> None:
    for data in sound_blobs(kind):
        for at in range(len(data)):
            with pytest.raises(CorruptBlob):
                LOAD[kind](data[:at])
            with pytest.raises(CorruptBlob):
                LOAD[kind](data[:at] + bytes([data[at] ^ (1 << at % 8)]) + data[at + 1 :])


@pytest.mark.parametrize("kind", LOAD)
@pytest.mark.parametrize("field", range(8, 48, 8))
@pytest.mark.parametrize("huge", [2**26, 2**31, 2**40, 2**63, 2**64 - 1])
def test_a_forged_header_makes_no_one_allocate(kind: str, field: int, huge: int) -> None:
    data = sound_blobs(kind)[-1]
    forged = reseal(data[:field] + struct.pack("<Q", huge) + data[field + 8 :])
    tracemalloc.start()
    try:
        with pytest.raises(SketchError):
            LOAD[kind](forged)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", LOAD)
def test_a_sketch_of_another_kind_is_named_in_the_error(kind: str) -> None:
    for other in LOAD.keys() - {kind}:
        with pytest.raises(CorruptBlob, match="was expected"):
            LOAD[kind](sound_blobs(other)[1])


@pytest.mark.parametrize("junk", [b"", b"TTSK", bytes(1000), "text", None, 7])
def test_what_is_no_blob_at_all_is_refused(junk: bytes) -> None:
    for load in LOAD.values():
        with pytest.raises(CorruptBlob):
            load(junk)


def test_a_blob_of_a_newer_version_says_so() -> None:
    data = sound_blobs("tdigest")[1]
    with pytest.raises(CorruptBlob, match="version 2 of the format is unknown; this release reads version 1"):
        TDigest.from_bytes(reseal(data[:4] + b"\x02" + data[5:]))


def test_the_header_is_laid_out_as_its_picture_says() -> None:
    data = blob.seal(blob.COUNT_MIN, (7, 8, 9), b"payload", b"key id 8")
    assert data[:8] == b"TTSK\x01\x03\x00\x00"
    assert struct.unpack("<QQQ8sQ", data[8:48]) == (7, 8, 9, b"key id 8", 7)
    assert data[48:55] == b"payload"
    assert len(data) == 48 + 7 + 8
