"""Run docs/quickstart.ipynb and keep its outputs: `make notebook`, with the default model, some minutes.

    python bench/notebook.py [--model smollm2] [--out FILE]

In: the notebook. Out: the same cells with what they print and show; nothing of when or where they ran.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from sdlg.options import DEFAULT_MODEL

NOTEBOOK = Path(__file__).parent.parent / "docs" / "quickstart.ipynb"


def run_notebook(path: Path, model: str, timeout: int) -> nbformat.NotebookNode:
    """Return the notebook as it ran with this model in the place of the default one. A cell that fails raises."""
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        cell.source = cell.source.replace(DEFAULT_MODEL, model)
    NotebookClient(notebook, timeout=timeout, record_timing=False).execute()
    for cell in notebook.cells:
        if cell.cell_type == "code":  # progress and the library's chatter are not for readers
            cell.outputs = [one for one in cell.outputs if one.get("name") != "stderr"]
    notebook.metadata.pop("widgets", None)
    notebook.metadata.language_info = {"name": "python"}
    return notebook


def main() -> None:
    """Run it and write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--out", type=Path, default=NOTEBOOK)
    parser.add_argument("--timeout", type=int, default=3600, help="seconds for a cell")
    chosen = parser.parse_args()
    nbformat.write(run_notebook(NOTEBOOK, chosen.model, chosen.timeout), chosen.out)


if __name__ == "__main__":
    main()
