"""Models without weights: an NLI model that is told what texts mean, and pipelines made from it and a script."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from sdlg import Loading, Models, Pipeline, ScriptedModel
from sdlg.models import chosen_engine
from sdlg.nli.base import SAME_TEXT, InputGradients, Judged, NliProbabilities
from sdlg.records import Cost

WIDTH = 4
CONTRADICTION, NEUTRAL, ENTAILMENT = (
    NliProbabilities(0.8, 0.1, 0.1),
    NliProbabilities(0.1, 0.8, 0.1),
    NliProbabilities(0.1, 0.1, 0.8),
)

Judge = Callable[[str, str], NliProbabilities]
Script = Mapping[str, Mapping[str, float]]

# "Paris" in other words is the same meaning, "Lyon" is another one; all branches are short and end by themselves.
CAPITAL: Script = {
    "": {"It": 0.6, "Paris": 0.3, "Lyon": 0.1},
    "It": {" is": 0.9, " was": 0.1},
    "It is": {" Paris": 0.55, " Lyon": 0.25, " Nice": 0.15, " paris": 0.05},
    "It was": {" Paris": 1.0},
    "It is Paris": {"<end>": 0.7, ".": 0.3},
}
MEANINGS = dict.fromkeys(("It is Paris", "It is Paris.", "It was Paris", "Paris"), "paris")

# One sentence; its first three words say what it is about.
BORN_IN: Script = {
    "": {"Curie": 0.6, "Ann": 0.4},
    "Curie": {" was": 0.7, " had": 0.3},
    "Curie was": {" born": 0.9, " ill": 0.1},
    "Curie was born": {" in": 1.0},
    "Curie was born in": {" March": 0.5, " June": 0.3, " July": 0.2},
    **{f"Curie was born in{month}": {" 1867": 1.0} for month in (" March", " June", " July")},
    **{f"Curie was born in{month} 1867": {" in Warsaw.": 1.0} for month in (" March", " June", " July")},
}


class FakeNli:
    """Judges by a function of two texts, or by what they mean: the same entails, another contradicts.

    A text that no mapping mentions means itself.
    """

    def __init__(self, judged: Judge | Mapping[str, str] | None = None, *, name: str = "fake-nli") -> None:
        self.name = name
        self.pairs_run = 0
        self.gradients_run = 0
        self.questions: set[str] = set()  # that pairs were judged with
        self.parameters = None
        self._judge = judged if callable(judged) else _by_meaning(judged or {})

    def judge(self, question: str, pairs: Sequence[tuple[str, str]]) -> Judged:
        run = sum(first != second for first, second in pairs)
        self.pairs_run += run
        self.questions.add(question)
        verdicts = [SAME_TEXT if first == second else self._judge(first, second) for first, second in pairs]
        return Judged(tuple(verdicts), Cost(nli_pairs=run))

    def input_gradients(self, question: str, answer: str) -> InputGradients:
        self.gradients_run += 1
        words = list(re.finditer(r"\S+", answer))
        rows = [[_numbers(f"{part} {word.group()}") for word in words] for part in ("z", "premise")]
        return InputGradients(tuple(word.span() for word in words), *(np.array(row).reshape(-1, WIDTH) for row in rows))

    def embed(self, texts: Sequence[tuple[str, str]]) -> np.ndarray:
        return np.array([_numbers(f"z {surface}") if surface else np.zeros(WIDTH) for _, surface in texts])


def _by_meaning(meanings: Mapping[str, str]) -> Judge:
    return lambda first, second: (
        ENTAILMENT if meanings.get(first, first) == meanings.get(second, second) else CONTRADICTION
    )


def _numbers(text: str) -> np.ndarray:
    """WIDTH numbers in [−0.5, 0.5), the same on every machine and in every run."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return np.frombuffer(digest[:WIDTH], dtype=np.uint8) / 256 - 0.5


def fake_pipeline(script: Script = CAPITAL, judged: Judge | Mapping[str, str] | None = None, **options) -> Pipeline:
    """A pipeline that needs no weights: a scripted language model and a fake NLI model, whose verdicts decide alone."""
    if "preset" not in options:
        options = {"equivalence": "strict", **options}
    return Pipeline(ScriptedModel(script), FakeNli(MEANINGS if judged is None else judged), **options)


def fake_models(
    model: str | None, nli: str | None, loading: Loading | None = None, *, kind: type[ScriptedModel] = ScriptedModel
) -> Models:
    """What commands load in tests: every name is a scripted model, or a fake NLI model."""
    loading = loading or Loading()
    language_model = model and kind(CAPITAL, name=model)
    if language_model:
        language_model.engine = chosen_engine(model, loading.engine)  # as if it were run by what would run it
    return Models(language_model, nli and FakeNli(MEANINGS, name=nli), loading)


class NeverLoaded(Models):
    """Models that must not be loaded."""

    def load(self, *_: object, **__: object) -> Models:
        raise AssertionError(f"{self.model_name} was loaded")
