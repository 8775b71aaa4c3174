"""Scores over HTTP, in bulk: `python -m experiments.bench.service_sender URL TYPE SCORES PLAYERS BULK IN_FLIGHT SEED`.

Bodies are encoded before the clock starts; the session has a connection for each request in flight. It says how many
seconds it took, and how many scores were accepted.
"""

import sys

import aiohttp
import msgspec

from experiments.bench.batches import draw_players, make_batches
from experiments.bench.flights import fly, run
from hybrid.events import Batch

JSON, NDJSON = "application/json", "application/x-ndjson"


class Sent(msgspec.Struct):
    """What the sender says."""

    seconds: float
    accepted: int


class Taken(msgspec.Struct):
    """What of an answer is looked at."""

    accepted: int


async def send(url: str, kind: str, bodies: list[bytes], in_flight: int) -> Sent:
    headers, decode = {"Content-Type": kind}, msgspec.json.Decoder(Taken).decode
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=in_flight)) as session:

        async def post(body: bytes) -> int:
            async with session.post(url, data=body, headers=headers) as answer:
                answer.raise_for_status()
                return decode(await answer.read()).accepted

        flight = await fly(post, bodies, in_flight)
    return Sent(flight.seconds, sum(flight.answers))


def render_body(batch: Batch, kind: str) -> bytes:
    rows = [{"player": p, "score": s} for p, s in zip(batch.players, batch.scores, strict=True)]
    if kind == NDJSON:
        return b"\n".join(map(msgspec.json.encode, rows))
    return msgspec.json.encode({"scores": rows})


if __name__ == "__main__":
    url, kind, *numbers = sys.argv[1:]
    scores, players, bulk, in_flight, seed = map(int, numbers)
    batches = make_batches(draw_players(seed, players, scores), seed, bulk)
    sent = run(send(url, kind, [render_body(batch, kind) for batch in batches], in_flight))
    sys.stdout.write(msgspec.json.encode(sent).decode() + "\n")
