"""The one way in for items: strings from lists, numpy or Arrow become a tally of distinct items.

    tally(["b", "a", "b"])  ->  items ["b", "a"], counts [2, 1]

Both item sketches take a Tally where they take items, so that a batch which feeds two sketches is counted once.
Items are text of at most 65,535 bytes in UTF-8, compared byte by byte and never normalised; the empty string is an
item like any other. A count of zero means that nothing happened.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sketches.errors import InvalidInput, TooLarge
from sketches.values import MAX_TOTAL, Ints, Numbers, exact_sum, parse_counts

Items: TypeAlias = Sequence[str] | NDArray[Any] | pa.Array | pa.ChunkedArray

MAX_ITEM_BYTES = 65_535


@dataclass(frozen=True, slots=True)
class Tally:
    """Distinct items (a null-free Arrow large_string array) and how often each occurred."""

    items: pa.LargeStringArray
    counts: Ints
    total: int

    def __len__(self) -> int:
        return len(self.counts)


def tally(items: "Items | Tally", counts: Numbers | None = None) -> Tally:
    """Count a batch exactly; `counts` weighs each item, and a Tally is handed back as it is."""
    if isinstance(items, Tally):
        if counts is not None:
            raise InvalidInput("a Tally has its counts already; counts must be left out")
        return items
    strings = _as_arrow(items)
    if counts is None:
        table = pc.value_counts(strings)
        return Tally(_check_text(table.field(0)), table.field(1).to_numpy(), len(strings))
    return _weighted_tally(strings, parse_counts(counts))


def parse_items(items: Items) -> pa.LargeStringArray:
    """The items as one null-free Arrow array of large_string."""
    return _check_text(_as_arrow(items))


def _check_text(strings: pa.LargeStringArray) -> pa.LargeStringArray:
    """Refuse broken UTF-8 and what is too long. A tally looks at its distinct items only: there are fewer of them."""
    longest = pc.max(pc.binary_length(strings)).as_py() or 0
    if longest > MAX_ITEM_BYTES:
        raise InvalidInput(f"an item takes at most {MAX_ITEM_BYTES} bytes, not {longest}")
    try:
        strings.validate(full=True)
    except pa.ArrowException as error:
        raise InvalidInput(f"items must be strings: {error}") from error
    return strings


def _weighted_tally(strings: pa.LargeStringArray, counts: Ints) -> Tally:
    if len(counts) != len(strings):
        raise InvalidInput(f"{len(strings)} items need as many counts, not {len(counts)}")
    total = exact_sum(counts)
    if total > MAX_TOTAL:
        raise TooLarge(f"the counts of one batch must sum to less than 2^63, not {total}")
    if not counts.all():
        strings, counts = strings.filter(pa.array(counts > 0)), counts[counts > 0]
    coded = strings.dictionary_encode()
    sums = np.zeros(len(coded.dictionary), np.int64)
    np.add.at(sums, coded.indices.to_numpy(), counts)
    return Tally(_check_text(coded.dictionary), sums, total)


def _as_arrow(items: Items) -> pa.LargeStringArray:
    """The items in one piece, and safe to read; whether the text is sound is not looked at yet."""
    if isinstance(items, str | bytes):
        raise InvalidInput(f"items must be a list or an array of strings, not {items!r}")
    try:
        array = as_one_piece(items) if isinstance(items, pa.Array | pa.ChunkedArray) else pa.array(items)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidInput(f"items must be strings: {error}") from error
    if array.null_count:
        raise InvalidInput("items must be strings, not null")
    if len(array) == 0:
        return pa.array([], pa.large_string())
    if not (pa.types.is_string(array.type) or pa.types.is_large_string(array.type)):
        raise InvalidInput(f"items must be strings, not {array.type}, as in {array[0].as_py()!r}")
    return array.cast(pa.large_string())


def as_one_piece(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Chunks joined, dictionaries and views looked up; offsets, which may be torn in an array from outside, checked."""
    pieces = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
    for piece in pieces:
        is_plain = pa.types.is_string(piece.type) or pa.types.is_large_string(piece.type)
        piece.validate(full=not is_plain)
        if is_plain and not _has_sound_offsets(piece):
            raise ValueError("their offsets run backwards")
    whole = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    if pa.types.is_dictionary(whole.type):
        return whole.dictionary_decode()
    return whole.cast(pa.large_string()) if whole.type == pa.string_view() else whole


def _has_sound_offsets(strings: pa.Array) -> bool:
    """`validate` looks at the first and the last offset only, and at all of them only together with all the text."""
    _, offsets, _ = strings.buffers()
    if len(strings) == 0 or offsets is None:
        return True
    kind = np.dtype(np.int64 if pa.types.is_large_string(strings.type) else np.int32)
    ends: NDArray[np.integer[Any]] = np.frombuffer(offsets, kind)[strings.offset : strings.offset + len(strings) + 1]
    return bool((ends[1:] >= ends[:-1]).all())
