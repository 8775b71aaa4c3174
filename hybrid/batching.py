"""Micro-batching: questions that are asked in one turn of the event loop are answered by one call.

    batcher = Batcher(answer_many)        # async (list of questions) -> list of answers
    answer = await batcher.ask(question)

While a call is on its way, questions wait for the next one: under load the calls grow by themselves. And after it the
next one waits a few turns for those who were just answered and ask again: one call for all of them takes less time than
two that take turns. A call that takes long holds nobody up: then the next one goes beside it. Bounded: when too many
questions wait, further ones are refused at once instead of piling up.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from hybrid.errors import Overloaded

PATIENCE_S = 0.05  # how long questions wait for a call that is on its way
TURNS = 3  # of the loop until who was answered asks again: a request is read, wakes its connection, starts its handler

Question = TypeVar("Question")
Answer = TypeVar("Answer")


class Batcher(Generic[Question, Answer]):
    """Collects the questions of one turn of the loop."""

    def __init__(self, answer: Callable[[list[Question]], Awaitable[Sequence[Answer]]], *, most: int = 100_000) -> None:
        self._answer = answer
        self._most = most
        self._waiting: list[tuple[Question, asyncio.Future[Answer]]] = []
        self._in_flight = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._drains = 0
        self._patient_until_s = 0.0

    @property
    def is_idle(self) -> bool:
        return self._in_flight == 0

    def ask(self, question: Question) -> asyncio.Future[Answer]:
        """The answer to one question, found together with those of others."""
        if self._in_flight >= self._most:
            raise Overloaded(f"{self._in_flight} questions are waiting already")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Answer] = loop.create_future()
        self._waiting.append((question, future))
        self._in_flight += 1
        if not self._drains or loop.time() > self._patient_until_s:
            self._drains += 1
            task = loop.create_task(self._drain())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return future

    async def _drain(self) -> None:
        try:
            while self._waiting:
                self._patient_until_s = asyncio.get_running_loop().time() + PATIENCE_S
                await self._flush()
                for _ in range(TURNS):
                    await asyncio.sleep(0)
        finally:
            # Here, and not when the task is over: a caller whose answer just came may ask again before that.
            self._drains -= 1

    async def _flush(self) -> None:
        batch, self._waiting = self._waiting, []
        try:
            answers = await self._answer([question for question, _ in batch])
        except BaseException as error:
            for _, future in batch:
                if not future.done():
                    future.set_exception(error) if isinstance(error, Exception) else future.cancel()
            if not isinstance(error, Exception):
                raise
            return
        finally:
            self._in_flight -= len(batch)
        for (_, future), answer in zip(batch, answers, strict=True):
            if not future.done():
                future.set_result(answer)
