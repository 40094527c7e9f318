"""How much work it is to measure given answers, before any of it is done.

In: what is known of the answers, the question, and what the measures need. Out: characters that the judge of meaning
and the similarity model would read, at most. Every pair of answers is read in both directions, and relevance reads an
answer once for each of its tokens: bytes say little of it. A language model is larger, so what it reads counts more.
"""

from __future__ import annotations

from collections.abc import Collection

from ..measures import MeasureInputs
from ..records import Question

LONG_WORK = 20_000  # from here on others overtake it: one or two seconds on two slow cores
_BY_LANGUAGE_MODEL = 10  # as measured: the embedded model reads a tenth of what the embedded judge reads in a second
_CHARACTERS_PER_TOKEN = 4  # of answers whose tokens are not given; more are short words


def given_work(inputs: MeasureInputs, question: Question, needs: Collection[str]) -> int:
    """Characters to read. What is given already costs nothing."""
    missing = {name for name in needs if getattr(inputs, name, None) is None}
    sizes = [len(question.text) + 1 + len(text) for text in inputs.texts or ()]
    pairs = 2 * max(len(sizes) - 1, 0) * sum(sizes)
    judged = pairs * (("clusters" in missing) + bool(missing & {"entailment", "contradiction"}))
    compared = sum(sizes) * len(missing & {"similarity", "embeddings"})
    prompt = len(question.context or "") + len(question.text)
    asked = (prompt + sum(sizes)) * len(missing & {"logprobs", "p_true", "assessment", "other_logprobs"})
    return judged + compared + _BY_LANGUAGE_MODEL * asked + _relevance_work(inputs, sizes, missing)


def _relevance_work(inputs: MeasureInputs, sizes: list[int], missing: Collection[str]) -> int:
    """Each answer once more without each of its tokens."""
    if "relevance" not in missing:
        return 0
    if inputs.tokens is None:
        return sum(size * (size // _CHARACTERS_PER_TOKEN + 1) for size in sizes)
    return sum((len(tokens) + 1) * (sum(map(len, tokens)) + 1) for tokens in inputs.tokens)
