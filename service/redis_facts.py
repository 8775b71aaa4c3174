"""What a Redis says about itself: what an acknowledgement is worth there, and its figures."""

from collections.abc import Sequence

from redis.exceptions import ResponseError

from hybrid.cluster import SCHEME, ClusterLink, parse_cluster_url
from hybrid.link import TIMEOUT_S, Command, Link, Node, parse_url, raise_reply
from toptail.wire import Ack

_CONFIG: list[Command] = [("CONFIG", "GET", "appendonly"), ("CONFIG", "GET", "appendfsync")]


def check_address(url: str) -> None:
    """Refuse what is no address of a Redis, before anything is started."""
    if url.startswith(SCHEME):
        parse_cluster_url(url)
    else:
        parse_url(url)


async def read_ack(link: Link) -> Ack:
    """What a write has survived when it is acknowledged: the least of all masters; "unknown" if Redis does not say."""
    try:
        answers = [raise_reply(await node.exchange(_CONFIG, TIMEOUT_S)) for node in await list_nodes(link)]
    except ResponseError:  # managed servers refuse CONFIG, and so may an ACL
        return "unknown"
    levels = [{**only, **when} for only, when in answers]
    if any(level.get(b"appendonly") is None for level in levels) or not levels:
        return "unknown"
    is_synced = all(level == {b"appendonly": b"yes", b"appendfsync": b"always"} for level in levels)
    return "fsync" if is_synced else "memory"


async def read_info(link: Link, section: str) -> list[dict[str, str]]:
    """The fields of one section of INFO, master by master."""
    command: Command = ("INFO", section)
    answers = [raise_reply(await node.exchange([command], TIMEOUT_S)) for node in await list_nodes(link)]
    return [parse_info(text) for (text,) in answers]


async def list_nodes(link: Link) -> Sequence[Node]:
    """The masters behind a link."""
    if isinstance(link, ClusterLink):
        return await link.masters()
    return [link] if isinstance(link, Node) else []


def parse_info(text: bytes | str) -> dict[str, str]:
    """The lines `name:value` of an INFO."""
    lines = (text.decode() if isinstance(text, bytes) else text).splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)
