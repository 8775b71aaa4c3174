"""Imports point one way: service -> hybrid, toptail; hybrid -> sketches; experiments -> hybrid, sketches, toptail."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAY_IMPORT = {
    "sketches": {"sketches"},
    "toptail": {"toptail"},
    "hybrid": {"hybrid", "sketches"},
    "service": {"service", "hybrid", "sketches", "toptail"},
    "experiments": {"experiments", "hybrid", "sketches", "toptail"},
}


def imported(source: str) -> Iterator[str]:
    """The top-level package of every import, wherever in the file it stands."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.split(".")[0]


def upward_imports(package: str, source: str) -> set[str]:
    return {name for name in imported(source) if name in MAY_IMPORT} - MAY_IMPORT[package]


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_no_module_imports_upwards(package: str) -> None:
    modules = list((ROOT / package).rglob("*.py"))
    assert modules
    assert {m.name: up for m in modules if (up := upward_imports(package, m.read_text()))} == {}


def test_an_upward_import_would_be_seen() -> None:
    assert upward_imports("sketches", "def f():\n    from hybrid.record import Record\n") == {"hybrid"}
    assert upward_imports("hybrid", "import sketches, service.cli") == {"service"}


def test_every_package_is_shipped_with_its_types() -> None:
    assert all((ROOT / package / "py.typed").exists() for package in MAY_IMPORT)
