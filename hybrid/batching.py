"""Micro-batching: questions that are asked in one turn of the event loop are answered by one call.

    batcher = Batcher(answer_many)        # async (list of questions) -> list of answers
    answer = await batcher.ask(question)

Bounded: when too many questions wait, further ones are refused at once instead of piling up.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from hybrid.errors import Overloaded

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

    @property
    def is_idle(self) -> bool:
        return self._in_flight == 0

    async def ask(self, question: Question) -> Answer:
        """The answer to one question, found together with those of others."""
        if self._in_flight >= self._most:
            raise Overloaded(f"{self._in_flight} questions are waiting already")
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        if not self._waiting:
            task = asyncio.create_task(self._flush())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        self._waiting.append((question, future))
        self._in_flight += 1
        try:
            return await future
        finally:
            self._in_flight -= 1

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
        for (_, future), answer in zip(batch, answers, strict=True):
            if not future.done():
                future.set_result(answer)
