"""What is told of a result in words, for the page: reading.py says it, and nobody says it again in another language."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..records import Cluster, Sentence
from ..result import Result, sentence_share, share_text
from .reading import (
    elsewhere_note,
    explanation,
    judge_line,
    meaning_label,
    reading,
    reading_of_sentence,
    sentence_note,
    short_note,
    to_check,
)

Json = dict[str, Any]


def said_of(result: Result) -> Json:
    """Return what is said of a result, of its meanings and of its sentences, in their order there."""
    return {
        "reading": reading(result),
        "note": short_note(result),
        "caveats": [explanation(result), judge_line(result)],
        "meanings": _of_meanings(result.clusters),
        "sentences": list(map(said_of_sentence, result.sentences)),
        "to_check": [result.sentences.index(one) for one in to_check(result)],
    }


def said_of_sentence(one: Sentence) -> Json:
    """Return what is said of a sentence; what only a measured one has is empty in others."""
    return {
        "share": sentence_share(one),
        "note": sentence_note(one),
        "reading": reading_of_sentence(one) if one.clusters else "",
        "elsewhere": elsewhere_note(one),
        "meanings": _of_meanings(one.clusters),
        "doubt": one.doubt,
        "is_open": one.is_open,
    }


def _of_meanings(clusters: Sequence[Cluster]) -> list[Json]:
    return [{"share": share_text(cluster), "label": meaning_label(cluster)} for cluster in clusters]
