"""Some questions side by side: what SDLG and multinomial sampling answered, and which answers mean the same."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ....records import Sample
from ...rows import Clustered, Generated
from ..columns import FAMILY_NAMES, MULTINOMIAL, SDLG, Column, family_of, named_column
from ..elements import Block, Example, ExampleAnswer, Examples, Paragraph, Piece, Section
from ..views import RunView
from .growth import cluster_counts

_INTRO = (
    "Answers with the same letter mean the same, by the run's own clustering; letters belong to one sampler. The "
    "marked word is the one that SDLG changed; the rest of that answer is the model's own. The percentage is the "
    "geometric mean of the tokens' probabilities."
)
_AT_RANDOM = 3
_LONGEST = 400  # characters of an answer that are shown


def examples(views: Sequence[RunView]) -> Section:
    """A handful for each run."""
    return Section("examples", "Examples", _INTRO, tuple(map(_of_run, views)))


def _of_run(view: RunView) -> Block:
    columns = [column for label in (SDLG, MULTINOMIAL) if (column := named_column(view, label)).is_there]
    if not columns:
        return Paragraph(f"{view.label}: no examples, since the run has neither SDLG nor multinomial samples.")
    shown: dict[int, str] = {}
    for place, why in _chosen(view, columns):
        shown.setdefault(place, why)
    examples = tuple(_example(view, place, why, columns) for place, why in shown.items())
    return Examples(f"examples-{view.slug}", view.label, examples, str(view.target))


# -- which ------------------------------------------------------------------------------------------------------


def _chosen(view: RunView, columns: list[Column]) -> Iterator[tuple[int, str]]:
    """Some at random (by a hash of their ids), then some that show what goes well and what does not."""
    order = sorted(
        range(view.size), key=lambda place: hashlib.sha256(f"example {view.run.ids[place]}".encode()).digest()
    )
    yield from ((place, "at random") for place in order[:_AT_RANDOM])
    scores, wrong = view.scores(*columns[0].measured), view.wrong(view.target)
    is_defined = np.isfinite(scores)
    name = columns[0].label
    yield from _extreme(scores, is_defined & (wrong == 1), f"wrong, and {name} is most in doubt")
    yield from _extreme(-scores, is_defined & (wrong == 1), f"wrong, though {name} is least in doubt")
    yield from _extreme(scores, is_defined & (wrong == 0), f"right, though {name} is most in doubt")
    if len(columns) == 2:
        first, second = (cluster_counts(view, column.method)[:, -1] for column in columns)
        gain = first - second
        yield from _extreme(gain, np.isfinite(gain), "SDLG finds the most clusters more")


def _extreme(values: Any, candidates: Any, why: str) -> Iterator[tuple[int, str]]:
    """The candidate with the highest value; the first of equals."""
    if candidates.any():
        yield int(np.argmax(np.where(candidates, values, -math.inf))), why


# -- how they look ----------------------------------------------------------------------------------------------


def _example(view: RunView, place: int, why: str, columns: list[Column]) -> Example:
    name = view.run.ids[place]
    generated, clustered = view.run.generated[name], view.run.clustered[name]
    verdict = float(view.wrong(view.target)[place])
    score = float(view.run.correctness(view.target.metric)[place]) if math.isfinite(verdict) else math.nan
    samplers = tuple(
        (FAMILY_NAMES[family_of(column.method)], _answers(generated, clustered, column.method)) for column in columns
    )
    answer = _cut(generated.answer.text if generated.answer else "")
    return Example(generated.question, answer, None if math.isnan(verdict) else bool(verdict), score, why, samplers)


def _answers(generated: Generated, clustered: Clustered, method: str) -> tuple[ExampleAnswer, ...]:
    samples, clusters = generated.methods[method].samples, clustered.methods[method].clusters
    letters = {cluster: place for place, cluster in enumerate(dict.fromkeys(clusters))}
    return tuple(
        ExampleAnswer(pieces_of(sample), letters[cluster], _likelihood(sample))
        for sample, cluster in zip(samples, clusters, strict=True)
    )


def pieces_of(sample: Sample) -> tuple[Piece, ...]:
    """The answer before the changed word, the word, the rest; one piece where nothing was changed."""
    text, change = sample.text, sample.substitution
    start = None if change is None else _start(sample, change.position)
    if start is None:
        return (Piece(_cut(text)),)
    if start >= len(text):
        return (Piece(_cut(text)), Piece(" (ends here)", True))
    length = len(text[start:].split(maxsplit=1)[0])
    parts = Piece(text[:start]), Piece(text[start : start + length], True), Piece(_cut(text[start + length :]))
    return tuple(piece for piece in parts if piece.text)


def _start(sample: Sample, position: int) -> int | None:
    """Where the changed word begins in the text; None where the tokens do not spell the text."""
    tokens, text = sample.tokens, sample.text
    whole = "".join(tokens)
    if whole.strip() != text:
        return None
    before = max(0, len("".join(tokens[:position])) - (len(whole) - len(whole.lstrip())))
    return before + len(text[before:]) - len(text[before:].lstrip())


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _likelihood(sample: Sample) -> float:
    logprobs = sample.generation.decision_logprobs
    return math.exp(sum(logprobs) / len(logprobs)) if logprobs else math.nan
