"""A trend with a few events, and one good request for each route about trends."""

from collections.abc import Callable
from typing import Any

from tests.api import Api

TREND = "/v1/trends/clicks"
EVENTS = ["a", "b", "a", {"item": "c", "count": 5, "actor": "ann"}]


async def fill_trend(api: Api, *, events: list[Any] = EVENTS, **spec: Any) -> None:
    """A trend, and events that are yet to be counted."""
    status, body = await api.ask("PUT", TREND, json=spec)
    assert status == 201, body
    status, body = await api.ask("POST", f"{TREND}/events", json={"events": events})
    assert status == 202, body


def counts(body: Any) -> list[tuple[str, int]]:
    return [(row["item"], row["count"]) for row in body["items"]]


TREND_EXAMPLES: dict[str, tuple[str, Any, Callable[[Any], bool]]] = {
    "PUT /v1/trends/{trend}": (TREND, {}, lambda body: body["config"]["windows"] == ["1m", "1h", "1d"]),
    "GET /v1/trends": ("/v1/trends?prefix=cl", None, lambda body: body["trends"][0]["trend"] == "clicks"),
    "GET /v1/trends/{trend}": (
        TREND,
        None,
        lambda body: body["events"].keys() == {"counted", "late", "capped"} and body["backlog"] in (0, 3),
    ),
    "POST /v1/trends/{trend}/events": (
        f"{TREND}/events",
        {"events": ["x", {"item": "y", "count": 7}, {"item": "z", "at": "2001-01-01T00:00:00Z"}]},
        lambda body: body == {"accepted": 8, "late": 1},
    ),
    "GET /v1/trends/{trend}/top": (
        f"{TREND}/top?limit=2&window=1h&by=count",
        None,
        lambda body: counts(body) == [("c", 5), ("a", 2)] and body["total"] == 8 and body["floor"] == 0,
    ),
    "GET /v1/trends/{trend}/items/{item}": (
        f"{TREND}/items/a?window=1d",
        None,
        lambda body: (body["item"], body["count"], body["low"], body["high"], body["total"]) == ("a", 2, 2, 2, 8),
    ),
    "PUT /v1/trends/{trend}/hidden/{item}": (f"{TREND}/hidden/a", None, lambda body: body == b""),
    "DELETE /v1/trends/{trend}/hidden/{item}": (f"{TREND}/hidden/a", None, lambda body: body == b""),
    "DELETE /v1/trends/{trend}": (TREND, None, lambda body: body == b""),
}
