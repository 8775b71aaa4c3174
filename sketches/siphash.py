"""SipHash-2-4 of many strings at once, straight from their Arrow buffers.

A keyed pseudo-random function: without the key nobody can choose items that collide. All strings advance one 8-byte
word at a time, in numpy; the loop is over words, never over strings. Strings are taken longest first, so that those
that still have a word are always a prefix of the arrays.

Reference: J.-P. Aumasson, D. J. Bernstein, "SipHash: a fast short-input PRF", 2012. The tests hold it to
the published vectors.
"""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sketches.errors import InvalidInput

Words = NDArray[np.uint64]

KEY_BYTES = 16
_CHUNK = 65_536  # strings at a time, which bounds the scratch memory


def check_key(key: bytes) -> bytes:
    if not isinstance(key, bytes) or len(key) != KEY_BYTES:
        raise InvalidInput(f"a hash key is {KEY_BYTES} bytes, not {key!r}")
    return key


def siphash(strings: pa.LargeStringArray, key: bytes) -> Words:
    """The 64-bit hash of each string; the array must be free of nulls."""
    starts, lengths, data = _spans(strings)
    order = np.argsort(0xFFFF - lengths.astype(np.uint16), kind="stable")  # 16 bits: numpy sorts them by radix
    hashes = np.empty(len(lengths), np.uint64)
    for at in range(0, len(order), _CHUNK):
        chunk = order[at : at + _CHUNK]
        hashes[chunk] = _hash_longest_first(data, starts[chunk], lengths[chunk], key)
    return hashes


def _spans(strings: pa.LargeStringArray) -> tuple[NDArray[np.int64], NDArray[np.int64], Words]:
    """Where each string starts, how long it is, and the word that begins at every byte."""
    _, offsets, data = strings.buffers()
    n = len(strings)
    if n == 0:
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.uint64)
    ends = np.frombuffer(offsets, np.int64)[strings.offset : strings.offset + n + 1]
    used = np.frombuffer(data, np.uint8)[ends[0] : ends[-1]] if data else np.empty(0, np.uint8)
    padded = np.concatenate((used, np.zeros(8, np.uint8)))
    words = np.ndarray((len(used) + 1,), "<u8", padded, strides=(1,))
    return ends[:-1] - ends[0], np.diff(ends), words


def _hash_longest_first(data: Words, starts: NDArray[np.int64], lengths: NDArray[np.int64], key: bytes) -> Words:
    k0, k1 = np.frombuffer(key, "<u8")
    initial = (k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573)
    state = np.repeat(np.array(initial, np.uint64)[:, None], len(lengths), axis=1)
    scratch = np.empty(len(lengths), np.uint64)
    for word in range(int(lengths[0]) // 8):
        active = np.searchsorted(-lengths, -(8 * word + 8), "right")
        _absorb(state[:, :active], data[starts[:active] + 8 * word], scratch[:active])
    _absorb(state, _last_words(data, starts, lengths), scratch)
    state[2] ^= np.uint64(0xFF)
    for _ in range(4):
        _round(state, scratch)
    state[0] ^= state[1]
    state[2] ^= state[3]
    hashes: Words = state[0] ^ state[2]
    return hashes


def _last_words(data: Words, starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> Words:
    """The 0 to 7 bytes that fill no word, and the length modulo 256 above them."""
    tail = (lengths % 8).astype(np.uint64)
    mask = (np.uint64(1) << (tail * np.uint64(8))) - np.uint64(1)
    rest: Words = data[starts + lengths // 8 * 8] & mask
    return rest | (lengths.astype(np.uint64) << np.uint64(56))


def _absorb(state: Words, words: Words, scratch: Words) -> None:
    state[3] ^= words
    _round(state, scratch)
    _round(state, scratch)
    state[0] ^= words


def _round(state: Words, scratch: Words) -> None:
    """One SipRound on all states, in place."""
    v0, v1, v2, v3 = state
    v0 += v1
    _rotate_left(v1, 13, scratch)
    v1 ^= v0
    _rotate_left(v0, 32, scratch)
    v2 += v3
    _rotate_left(v3, 16, scratch)
    v3 ^= v2
    v0 += v3
    _rotate_left(v3, 21, scratch)
    v3 ^= v0
    v2 += v1
    _rotate_left(v1, 17, scratch)
    v1 ^= v2
    _rotate_left(v2, 32, scratch)


def _rotate_left(word: Words, bits: int, scratch: Words) -> None:
    np.right_shift(word, np.uint64(64 - bits), out=scratch)
    np.left_shift(word, np.uint64(bits), out=word)
    np.bitwise_or(word, scratch, out=word)
