"""Events over HTTP: `python -m experiments.bench.trends_sender URL TYPE EVENTS ITEMS BULK IN_FLIGHT PACE SEED`.

Bodies are encoded before anything is sent: it says a line when they are, and begins when it is given one. With a PACE,
in events a second, requests are sent when they are due, whether or not those before are answered; with 0 as fast as so
many in flight allow. What is refused because too much is waiting already is sent again. At the end it says how long it
took, and what became of the events.
"""

import asyncio
import sys
from collections.abc import Callable, Coroutine, Sequence
from http import HTTPStatus

import aiohttp
import msgspec
import numpy as np
import pyarrow as pa

from experiments.bench.flights import fly, run
from experiments.bench.hitters import EXPONENTS
from experiments.bench.timing import Stopwatch, now_s
from experiments.bench.trends_stages import slices
from experiments.bench.workloads import Stream, zipf_stream

SHAPE = "Zipf 1.1"
JSON, ARROW = "application/json", "application/vnd.apache.arrow.stream"

_PAUSE_S = 0.05  # after a refusal

Post = Callable[[bytes], Coroutine[None, None, None]]


class Sent(msgspec.Struct):
    """What the sender says: `refused` requests were sent again."""

    seconds: float = 0.0
    accepted: int = 0
    refused: int = 0


class Taken(msgspec.Struct):
    """What of an answer is looked at."""

    accepted: int


def make_stream(events: int, items: int, seed: int) -> Stream:
    return zipf_stream(np.random.default_rng(seed), events, items, EXPONENTS[SHAPE])


def render_bodies(events: pa.LargeStringArray, kind: str, size: int) -> list[bytes]:
    """Requests of so many events."""
    render = _render_arrow if kind == ARROW else _render_json
    return [render(part) for part in slices(events, size)]


def _render_json(events: pa.LargeStringArray) -> bytes:
    return msgspec.json.encode({"events": events.to_pylist()})


def _render_arrow(events: pa.LargeStringArray) -> bytes:
    table, sink = pa.table({"item": events.cast(pa.string())}), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


async def send(url: str, kind: str, bodies: Sequence[bytes], in_flight: int, pace_s: float) -> Sent:
    """Send all bodies: one each `pace_s` seconds, or so many at a time."""
    sent, headers, decode = Sent(), {"Content-Type": kind}, msgspec.json.Decoder(Taken).decode
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0 if pace_s else in_flight)) as session:

        async def post(body: bytes) -> None:
            while True:
                async with session.post(url, data=body, headers=headers) as answer:
                    if answer.status == HTTPStatus.ACCEPTED:
                        sent.accepted += decode(await answer.read()).accepted
                        return
                    if answer.status != HTTPStatus.TOO_MANY_REQUESTS:
                        raise RuntimeError(f"{answer.status}: {await answer.text()}")
                sent.refused += 1
                await asyncio.sleep(_PAUSE_S)

        with Stopwatch() as watch:
            await (_pace(post, bodies, pace_s) if pace_s else fly(post, bodies, in_flight))
    sent.seconds = watch.seconds
    return sent


async def _pace(post: Post, bodies: Sequence[bytes], pace_s: float) -> None:
    due_s = now_s()
    async with asyncio.TaskGroup() as group:
        for body in bodies:
            group.create_task(post(body))
            due_s += pace_s
            await asyncio.sleep(max(due_s - now_s(), 0))


def _say(line: bytes) -> None:
    sys.stdout.write(line.decode() + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    url, kind, *numbers = sys.argv[1:]
    events, items, bulk, in_flight, pace, seed = map(int, numbers)
    bodies = render_bodies(make_stream(events, items, seed).events, kind, bulk)
    _say(b"ready")
    sys.stdin.readline()
    _say(msgspec.json.encode(run(send(url, kind, bodies, in_flight, bulk / pace if pace else 0.0))))
