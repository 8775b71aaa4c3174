"""Errors on the wire: one table from what can go wrong to code and status; a test walks it.

Whatever is raised while a request is handled ends here. What is not in the table is a defect: it is logged with its
trace, and the client is told `internal` and nothing else.
"""

from math import ceil
from typing import Any

from msgspec import UNSET

from hybrid import errors as hybrid
from toptail.wire import ErrorBody, ErrorInfo, ScoreResult


class ApiError(Exception):
    """A refusal that the service itself decides on."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        field: str | None = None,
        index: int | None = None,
        retry_after_s: float | None = None,
        results: list[ScoreResult] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.field = field
        self.index = index
        self.retry_after_s = retry_after_s
        self.results = results


STATUS = {
    "invalid_body": 400,
    "unauthenticated": 401,
    "forbidden": 403,
    "board_not_found": 404,
    "player_not_found": 404,
    "trend_not_found": 404,
    "not_found": 404,
    "method_not_allowed": 405,
    "conflict": 409,
    "too_large": 413,
    "unsupported_media_type": 415,
    "invalid_field": 422,
    "at_out_of_range": 422,
    "ranking_unavailable": 422,
    "rate_limited": 429,
    "overloaded": 429,
    "internal": 500,
    "unavailable": 503,
    "outcome_unknown": 503,
    "read_only": 503,
}

# From the most special to the most general: the first that fits decides.
CODES: tuple[tuple[type[Exception], str], ...] = (
    (hybrid.AtOutOfRange, "at_out_of_range"),
    (hybrid.RankingUnavailable, "ranking_unavailable"),
    (hybrid.InvalidField, "invalid_field"),
    (hybrid.BoardNotFound, "board_not_found"),
    (hybrid.TrendNotFound, "trend_not_found"),
    (hybrid.Conflict, "conflict"),
    (hybrid.Overloaded, "overloaded"),
    (hybrid.ReadOnly, "read_only"),
    (hybrid.RedisUnavailable, "unavailable"),
    (hybrid.OutcomeUnknown, "outcome_unknown"),
)


def code_of(error: BaseException) -> str:
    """The code that an error has on the wire."""
    if isinstance(error, ApiError):
        return error.code
    return next((code for kind, code in CODES if isinstance(error, kind)), "internal")


def render_error(error: BaseException, request_id: str) -> tuple[int, ErrorBody, dict[str, str]]:
    """Status, body and headers of an error."""
    code = code_of(error)
    message = "something went wrong inside the service" if code == "internal" else str(error)
    fields = getattr(error, "fields", None)
    info = ErrorInfo(
        code=code,
        message=message,
        request_id=request_id,
        field=_wire_name(getattr(error, "field", None)),
        index=_known(getattr(error, "index", None)),
        fields=[name.removesuffix("_ms") for name in fields] if fields else UNSET,
        results=_known(getattr(error, "results", None)),
    )
    headers = {}
    if STATUS[code] == 429 or code == "unavailable":
        headers["Retry-After"] = str(ceil(max(getattr(error, "retry_after_s", None) or 1, 1)))
    if code == "unauthenticated":
        headers["WWW-Authenticate"] = "Bearer"
    return STATUS[code], ErrorBody(error=info), headers


def _wire_name(field: str | None) -> Any:
    """A field as the wire calls it: times there have no unit."""
    return UNSET if field is None else field.removesuffix("_ms")


def _known(value: Any) -> Any:
    return UNSET if value is None else value
