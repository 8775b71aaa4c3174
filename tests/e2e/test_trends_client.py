"""Trends through the client and the command line, against the real service."""

import asyncio
import os
import pty
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from click.testing import CliRunner, Result
from msgspec import UNSET

from service.settings import Settings
from service.trending_command import trending
from tests.e2e.conftest import Serve, Service
from tests.engines import LossyLink
from toptail import (
    BadAnswer,
    BoardNotFound,
    Client,
    Conflict,
    Event,
    EventsTaken,
    InvalidField,
    Overloaded,
    TrendNotFound,
    TrendTop,
)

ROOT = Path(__file__).parents[2]


def use(service: Service, work: Callable[[Client], Awaitable[None]], **options: Any) -> None:
    async def main() -> None:
        async with Client(service.url, **options) as client:
            await work(client)

    asyncio.run(main())


async def counted(client: Client, trend: str, total: int, **query: Any) -> TrendTop:
    """The board once it has counted so many events."""
    for _ in range(200):
        top = await client.trending(trend, **query)
        if top.total >= total:
            break
        await asyncio.sleep(0.05)
    assert top.total == total
    return top


def lose_answers(is_lost: Callable[[int], bool]) -> Any:
    """A middleware that lets events be taken and drops the connection instead of answering, for the nth request."""
    taken = Counter[str]()

    @web.middleware
    async def middleware(request: web.Request, handler: Any) -> web.StreamResponse:
        response: web.StreamResponse = await handler(request)
        if request.path.endswith("/events"):
            taken["n"] += 1
            if is_lost(taken["n"]) and request.transport is not None:
                request.transport.abort()
        return response

    return middleware


def test_a_trend_is_made_fed_asked_and_removed(service: Service) -> None:
    async def work(client: Client) -> None:
        made = await client.create_trend("clicks", windows=["1h", "1d"], actor_cap=3, title="Klicks")
        assert (made.trend, made.config.capacity, made.config.windows) == ("clicks", 1024, ["1h", "1d"])
        assert (made.config.actor_cap, made.config.source) == (3, UNSET)
        with pytest.raises(Conflict) as conflict:
            await client.create_trend("clicks", windows=["1h"])
        assert conflict.value.fields == ["windows", "actor_cap", "title"]

        long_ago = datetime.now(UTC) - timedelta(days=400)
        events: list[Any] = ["a", "b", Event(item="a", count=2), {"item": "c", "actor": "ann", "count": 9}]
        assert await client.send_events("clicks", events) == EventsTaken(accepted=13, late=0)
        late = await client.send_events("clicks", [Event(item="a", at=long_ago, count=7)])
        assert late == EventsTaken(accepted=0, late=7)
        assert await client.send_events("clicks", []) == EventsTaken(accepted=0, late=0)

        top = await counted(client, "clicks", 7, limit=2)
        assert [(item.item, item.count, item.guaranteed) for item in top.items] == [("a", 3, True), ("c", 3, True)]
        assert (top.window, top.floor, top.late, top.capped) == ("1h", 0, 7, 6)
        assert top.start < top.end == top.as_of
        (by_actors,) = (await client.trending("clicks", by="actors")).items
        assert (by_actors.item, by_actors.actors_low) == ("c", 1)
        found = await client.trend_item("clicks", "a", window="1d")
        assert (found.item, found.low, found.high, found.total) == ("a", 3, 3, 7)

        await client.hide_item("clicks", "a")
        assert [item.item for item in (await client.trending("clicks")).items] == ["c", "b"]
        await client.show_item("clicks", "a")
        assert (await client.trend("clicks")).backlog >= 0
        await client.delete_trend("clicks")
        for ask in (client.trend("clicks"), client.trending("clicks"), client.send_events("clicks", ["a"])):
            with pytest.raises(TrendNotFound, match="clicks"):
                await ask

    use(service, work)


def test_trends_are_listed_over_pages(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toptail.client.PAGE_ROWS", 2)

    async def work(client: Client) -> None:
        for number in range(5):
            await client.create_trend(f"t{number}")
        assert [head.trend async for head in client.trends()] == [f"t{number}" for number in range(5)]
        assert [head.trend async for head in client.trends("t3")] == ["t3"]

    use(service, work)


def test_any_item_comes_through(service: Service) -> None:
    items = {"a/b", "a%2Fb", "{a}", "50%", "日本", "a b+c", "?x=1&y#z", "...", "😀"}

    async def work(client: Client) -> None:
        await client.create_trend("t")
        await client.send_events("t", items)
        assert {row.item for row in (await counted(client, "t", len(items))).items} == items
        for item in items:
            assert (await client.trend_item("t", item)).item == item
            await client.hide_item("t", item)
        assert (await client.trending("t")).items == []

    use(service, work)


def test_long_lists_are_cut_and_count_once_though_answers_are_lost(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toptail.events.MOST_EVENTS", 100)
    service = serve(middlewares=[lose_answers(lambda n: n % 3 == 1)])

    async def work(client: Client) -> None:
        await client.create_trend("t", partitions=2)
        events = (f"i{number % 7}" for number in range(1000))
        assert await client.send_events("t", events) == EventsTaken(accepted=1000, late=0)
        for _ in range(2):
            await client.send_events("t", ["i0"] * 250, key="mine")
        top = await counted(client, "t", 1250)
        truth = Counter(f"i{number % 7}" for number in range(1000)) + Counter(i0=250)
        assert {item.item: item.count for item in top.items} == truth

    use(service, work)


@pytest.mark.parametrize("loss", ["lost", "applied", "unavailable"])
def test_events_that_redis_lost_are_sent_again_and_count_once(serve: Serve, loss: str) -> None:
    links: list[LossyLink] = []

    def wrap(link: Any) -> Any:
        links.append(LossyLink(link))
        return links[0]

    service = serve(Settings(timeout_s=0.2), wrap=wrap)

    async def work(client: Client) -> None:
        await client.create_trend("t")
        await client.send_events("t", ["a"])
        links[0].losses[:] = [loss] * 3
        await client.send_events("t", ["a", "b"])
        assert links[0].lost > 0
        top = await counted(client, "t", 3)
        assert [(item.item, item.count) for item in top.items] == [("a", 2), ("b", 1)]

    use(service, work)


def test_bad_events_are_named_by_their_place_among_all(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toptail.events.MOST_EVENTS", 2)

    async def work(client: Client) -> None:
        await client.create_trend("t")
        with pytest.raises(InvalidField, match="-1") as bad:
            await client.send_events("t", ["a", "b", "c", {"item": "d", "count": -1}])
        assert (bad.value.index, bad.value.field) == (3, "count")
        with pytest.raises(InvalidField, match="event 4"):
            await client.send_events("t", ["a", "b", "c", "d", object()])  # type: ignore[list-item]
        with pytest.raises(InvalidField, match="item"):
            await client.hide_item("t", "..")
        with pytest.raises(BoardNotFound, match="none"):
            await client.create_trend("fed", source={"board": "none"})

    use(service, work)


def test_large_events_leave_in_smaller_requests(service: Service) -> None:
    async def work(client: Client) -> None:
        await client.create_trend("t")
        events = [{"item": "😀" * 128, "actor": "😀" * 128} for _ in range(9_000)]
        assert (await client.send_events("t", events)).accepted == 9_000

    use(service, work)


def test_too_much_at_a_time_is_waited_out_or_said(serve: Serve) -> None:
    @web.middleware
    async def busy(request: web.Request, handler: Any) -> web.StreamResponse:
        if request.path.endswith("/events"):
            body = b'{"error": {"code": "overloaded", "message": "wait", "request_id": "r"}}'
            return web.Response(status=429, body=body, headers={"Retry-After": "0"})
        return await handler(request)  # type: ignore[no-any-return]

    async def work(client: Client) -> None:
        await client.create_trend("t")
        with pytest.raises(Overloaded):
            await client.send_events("t", ["a"])

    use(serve(middlewares=[busy]), work, timeout_s=1.0)


def test_an_answer_of_another_server_is_no_answer(serve: Serve) -> None:
    @web.middleware
    async def elsewhere(request: web.Request, handler: Any) -> web.StreamResponse:  # noqa: ARG001
        return web.Response(text="<html>hello</html>")

    async def work(client: Client) -> None:
        for ask in (client.send_events("t", ["a"]), client.trending("t"), client.trend("t")):
            with pytest.raises(BadAnswer):
                await ask

    use(serve(middlewares=[elsewhere]), work)


def fill(service: Service) -> None:
    async def work(client: Client) -> None:
        await client.create_trend("clicks")
        await client.send_events("clicks", [{"item": "[red]a[/]", "count": 1200, "actor": "ann"}, "b"])
        await counted(client, "clicks", 1201)

    use(service, work)


def invoke(url: str, *words: str) -> Result:
    return CliRunner(env={"COLUMNS": "200"}).invoke(trending, [*words, "--url", url])


def test_trending_is_a_table(service: Service) -> None:
    fill(service)
    shown = invoke(service.url, "clicks", "--once")
    assert shown.exit_code == 0, shown.output
    assert "clicks, 1m, 1,201 events" in shown.stdout
    (line,) = [line for line in shown.stdout.splitlines() if "[red]a[/]" in line]
    assert [cell.strip() for cell in line.split("│")[1:-1]] == ["[red]a[/]", "1,200", "1,200 - 1,200", "*", "", "1"]
    by_actors = invoke(service.url, "clicks", "--once", "--by", "actors", "--limit", "5", "--window", "1h")
    assert (by_actors.exit_code, "│ b " in by_actors.stdout) == (0, False)
    for words, said in ((("none", "--once"), "no trend 'none'"), (("clicks", "--once", "--limit", "999"), "256")):
        failed = invoke(service.url, *words)
        assert (failed.exit_code, said in failed.stderr) == (1, True), failed.output
    assert invoke(service.url, "clicks", "--window", "1w").exit_code == 2
    assert "no service at" in invoke("http://127.0.0.1:9", "clicks").stderr


def test_trending_stays_and_is_kept_up_to_date_until_it_is_interrupted(service: Service) -> None:
    fill(service)
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", "from service.trending_command import trending; trending()", "clicks"]
    with subprocess.Popen([*command, "--url", service.url], stdout=theirs, stderr=theirs, cwd=ROOT) as child:
        os.close(theirs)
        assert "1,201" in read_until(ours, "1,201")
        use(service, lambda client: send(client, "b", 2000))
        assert "2,001" in read_until(ours, "2,001")
        child.send_signal(signal.SIGINT)
        assert "Traceback" not in read_until(ours, "\0")
        assert child.wait(10) == 0
    os.close(ours)


async def send(client: Client, item: str, count: int) -> None:
    await client.send_events("clicks", [Event(item=item, count=count)])


def read_until(terminal: int, text: str) -> str:
    """What a terminal shows, up to a text or the end."""
    shown, end_s = "", time.monotonic() + 15
    while text not in shown and time.monotonic() < end_s:
        try:
            shown += os.read(terminal, 4096).decode(errors="replace")
        except OSError:  # nobody writes to it any more
            break
    return shown
