"""Clients of HTTP/1.0: answered in their own version, and the connection is kept only for who asks for that."""

import socket
from urllib.parse import urlsplit

import pytest

from tests.e2e.conftest import Service


@pytest.mark.parametrize("is_kept", [False, True])
def test_http_1_0_is_answered_as_such(service: Service, is_kept: bool) -> None:
    place = urlsplit(service.url)
    wish = "Connection: keep-alive\r\n" if is_kept else ""
    with socket.create_connection((place.hostname or "", place.port or 0), timeout=5) as client:
        client.sendall(f"GET /v1/boards HTTP/1.0\r\n{wish}\r\n".encode())
        answer = client.recv(65536).decode()
        assert answer.startswith("HTTP/1.0 200 OK\r\n")
        assert answer.endswith('\r\n\r\n{"boards":[]}')
        assert ("Connection: keep-alive" in answer) == is_kept
        client.settimeout(0.2)
        if is_kept:
            with pytest.raises(TimeoutError):
                client.recv(1)
        else:
            assert client.recv(1) == b""
