"""Results made by hand, for tests of what is shown, written or served: no model is needed.

`made(meanings)` makes one; `RESULTS` names those that views must get right.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from zlib import crc32

from sdlg.clustering.declining import declines
from sdlg.options import Options
from sdlg.records import (
    AnswerRisk,
    Branching,
    Cluster,
    Cost,
    Estimate,
    Generation,
    Question,
    Sample,
    Sentence,
    Setup,
    Substitution,
    Word,
)
from sdlg.result import MEAN_SENTENCE_ENTROPY, SEMANTIC_ENTROPY, SHARE_ENTROPY, Result
from sdlg.scoring.alignment import word_spans

Share = tuple[float, float, float] | None  # low, probability, high; None: nothing was drawn
Meaning = tuple[Sequence[str], Share]

QUESTION = "What is the capital of Australia?"
EVIL = "<script>alert('&')</script><img src=x onerror=alert(2)>"
RISK = AnswerRisk(0.2, "about 2 in 10 such answers are wrong", "measured on 400 answers", "perplexity", 1.2, True)
SYDNEY, CANBERRA = "The capital of Australia is Sydney.", "The capital of Australia is Canberra."


def made(meanings: Sequence[Meaning], *, question: str = QUESTION, context: str | None = None, **fields) -> Result:
    """Return a result whose meanings have these wordings and shares. The first wording of the first is the answer.

    Every wording is a sample; those of SDLG branch off the answer at the first word that differs. `fields` are those of
    `Result`; `options` may be a mapping.
    """
    method = fields.get("method", "sdlg")
    texts = [(text, number) for number, (wordings, _) in enumerate(meanings) for text in wordings]
    answer = texts[0][0]
    samples = tuple(
        _sample(text, answer, number, place, grown=method == "sdlg" and place > 0)
        for place, (text, number) in enumerate(texts)
    )
    named = {"samples": max(len(samples), 2), "draws": 5, **fields.pop("options", {})}
    clusters = tuple(
        _cluster(number, wordings, share, samples, len(meanings)) for number, (wordings, share) in enumerate(meanings)
    )
    drawn = clusters[0].probability is not None
    estimates = {SEMANTIC_ENTROPY: _estimate(0.85)}
    if drawn:
        estimates[SHARE_ENTROPY] = _estimate(0.62, 0.4, 0.9)
    record = {
        "question": Question(question, context),
        "model": "scripted",
        "nli": "fake-nli",
        "method": "sdlg",
        "preset": "default",
        "clusters": clusters,
        "estimates": estimates,
        "unavailable": {},
        "coverage": 0.875,
        "words": _words(answer, samples),
        "samples": samples,
        "draws": tuple(_sample(answer, answer, 0, 0, grown=False) for _ in range(5)) if drawn else (),
        "candidates": _candidates(samples),
        "options": Options(**named),
        "setup": Setup(),
        "cost": Cost(9, 30, 40, 0, 12, 0, 6, 1, {"answer": 0.5, "branches": 1.0}),
    }
    return Result(**{**record, **fields})


def tokens_of(text: str) -> tuple[str, ...]:
    """Return the text token by token: words of more than five letters are two tokens."""
    words = re.findall(r"\s*\S+", text)
    return tuple(part for word in words for part in ((word[:5], word[5:]) if len(word) > 5 else (word,)))


def _sample(text: str, answer: str, cluster: int, place: int, *, grown: bool) -> Sample:
    tokens = tokens_of(text)
    ids = tuple(crc32(token.encode("utf-8", "surrogatepass")) % 1000 for token in tokens)
    generation = Generation(text, ids, tuple([-0.25] * len(tokens)), "eos", (-0.1,))
    change = _change(tokens, tokens_of(answer), place) if grown else None
    branching = Branching(-0.25 * change.position, change.logprob, change.importance) if change else None
    return Sample(generation, tokens, change, branching, cluster, 0.1)


def _change(tokens: Sequence[str], answer: Sequence[str], place: int) -> Substitution:
    shared = sum(1 for _ in _while_equal(tokens, answer))
    original = answer[shared].strip() if shared < len(answer) else ""
    ends = shared == len(tokens)
    new = "" if ends else tokens[shared].strip()
    chance = 0.3 / place
    return Substitution(shared, original, new, 500 + place, math.log(chance), 0.1, 0.2, chance, ends, place)


def _while_equal(first: Sequence[str], second: Sequence[str]):
    for one, other in zip(first, second, strict=False):
        if one != other:
            return
        yield one


def _candidates(samples: Sequence[Sample]) -> tuple[Substitution, ...]:
    """Those that were tried, and one more that was not."""
    tried = [sample.substitution for sample in samples if sample.substitution]
    if not tried:
        return ()
    first = tried[0]
    spare = Substitution(first.position, first.original, "never", 999, math.log(0.01), 0.1, 0.2, 0.01, rank=99)
    return (*tried, spare)


def _words(answer: str, samples: Sequence[Sample]) -> tuple[Word, ...]:
    starts = list(accumulate(map(len, tokens_of(answer)), initial=0))
    found = []
    for number, (start, end) in enumerate(word_spans(answer)):
        here = sum(
            sample.substitution.importance
            for sample in samples
            if sample.substitution and start <= starts[sample.substitution.position] + 1 <= end and sample.cluster
        )
        found.append(Word(answer[start:end], start, end, (number % 10) / 10, min(here, 1.0), 0.05))
    return tuple(found)


def _cluster(number: int, wordings: Sequence[str], share: Share, samples: Sequence[Sample], count: int) -> Cluster:
    members = tuple(place for place, sample in enumerate(samples) if sample.cluster == number)
    low, probability, high = share or (None, None, None)
    draws = tuple(range(5)) if share and number == 0 else ()
    score = round(1 - (count - 1) * 0.5 / count, 6) if number == 0 else 0.5 / count
    kind = "declines" if all(map(declines, wordings)) else "answer"
    return Cluster(number, wordings[0], tuple(wordings), probability, members, low, high, score, draws, kind)


def _estimate(value: float, low: float | None = None, high: float | None = None) -> Estimate:
    return Estimate(value, "nats", True, {}, low, high)


def made_long(parts: Sequence[tuple[str, Sequence[Meaning] | None]], between: str = " ", **fields) -> Result:
    """Return the result of a long answer: each sentence with its meanings, its own first; None: a lead-in."""
    text, sentences = "", []
    for said, meanings in parts:
        text += between if text else ""
        start, text = len(text), text + said
        one = Sentence(said, start, len(text), "lead" if meanings is None else "claim")
        if meanings is not None:
            own = made([((said,), meanings[0][1]), *meanings[1:]])
            names = ("clusters", "estimates", "coverage", "words", "samples", "draws", "candidates")
            one = replace(one, **{name: getattr(own, name) for name in names})
        sentences.append(one)
    whole = made([((text,), None)], **fields)
    estimates = {SEMANTIC_ENTROPY: _estimate(2.1), MEAN_SENTENCE_ENTROPY: _estimate(0.9)}
    return replace(whole, estimates=estimates, coverage=None, sentences=tuple(sentences))


LONG = " ".join(["word"] * 400)
RIVER = "The longest river is the"
RESULTS: dict[str, Result] = {
    "sure": made([((CANBERRA,), (0.92, 0.97, 1.0))], options={"samples": 10}),
    "leans": made([((CANBERRA, "It is Canberra."), (0.78, 0.81, 0.86)), ((SYDNEY,), (0.1, 0.19, 0.3))]),
    "unsure": made([((CANBERRA,), (0.21, 0.35, 0.63)), ((SYDNEY,), (0.24, 0.47, 0.7))]),
    "rival": made([((CANBERRA,), (0.1, 0.2, 0.3)), ((SYDNEY,), (0.6, 0.7, 0.85))], risk=RISK),
    "seldom": made([((CANBERRA,), (0.0, 0.02, 0.08)), ((SYDNEY,), (0.05, 0.4, 0.7)), (("Perth.",), (0.1, 0.3, 0.6))]),
    "refused": made([(("I cannot answer that.",), (0.55, 0.7, 0.84)), (("No.",), (0.1, 0.3, 0.5))]),
    "empty": made([(("",), (0.6, 0.8, 0.95)), (("Paris",), (0.05, 0.2, 0.4))]),
    "several_lines": made([(("One\nTwo", "One\tTwo"), (0.6, 0.8, 0.95))]),
    "long": made([((LONG,), (0.55, 0.6, 0.8)), ((f"{LONG} more",), (0.2, 0.4, 0.45))], risk=RISK),
    "unbroken": made([(("W" * 3000,), (0.55, 0.6, 0.8)), (("京" * 3000,), (0.2, 0.4, 0.45))]),
    "twenty": made(
        [((f"{RIVER} {name}{n}", f"{RIVER} {name}{n} now"), (0.0, 0.05, 0.3)) for n, name in enumerate(["Nile"] * 20)],
        options={"samples": 50},
        risk=RISK,
        model="/home/somebody/models/a-model-with-a-very-long-name-of-many-words-q4_k_m.gguf",
        notes=("a note that is only in the long view",),
    ),
    "no_draws": made([((CANBERRA,), None), ((SYDNEY, "Sydney"), None)], preset="paper", options={"draws": 0}),
    "all_alike": made([((CANBERRA, "Canberra"), None)], preset="paper", options={"draws": 0}),
    "alone": made([((CANBERRA,), None)], options={"draws": 0, "samples": 1}),
    "emoji": made([(("🦊 réd 東京 👩‍🚀 fin",), (0.6, 0.7, 0.9)), (("🦊 eats",), (0.1, 0.3, 0.4))]),
    "right_to_left": made([(("בירת צרפת היא פריז",), (0.6, 0.7, 0.9)), (("בירת צרפת היא ליון",), (0.1, 0.3, 0.4))]),
    "markup": made([((EVIL,), (0.6, 0.7, 0.9)), ((f"{EVIL}<b>[red]x[/red]",), (0.1, 0.3, 0.4))], question=f"{EVIL}?"),
    "control": made([(("\x1b]0;owned\x07\x1b[31mred \u202e",), (0.6, 0.7, 0.9)), (("\x1b[2J",), (0.1, 0.3, 0.4))]),
    "shorter": made([((CANBERRA,), (0.6, 0.7, 0.9)), (("The capital of",), (0.1, 0.3, 0.4))]),
    "multinomial": made([((CANBERRA, SYDNEY), (0.2, 0.5, 0.8))], method="multinomial", draws=(), coverage=None),
    "given": made([((CANBERRA,), None), ((SYDNEY,), None)], method="given", model=None, coverage=None, words=()),
    "undefined": made([((CANBERRA,), None)], estimates={SEMANTIC_ENTROPY: _estimate(math.nan)}, coverage=None),
}

CURIE = made_long(
    [
        ("Here is what I know:", None),
        (
            "Marie Curie was a physicist.",
            [(("",), (0.9, 0.95, 1.0)), (("Marie Curie was a chemist.",), (0.0, 0.05, 0.1))],
        ),
        (
            "She named radium after her father.",
            [(("",), (0.1, 0.2, 0.4)), (("She named it after rays.",), (0.4, 0.8, 0.9))],
        ),
        ("She won two prizes.", [(("",), (0.3, 0.5, 0.7)), (("She won one prize.", "She won 1."), (0.3, 0.5, 0.7))]),
    ],
    question="Tell me about Marie Curie.",
)
