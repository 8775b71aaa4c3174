"""The one way in for numbers: lists, numpy and Arrow arrays become checked float64 arrays.

Integers beyond 2^53 are rounded to the nearest double, as numpy does. -0.0 becomes 0.0, so that equal values
have equal bytes. Booleans, text, missing values, NaN and infinities are refused.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sketches.errors import InvalidInput, TooLarge

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Numbers: TypeAlias = Sequence[float] | NDArray[Any] | pa.Array | pa.ChunkedArray

MAX_TOTAL = 2**63 - 1


def parse_numbers(numbers: Any, what: str = "values") -> Floats:
    """A fresh float64 array of finite numbers with the shape that came in (a scalar stays a scalar)."""
    array = _as_array(numbers, what)
    if array.size == 0:
        return np.empty(array.shape)
    if array.dtype.kind not in "iuf":
        raise InvalidInput(f"{what} must be numbers, not {_example(array)}")
    floats = array.astype(np.float64)
    floats += 0.0
    if not np.isfinite(floats.min()) or not np.isfinite(floats.max()):
        raise InvalidInput(f"{what} must be finite, not {floats[~np.isfinite(floats)].flat[0]}")
    return floats


def parse_values(values: Any, weights: Any = None) -> tuple[Floats, Floats | None]:
    """One-dimensional values and, where given, a positive finite weight for each."""
    floats = np.atleast_1d(parse_numbers(values))
    if floats.ndim != 1:
        raise InvalidInput(f"values must be one-dimensional, not of shape {floats.shape}")
    if weights is None:
        return floats, None
    loads = np.atleast_1d(parse_numbers(weights, "weights"))
    if loads.shape != floats.shape:
        raise InvalidInput(f"{len(floats)} values need as many weights, not {loads.shape[0]}")
    if loads.size and loads.min() <= 0:
        raise InvalidInput(f"weights must be positive, not {loads.min()}")
    return floats, loads


def parse_counts(counts: Any, what: str = "counts") -> Ints:
    """A one-dimensional int64 array of whole numbers, none negative."""
    array = np.atleast_1d(_as_array(counts, what))
    if array.size == 0:
        return np.empty(0, np.int64)
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise InvalidInput(f"{what} must be whole numbers, not {_example(array)}")
    if array.min() < 0:
        raise InvalidInput(f"{what} must not be negative, not {array.min()}")
    if array.max() > MAX_TOTAL:
        raise TooLarge(f"{what} must stay below 2^63, not {array.max()}")
    return array.astype(np.int64)


def parse_size(size: Any, what: str, low: int, high: int) -> int:
    """A whole number in low..high: a capacity, a width, a compression."""
    if isinstance(size, bool) or not isinstance(size, int | np.integer) or not low <= size <= high:
        raise InvalidInput(f"{what} must be a whole number from {low} to {high}, not {size!r}")
    return int(size)


def exact_sum(counts: Ints) -> int:
    """The sum of non-negative counts, which may itself exceed 64 bits."""
    return (int((counts >> 32).sum()) << 32) + int((counts & 0xFFFFFFFF).sum())


def _as_array(numbers: Any, what: str) -> NDArray[Any]:
    if isinstance(numbers, pa.Array | pa.ChunkedArray):
        if numbers.null_count:
            raise InvalidInput(f"{what} must be numbers, not null")
        chunked = pa.chunked_array([numbers]) if isinstance(numbers, pa.Array) else numbers
        return np.asarray(chunked.to_numpy())
    try:
        return np.asarray(numbers)
    except (ValueError, OverflowError) as error:
        raise InvalidInput(f"{what} must be numbers in one flat list: {error}") from error


def _example(array: NDArray[Any]) -> str:
    """The first offending element, for a message."""
    for element in array.flat:
        if isinstance(element, bool | np.bool_) or not isinstance(element, int | np.integer):
            return repr(element.item() if isinstance(element, np.generic) else element)
    return f"{array.dtype} of shape {array.shape}"
