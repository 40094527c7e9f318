"""Loading a tokenizer, in one place: transformers makes an empty one where a folder has none, and says nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import AutoTokenizer


def load_tokenizer(source: str | Path, **options: Any) -> Any:
    """The tokenizer of a folder or of the hub; `OSError` where there is none."""
    tokenizer = AutoTokenizer.from_pretrained(source, **options)
    if len(tokenizer) <= len(tokenizer.all_special_ids):
        raise OSError("it has no tokenizer.")
    return tokenizer
