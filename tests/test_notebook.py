"""The notebook of the documentation runs from top to bottom, and holds what it printed with the default model."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import nbformat
import pytest
from jupyter_core.utils import ensure_event_loop

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "bench"))

from notebook import NOTEBOOK, run_notebook
from sdlg.options import DEFAULT_MODEL

# A small model on one thread, and short answers: it is asked whether the cells run, not what they say.
QUICKER = {
    DEFAULT_MODEL: "smollm2",
    "samples=5, max_tokens=24": "samples=2, draws=1, max_tokens=8, threads=1",
    "max_tokens=12": "max_tokens=12, threads=1",
    '"draws=0"': '"draws=0", "--set", "threads=1"',
}


def printed(notebook: nbformat.NotebookNode) -> str:
    return "".join(one.get("text", "") for cell in notebook.cells for one in cell.get("outputs", ()))


@pytest.fixture
def event_loop_of_jupyter():
    """It leaves its loop open: whichever test came when it was collected would fail."""
    loop = ensure_event_loop()
    yield
    if not loop.is_running():
        asyncio.set_event_loop(None)
        loop.close()


@pytest.mark.usefixtures("event_loop_of_jupyter")
@pytest.mark.filterwarnings("default")  # those of Jupyter are not ours
def test_the_notebook_runs_with_a_small_model():
    ran = run_notebook(NOTEBOOK, timeout=600, changes=QUICKER)
    shown = [one.data for cell in ran.cells for one in cell.get("outputs", ()) if "data" in one]
    assert any("sdlg-result" in data.get("text/html", "") for data in shown)
    assert "semantic entropy" in printed(ran)


def test_the_notebook_holds_outputs_of_the_default_model():
    kept = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(kept)
    assert all(cell.outputs for cell in kept.cells if cell.cell_type == "code")
    assert "The capital of Australia is Canberra." in printed(kept)
    assert str(Path.home()) not in NOTEBOOK.read_text(encoding="utf-8")
