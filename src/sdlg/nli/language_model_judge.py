"""A language model as the judge of meaning, as Farquhar et al. (2024) ask one.

In: a question and pairs of answers. Out: probabilities of the words entailment, contradiction and neutral as its reply,
where it lists what else it could have said; the word it said, where not. Gradients and embeddings, which no language
model offers here, come from an encoder.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import closing
from threading import Lock

from ..concurrency.in_flight import run_in_flight
from ..models.base import Continuation, DecodeRequest, LanguageModel
from ..options import Decoding
from ..records import Cost, Question
from .base import SAME_TEXT, Array, InputGradients, Judged, NliModel, NliProbabilities

_LABELS = ("contradiction", "neutral", "entailment")
_DECODING = Decoding(max_tokens=8)  # the longest of the words takes fewer
_LEAST = 1e-6  # a probability below it changes no verdict
_KEPT_VERDICTS = 100_000

_Asked = tuple[str, str, str]  # question, answer, other answer


class LanguageModelJudge:
    """A language model that is asked, and the encoder that gives gradients. Threads may share it."""

    def __init__(self, model: LanguageModel, encoder: NliModel, *, name: str, style: str = "auto") -> None:
        self.name, self.encoder = name, encoder
        self.parameters: int | None = model.capabilities.parameters
        self._model, self._style = model, style
        self._verdicts: dict[_Asked, NliProbabilities] = {}
        self._turn = Lock()

    @property
    def note(self) -> str:
        """What the reader of a result should know."""
        return f"meanings are judged by {self._model.name}, gradients are those of {self.encoder.name}"

    def judge(self, question: str, pairs: Sequence[tuple[str, str]]) -> Judged:
        """Return whether the first answer entails the second, for each pair. Every pair is asked about once."""
        wanted = [(question, one, other) for one, other in pairs]
        known = self._verdicts  # another thread may put another one in its place
        missing = [asked for asked in dict.fromkeys(wanted) if asked[1] != asked[2] and asked not in known]
        fresh: dict[_Asked, NliProbabilities] = {}
        spent = Cost()
        with closing(run_in_flight(self._ask, missing, self._model.capabilities.in_flight)) as replies:
            for asked, reply in replies:
                fresh[asked], cost = reply.result()
                spent += cost
        verdicts = {asked: fresh.get(asked) or known.get(asked, SAME_TEXT) for asked in wanted}
        self._keep(fresh)
        return Judged(tuple(verdicts[asked] for asked in wanted), spent)

    def _keep(self, fresh: dict[_Asked, NliProbabilities]) -> None:
        with self._turn:
            if len(self._verdicts) + len(fresh) > _KEPT_VERDICTS:
                self._verdicts = {}
            self._verdicts = {**self._verdicts, **fresh} if fresh else self._verdicts

    def _ask(self, asked: _Asked) -> tuple[NliProbabilities, Cost]:
        prompt = self._model.prompt(Question(judge_prompt(*asked)), self._style)
        least = None if self._model.capabilities.alternatives == 0 else _LEAST
        decoded = self._model.decode(DecodeRequest(prompt, [()], _DECODING, alternatives_above=least))
        said = decoded.continuations[0]
        return self._verdict(said), decoded.cost.without_prompt() + Cost(nli_pairs=1)

    def _verdict(self, said: Continuation) -> NliProbabilities:
        """Judge by the first token's alternatives; by the word alone where none of them begins one of the three."""
        masses = dict.fromkeys(_LABELS, 0.0)
        for option in said.alternatives[0] if said.alternatives else ():
            if label := _label_of(self._model.text([option.token_id])):
                masses[label] += math.exp(option.logprob)
        total = sum(masses.values())
        if total <= 0:
            masses[_label_in(self._model.text(said.token_ids))] = total = 1.0
        return NliProbabilities(*(masses[label] / total for label in _LABELS))

    def input_gradients(self, question: str, answer: str) -> InputGradients:
        """Return the encoder's gradients."""
        return self.encoder.input_gradients(question, answer)

    def embed(self, texts: Sequence[tuple[str, str]]) -> Array:
        """Return the encoder's embeddings."""
        return self.encoder.embed(texts)


def judge_prompt(question: str, one: str, other: str) -> str:
    """Return what the language model is asked, in the words of Farquhar et al."""
    return (
        f'We are evaluating answers to the question "{question}"\nHere are two possible answers:\n'
        f"Possible Answer 1: {one}\nPossible Answer 2: {other}\n"
        "Does Possible Answer 1 semantically entail Possible Answer 2? "
        "Respond with entailment, contradiction, or neutral."
    )


def _label_of(token: str) -> str | None:
    """Return the label that a first token begins ("ent", "Contr", "neutral")."""
    begun = token.strip(" \t\n\"'*`").casefold()
    return next((label for label in _LABELS if begun and (label.startswith(begun) or begun.startswith(label))), None)


def _label_in(text: str) -> str:
    """Return the label that a reply names first; neutral where it names none, as Farquhar et al. do."""
    places = {label: text.casefold().find(label[:6]) for label in _LABELS}  # contra(dicts), entail(s)
    named = {label: place for label, place in places.items() if place >= 0}
    return min(named, key=lambda label: named[label], default="neutral")
