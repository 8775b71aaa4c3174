"""Many scores: cut into requests, several under way at a time, results in the order of the scores.

Each request is lines of JSON. Every score without an id of its own gets one, so a request that is sent again counts
once, also where scores are summed. What an attempt knew of its results before it lost the rest is kept: a score is
`duplicate` only when its first attempt said nothing of it.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec
from msgspec import UNSET

from toptail.errors import BadAnswer, InvalidField, OutcomeUnknown, ToptailError
from toptail.transport import NDJSON, Request, Transport
from toptail.wire import BadScore, Score, ScoreResult, ScoresTaken

OnError = Literal["stop", "skip"]
Outcome = ScoreResult | BadScore
AnyScore = Score | Mapping[str, Any]

MOST_SCORES = 5_000
MOST_BYTES = 4 * 1024 * 1024
IN_FLIGHT = 8

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(ScoresTaken).decode


@dataclass(slots=True)
class _Batch:
    """The scores of one request, as lines; `first` is the number of the first one."""

    first: int
    lines: list[bytes] = field(default_factory=list)
    size_bytes: int = 0

    @property
    def is_full(self) -> bool:
        return len(self.lines) >= MOST_SCORES or self.size_bytes >= MOST_BYTES

    def add(self, line: bytes) -> None:
        self.lines.append(line)
        self.size_bytes += len(line) + 1


async def submit_many(
    transport: Transport,
    path: str,
    scores: Iterable[AnyScore] | AsyncIterable[AnyScore],
    *,
    id_prefix: str,
    on_error: OnError,
) -> AsyncGenerator[Outcome, None]:
    """What became of each score, in order. `id_prefix` begins the ids of those that have none."""
    flights: deque[asyncio.Task[list[Outcome]]] = deque()
    try:
        async for batch in _cut(scores, id_prefix):
            flights.append(asyncio.create_task(_send(transport, path, batch, on_error)))
            await asyncio.sleep(0)  # so that it leaves before the next is made
            while flights and (len(flights) == IN_FLIGHT or flights[0].done()):
                for outcome in await flights.popleft():
                    yield outcome
        while flights:
            for outcome in await flights.popleft():
                yield outcome
    finally:
        for flight in flights:
            flight.cancel()
        await asyncio.gather(*flights, return_exceptions=True)


async def _cut(scores: Iterable[AnyScore] | AsyncIterable[AnyScore], id_prefix: str) -> AsyncIterator[_Batch]:
    batch = _Batch(0)
    number = 0
    async for score in _each(scores):
        batch.add(_render(score, id_prefix, number))
        number += 1
        if batch.is_full:
            yield batch
            batch = _Batch(number)
    if batch.lines:
        yield batch


async def _each(scores: Iterable[AnyScore] | AsyncIterable[AnyScore]) -> AsyncIterator[AnyScore]:
    if isinstance(scores, AsyncIterable):
        async for score in scores:
            yield score
    else:
        for score in scores:
            yield score


def _render(score: AnyScore, id_prefix: str, number: int) -> bytes:
    """One line, with an id in any case."""
    try:
        if isinstance(score, Score):
            return _encode(
                score if score.id is not UNSET else msgspec.structs.replace(score, id=f"{id_prefix}:{number}")
            )
        return _encode({"id": f"{id_prefix}:{number}", **score})
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidField(f"score {number} is not one: {error}", index=number) from None


async def _send(transport: Transport, path: str, batch: _Batch, on_error: OnError) -> list[Outcome]:
    request = Request("POST", path, {"on_error": on_error}, b"\n".join(batch.lines), NDJSON)
    try:
        reply = await transport.send(request)
    except ToptailError as error:
        if error.index is not None:
            error.index += batch.first
        raise
    try:
        taken = _decode(reply.body)
    except msgspec.DecodeError as error:
        raise BadAnswer(f"scores were answered with something else: {error}") from None
    return _assemble(batch, taken, reply.doubts)


def _assemble(batch: _Batch, taken: ScoresTaken, doubts: list[OutcomeUnknown]) -> list[Outcome]:
    """One outcome a line: the results of the good ones and the errors of the bad ones, in their places."""
    results = iter(_recall(taken.results, doubts))
    bad = {error.index: error for error in taken.errors}
    if len(bad) + len(taken.results) != len(batch.lines):
        raise BadAnswer(f"{len(batch.lines)} scores have {len(bad) + len(taken.results)} results")
    return [
        msgspec.structs.replace(bad[place], index=batch.first + place) if place in bad else next(results)
        for place in range(len(batch.lines))
    ]


def _recall(results: list[ScoreResult], doubts: list[OutcomeUnknown]) -> list[ScoreResult]:
    """The results, each from the first attempt that knew it."""
    for doubt in reversed(doubts):
        if len(doubt.results) == len(results):
            pairs = zip(doubt.results, results, strict=True)
            results = [later if early.status == "unknown" else early for early, later in pairs]
    return results
