"""/openapi.json, made of the routes and the wire types: there is no second description that could differ.

It is OpenAPI 3.0, which the bundled page and every generator of clients read; what msgspec says in the words of 3.1 is
put into those of 3.0 at the end (`_in_words_of_3_0`).
"""

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import msgspec

from service.bodies import ARROW, JSON, NDJSON
from service.errors import STATUS
from service.routes import PARAMETER, Route
from toptail import trend_wire, wire

_REF = "#/components/schemas/{name}"
_PATH_KINDS = {"board": wire.Name, "player": wire.Player, "trend": wire.Name, "item": trend_wire.Item}


def make_openapi(routes: Sequence[Route]) -> dict[str, Any]:
    """The document for these routes."""
    kinds = [kind for route in routes for kind in (*route.answers.values(), *route.bodies) if kind is not None]
    _, components = msgspec.json.schema_components([*kinds, wire.ErrorBody], ref_template=_REF)
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.plain_path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.0.3",
        "info": {"title": "toptail", "version": version("toptail"), "description": _ABOUT},
        "paths": _in_words_of_3_0(paths),
        "components": {
            "schemas": _in_words_of_3_0(components),
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(route: Route) -> dict[str, Any]:
    answers = {
        str(status): {
            "description": "No content" if kind is None else "As asked",
            **_content([kind], route.answer_types),
        }
        for status, kind in route.answers.items()
    }
    error = {"description": "Refused", **_content([wire.ErrorBody], (JSON,))}
    for status in sorted(set(STATUS.values())):
        answers.setdefault(str(status), error)
    operation: dict[str, Any] = {
        "operationId": route.handler.__name__,
        "summary": route.summary,
        "tags": [route.subject],
        "parameters": [*_path_parameters(route.path), *_query_parameters(route.query)],
        "responses": answers,
    }
    if route.bodies:
        is_needed = route.method in ("POST", "PATCH")
        body = _content(route.bodies, route.body_types)
        if NDJSON in route.body_types:
            body["content"] |= _content([route.line], (NDJSON,))["content"]
        operation["requestBody"] = {"required": is_needed, **body}
    if route.role is not None:
        operation["security"] = [{"key": []}, {}]
    return operation


def _content(kinds: Sequence[Any], types: Sequence[str]) -> dict[str, Any]:
    """A body of one of these kinds, none at all for no kind."""
    if not kinds or kinds[0] is None:
        return {}
    return {"content": {name: {"schema": _BINARY if name == ARROW else _schema(kinds)} for name in types}}


def _schema(kinds: Sequence[Any]) -> Any:
    schemas, _ = msgspec.json.schema_components(kinds, ref_template=_REF)
    return schemas[0] if len(schemas) == 1 else {"oneOf": list(schemas)}


def _path_parameters(path: str) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": _schema([_PATH_KINDS[name]])}
        for name in PARAMETER.findall(path)
    ]


def _query_parameters(query: Any) -> list[dict[str, Any]]:
    if query is None:
        return []
    (_,), components = msgspec.json.schema_components([query], ref_template=_REF)
    schema = components[query.__name__]
    return [
        {"name": name, "in": "query", "required": name in schema.get("required", ()), "schema": part}
        for name, part in schema["properties"].items()
    ]


def _in_words_of_3_0(part: Any) -> Any:
    """ "A or null" as a nullable A, "an integer or a number" as a number, all the way down."""
    if isinstance(part, list):
        return [_in_words_of_3_0(each) for each in part]
    if not isinstance(part, dict):
        return part
    said = {name: _in_words_of_3_0(each) for name, each in part.items()}
    choices = said.get("anyOf")
    if choices is None:
        return said
    needless = [_NULL, _INTEGER] if _NUMBER in choices else [_NULL]
    kept = [choice for choice in choices if choice not in needless]
    if len(kept) < len(choices):
        del said["anyOf"]
        said |= kept[0] if len(kept) == 1 and "$ref" not in kept[0] else {"anyOf": kept}
    return said | {"nullable": True} if _NULL in choices else said


_NULL, _INTEGER, _NUMBER = ({"type": name} for name in ("null", "integer", "number"))
_BINARY = {"type": "string", "format": "binary"}
_ABOUT = (
    "Leaderboards too big for exact ranks everywhere. Leaders get an exact rank; everybody else gets a percentile with"
    " a proved interval around it."
)
