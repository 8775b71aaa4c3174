"""A request that nobody should send, and what is wrong with its answer."""

import json
from dataclasses import dataclass, field

from yarl import URL

from tests.api import Api

JSON, NDJSON, ARROW = "application/json", "application/x-ndjson", "application/vnd.apache.arrow.stream"


@dataclass(frozen=True)
class Bad:
    """A request, and the status that it deserves."""

    status: int
    method: str
    path: str
    body: bytes | None = None
    kind: str = JSON
    headers: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.status} {self.method} {self.path[-60:]} {(self.body or b'')[:40]!r} {self.headers or ''}"


async def send(api: Api, bad: Bad) -> str | None:
    """What is wrong with the answer, None if nothing is."""
    headers = {"Content-Type": bad.kind, **bad.headers} if bad.body is not None else bad.headers
    url = URL(str(api.client.make_url("/"))[:-1] + bad.path, encoded=True)
    async with api.client.session.request(bad.method, url, data=bad.body, headers=headers) as response:
        text = await response.text()
        if response.status != bad.status:
            return f"{bad}: {response.status} {text[:200]}"
        try:
            error = json.loads(text)["error"]
        except (ValueError, KeyError, TypeError):
            return f"{bad}: {text[:200]}"
        is_whole = {"code", "message", "request_id"} <= error.keys() and len(error["message"]) < 600
        return None if is_whole else f"{bad}: {error}"
