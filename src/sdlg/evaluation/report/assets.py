"""The report's figures as SVG and PNG files, its tables as CSV files."""

from __future__ import annotations

from pathlib import Path

from ...errors import BadOption
from .charts import numbers_of
from .elements import Report
from .serialising import table_csv


def write_assets(report: Report, folder: Path) -> list[Path]:
    """Write them all; the files that were written."""
    from .figures import file_png, file_svg

    files: dict[str, bytes] = {f"{table.name}.csv": table_csv(table).encode() for table in report.tables}
    for chart in report.charts:
        files[f"figure-{chart.name}.csv"] = table_csv(numbers_of(chart)).encode()
        files[f"figure-{chart.name}.svg"] = file_svg(chart).encode()
        files[f"figure-{chart.name}.png"] = file_png(chart)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (folder / name).write_bytes(content)
    except OSError as error:
        raise BadOption(f"cannot write the figures and tables to {folder}: {error}") from error
    return [folder / name for name in files]
