"""A run as Parquet files, for pandas, polars, DuckDB and the like: the tables of `frames`, measures in long form."""

from __future__ import annotations

from pathlib import Path

from ..errors import RunError
from .results import load_run

try:
    from .frames import costs_frame, measures_frame, questions_frame, samples_frame
except ImportError as error:
    raise RunError("the tables of a run need pandas: pip install 'sdlg[eval]'") from error


def export_run(folder: Path) -> list[Path]:
    """Write the tables beside the run's stores; earlier ones are replaced."""
    run, written = load_run(folder), []
    tables = {
        "questions": questions_frame(run),
        "samples": samples_frame(run),
        "costs": costs_frame(run),
        "measures": measures_frame(run).stack().rename("value").reset_index(),
    }
    for name, table in tables.items():
        path = folder / f"{name}.parquet"
        try:
            table.to_parquet(path, index=False)
        except ImportError as error:
            raise RunError("Parquet needs the pyarrow package: pip install 'sdlg[eval]'") from error
        except OSError as error:
            raise RunError(f"cannot write {path}: {error}") from error
        written.append(path)
    return written
