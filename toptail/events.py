"""Many events of a trend: cut into requests, each with a name, so that one that is sent again counts once."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from toptail.errors import BadAnswer, InvalidField, ToptailError
from toptail.transport import NDJSON, Request, Transport
from toptail.trend_wire import Event, EventsTaken

SomeEvent = str | Event | Mapping[str, Any]

MOST_EVENTS = 10_000
MOST_BYTES = 1_000_000  # aiohttp warns from 1 MiB on

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(EventsTaken).decode


async def send_events(transport: Transport, path: str, events: Iterable[SomeEvent], *, key: str) -> EventsTaken:
    """Send them one request after the other; the first is named by the key, the others by it and their number."""
    accepted = late = first = 0
    for number, lines in enumerate(_cut(events)):
        name = f"{key}:{number}" if number else key
        request = Request("POST", path, body=b"\n".join(lines), content_type=NDJSON, headers={"Idempotency-Key": name})
        try:
            taken = _decode((await transport.send(request)).body)
        except ToptailError as error:
            if error.index is not None:
                error.index += first
            raise
        except msgspec.DecodeError as error:
            raise BadAnswer(f"events were answered with something else: {error}") from None
        accepted, late, first = accepted + taken.accepted, late + taken.late, first + len(lines)
    return EventsTaken(accepted=accepted, late=late)


def _cut(events: Iterable[SomeEvent]) -> Iterator[list[bytes]]:
    lines: list[bytes] = []
    size_bytes = 0
    for number, event in enumerate(events):
        try:
            lines.append(_encode(event))
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise InvalidField(f"event {number} is not one: {error}", index=number) from None
        size_bytes += len(lines[-1]) + 1
        if len(lines) >= MOST_EVENTS or size_bytes >= MOST_BYTES:
            yield lines
            lines, size_bytes = [], 0
    if lines:
        yield lines
