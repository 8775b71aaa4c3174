"""The README's commands, pasted: what they print is what the README shows."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.services import Service, running_service

README = (Path(__file__).parents[2] / "README.md").read_text()
ADDRESS = "http://127.0.0.1:8080"
_TIMES = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_BYTES = re.compile(r'"bytes":\d+')


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running_service(tmp_path_factory.mktemp("readme")) as running:
        yield running


def plain(text: str) -> str:
    """Without what differs from one run to the next."""
    return _BYTES.sub('"bytes":0', _TIMES.sub("<time>", text))


CURLS = re.findall(r"```sh\n(.*?)```\n+```json\n(.*?)```", README, re.DOTALL)


def test_every_curl_is_shown_with_what_it_prints() -> None:
    assert len(CURLS) == README.count("```sh\n") == README.count("```json\n") == 2


@pytest.mark.parametrize(("commands", "shown"), CURLS)
def test_the_curls_print_what_the_readme_shows(service: Service, commands: str, shown: str) -> None:
    printed = [
        subprocess.run(
            ["/bin/bash", "-c", line.replace(ADDRESS, service.url)],
            capture_output=True,
            text=True,
            timeout=20,
            check=True,
        ).stdout
        for line in commands.splitlines()
    ]
    assert [plain(text) for text in printed] == [
        re.sub(r"2\d{3}-01-01T00:00:00Z", "<time>", plain(line)) for line in shown.splitlines()
    ]


def test_the_client_prints_what_the_readme_shows(service: Service) -> None:
    ((code, shown),) = (
        (code, shown)
        for code, shown in re.findall(r"```python\n(.*?)```\n+```text\n(.*?)```", README, re.DOTALL)
        if "Client(" in code
    )
    done = subprocess.run(
        [sys.executable, "-c", code.replace(ADDRESS, service.url)],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert (done.stderr, done.stdout) == ("", shown)
