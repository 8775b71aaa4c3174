"""SipHash-2-4 against the vectors its authors published: key 00..0f, messages 00, 00 01, ... of 0 to 63 bytes."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sketches import InvalidInput
from sketches.siphash import check_key, siphash

KEY = bytes(range(16))
PUBLISHED = """
310e0edd47db6f72 fd67dc93c539f874 5a4fa9d909806c0d 2d7efbd796666785 b7877127e09427cf 8da699cd64557618 cee3fe586e46c9cb
37d1018bf50002ab 6224939a79f5f593 b0e4a90bdf82009e f3b9dd94c5bb5d7a a7ad6b22462fb3f4 fbe50e86bc8f1e75 903d84c02756ea14
eef27a8e90ca23f7 e545be4961ca29a1 db9bc2577fcc2a3f 9447be2cf5e99a69 9cd38d96f0b3c14b bd6179a71dc96dbb 98eea21af25cd6be
c7673b2eb0cbf2d0 883ea3e395675393 c8ce5ccd8c030ca8 94af49f6c650adb8 eab8858ade92e1bc f315bb5bb835d817 adcf6b0763612e2f
a5c91da7acaa4dde 716595876650a2a6 28ef495c53a387ad 42c341d8fa92d832 ce7cf2722f512771 e37859f94623f3a7 381205bb1ab0e012
ae97a10fd434e015 b4a31508beff4d31 81396229f0907902 4d0cf49ee5d4dcca 5c73336a76d8bf9a d0a704536ba93e0e 925958fcd6420cad
a915c29bc8067318 952b79f3bc0aa6d4 f21df2e41d4535f9 87577519048f53a9 10a56cf5dfcd9adb eb75095ccd986cd0 51a9cb9ecba312e6
96afadfc2ce666c7 72fe52975a4364ee 5a1645b276d592a1 b274cb8ebf87870a 6f9bb4203de7b381 eaecb2a30b22a87f 9924a43cc1315724
bd838d3aafbf8db7 0b1a2a3265d51aea 135079a3231ce660 932b2846e4d70666 e1915f5cb1eca46c f325965ca16d629f 575ff28e60381be5
724506eb4c328a95
"""


def naive_siphash(message: bytes, key: bytes) -> int:
    """The paper's description, one integer at a time."""
    mask = 2**64 - 1
    k0, k1 = int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little")
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]

    def rotate(x: int, bits: int) -> int:
        return (x << bits | x >> 64 - bits) & mask

    def sip_round() -> None:
        v[0] = (v[0] + v[1]) & mask
        v[2] = (v[2] + v[3]) & mask
        v[1], v[3] = rotate(v[1], 13) ^ v[0], rotate(v[3], 16) ^ v[2]
        v[0] = rotate(v[0], 32)
        v[2] = (v[2] + v[1]) & mask
        v[0] = (v[0] + v[3]) & mask
        v[1], v[3] = rotate(v[1], 17) ^ v[2], rotate(v[3], 21) ^ v[0]
        v[2] = rotate(v[2], 32)

    padded = message + bytes(-(len(message) + 1) % 8) + bytes([len(message) % 256])
    for at in range(0, len(padded), 8):
        word = int.from_bytes(padded[at : at + 8], "little")
        v[3] ^= word
        sip_round()
        sip_round()
        v[0] ^= word
    v[2] ^= 0xFF
    for _ in range(4):
        sip_round()
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def test_all_published_vectors_match() -> None:
    messages = pa.array([bytes(range(n)).decode() for n in range(64)], pa.large_string())
    assert [int(h).to_bytes(8, "little").hex() for h in siphash(messages, KEY)] == PUBLISHED.split()


@given(st.lists(st.text(max_size=80)), st.binary(min_size=16, max_size=16))
def test_every_string_hashes_as_in_the_paper(strings: list[str], key: bytes) -> None:
    hashes = siphash(pa.array(strings, pa.large_string()), key)
    assert hashes.tolist() == [naive_siphash(string.encode(), key) for string in strings]


def test_a_slice_hashes_like_the_strings_in_it() -> None:
    strings = pa.array([f"player {i}" * (i % 7) for i in range(1000)], pa.large_string())
    assert np.array_equal(siphash(strings, KEY)[100:300], siphash(strings[100:300], KEY))


@pytest.mark.parametrize("key", [b"short", bytes(17), "x" * 16, None])
def test_a_key_of_another_size_is_refused_and_quoted(key: bytes) -> None:
    with pytest.raises(InvalidInput, match=r"16 bytes"):
        check_key(key)
