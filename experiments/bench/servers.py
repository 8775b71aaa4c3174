"""The Redis that is measured: embedded, in a folder that is gone afterwards, and what it says about itself."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hybrid.embedded import EmbeddedRedis, Fsync
from hybrid.link import Command, Node, parse_url

# A rewrite of the append-only file would run beside whatever is being measured at that moment.
NO_REWRITE = {"auto-aof-rewrite-percentage": "0"}


@dataclass(frozen=True, slots=True)
class BenchServer:
    """A running server, and a connection of our own to ask it."""

    redis: EmbeddedRedis
    node: Node

    async def ask(self, *command: Any) -> Any:
        (reply,) = await self.node.run("", [command], timeout_s=60)
        return reply

    async def ask_all(self, commands: list[Command]) -> list[Any]:
        return await self.node.run("", commands, timeout_s=60)

    async def info(self, section: str) -> dict[str, str]:
        text: bytes = await self.ask("INFO", section)
        return dict(line.split(":", 1) for line in text.decode().splitlines() if ":" in line)

    async def processor_s(self) -> float:
        """Processor seconds so far, of all its threads."""
        info = await self.info("cpu")
        return float(info["used_cpu_user"]) + float(info["used_cpu_sys"])

    async def used_bytes(self) -> int:
        return int((await self.info("memory"))["used_memory"])

    async def calls(self, command: str) -> int:
        """How often a command was called so far."""
        stats = (await self.info("commandstats")).get(f"cmdstat_{command}", "calls=0")
        return int(stats.partition(",")[0].removeprefix("calls="))

    async def settle(self) -> None:
        """Wait until what was deleted is freed: Redis does that in the background."""
        while int((await self.info("memory"))["lazyfree_pending_objects"]):
            pass

    async def be_alone(self) -> None:
        """Wait until Redis has noticed that all other connections are closed."""
        while int((await self.info("clients"))["connected_clients"]) > 1:
            pass


@asynccontextmanager
async def open_server(
    data_dir: Path | None, fsync: Fsync = "everysec", options: Mapping[str, str] | None = None
) -> AsyncIterator[BenchServer]:
    """A server of its own in a new folder below `data_dir`, or below the system's temporary one."""
    with TemporaryDirectory(prefix="bench-", dir=data_dir) as folder:
        async with EmbeddedRedis(Path(folder, "data"), fsync=fsync, options={**NO_REWRITE, **(options or {})}) as redis:
            node = Node(parse_url(redis.url), connections=1)
            try:
                yield BenchServer(redis, node)
            finally:
                await node.close()
