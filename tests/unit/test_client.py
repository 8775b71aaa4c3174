"""The client without a service: what it imports, its tree of errors, how it waits, quotes and cuts."""

import ast
import asyncio
import inspect
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import toptail
from service.errors import STATUS, ApiError, render_error
from toptail import bulk, errors, wire
from toptail.transport import Reply, Request, check_base_url, pause_s, quote_name

ROOT = Path(toptail.__file__).parent
ITEMS = [{"player": f"p{number}", "score": number} for number in range(12)]


def test_what_is_exported_is_what_is_there() -> None:
    visible = {name for name, value in vars(toptail).items() if name[0] != "_" and not inspect.ismodule(value)}
    assert set(toptail.__all__) == visible
    assert set(errors.__dict__) & visible >= {kind.__name__ for kind in all_errors()}


def test_the_package_imports_aiohttp_msgspec_and_the_standard_library() -> None:
    for module in ROOT.glob("*.py"):
        for node in ast.walk(ast.parse(module.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            tops = {name.split(".")[0] for name in names}
            assert tops <= {"aiohttp", "msgspec", "toptail"} | sys.stdlib_module_names, module.name


def test_importing_the_client_pulls_in_nothing_of_the_server() -> None:
    code = "import sys, toptail; print(sorted({'hybrid', 'service', 'sketches', 'numpy', 'redis'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT.parent)
    assert done.stdout.strip() == "[]"


def all_errors(kind: type[toptail.ToptailError] = toptail.ToptailError) -> list[type[toptail.ToptailError]]:
    return [kind, *(below for child in kind.__subclasses__() for below in all_errors(child))]


def test_every_code_of_the_service_has_a_class_of_its_own() -> None:
    assert set(errors.BY_CODE) == set(STATUS)
    assert len(set(errors.BY_CODE.values())) == len(STATUS)


def test_the_tree_that_is_drawn_is_the_tree() -> None:
    drawn = [line.replace(":", "").split()[:2] for line in _drawn_lines()]
    assert [name for name, _ in drawn] == [kind.__name__ for kind in all_errors()]
    assert {name: code for name, code in drawn if code in STATUS} == {
        kind.__name__: kind.CODE for kind in all_errors() if kind.CODE
    }


def _drawn_lines() -> list[str]:
    lines = (errors.__doc__ or "").splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("ToptailError"))
    tree = lines[start : start + len(all_errors())]
    return [line.lstrip("│├└─ ") for line in tree]


@pytest.mark.parametrize("code", STATUS)
def test_an_error_of_the_service_is_the_same_here(code: str) -> None:
    result = wire.ScoreResult(player="ann", status="unknown", score=None, previous=None)
    raised = ApiError(code, "no 'x'", field="score", index=3, results=[result])
    status, body, headers = render_error(raised, "request-7")
    error = errors.parse_error(status, msgspec.json.encode(body), headers.get("Retry-After"))
    assert type(error) is errors.BY_CODE[code]
    assert (error.code, error.status, error.field, error.index) == (code, STATUS[code], "score", 3)
    assert (error.request_id, error.results) == ("request-7", [result])
    assert str(error) == error.message
    assert (error.retry_after_s is not None) == (status == 429 or code == "unavailable")


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, errors.Refused),
        (401, errors.Unauthenticated),
        (404, errors.NotFound),
        (418, errors.Refused),
        (422, errors.InvalidField),
        (429, errors.TryLater),
        (500, errors.Internal),
        (502, errors.NoAnswer),
        (503, errors.Unavailable),
        (504, errors.NoAnswer),
        (599, errors.Failed),
        (302, errors.BadAnswer),
    ],
)
def test_a_code_that_is_not_known_goes_by_its_status(status: int, kind: type[errors.ToptailError]) -> None:
    newer = b'{"error": {"code": "brand_new", "message": "hm", "request_id": "r", "hint": 1}}'
    assert type(errors.parse_error(status, newer)) is kind
    assert errors.parse_error(status, newer).code == "brand_new"
    page = errors.parse_error(status, b"<html>\xff proxy</html>", "tomorrow")
    assert type(page) is kind
    assert "proxy" in page.message
    assert page.retry_after_s is None


def test_waits_double_and_are_bounded_and_honour_the_service() -> None:
    lost = errors.NoAnswer("lost")
    assert [pause_s(lost, number, lambda: 1.0) for number in (0, 1, 2, 9, 5000)] == [0.05, 0.1, 0.2, 2.0, 2.0]
    assert pause_s(lost, 0, lambda: 0.0) == 0.025
    busy = errors.RateLimited("slow down", retry_after_s=3)
    assert (pause_s(busy, 0, lambda: 0.0), pause_s(busy, 0, lambda: 1.0)) == (3.0, 3.75)


@pytest.mark.parametrize("kind", all_errors())
def test_only_what_passes_is_tried_again(kind: type[errors.ToptailError]) -> None:
    passing = (errors.Unreachable, errors.NoAnswer, errors.TryLater, errors.Unavailable, errors.OutcomeUnknown)
    assert (pause_s(kind("x"), 0, lambda: 0.5) is not None) == issubclass(kind, passing)


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(lambda text: text not in (".", "..")))
def test_a_quoted_name_is_one_piece_of_a_path_and_comes_back(name: str) -> None:
    quoted = quote_name(name, "player")
    assert unquote(quoted) == name
    assert not set(quoted) & set("/?#{}%;\\ ") - {"%"}


@pytest.mark.parametrize("name", ["", ".", "..", "\ud800", None, 7])
def test_a_name_that_would_lead_elsewhere_is_refused(name: Any) -> None:
    with pytest.raises(errors.InvalidField, match="player") as caught:
        quote_name(name, "player")
    assert (caught.value.field, caught.value.code, caught.value.status) == ("player", "invalid_field", None)


@pytest.mark.parametrize("url", ["", "localhost:8080", "ftp://host", "http://", "http://host/?a=1", "redis://host/0"])
def test_an_address_that_is_none_is_refused_and_quoted(url: str) -> None:
    with pytest.raises(ValueError, match="base_url") as caught:
        toptail.Client(url)
    assert repr(url) in str(caught.value)


def test_a_client_shows_no_key() -> None:
    assert check_base_url("http://host/under/") == "http://host/under"
    assert "secret" not in repr(toptail.Client("http://host", key="tt_secret"))


def test_a_client_without_a_session_must_be_entered() -> None:
    with pytest.raises(RuntimeError, match="async with"):
        asyncio.run(toptail.Client().board("b"))


class FakeTransport:
    """Takes requests and answers them in the order that it is told; remembers how many were open at once."""

    def __init__(self, *, doubts: list[errors.OutcomeUnknown] | None = None, failing: int | None = None) -> None:
        self.bodies: list[bytes] = []
        self.open = self.most_open = self.cancelled = 0
        self._doubts, self._failing = doubts or [], failing

    async def send(self, request: Request) -> Reply:
        number = len(self.bodies)
        self.bodies.append(request.body or b"")
        self.open += 1
        self.most_open = max(self.open, self.most_open)
        try:
            for _ in range(20 - number % 7):  # later ones may be quicker
                await asyncio.sleep(0)
            if number == self._failing:
                raise errors.InvalidField("score is a number, not 'x'", index=1)
            return Reply(self._answer(request.body or b""), self._doubts)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.open -= 1

    def _answer(self, body: bytes) -> bytes:
        scores = msgspec.json.Decoder(wire.Score).decode_lines(body)
        results = [
            wire.ScoreResult(player=score.player, status="added", score=score.score, previous=None)
            for score in scores
            if score.score >= 0
        ]
        bad = [
            wire.BadScore(index=place, code="invalid_field", message="negative")
            for place, score in enumerate(scores)
            if score.score < 0
        ]
        return msgspec.json.encode(wire.ScoresTaken(accepted=len(results), results=results, ack="fsync", errors=bad))


def submit(transport: Any, scores: Any, on_error: bulk.OnError = "stop") -> list[bulk.Outcome]:
    async def main() -> list[bulk.Outcome]:
        return [o async for o in bulk.submit_many(transport, "/scores", scores, id_prefix="t", on_error=on_error)]

    return asyncio.run(main())


@pytest.fixture
def small_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "MOST_SCORES", 2)


def test_scores_leave_5000_at_a_time_and_come_back_in_order() -> None:
    transport = FakeTransport()
    outcomes = submit(transport, ({"player": f"p{number}", "score": number} for number in range(52_001)))
    assert [body.count(b"\n") + 1 for body in transport.bodies] == [5000] * 10 + [2001]
    assert [outcome.score for outcome in outcomes if isinstance(outcome, wire.ScoreResult)] == list(range(52_001))
    assert transport.most_open == bulk.IN_FLIGHT


@pytest.mark.usefixtures("small_requests")
def test_scores_may_be_objects_or_come_from_a_stream() -> None:
    async def stream() -> AsyncIterator[wire.Score]:
        for item in ITEMS:
            yield msgspec.convert(item, wire.Score)

    transport = FakeTransport()
    assert len(submit(transport, stream())) == len(ITEMS)
    assert len(submit(transport, [msgspec.convert(item, wire.Score) for item in ITEMS])) == len(ITEMS)


def test_large_scores_leave_in_smaller_requests() -> None:
    transport = FakeTransport()
    submit(transport, ({"player": "\U0001f600" * 128, "score": 1, "tag": "\U0001f600" * 128} for _ in range(10_000)))
    assert max(map(len, transport.bodies)) < bulk.MOST_BYTES + 1000
    assert len(transport.bodies) > 2


@pytest.mark.usefixtures("small_requests")
def test_every_score_has_an_id_and_keeps_its_own() -> None:
    transport = FakeTransport()
    submit(
        transport, [*ITEMS[:3], {"player": "ann", "score": 1, "id": "mine"}, wire.Score(player="b", score=1, id="2")]
    )
    lines = [line for body in transport.bodies for line in body.split(b"\n")]
    assert [msgspec.json.decode(line)["id"] for line in lines] == ["t:0", "t:1", "t:2", "mine", "2"]


@pytest.mark.usefixtures("small_requests")
def test_a_bad_score_is_named_by_its_place_among_all() -> None:
    with pytest.raises(errors.InvalidField) as caught:
        submit(FakeTransport(failing=3), ITEMS)
    assert caught.value.index == 3 * 2 + 1


@pytest.mark.usefixtures("small_requests")
def test_a_score_that_is_no_json_is_named_by_its_place() -> None:
    for value in (object(), "\ud800"):
        with pytest.raises(errors.InvalidField, match="score 4") as caught:
            submit(FakeTransport(), [*ITEMS[:4], {"player": "ann", "score": value}])
        assert caught.value.index == 4


@pytest.mark.usefixtures("small_requests")
def test_scores_that_are_skipped_stand_in_their_places() -> None:
    scores = [{**item, "score": -1 if number in (0, 3, 4, 5) else number} for number, item in enumerate(ITEMS)]
    outcomes = submit(FakeTransport(), scores, "skip")
    bad = {place: outcome.index for place, outcome in enumerate(outcomes) if isinstance(outcome, wire.BadScore)}
    assert bad == {0: 0, 3: 3, 4: 4, 5: 5}


@pytest.mark.usefixtures("small_requests")
def test_who_stops_listening_stops_the_rest() -> None:
    transport = FakeTransport()

    async def main() -> None:
        outcomes = bulk.submit_many(transport, "/", (ITEMS * 100), id_prefix="t", on_error="stop")  # type: ignore[arg-type]
        await anext(outcomes)
        await outcomes.aclose()
        assert (transport.open, transport.cancelled > 0) == (0, True)

    asyncio.run(main())


def test_what_an_earlier_attempt_knew_is_kept() -> None:
    def result(player: str, status: wire.Status) -> wire.ScoreResult:
        return wire.ScoreResult(player=player, status=status, score=1, previous=None)

    first = errors.OutcomeUnknown(
        "?", results=[result("a", "improved"), result("b", "unknown"), result("c", "unknown")]
    )
    second = errors.OutcomeUnknown("?", results=[result("a", "duplicate"), result("b", "kept"), result("c", "unknown")])
    transport = FakeTransport(doubts=[first, second])
    outcomes = submit(transport, [{"player": player, "score": 1} for player in "abc"])
    assert [outcome.status for outcome in outcomes if isinstance(outcome, wire.ScoreResult)] == [
        "improved",
        "kept",
        "added",
    ]
