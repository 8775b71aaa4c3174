"""Micro-batching: one call for the questions of one turn, errors for all of them, a bound."""

import asyncio
from collections.abc import Sequence

import pytest

from hybrid.batching import PATIENCE_S, TURNS, Batcher
from hybrid.errors import Overloaded


def test_questions_of_one_turn_are_answered_by_one_call() -> None:
    calls: list[list[int]] = []

    async def double(numbers: list[int]) -> Sequence[int]:
        calls.append(numbers)
        return [2 * number for number in numbers]

    async def main() -> list[int]:
        batcher = Batcher(double)
        first = await asyncio.gather(*(batcher.ask(n) for n in range(5)))
        return [*first, await batcher.ask(9)]

    assert asyncio.run(main()) == [0, 2, 4, 6, 8, 18]
    assert calls == [[0, 1, 2, 3, 4], [9]]


def test_an_error_reaches_everybody_who_asked_and_nobody_later() -> None:
    fails = iter([True, False])

    async def answer(numbers: list[int]) -> Sequence[int]:
        if next(fails):
            raise ValueError("no luck")
        return numbers

    async def main() -> None:
        batcher = Batcher(answer)
        answers = await asyncio.gather(*(batcher.ask(n) for n in range(3)), return_exceptions=True)
        assert [str(answer) for answer in answers] == ["no luck"] * 3
        assert await batcher.ask(7) == 7

    asyncio.run(main())


def test_one_who_gives_up_leaves_the_others_their_answers() -> None:
    gate = asyncio.Event()

    async def answer(numbers: list[int]) -> Sequence[int]:
        await gate.wait()
        return numbers

    async def main() -> None:
        batcher = Batcher(answer)
        asked = [batcher.ask(n) for n in range(3)]
        await asyncio.sleep(0)
        asked[1].cancel()
        gate.set()
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert (answers[0], answers[2]) == (0, 2)
        assert isinstance(answers[1], asyncio.CancelledError)

    asyncio.run(main())


def test_too_many_questions_are_refused_at_once() -> None:
    async def never(numbers: list[int]) -> Sequence[int]:
        await asyncio.Event().wait()
        return numbers

    async def main() -> None:
        batcher = Batcher(never, most=3)
        waiting = [batcher.ask(n) for n in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(Overloaded, match="3 questions are waiting"):
            await batcher.ask(4)
        for task in waiting:
            task.cancel()

    asyncio.run(main())


def test_questions_wait_for_a_call_that_is_on_its_way_but_not_for_long() -> None:
    calls: list[list[int]] = []
    gate = asyncio.Event()

    async def answer(numbers: list[int]) -> Sequence[int]:
        calls.append(numbers)
        if 0 in numbers:
            await gate.wait()
        return numbers

    async def main() -> None:
        batcher = Batcher(answer)
        stuck = batcher.ask(0)
        await asyncio.sleep(0.001)
        waiting = [batcher.ask(n) for n in (1, 2)]
        await asyncio.sleep(0.001)
        assert calls == [[0]]
        await asyncio.sleep(PATIENCE_S)
        assert await batcher.ask(3) == 3
        assert calls == [[0], [1, 2, 3]]
        gate.set()
        assert await asyncio.gather(stuck, *waiting) == [0, 1, 2]

    asyncio.run(main())


def test_who_asks_again_as_soon_as_he_is_answered_is_answered_again() -> None:
    async def echo(numbers: list[int]) -> Sequence[int]:
        await asyncio.sleep(0)
        return numbers

    async def main() -> None:
        batcher = Batcher(echo)

        async def ask_on() -> int:
            return sum([await batcher.ask(number) for number in range(100)])

        async with asyncio.timeout(5):
            assert await asyncio.gather(*(ask_on() for _ in range(20))) == [4950] * 20

    asyncio.run(main())


def test_who_asks_again_some_turns_after_his_answer_shares_the_next_call() -> None:
    calls: list[list[int]] = []

    async def echo(numbers: list[int]) -> Sequence[int]:
        await asyncio.sleep(0)
        calls.append(numbers)
        return numbers

    async def main() -> None:
        batcher = Batcher(echo)

        async def ask_twice(turns: int) -> None:
            await batcher.ask(1)
            for _ in range(turns):
                await asyncio.sleep(0)
            await batcher.ask(2)

        await asyncio.gather(*(ask_twice(turns) for turns in range(TURNS)))

    asyncio.run(main())
    assert calls == [[1] * TURNS, [2] * TURNS]
