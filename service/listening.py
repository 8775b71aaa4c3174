"""The one listening socket of a service, and whether somebody answers on it.

Bound by the supervisor without SO_REUSEPORT: with it a second service would silently take half of the requests.
"""

import asyncio
import errno
import os
import socket
from contextlib import suppress
from ipaddress import ip_address

import msgspec

from service.settings import BadSetting
from toptail.wire import Health

BACKLOG = 1024
ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  these are recognised, not bound

Address = tuple[socket.AddressFamily, str]


class CannotListen(Exception):
    """An address that cannot be listened on."""


def resolve(host: str) -> Address:
    """The address that a host stands for; of several the first."""
    try:
        found = socket.getaddrinfo(host or None, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise CannotListen(f"the host {host!r} is not known: {error}") from None
    family, _, _, _, address = found[0]
    return family, str(address[0])


def check_reach(address: Address, *, has_keys: bool) -> None:
    """Refuse to serve others than this machine when anybody may do anything."""
    if not has_keys and not ip_address(address[1].partition("%")[0]).is_loopback:
        raise BadSetting(
            f"serve beyond loopback needs API keys: {address[1]} is open to others; "
            "make a key with `toptail key new` and name its file as keys_file, or listen on 127.0.0.1"
        )


def listen(address: Address, port: int) -> socket.socket:
    """A socket that listens; nobody else does on the same port."""
    family, host = address
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise CannotListen(_explain(error, render_address(host, port))) from None
    listener.setblocking(False)
    return listener


def render_address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def url_of(listener: socket.socket) -> str:
    """Where this machine reaches it."""
    host, port = listener.getsockname()[:2]
    return f"http://{render_address(ANYWHERE.get(host, host), port)}"


async def ask_ready(listener: socket.socket, wait_s: float = 10.0) -> Health:
    """What /readyz says; "starting" while nobody answers."""
    host, port = listener.getsockname()[:2]
    with suppress(OSError, TimeoutError, msgspec.DecodeError):
        async with asyncio.timeout(wait_s):
            reader, writer = await asyncio.open_connection(ANYWHERE.get(host, host), port)
            try:
                writer.write(b"GET /readyz HTTP/1.0\r\n\r\n")
                answer = await reader.read()
            finally:
                writer.close()
            return msgspec.json.decode(answer.partition(b"\r\n\r\n")[2], type=Health)
    return Health(status="starting")


def _explain(error: OSError, where: str) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"{where} is in use already; stop what listens there, or choose another port with --port"
    return f"cannot listen on {where}: {os.strerror(error.errno or 0)}"
