"""The running service against its own schema: thousands of made-up requests, and no server error among the answers."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.services import running_service

CONFIG = Path(__file__).with_name("schemathesis.toml")


@pytest.mark.slow
def test_5000_made_up_requests_get_no_answer_off_the_schema(tmp_path: Path) -> None:
    with running_service(tmp_path) as service:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(CONFIG), "--no-color", "run"),
                *("--seed", "1", "--max-examples", "320", f"{service.url}/openapi.json"),
            ],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=600,
            check=False,
        )
    cases = re.search(r"(\d+) generated", done.stdout)
    assert done.returncode == 0, done.stdout[-6000:]
    assert cases is not None
    assert int(cases[1]) >= 5000
