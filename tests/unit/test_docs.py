"""What the documents say is so: commands run, outputs match, tests that are named exist."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = re.findall(
    r"```python\n(.*?)```\n+(?:[^`]*?\n)?```text\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL
)


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
    folders = ("", "sketches/", "hybrid/", "tests/")
    assert names
    assert [name for name in names if not any((ROOT / folder / name).exists() for folder in folders)] == []


def test_links_between_documents_lead_somewhere() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} -> {target}"
