"""What a call can end with, other than an answer. One class a code of the service.

ToptailError                    catch this one for all of them
├── Unreachable                 no connection to the service; nothing was sent
├── NoAnswer                    the connection broke or the time was up; a write may have happened
├── BadAnswer                   an answer that is not the service's
├── Refused                     the request cannot be taken; nothing was written
│   ├── InvalidBody             invalid_body
│   ├── InvalidField            invalid_field: the message quotes the value, `field` and `index` say where it stood
│   │   ├── AtOutOfRange        at_out_of_range
│   │   └── RankingUnavailable  ranking_unavailable
│   ├── Unauthenticated         unauthenticated
│   ├── Forbidden               forbidden
│   ├── NotFound                not_found
│   │   ├── BoardNotFound       board_not_found
│   │   ├── PlayerNotFound      player_not_found
│   │   └── TrendNotFound       trend_not_found
│   ├── MethodNotAllowed        method_not_allowed
│   ├── Conflict                conflict: `fields` says in what the board or trend differs
│   ├── TooLarge                too_large
│   ├── UnsupportedMediaType    unsupported_media_type
│   └── TryLater                too much at a time; `retry_after_s` says when again
│       ├── RateLimited         rate_limited
│       └── Overloaded          overloaded
└── Failed                      the service could not do it
    ├── Internal                internal: a defect; a write may have happened
    ├── Unavailable             unavailable: nothing was written
    │   └── ReadOnly            read_only: nothing was written
    └── OutcomeUnknown          outcome_unknown: some of it may be written; `results` says what is known

A code that is not known here, from a newer service or from something between, goes by its status.
"""

from collections.abc import Iterator, Sequence
from typing import ClassVar, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from toptail.wire import ErrorBody, ErrorInfo, ScoreResult

T = TypeVar("T")

_decode = msgspec.json.Decoder(ErrorBody).decode


class ToptailError(Exception):
    """Any call that has no answer. `status` is None where the service was not asked or did not answer."""

    CODE: ClassVar[str] = ""

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        status: int | None = None,
        field: str | None = None,
        index: int | None = None,
        request_id: str | None = None,
        retry_after_s: float | None = None,
        fields: Sequence[str] = (),
        results: Sequence[ScoreResult] = (),
    ) -> None:
        super().__init__(message)
        self.code = self.CODE if code is None else code
        self.message = message
        self.status = status
        self.field = field
        self.index = index
        self.request_id = request_id
        self.retry_after_s = retry_after_s
        self.fields = list(fields)
        self.results = list(results)


class Unreachable(ToptailError):
    """No connection to the service; nothing was sent."""


class NoAnswer(ToptailError):
    """The connection broke or the time was up; a write may have happened."""


class BadAnswer(ToptailError):
    """An answer that is not the service's: another server, or a proxy's page."""


class Refused(ToptailError):
    """The request cannot be taken; nothing was written."""


class InvalidBody(Refused):
    """A body that cannot be read."""

    CODE = "invalid_body"


class InvalidField(Refused):
    """A value that cannot be; the message quotes it."""

    CODE = "invalid_field"


class AtOutOfRange(InvalidField):
    """An event from before the board's time, or from the future."""

    CODE = "at_out_of_range"


class RankingUnavailable(InvalidField):
    """A kind of rank that is known of leaders only."""

    CODE = "ranking_unavailable"


class Unauthenticated(Refused):
    """No key, or one that is not known."""

    CODE = "unauthenticated"


class Forbidden(Refused):
    """The key may not do this."""

    CODE = "forbidden"


class NotFound(Refused):
    """There is nothing at this address."""

    CODE = "not_found"


class BoardNotFound(NotFound):
    """No board of that name."""

    CODE = "board_not_found"


class PlayerNotFound(NotFound):
    """The player has no record in this window."""

    CODE = "player_not_found"


class TrendNotFound(NotFound):
    """No trend of that name."""

    CODE = "trend_not_found"


class MethodNotAllowed(Refused):
    """Not with this method."""

    CODE = "method_not_allowed"


class Conflict(Refused):
    """A board or trend of that name exists and differs, in `fields`."""

    CODE = "conflict"


class TooLarge(Refused):
    """More than the service takes in one request."""

    CODE = "too_large"


class UnsupportedMediaType(Refused):
    """A body of a type that is not understood."""

    CODE = "unsupported_media_type"


class TryLater(Refused):
    """Too much at a time; `retry_after_s` says when again."""


class RateLimited(TryLater):
    """More than this key or player may send."""

    CODE = "rate_limited"


class Overloaded(TryLater):
    """The service has too much waiting already."""

    CODE = "overloaded"


class Failed(ToptailError):
    """The service could not do it."""


class Internal(Failed):
    """A defect of the service; a write may have happened."""

    CODE = "internal"


class Unavailable(Failed):
    """The service cannot reach its store; nothing was written."""

    CODE = "unavailable"


class ReadOnly(Unavailable):
    """The store takes no writes; nothing was written."""

    CODE = "read_only"


class OutcomeUnknown(Failed):
    """Some of it may be written; `results` says what is known. The same again with the same ids is safe."""

    CODE = "outcome_unknown"


def _below(kind: type[ToptailError]) -> Iterator[type[ToptailError]]:
    for child in kind.__subclasses__():
        yield child
        yield from _below(child)


BY_CODE: dict[str, type[ToptailError]] = {kind.CODE: kind for kind in _below(ToptailError) if kind.CODE}

BY_STATUS: dict[int, type[ToptailError]] = {
    401: Unauthenticated,
    403: Forbidden,
    404: NotFound,
    405: MethodNotAllowed,
    409: Conflict,
    413: TooLarge,
    415: UnsupportedMediaType,
    422: InvalidField,
    429: TryLater,
    500: Internal,
    502: NoAnswer,  # something between got no answer: the service may have done it
    503: Unavailable,
    504: NoAnswer,
}


def parse_error(status: int, body: bytes, retry_after: str | None = None) -> ToptailError:
    """The error that an answer of this status is."""
    try:
        info = _decode(body).error
    except (msgspec.DecodeError, UnicodeDecodeError):
        info = ErrorInfo(code=f"http_{status}", message=f"status {status}: {_show(body)}", request_id="")
    kind = BY_CODE.get(info.code) or BY_STATUS.get(status) or _kind_of(status)
    return kind(
        info.message,
        code=info.code,
        status=status,
        field=_known(info.field),
        index=_known(info.index),
        request_id=info.request_id or None,
        retry_after_s=_parse_seconds(retry_after),
        fields=_known(info.fields) or (),
        results=_known(info.results) or (),
    )


def _kind_of(status: int) -> type[ToptailError]:
    if 400 <= status < 500:
        return Refused
    return Failed if status >= 500 else BadAnswer


def _known(value: T | UnsetType) -> T | None:
    return None if value is UNSET else value


def _parse_seconds(text: str | None) -> float | None:
    """Retry-After in seconds; its other form, a date, is not sent by the service and is not understood."""
    return float(text) if text is not None and text.isascii() and text.isdigit() else None


def _show(body: bytes) -> str:
    return repr(body[:200].decode(errors="replace"))
