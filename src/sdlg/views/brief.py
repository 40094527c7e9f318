"""A result in a few plain fields, for programs that want the uncertainty and no tokens or tables."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ..records import Cluster, Sentence
from ..result import Result
from .reading import reading


def brief_dict(result: Result) -> dict[str, Any]:
    """Return how sure the model is: a sentence in words, the headline, the meanings (the largest first) or the
    sentences of a long answer, each with its own, the notes."""
    return {
        "reading": reading(result),
        "semantic_entropy": result.semantic_entropy,
        "risk": result.risk and asdict(result.risk),
        "meanings": [] if result.sentences else list(map(meaning_dict, result.meanings)),
        "sentences": list(map(sentence_dict, result.sentences)),
        "notes": list(result.notes),
    }


def meaning_dict(cluster: Cluster) -> dict[str, Any]:
    """Return a meaning in short."""
    return {name: getattr(cluster, name) for name in ("text", "share", "low", "high", "kind")}


def sentence_dict(sentence: Sentence) -> dict[str, Any]:
    """Return a sentence of a long answer, its own meaning first."""
    fields = ("text", "start", "end", "measured_from", "kind", "semantic_entropy", "coverage", "is_open")
    found = {name: getattr(sentence, name) for name in fields}
    elsewhere = sentence.elsewhere and meaning_dict(sentence.elsewhere)
    found["risk"] = sentence.risk and asdict(sentence.risk)
    return {**found, "clusters": list(map(meaning_dict, sentence.clusters)), "elsewhere": elsewhere}
