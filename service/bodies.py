"""Bodies and queries of requests: read within bounds, parsed into wire types, and refused with the value quoted."""

import asyncio
import re
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from aiohttp import web

from service.errors import ApiError
from service.settings import Settings

JSON, NDJSON, ARROW = "application/json", "application/x-ndjson", "application/vnd.apache.arrow.stream"

_PLACE = re.compile(r"(.*) - at `\$(.*)`$", re.DOTALL)
_STEP = re.compile(r"\[(\d+)\]|\.([^.\[]+)")
_MISSING = re.compile(r"Object (?:missing required|contains unknown) field `(.+?)`")

T = TypeVar("T")


async def read_body(request: web.Request, settings: Settings, allowed: tuple[str, ...] = (JSON,)) -> bytes:
    """The whole body, of a type that is understood, not too large, and not too slow."""
    if not request.can_read_body:
        return b""
    if request.headers.get("Content-Encoding", "identity") != "identity":
        raise ApiError(
            "unsupported_media_type", f"bodies are not compressed: {request.headers['Content-Encoding'][:50]!r}"
        )
    if request.content_type not in allowed:
        raise ApiError(
            "unsupported_media_type", f"a body is {' or '.join(allowed)}, not {request.content_type[:100]!r}"
        )
    if request.content_length is not None and request.content_length > settings.max_body_bytes:
        raise _too_large(settings)
    try:
        async with asyncio.timeout(settings.body_timeout_s):
            return await request.read()
    except TimeoutError:
        raise ApiError("invalid_body", f"the body did not arrive within {settings.body_timeout_s:g} s") from None
    except web.HTTPRequestEntityTooLarge:
        raise _too_large(settings) from None


def parse_json(body: bytes, kind: type[T]) -> T:
    """A JSON body as this type."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise explain(error, _decode_anything(body, msgspec.json.decode)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ApiError("invalid_body", f"the body is not JSON: {error}") from None


def parse_lines(body: bytes, kind: type[T]) -> list[T]:
    """An NDJSON body: one value of this type a line."""
    try:
        return msgspec.json.Decoder(kind).decode_lines(body)
    except msgspec.ValidationError as error:
        raise explain(error, _decode_anything(body, msgspec.json.Decoder().decode_lines)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ApiError("invalid_body", f"the body is not NDJSON: {error}") from None


def parse_query(request: web.Request, kind: type[T]) -> T:
    """The query string as this type; a name that is given twice or is not known is refused."""
    query = request.query
    values = dict(query)
    if len(values) < len(query):
        name = next(name for name in values if len(query.getall(name)) > 1)
        raise ApiError("invalid_field", f"{name[:100]!r} is given more than once", field=name)
    try:
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        raise explain(error, values) from None


def explain(error: msgspec.ValidationError, value: Any) -> ApiError:
    """The error with the bad value quoted, and where it stood."""
    text = str(error)
    place = _PLACE.fullmatch(text)
    what, path = (place[1], place[2]) if place else (text, "")
    name, index = None, None
    for number, key in _STEP.findall(path):
        if number:
            index = int(number)
        else:
            name = key
        value = _step(value, int(number) if number else key)
    missing = _MISSING.search(what)
    if missing:
        return ApiError("invalid_field", f"{what}", field=missing[1], index=index)
    if not path:
        return ApiError("invalid_body", f"{what}, not {_show(value)}")
    return ApiError("invalid_field", f"{name or 'item'}: {what}, not {_show(value)}", field=name, index=index)


def _decode_anything(body: bytes, decode: Callable[[bytes], Any]) -> Any:
    """A body of any type, None where there is none after all: errors of types are found before others."""
    try:
        return decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _step(value: Any, key: Any) -> Any:
    try:
        return value[key]
    except (KeyError, IndexError, TypeError):
        return None


def _show(value: Any) -> str:
    return repr(value)[:100]


def _too_large(settings: Settings) -> ApiError:
    return ApiError("too_large", f"a body has at most {settings.max_body_bytes} bytes")
