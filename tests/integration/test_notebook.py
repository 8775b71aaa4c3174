"""The notebook from "my CSV" to "my config": every cell runs, in order, and says what it should."""

import asyncio
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "docs" / "notebooks" / "my_scores.ipynb"


def load_notebook() -> nbformat.NotebookNode:
    notebook: nbformat.NotebookNode = nbformat.reads(NOTEBOOK.read_text(encoding="utf-8"), as_version=4)  # type: ignore[no-untyped-call]
    return notebook


def test_it_has_ten_cells() -> None:
    assert len(load_notebook().cells) == 10


@pytest.mark.filterwarnings("default")  # a kernel's warnings are not ours
def test_every_cell_runs_and_ends_in_a_config() -> None:
    notebook = load_notebook()
    asyncio.run(NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(ROOT)}}).async_execute())
    said = [_text(cell) for cell in notebook.cells if cell.cell_type == "code"]
    assert "players outside their proved interval: 0 of 20000" in said[2]
    assert "curl -X PUT" in said[7]
    assert "percentile" in said[8]


def _text(cell: nbformat.NotebookNode) -> str:
    return "".join(output.get("text", "") for output in cell.outputs)
