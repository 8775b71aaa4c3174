"""The pages as a browser shows them: what a person sees, not what was sent."""

import shutil
import subprocess
from pathlib import Path

import pytest

from service.app import ROUTES
from tests.services import running_service

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH: apt-get install chromium")


def show(url: str, profile: Path) -> str:
    """The page's elements after its scripts have run."""
    quiet = ("--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}")
    command = (str(CHROMIUM), *quiet, "--virtual-time-budget=8000", "--dump-dom", url)
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


@needs_chromium
def test_the_api_page_lists_every_route_offline(tmp_path: Path) -> None:
    with running_service(tmp_path / "data") as service:
        page = show(f"{service.url}/docs", tmp_path / "profile")
    assert "Unable to render" not in page
    for route in ROUTES:
        assert f'data-path="{route.plain_path}"' in page
        assert route.summary in page


@needs_chromium
def test_the_landing_page_shows_titles_as_they_were_written(tmp_path: Path) -> None:
    with running_service(tmp_path / "data") as service:
        assert service.ask("PUT", "/v1/boards/game", {"title": "<b>Tom & Jerry</b>"})[0] == 201
        page = show(f"{service.url}/", tmp_path / "profile")
    assert "&lt;b&gt;Tom &amp; Jerry&lt;/b&gt;" in page
