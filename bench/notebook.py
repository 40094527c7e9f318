"""Run docs/quickstart.ipynb and keep its outputs: `make notebook`, with the default model, some minutes.

    python bench/notebook.py [--out FILE]

In: the notebook. Out: the same cells with what they print and show; nothing of when or where they ran.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

import nbformat
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parent.parent / "docs" / "quickstart.ipynb"


def run_notebook(path: Path, timeout: int, changes: Mapping[str, str] | None = None) -> nbformat.NotebookNode:
    """Return the notebook as it ran, with these changes of its code. A cell that fails raises."""
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        for old, new in (changes or {}).items():
            cell.source = cell.source.replace(old, new)
    NotebookClient(notebook, timeout=timeout, record_timing=False, coalesce_streams=True).execute()
    for cell in notebook.cells:
        if cell.cell_type == "code":  # progress and the library's chatter are not for readers
            cell.outputs = [one for one in cell.outputs if one.get("name") != "stderr"]
    notebook.metadata.pop("widgets", None)
    notebook.metadata.language_info = {"name": "python"}
    return notebook


def main() -> None:
    """Run it and write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=NOTEBOOK)
    parser.add_argument("--timeout", type=int, default=3600, help="seconds for a cell")
    chosen = parser.parse_args()
    nbformat.write(run_notebook(NOTEBOOK, chosen.timeout), chosen.out)


if __name__ == "__main__":
    main()
