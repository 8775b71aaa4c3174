"""The client against the real service: every method, every error, and retries that count once."""

import asyncio
import socket
from collections import Counter
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from aiohttp import web
from msgspec import UNSET

from hybrid.errors import RedisUnavailable
from hybrid.link import Link
from service.auth import make_key
from service.errors import STATUS, ApiError, render_error
from service.settings import Settings
from tests.e2e.conftest import Serve, Service
from tests.engines import LossyLink
from toptail import (
    BadAnswer,
    BadScore,
    BoardNotFound,
    Client,
    Conflict,
    Forbidden,
    InvalidField,
    NoAnswer,
    PercentileStanding,
    PlayerNotFound,
    RankStanding,
    Score,
    ScoreResult,
    TooLarge,
    ToptailError,
    Unauthenticated,
    Unavailable,
    Unreachable,
    errors,
)

AT = datetime(2026, 11, 17, 12, tzinfo=UTC)
NAMES = [
    "ann",
    "a/b",
    "a%2Fb",
    "{ann}",
    "%",
    "50%",
    "é ü",
    "日本",
    "a b+c",
    "?x=1&y#z",
    "...",
    ".a",
    "a;b",
    "~",
    "\\",
    "😀",
]


def use(service: Service, work: Callable[[Client], Coroutine[Any, Any, None]], **options: Any) -> None:
    """Run a test's work with a client of the service."""

    async def main() -> None:
        async with Client(service.url, **options) as client:
            await work(client)

    asyncio.run(main())


def lose_answers(is_lost: Callable[[int], bool]) -> Any:
    """A middleware that lets writes happen and drops the connection instead of answering, for the nth write."""
    writes = Counter[str]()

    @web.middleware
    async def middleware(request: web.Request, handler: Any) -> web.StreamResponse:
        response: web.StreamResponse = await handler(request)
        if request.method != "GET":
            writes["n"] += 1
            if is_lost(writes["n"]) and request.transport is not None:
                request.transport.abort()
        return response

    return middleware


def answer_always(code: str) -> Any:
    """A middleware that refuses everything."""

    @web.middleware
    async def middleware(request: web.Request, handler: Any) -> web.StreamResponse:  # noqa: ARG001
        status, body, headers = render_error(ApiError(code, f"{code} on purpose", field="f", index=1), "request-1")
        return web.Response(status=status, body=msgspec.json.encode(body), headers=headers)

    return middleware


def test_a_board_is_made_described_changed_listed_and_removed(service: Service) -> None:
    async def work(client: Client) -> None:
        made = await client.create_board(
            "game-1", top_n=5, windows=["alltime", "daily"], subscore={"max": 9}, title="G"
        )
        assert (made.board, made.config.top_n, made.config.windows) == ("game-1", 5, ["alltime", "daily"])
        assert made.config.subscore is not UNSET
        again = await client.create_board(
            "game-1", top_n=5, windows=["alltime", "daily"], subscore={"max": 9}, title="G"
        )
        assert again.created == made.created
        changed = await client.change_board("game-1", top_n=7, title="Games")
        assert (changed.config.top_n, changed.config.title) == (7, "Games")
        assert (await client.board("game-1")).config == changed.config
        await client.create_board("other")
        assert [head.board async for head in client.boards()] == ["game-1", "other"]
        assert [head.board async for head in client.boards("ga")] == ["game-1"]
        await client.delete_board("game-1")
        with pytest.raises(BoardNotFound, match="game-1"):
            await client.board("game-1")

    use(service, work)


def test_boards_are_listed_over_pages(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toptail.client.PAGE_ROWS", 2)

    async def work(client: Client) -> None:
        for number in range(5):
            await client.create_board(f"b{number}", shards=1)
        assert [head.board async for head in client.boards()] == [f"b{number}" for number in range(5)]

    use(service, work)


def test_a_score_is_submitted_with_everything_it_may_have(service: Service) -> None:
    async def work(client: Client) -> None:
        await client.create_board("b", subscore={"max": 100, "direction": "low"}, decimals=1)
        result = await client.submit("b", "ann", 10.5, subscore=3, at=AT, id="e1", tag="level-2", with_standing=True)
        assert (result.player, result.status, result.score, result.previous) == ("ann", "added", 10.5, None)
        assert isinstance(result.standing, RankStanding)
        assert (result.standing.rank, result.standing.subscore, result.standing.at) == (1, 3, AT)
        assert (await client.submit("b", "ann", 99, subscore=1, id="e1")).status == "duplicate"
        later = await client.submit("b", "ann", 11, subscore=1, at=1_794_916_800_000)
        assert (later.status, later.previous) == ("improved", 10.5)

    use(service, work)


def test_rows_and_standings_are_those_of_a_sorted_list(service: Service) -> None:
    scores = {f"p{number}": number * 37 % 1000 for number in range(2500)}
    truth = sorted(scores, key=lambda player: (-scores[player], player.encode()))

    async def work(client: Client) -> None:
        await client.create_board("b", top_n=10)
        many = [Score(player=player, score=score, at=AT) for player, score in scores.items()]
        outcomes = [outcome async for outcome in client.submit_many("b", many)]
        assert [outcome.player for outcome in outcomes if isinstance(outcome, ScoreResult)] == list(scores)
        assert [entry.player async for entry in client.rows("b", page_rows=700)] == truth
        assert [entry.player async for entry in client.export("b", window="alltime")] == truth
        assert [entry.rank async for entry in client.export("b")] == list(range(1, 2501))
        page = await client.top("b", 3, from_rank=1000)
        assert [(entry.rank, entry.player) for entry in page.entries] == [(n, truth[n - 1]) for n in (1000, 1001, 1002)]
        following = await client.top("b", 1, cursor=str(page.next_cursor))
        assert following.entries[0].player == truth[1002]

        exact = await client.standing("b", truth[1234], exact=True)
        assert isinstance(exact, RankStanding)
        assert exact.rank == 1235
        served = await client.standing("b", truth[1234])
        assert isinstance(served, PercentileStanding)
        assert served.rank_low <= 1235 <= served.rank_high
        assert isinstance(await client.standing("b", truth[3]), RankStanding)
        competition = await client.standing("b", truth[1], exact=True, ranking="competition")
        assert isinstance(competition, RankStanding)
        assert competition.rank == 1
        newcomer = await client.standing_of_score("b", 500, exact=True)
        assert isinstance(newcomer, RankStanding)
        assert newcomer.rank == 1 + sum(score >= 500 for score in scores.values())

        around = await client.neighbors("b", truth[50], reach=2)
        assert [entry.player for entry in (*around.above, *around.below)] == [truth[n] for n in (48, 49, 51, 52)]
        assert around.player.rank == 51
        (median,) = (await client.quantiles("b", [0.5])).quantiles
        assert median.score is not None
        assert 480 <= median.score <= 520
        bins = (await client.distribution("b", bins=4, scale="linear")).bins
        assert sum(one.count for one in bins) == 2500

        await client.remove_player("b", truth[0])
        with pytest.raises(PlayerNotFound, match=truth[0]):
            await client.standing("b", truth[0])

    use(service, work)


def test_standings_of_many_come_in_the_order_that_was_asked_for(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toptail.client.MOST_SCORES", 3)

    async def work(client: Client) -> None:
        await client.create_board("b")
        assert [_ async for _ in client.submit_many("b", [{"player": f"p{n}", "score": n} for n in range(8)])]
        found = await client.standings("b", [*(f"p{n}" for n in range(8)), "nobody"])
        assert [row.player if row else None for row in found] == [*(f"p{n}" for n in range(8)), None]
        assert await client.standings("b", []) == []

    use(service, work)


def test_windows_are_asked_for_by_name(service: Service) -> None:
    async def work(client: Client) -> None:
        await client.create_board("b", windows=["alltime", "daily"])
        await client.submit("b", "ann", 1, at=AT)
        await client.submit("b", "bob", 2)
        today = [entry.player async for entry in client.rows("b", window="daily")]
        assert today == ["bob"]
        with pytest.raises(InvalidField, match="weekly"):
            await client.top("b", window="weekly")

    use(service, work)


@pytest.mark.parametrize("name", NAMES)
def test_any_name_comes_through(service: Service, name: str) -> None:
    async def work(client: Client) -> None:
        await client.create_board("b")
        assert (await client.submit("b", name, 1)).player == name
        assert (await client.standing("b", name)).player == name
        assert (await client.neighbors("b", name)).player.player == name
        assert [row.player if row else None for row in await client.standings("b", [name])] == [name]
        assert [entry.player async for entry in client.export("b")] == [name]
        await client.remove_player("b", name)
        with pytest.raises(PlayerNotFound):
            await client.standing("b", name)

    use(service, work)


def test_names_that_would_lead_elsewhere_go_nowhere(service: Service) -> None:
    async def work(client: Client) -> None:
        await client.create_board("b")
        for name in ("", ".", ".."):
            with pytest.raises(InvalidField):
                await client.remove_player("b", name)
            with pytest.raises(InvalidField):
                await client.delete_board(name)
        assert (await client.board("b")).board == "b"
        for name in ("b/players/x", "b?x", "%62", "B", "b#"):
            with pytest.raises(ToptailError) as caught:
                await client.delete_board(name)
            assert caught.value.status in (404, 422)
        assert (await client.board("b")).board == "b"

    use(service, work)


@pytest.mark.parametrize("code", STATUS)
def test_every_error_code_arrives_as_its_own_class(serve: Serve, code: str) -> None:
    async def work(client: Client) -> None:
        with pytest.raises(ToptailError) as caught:
            await client.board("b")
        error = caught.value
        assert type(error) is errors.BY_CODE[code]
        assert (error.status, error.field, error.index, error.request_id) == (STATUS[code], "f", 1, "request-1")

    use(serve(middlewares=[answer_always(code)]), work, timeout_s=0.1)


def test_refusals_of_the_service_say_what_and_where(serve: Serve) -> None:
    async def work(client: Client) -> None:
        await client.create_board("b", score_max=100)
        with pytest.raises(Conflict) as conflict:
            await client.create_board("b", score_max=200)
        assert conflict.value.fields == ["score_max"]
        with pytest.raises(InvalidField, match="101") as high:
            await client.submit("b", "ann", 101)
        assert (high.value.field, high.value.index) == ("score", 0)
        with pytest.raises(errors.AtOutOfRange, match="at"):
            await client.submit("b", "ann", 1, at=datetime(2019, 1, 1, tzinfo=UTC))
        with pytest.raises(InvalidField, match="tops"):
            await client.create_board("c", tops=5)
        with pytest.raises(TooLarge, match="20"):
            await client.standings("b", ["x"] * 21)

    use(serve(Settings(max_items=20)), work)


def test_ranks_that_are_not_known_of_the_tail_are_refused(service: Service) -> None:
    async def work(client: Client) -> None:
        await client.create_board("b", top_n=1)
        assert [_ async for _ in client.submit_many("b", [{"player": f"p{n}", "score": n} for n in range(50)])]
        with pytest.raises(errors.RankingUnavailable, match="dense"):
            await client.standing("b", "p0", ranking="dense")

    use(service, work)


def test_keys_say_who_may_what(serve: Serve, tmp_path: Path) -> None:
    (admin, first), (reader, second) = make_key("admin", "*"), make_key("read", "game-*")
    keys_file = tmp_path / "keys"
    keys_file.write_text(f"{first}\n{second}\n")
    service = serve(keys_file=keys_file)

    async def work(client: Client) -> None:
        await client.create_board("game-1")
        await client.create_board("secret")

    use(service, work, key=admin)

    async def read(client: Client) -> None:
        assert (await client.board("game-1")).board == "game-1"
        with pytest.raises(Forbidden, match="secret"):
            await client.board("secret")
        with pytest.raises(Forbidden, match="write"):
            await client.submit("game-1", "ann", 1)

    use(service, read, key=reader)

    async def nobody(client: Client) -> None:
        with pytest.raises(Unauthenticated):
            await client.board("game-1")

    use(service, nobody)
    use(service, nobody, key=reader[:-1] + ("y" if reader.endswith("x") else "x"))


def test_a_session_of_ones_own_stays_open(service: Service) -> None:
    async def main() -> None:
        async with aiohttp.ClientSession() as session:
            client = Client(service.url + "/", session=session)
            await client.create_board("b")
            async with client:
                await client.submit("b", "ann", 1)
            assert not session.closed
            assert (await client.board("b")).players == 1

    asyncio.run(main())


def test_a_score_whose_answer_was_lost_counts_once(serve: Serve) -> None:
    service = serve(middlewares=[lose_answers(lambda n: n > 1 and n % 2 == 0)])

    async def work(client: Client) -> None:
        await client.create_board("b", strategy="sum")
        statuses = [(await client.submit("b", "ann", 1)).status for _ in range(10)]
        assert statuses == ["duplicate"] * 10
        assert (await client.standing("b", "ann")).score == 10

    use(service, work)


def test_many_sums_are_exact_though_answers_are_lost(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toptail.bulk.MOST_SCORES", 100)
    service = serve(middlewares=[lose_answers(lambda n: n > 1 and n % 3 == 0)])

    async def work(client: Client) -> None:
        await client.create_board("b", strategy="sum")
        scores = [{"player": f"p{n % 70}", "score": n} for n in range(3000)]
        outcomes = [outcome async for outcome in client.submit_many("b", scores)]
        assert [o.player for o in outcomes if isinstance(o, ScoreResult)] == [str(s["player"]) for s in scores]
        truth = {f"p{k}": sum(range(k, 3000, 70)) for k in range(70)}
        assert {entry.player: entry.score async for entry in client.rows("b")} == truth
        assert (await client.board("b")).seq == 3000

    use(service, work)


def test_a_removal_whose_answer_was_lost_is_done(serve: Serve) -> None:
    # aiohttp repeats a DELETE by itself once: both its answers are lost.
    service = serve(middlewares=[lose_answers(lambda n: n in (3, 4))])

    async def work(client: Client) -> None:
        await client.create_board("b")
        await client.submit("b", "ann", 1)
        await client.remove_player("b", "ann")
        with pytest.raises(PlayerNotFound):
            await client.remove_player("b", "ann")

    use(service, work)


@pytest.mark.parametrize("loss", ["lost", "applied", "unavailable"])
def test_what_redis_lost_is_sent_again_and_counts_once(serve: Serve, loss: str) -> None:
    links: list[LossyLink] = []

    def wrap(link: Link) -> Link:
        links.append(LossyLink(link))
        return links[0]

    service = serve(Settings(timeout_s=0.2), wrap=wrap)

    async def work(client: Client) -> None:
        await client.create_board("b", strategy="sum", shards=2)
        assert (await client.submit("b", "ann", 1)).status == "added"
        links[0].losses[:] = [loss] * 12
        async for _ in client.submit_many("b", [{"player": f"p{n}", "score": n} for n in range(20)]):
            pass
        assert links[0].lost > 0
        assert {entry.player: entry.score async for entry in client.rows("b")} == {
            "ann": 1,
            **{f"p{n}": n for n in range(20)},
        }

    use(service, work)


def test_bad_scores_are_skipped_or_stop(service: Service) -> None:
    scores: list[dict[str, Any]] = [{"player": f"p{n}", "score": n} for n in range(10)]
    scores[3]["score"], scores[7]["player"] = -5, ""

    async def work(client: Client) -> None:
        await client.create_board("b")
        with pytest.raises(InvalidField) as caught:
            [_ async for _ in client.submit_many("b", scores)]
        assert caught.value.index in (3, 7)
        assert (await client.board("b")).players == 0
        outcomes = [outcome async for outcome in client.submit_many("b", scores, on_error="skip")]
        assert [o.index for o in outcomes if isinstance(o, BadScore)] == [3, 7]
        assert (await client.board("b")).players == 8

    use(service, work)


def test_nobody_there_is_said_at_the_deadline() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"

        async def main() -> None:
            async with Client(url, timeout_s=0.2) as client:
                began_s = asyncio.get_running_loop().time()
                with pytest.raises(Unreachable, match=url):
                    await client.board("b")
                assert asyncio.get_running_loop().time() - began_s < 2

        asyncio.run(main())


def test_a_silent_service_is_asked_again_until_the_deadline(serve: Serve) -> None:
    asked, over = [], asyncio.Event()

    @web.middleware
    async def silence(request: web.Request, handler: Any) -> web.StreamResponse:  # noqa: ARG001
        asked.append(request.path)
        await over.wait()
        return web.Response()

    service = serve(middlewares=[silence])

    async def work(client: Client) -> None:
        with pytest.raises(NoAnswer, match="in time"):
            await client.board("b")

    use(service, work, timeout_s=0.5, attempt_s=0.1)
    service.loop.call_soon_threadsafe(over.set)
    assert len(asked) > 1


def test_an_error_says_if_an_earlier_attempt_may_have_written(serve: Serve) -> None:
    service = serve(middlewares=[answer_always_after_first("unavailable")])

    async def work(client: Client) -> None:
        with pytest.raises(NoAnswer) as caught:
            await client.submit("b", "ann", 1)
        assert isinstance(caught.value.__cause__, Unavailable)

    use(service, work, timeout_s=0.5)


def answer_always_after_first(code: str) -> Any:
    """The first connection is dropped, then everything is refused."""
    seen: list[str] = []

    @web.middleware
    async def middleware(request: web.Request, handler: Any) -> web.StreamResponse:
        seen.append(request.path)
        if len(seen) == 1 and request.transport is not None:
            request.transport.abort()
        return await answer_always(code)(request, handler=handler)  # type: ignore[no-any-return]

    return middleware


def test_a_limit_is_waited_out(serve: Serve) -> None:
    busy = [1, 1]

    @web.middleware
    async def middleware(request: web.Request, handler: Any) -> web.StreamResponse:
        if busy:
            busy.pop()
            status, body, _ = render_error(ApiError("rate_limited", "slow down"), "r")
            return web.Response(status=status, body=msgspec.json.encode(body), headers={"Retry-After": "0"})
        return await handler(request)  # type: ignore[no-any-return]

    async def work(client: Client) -> None:
        assert (await client.create_board("b")).board == "b"

    use(serve(middlewares=[middleware]), work)


def test_an_answer_of_another_server_is_no_answer(serve: Serve) -> None:
    @web.middleware
    async def middleware(request: web.Request, handler: Any) -> web.StreamResponse:  # noqa: ARG001
        if request.path.endswith("moved"):
            raise web.HTTPFound("http://elsewhere.invalid/")
        return web.Response(text="<html>hello</html>")

    async def work(client: Client) -> None:
        for name in ("b", "moved"):
            with pytest.raises(BadAnswer):
                await client.board(name)
        with pytest.raises(BadAnswer):
            [_ async for _ in client.export("b")]
        with pytest.raises(BadAnswer):
            [_ async for _ in client.submit_many("b", [{"player": "a", "score": 1}])]

    use(serve(middlewares=[middleware]), work)


class BreakingLink:
    """Answers so many questions, and then none."""

    def __init__(self, link: Link) -> None:
        self.link, self.left = link, 10**9

    async def run(self, *args: Any, **options: Any) -> list[Any]:
        self.left -= 1
        if self.left < 0:
            raise RedisUnavailable("gone on purpose")
        return await self.link.run(*args, **options)

    async def close(self) -> None:
        await self.link.close()


def test_an_export_that_breaks_off_raises(serve: Serve) -> None:
    links: list[BreakingLink] = []

    def wrap(link: Link) -> Link:
        links.append(BreakingLink(link))
        return links[0]

    service = serve(wrap=wrap)

    async def work(client: Client) -> None:
        await client.create_board("b", shards=1)
        scores = [{"player": f"p{n}", "score": n} for n in range(10_000)]
        assert len([_ async for _ in client.submit_many("b", scores)]) == 10_000
        rows: list[int] = []

        async def read() -> None:
            async for entry in client.export("b"):
                rows.append(entry.rank)
                links[0].left = min(links[0].left, 2)

        with pytest.raises(ToptailError):
            await read()
        assert rows == list(range(1, len(rows) + 1))
        assert len(rows) < 10_000

    use(service, work, timeout_s=1.0, attempt_s=0.5)


def test_an_export_may_be_left_early(service: Service) -> None:
    async def work(client: Client) -> None:
        await client.create_board("b")
        assert [_ async for _ in client.submit_many("b", [{"player": f"p{n}", "score": n} for n in range(3000)])]
        rows = client.export("b")
        assert (await anext(rows)).rank == 1
        await rows.aclose()
        assert (await client.board("b")).players == 3000

    use(service, work)
