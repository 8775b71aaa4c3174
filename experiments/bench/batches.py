"""Seeded submissions: batches of scores as an application sends them, lists of str and int.

Every string is an object of its own, as parsing makes them: a string that was hashed before is hashed for nothing.
"""

from collections.abc import Iterator
from uuid import UUID

import numpy as np

from hybrid.events import Batch
from sketches.values import Ints

MAX_SCORE = 1_000_000

_SPREAD = 0x9E3779B97F4A7C15  # odd, so that multiplying by it maps numbers to numbers one to one


def name_of(number: int) -> str:
    """The player of this number, in 16 to 24 characters: "player-f4a7c15", "player-3c6ef372fe94", ..."""
    digits = 9 + number % 9
    return f"player-{number * _SPREAD % 16**digits:0{digits}x}"


def make_batches(numbers: Ints, seed: int, size: int, *, has_ids: bool = False) -> list[Batch]:
    """One random score for each of these players, in batches; with ids each item has a UUID."""
    rng = np.random.default_rng(seed)
    return [_make_batch(numbers[at : at + size], rng, has_ids) for at in range(0, len(numbers), size)]


def draw_players(seed: int, players: int, n: int) -> Ints:
    """n players, drawn uniformly."""
    return np.random.default_rng(seed).integers(0, players, n)


def _make_batch(numbers: Ints, rng: np.random.Generator, has_ids: bool) -> Batch:
    scores = rng.integers(0, MAX_SCORE + 1, len(numbers)).tolist()
    ids = list(_draw_ids(rng, len(numbers))) if has_ids else None
    return Batch([name_of(number) for number in numbers.tolist()], scores, ids=ids)


def _draw_ids(rng: np.random.Generator, n: int) -> Iterator[str]:
    drawn = rng.bytes(16 * n)
    return (str(UUID(bytes=drawn[at : at + 16], version=4)) for at in range(0, 16 * n, 16))
