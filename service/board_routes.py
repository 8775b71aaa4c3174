"""Boards: make, list, describe, change, remove."""

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import asdict

from hybrid.inventory import take_inventory
from service.bodies import JSON, parse_json, read_body
from service.rendering import parse_spec, render_board, render_head
from service.routes import Call, Route
from toptail import wire


class ListQuery(wire.Request):
    prefix: str = ""
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100
    cursor: str = ""


class NoQuery(wire.Request):
    pass


async def put_board(call: Call) -> tuple[int, wire.BoardInfo]:
    body = await read_body(call.request, call.state.settings) if call.request.can_read_body else b"{}"
    spec = parse_json(body or b"{}", wire.BoardSpec)
    board, is_new = await call.state.engine.boards.create(call.path["board"], parse_spec(spec))
    call.state.boards.forget(board.name)
    return 201 if is_new else 200, await _describe(call)


async def list_boards(call: Call) -> wire.BoardList:
    query: ListQuery = call.query
    boards = await call.state.engine.boards.list(query.prefix, limit=query.limit + 1, after=query.cursor)
    page = boards[: query.limit]
    cursor: str | UnsetType = page[-1].name if len(boards) > query.limit else UNSET
    return wire.BoardList(boards=list(map(render_head, page)), next_cursor=cursor)


async def get_board(call: Call) -> wire.BoardInfo:
    return await _describe(call)


async def patch_board(call: Call) -> wire.BoardInfo:
    change = parse_json(await read_body(call.request, call.state.settings), wire.BoardChange)
    given = {name: value for name, value in asdict(change).items() if value is not UNSET}
    board = await call.state.engine.boards.patch(call.path["board"], **given)
    call.state.boards.forget(board.name)
    return await _describe(call)


async def delete_board(call: Call) -> None:
    await call.state.engine.boards.delete(call.path["board"])
    call.state.boards.forget(call.path["board"])


async def _describe(call: Call) -> wire.BoardInfo:
    engine, board = call.state.engine, await call.board()
    now_ms = engine.now_ms()
    window = board.window(None, now_ms).name
    return render_board(board, await take_inventory(engine.link, engine.schema, board, window), now_ms)


BOARD = "/v1/boards/{board:[^/]+}"
ROUTES = (
    Route(
        "PUT",
        BOARD,
        put_board,
        "Make a board; the same again changes nothing",
        "admin",
        {201: wire.BoardInfo, 200: wire.BoardInfo},
        NoQuery,
        wire.BoardSpec,
        (JSON,),
    ),
    Route("GET", "/v1/boards", list_boards, "List boards by name", "read", {200: wire.BoardList}, ListQuery),
    Route("GET", BOARD, get_board, "Describe a board", "read", {200: wire.BoardInfo}, NoQuery, is_cached=True),
    Route(
        "PATCH",
        BOARD,
        patch_board,
        "Change top_n, title or retention_days",
        "admin",
        {200: wire.BoardInfo},
        NoQuery,
        wire.BoardChange,
        (JSON,),
    ),
    Route("DELETE", BOARD, delete_board, "Remove a board and everything on it", "admin", {204: None}, NoQuery),
)
