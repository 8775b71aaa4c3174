"""A running service, as commands see it: where it is, with which key, and what goes wrong in one sentence."""

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar
from urllib.parse import urlsplit

import click

from toptail import Client, ToptailError, Unauthenticated, Unreachable

URL = "http://127.0.0.1:8080"
TIMEOUT_S = 30.0
FIRST_S = 3.0  # for the first connection

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


def service_options(command: F) -> F:
    """The options --url and --api-key."""
    command = click.option("--api-key", envvar="TOPTAIL_API_KEY", help="API key, if the service asks for one.")(command)
    return click.option("--url", default=URL, show_default=True, help="Address of the service.")(command)


def make_client(url: str, api_key: str | None, *, timeout_s: float | None = None) -> Client:
    """A client of a service that is there: one that goes away later is waited for, one that never was is not."""
    try:
        client = Client(url, key=api_key, timeout_s=timeout_s or TIMEOUT_S)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--url") from None
    address = urlsplit(url)
    try:
        port = address.port or {"https": 443}.get(address.scheme, 80)
        socket.create_connection((address.hostname or "", port), timeout=FIRST_S).close()
    except OSError as error:
        reason = error.strerror or error
        raise click.ClickException(f"no service at {url}: {reason}; is it running? (toptail serve, or --url)") from None
    return client


def run(work: Coroutine[Any, Any, T]) -> T:
    """Do it, or say in one sentence why not, with exit code 1."""
    try:
        return asyncio.run(work)
    except ToptailError as error:
        raise click.ClickException(explain(error)) from None


def explain(error: ToptailError) -> str:
    if isinstance(error, Unreachable):
        return f"{error.message}; is it running? (toptail serve, or --url)"
    if isinstance(error, Unauthenticated):
        return f"{error.message} (--api-key or TOPTAIL_API_KEY)"
    return error.message
