"""Records as a CSV file."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any


def write_csv(rows: Sequence[Any], path: Path, number: str) -> None:
    """One line for each of some records of one dataclass; `number` is the format of its floats."""
    names = [part.name for part in fields(rows[0])]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        for row in rows:
            values = [getattr(row, name) for name in names]
            writer.writerow([format(value, number) if isinstance(value, float) else value for value in values])
