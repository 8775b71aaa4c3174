"""Reads: questions to one slot or to many, sent together and asked again until they are answered.

Reading changes nothing, so what was not answered may be asked again, and an answer that never came is no unknown
outcome but a Redis that is not there. On one server all questions go out in one write, whatever their slots; in a
cluster those of one slot do.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from redis.exceptions import NoScriptError

from hybrid.errors import OutcomeUnknown, RedisUnavailable
from hybrid.link import PAUSE_S, TIMEOUT_S, Argument, Command, Link, Node, Script

ATTEMPT_S = 1.0  # how long one attempt waits for its answers

Question = tuple[str, Command]  # a key of the slot, and what is asked of it


async def ask_all(link: Link, questions: Sequence[Question], *, timeout_s: float = TIMEOUT_S) -> list[Any]:
    """The replies to all questions, in their order."""
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + timeout_s
    while True:
        left_s = deadline_s - loop.time()
        try:
            return await _send(link, questions, min(max(left_s, 0.001), ATTEMPT_S))
        except (OutcomeUnknown, RedisUnavailable) as error:
            if left_s <= PAUSE_S:
                raise RedisUnavailable(f"Redis could not be read before the deadline: {error}") from error
            await asyncio.sleep(PAUSE_S)


async def run_all(
    link: Link,
    script: Script,
    calls: Sequence[tuple[Sequence[str], Sequence[Argument]]],
    *,
    timeout_s: float = TIMEOUT_S,
) -> list[Any]:
    """What a script that only reads says of all these keys and arguments."""
    rests = [(keys[0], (len(keys), *keys, *args)) for keys, args in calls]
    try:
        return await ask_all(link, [(key, ("EVALSHA", script.sha, *rest)) for key, rest in rests], timeout_s=timeout_s)
    except NoScriptError:
        return await ask_all(link, [(key, ("EVAL", script.text, *rest)) for key, rest in rests], timeout_s=timeout_s)


async def _send(link: Link, questions: Sequence[Question], timeout_s: float) -> list[Any]:
    if not questions:
        return []
    if isinstance(link, Node):
        return await link.run("", [command for _, command in questions], timeout_s=timeout_s)
    places: dict[str, list[int]] = {}
    for place, (key, _) in enumerate(questions):
        places.setdefault(key, []).append(place)
    answers = await asyncio.gather(
        *(link.run(key, [questions[place][1] for place in at], timeout_s=timeout_s) for key, at in places.items())
    )
    found: list[Any] = [None] * len(questions)
    for at, replies in zip(places.values(), answers, strict=True):
        for place, reply in zip(at, replies, strict=True):
            found[place] = reply
    return found
