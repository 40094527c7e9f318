"""How a text stands to a sentence of a long answer: the fit of sdlg/clustering/relations.json, and how good it is.

    python bench/relations.py [--write]

In: tests/data/sentence_relations.jsonl, pairs of a sentence that qwen2.5-coder-1.5b said (20 long answers) and what
else it would have said there, labelled by hand before any judge was asked: it says the same, contradicts, or speaks of
something else; pairs that could be called either way were left out. Out: how often the fit is right on answers that it
was not fitted on, and what it says on the second half of the answers when fitted on the first.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import LeaveOneGroupOut
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import sdlg
from sdlg.clustering.matters import features, relation_of
from sdlg.nli.base import NliProbabilities
from sdlg.options import DEFAULT_NLI

PAIRS = Path(__file__).parent.parent / "tests" / "data" / "sentence_relations.jsonl"
WEIGHTS = Path(__file__).parent.parent / "src" / "sdlg" / "clustering" / "relations.json"
RELATIONS = ("agrees", "contradicts", "elsewhere")
Row = Mapping[str, float]
Fit = Mapping[str, Mapping[str, float]]


def verdicts_of(pairs: Sequence[Mapping[str, Any]], nli: sdlg.NliModel) -> list[tuple[NliProbabilities, ...]]:
    """What the judge says of each pair, in both directions."""
    forward = nli.judge("", [(one["sentence"], one["text"]) for one in pairs]).probabilities
    backward = nli.judge("", [(one["text"], one["sentence"]) for one in pairs]).probabilities
    return list(zip(forward, backward, strict=True))


def fitted(rows: Sequence[Row], labels: Sequence[str]) -> Fit:
    """Weights of the features as they are."""
    names = [name for name in rows[0] if name != "constant"]
    table = np.array([[row[name] for name in names] for row in rows])
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.3, max_iter=1000)).fit(table, labels)
    scaler, logistic = model[0], model[1]
    weights = {}
    for relation, coefficients, constant in zip(
        logistic.classes_, logistic.coef_ / scaler.scale_, logistic.intercept_, strict=True
    ):
        own = {name: round(float(one), 4) for name, one in zip(names, coefficients, strict=True)}
        weights[str(relation)] = {"constant": round(float(constant - coefficients @ scaler.mean_), 4), **own}
    return weights


def told(name: str, found: Sequence[str], labels: Sequence[str]) -> None:
    """Print how often it is right, and of each relation how many are found and how many of those found are it."""
    pairs = Counter(zip(found, labels, strict=True))
    parts = []
    for relation in RELATIONS:
        hits = pairs[relation, relation]
        parts.append(f"{relation} {hits} of {Counter(labels)[relation]}, right {hits} of {Counter(found)[relation]}")
    right = np.array([one == other for one, other in zip(found, labels, strict=True)])
    print(f"{name}: {right.mean():.3f} of {len(right)} right; {'; '.join(parts)}")


def main() -> None:
    """Fit, and say how good it is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the weights of the package")
    chosen = parser.parse_args()
    pairs = [json.loads(line) for line in PAIRS.open(encoding="utf-8")]
    labels, groups = [one["relation"] for one in pairs], [one["question"] for one in pairs]
    verdicts = verdicts_of(pairs, sdlg.load_nli(DEFAULT_NLI))
    rows = [
        features(one["sentence"], one["text"], one["sentence"][: one["given"]], *said)
        for one, said in zip(pairs, verdicts, strict=True)
    ]
    first = [place for place, one in enumerate(pairs) if one["set"] == "first"]
    second = [place for place, one in enumerate(pairs) if one["set"] == "second"]
    of_first = fitted([rows[k] for k in first], [labels[k] for k in first])
    found = [relation_of(rows[k], verdicts[k], of_first) for k in second]
    told("fitted on the first set, second", found, [labels[k] for k in second])
    found = list(labels)
    for train, test in LeaveOneGroupOut().split(rows, labels, groups):
        weights = fitted([rows[k] for k in train], [labels[k] for k in train])
        for k in test:
            found[k] = relation_of(rows[k], verdicts[k], weights)
    told("each answer by a fit to the others", found, labels)
    told("always the same", ["agrees"] * len(labels), labels)
    if chosen.write:
        WEIGHTS.write_text(json.dumps(fitted(rows, labels), indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
