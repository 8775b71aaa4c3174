"""One format for every saved sketch.

    offset  bytes
         0      4  magic "TTSK"
         4      1  version, 1
         5      1  kind: 1 TDigest, 2 SpaceSaving, 3 CountMin
         6      2  zero
         8     24  three parameters of the kind, unsigned 64-bit
        32      8  key id: BLAKE2b of the hash key, or zeros where the kind has none
        40      8  length of the payload
        48      n  payload, laid out by the kind
    48 + n      8  BLAKE2b-64 of everything before

All numbers are little-endian. `unseal` compares the length with what is there before anything else is done, so what a
blob can make its reader allocate is bounded by the blob's own size. The checksum finds accidents; against a forger the
kinds check every invariant of the payload again, and then a forged blob is at worst a valid sketch of other data.
"""

import struct
from collections.abc import Sequence
from hashlib import blake2b

from sketches.errors import CorruptBlob, Incompatible

TDIGEST, SPACE_SAVING, COUNT_MIN = 1, 2, 3
NO_KEY = bytes(8)

_HEADER = struct.Struct("<4sBBHQQQ8sQ")
_MAGIC, _VERSION = b"TTSK", 1
_CHECKSUM_BYTES = 8
_NAMES = {TDIGEST: "TDigest", SPACE_SAVING: "SpaceSaving", COUNT_MIN: "CountMin"}


def seal(kind: int, parameters: Sequence[int], payload: bytes, key_id: bytes = NO_KEY) -> bytes:
    """The whole blob around a payload."""
    body = _HEADER.pack(_MAGIC, _VERSION, kind, 0, *parameters, key_id, len(payload)) + payload
    return body + _checksum(body)


def unseal(data: bytes, kind: int, key_id: bytes = NO_KEY) -> tuple[tuple[int, int, int], memoryview]:
    """Parameters and payload of a sound blob of this kind, made with this key."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise CorruptBlob(f"a blob is bytes, not {type(data).__name__}")
    view = memoryview(data).cast("B")
    if len(view) < _HEADER.size + _CHECKSUM_BYTES:
        raise CorruptBlob(f"a blob takes at least {_HEADER.size + _CHECKSUM_BYTES} bytes, not {len(view)}")
    magic, version, found, zero, *parameters, found_id, length = _HEADER.unpack_from(view)
    if magic != _MAGIC or zero:
        raise CorruptBlob(f"not a sketch: it begins with {bytes(view[:8])!r}")
    if version != _VERSION:
        raise CorruptBlob(f"version {version} of the format is unknown; this release reads version {_VERSION}")
    if found != kind:
        raise CorruptBlob(f"kind {found} ({_NAMES.get(found, 'unknown')}) where {_NAMES[kind]} was expected")
    if length != len(view) - _HEADER.size - _CHECKSUM_BYTES:
        raise CorruptBlob(f"a payload of {length} bytes in a blob of {len(view)}: cut short or run on")
    if _checksum(view[:-_CHECKSUM_BYTES]) != view[-_CHECKSUM_BYTES:]:
        raise CorruptBlob("the checksum does not match: the blob was damaged")
    if found_id != key_id:
        raise Incompatible(f"the blob was made with another key: id {found_id.hex()}, not {key_id.hex()}")
    first, second, third = parameters
    return (first, second, third), view[_HEADER.size : -_CHECKSUM_BYTES]


def make_key_id(key: bytes) -> bytes:
    """Names a hash key without giving it away."""
    return blake2b(key, digest_size=8, person=b"toptail key id").digest()


def _checksum(body: bytes | memoryview) -> bytes:
    return blake2b(body, digest_size=_CHECKSUM_BYTES, person=b"toptail blob").digest()
