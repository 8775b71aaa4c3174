"""Scores: one, many, or a stream of lines; each is taken once, and what became of it is said."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Literal

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType

from hybrid.config import Board
from hybrid.errors import InvalidField
from hybrid.events import Batch, check_batch
from hybrid.outcomes import Outcomes, Status
from service.board_routes import BOARD, NoQuery
from service.bodies import JSON, NDJSON, explain, parse_json, parse_lines, read_body
from service.errors import ApiError, code_of
from service.metrics import Metrics
from service.rendering import parse_time, render_results, render_standing
from service.routes import Call, Route
from toptail import wire

YIELD_EVERY = 500


class ScoresQuery(wire.Request):
    return_: Literal["standing"] | None = msgspec.field(default=None, name="return")
    on_error: Literal["stop", "skip"] = "stop"


class _Body(wire.Request):
    """One score or many: msgspec tells objects apart by a tag, and these have none."""

    player: wire.Player | UnsetType = UNSET
    score: wire.Number | UnsetType = UNSET
    subscore: wire.Number | UnsetType = UNSET
    at: wire.Time | UnsetType = UNSET
    id: wire.Label | UnsetType = UNSET
    tag: wire.Label | UnsetType = UNSET
    scores: list[wire.Score] | UnsetType = UNSET


@dataclass(slots=True)
class _Taken:
    """The good scores of a request, where they stood, and the bad ones."""

    scores: list[wire.Score]
    places: list[int]
    errors: list[wire.BadScore] = field(default_factory=list)


async def post_scores(call: Call) -> wire.ScoresTaken:
    query: ScoresQuery = call.query
    board = await call.board()
    taken = await _read_scores(call, is_skipping=query.on_error == "skip")
    if len(taken.places) + len(taken.errors) > call.state.settings.max_items:
        raise ApiError("too_large", f"a request has at most {call.state.settings.max_items} scores")
    request = call.request.headers.get("Idempotency-Key")
    if query.on_error == "skip":
        await _drop_bad(call, board, taken, request)
    if call.state.limits is not None:
        await call.state.limits.take_scores(board, [score.player for score in taken.scores])
    outcomes = await call.state.engine.record.submit(board, _make_batch(taken.scores, request))
    _count(call.state.metrics, outcomes)
    results = render_results([score.player for score in taken.scores], outcomes)
    if not outcomes.is_certain:
        raise ApiError("outcome_unknown", str(outcomes.error), results=results)
    if query.return_ == "standing":
        results = await _with_standings(call, board, results)
    return wire.ScoresTaken(
        accepted=outcomes.accepted, results=results, ack=call.state.ack, errors=sorted(taken.errors, key=_index)
    )


def _count(metrics: Metrics, outcomes: Outcomes) -> None:
    metrics.observe("toptail_batch_items", len(outcomes), "scores")
    for code, count in enumerate(np.bincount(outcomes.codes).tolist()):
        if count:
            metrics.add("toptail_scores", Status(code).name.lower(), by=count)


async def delete_player(call: Call) -> None:
    board = await call.board()
    player = call.path["player"]
    if not await call.state.engine.remove_player(board, player):
        raise ApiError("player_not_found", f"board {board.name!r} has no player {player!r}", field="player")


async def _read_scores(call: Call, *, is_skipping: bool) -> _Taken:
    body = await read_body(call.request, call.state.settings, (JSON, NDJSON))
    is_lines = call.request.content_type == NDJSON
    if is_skipping:
        return _parse_each(parse_lines(body, msgspec.Raw) if is_lines else parse_json(body, _RawScores).scores)
    scores = parse_lines(body, wire.Score) if is_lines else _scores_of(parse_json(body, _Body))
    return _Taken(scores, list(range(len(scores))))


class _RawScores(wire.Request):
    scores: list[msgspec.Raw]


def _scores_of(body: _Body) -> list[wire.Score]:
    given = {name: value for name, value in msgspec.structs.asdict(body).items() if value is not UNSET}
    if "scores" in given:
        if len(given) > 1:
            raise ApiError("invalid_body", "a body has either one score or `scores`, not both")
        return list(given["scores"])
    for name in ("player", "score"):
        if name not in given:
            raise ApiError("invalid_field", f"a score needs {name!r}", field=name)
    return [wire.Score(**given)]


def _parse_each(raws: Sequence[msgspec.Raw]) -> _Taken:
    """Scores one by one, so that a bad one spoils no other."""
    taken, decoder = _Taken([], []), msgspec.json.Decoder(wire.Score)
    for place, raw in enumerate(raws):
        try:
            taken.scores.append(decoder.decode(raw))
            taken.places.append(place)
        except msgspec.ValidationError as error:
            taken.errors.append(_bad(place, explain(error, msgspec.json.decode(raw))))
        except msgspec.DecodeError as error:
            taken.errors.append(_bad(place, ApiError("invalid_body", f"not JSON: {error}")))
    return taken


async def _drop_bad(call: Call, board: Board, taken: _Taken, request: str | None) -> None:
    """Leave out what the board cannot take; the whole is tried first, because most requests are good."""
    now_ms = call.state.engine.now_ms()
    try:
        check_batch(board, _make_batch(taken.scores, request), now_ms)
        return
    except InvalidField:
        pass
    good: list[int] = []
    for number, score in enumerate(taken.scores):
        try:
            check_batch(board, _make_batch([score], request), now_ms)
            good.append(number)
        except InvalidField as error:
            taken.errors.append(_bad(taken.places[number], error))
        if number % YIELD_EVERY == 0:
            await asyncio.sleep(0)
    taken.scores = [taken.scores[number] for number in good]
    taken.places = [taken.places[number] for number in good]


def _make_batch(scores: Sequence[wire.Score], request: str | None) -> Batch:
    def column(name: str, read: Callable[[Any], Any] = lambda value: value) -> list[Any] | None:
        values = list(map(attrgetter(name), scores))
        if values.count(UNSET) == len(values):
            return None
        return [None if value is UNSET else read(value) for value in values]

    return Batch(
        [score.player for score in scores],
        [score.score for score in scores],
        subscores=column("subscore"),
        at_ms=column("at", parse_time),
        ids=column("id"),
        tags=column("tag"),
        request=request,
    )


async def _with_standings(call: Call, board: Board, results: list[wire.ScoreResult]) -> list[wire.ScoreResult]:
    rows = await call.state.engine.standings.of_players(board, [result.player for result in results])
    return [
        result if row is None else msgspec.structs.replace(result, standing=render_standing(row))
        for result, row in zip(results, rows, strict=True)
    ]


def _bad(place: int, error: ApiError | InvalidField) -> wire.BadScore:
    return wire.BadScore(index=place, code=code_of(error), message=str(error), field=error.field or UNSET)


def _index(error: wire.BadScore) -> int:
    return error.index


PLAYER = BOARD + "/players/{player:[^/]+}"
ROUTES = (
    Route(
        "POST",
        BOARD + "/scores",
        post_scores,
        "Submit one score, many, or a stream of lines",
        "write",
        {200: wire.ScoresTaken},
        ScoresQuery,
        (wire.Scores, wire.Score),
        (JSON, NDJSON),
        line=wire.Score,
    ),
    Route("DELETE", PLAYER, delete_player, "Remove a player from every window", "write", {204: None}, NoQuery),
)
