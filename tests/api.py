"""The HTTP application on a real Redis, in this process: what tests of the API talk to."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import ClientResponse
from aiohttp.test_utils import TestClient, TestServer

from hybrid.engine import Engine
from hybrid.keeper import Keeper, KeeperSettings
from hybrid.link import Link
from hybrid.trends.keeper import TrendKeeper
from service.app import make_app
from service.auth import Auth
from service.metrics import Metrics
from service.settings import make_settings
from service.state import State
from tests.engines import Clock, make_engine

BOARD = "/v1/boards/game"


@dataclass
class Api:
    """A running application and what is behind it."""

    client: TestClient[Any, Any]
    engine: Engine
    state: State
    clock: Clock

    async def ask(self, method: str, path: str, **options: Any) -> tuple[int, Any]:
        """Status and body of an answer."""
        async with self.client.request(method, path, **options) as response:
            return response.status, await _body(response)

    async def get(self, path: str, **options: Any) -> Any:
        """The body of an answer that must be good."""
        status, body = await self.ask("GET", path, **options)
        assert status == 200, body
        return body

    async def keep(self) -> None:
        """One tick of the keeper."""
        await Keeper(self.engine, KeeperSettings(share=1e6)).tick()

    @asynccontextmanager
    async def counting(self) -> AsyncIterator[None]:
        """With the keeper of trends at work: what was sent before is counted in every answer."""
        keeper = asyncio.create_task(TrendKeeper(self.engine.trends).run())
        try:
            yield
        finally:
            keeper.cancel()
            with suppress(asyncio.CancelledError):
                await keeper


@asynccontextmanager
async def open_api(link: Link, *, keys: list[str] | None = None, **settings: Any) -> AsyncIterator[Api]:
    """The application over a link; `keys` are lines of a keys file, None for an open door."""
    clock = Clock()
    engine = make_engine(link, clock, fresh_s=0.0)
    with tempfile.NamedTemporaryFile("w") as file:
        file.write("\n".join(keys or []))
        file.flush()
        state = State(engine, make_settings(settings), ack="fsync")
        app = make_app(state, auth=Auth(None if keys is None else Path(file.name)), metrics=Metrics())
        server = TestServer(app)
        await server.start_server(auto_decompress=False)
        async with engine, TestClient(server) as client:
            yield Api(client, engine, state, clock)


async def _body(response: ClientResponse) -> Any:
    if response.content_type == "application/json":
        return await response.json()
    return await response.read()
