"""What the documents say is so: commands run, outputs match, tests that are named exist."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from service.errors import STATUS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
# Those that talk to a running service are run by tests/e2e/test_readme.py.
EXAMPLES = [
    (code, printed)
    for code, printed in re.findall(r"```python\n(.*?)```\n+```text\n(.*?)```", README, re.DOTALL)
    if "Client(" not in code
]


@pytest.mark.parametrize(("code", "printed"), EXAMPLES)
def test_the_readme_prints_what_it_says(code: str, printed: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False
    )
    assert done.stderr == ""
    assert done.stdout == printed


def test_the_readme_has_examples() -> None:
    assert len(EXAMPLES) == 2


def test_every_test_that_the_guarantees_name_exists() -> None:
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "docs" / "guarantees.md").read_text()))
    written = {
        name for file in (ROOT / "tests").rglob("test_*.py") for name in re.findall(r"def (test_\w+)", file.read_text())
    }
    assert named
    assert named <= written


def test_every_file_that_the_readme_names_exists() -> None:
    listing = (ROOT / "README.md").read_text().split("## Read the code in this order")[1].split("[Design]")[0]
    names = re.findall(r"[\w/]+\.(?:py|lua)", listing)
    folders = ("", "sketches/", "hybrid/", "service/", "toptail/", "tests/")
    assert names
    assert [name for name in names if not any((ROOT / folder / name).exists() for folder in folders)] == []


def test_links_between_documents_lead_somewhere() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} -> {target}"


def test_the_table_of_errors_is_the_one_in_use() -> None:
    page = (ROOT / "docs" / "http.md").read_text()
    assert {code: int(status) for code, status in re.findall(r"^\| `(\w+)` \| (\d+) \|", page, re.MULTILINE)} == STATUS
