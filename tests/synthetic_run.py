"""Writes a plausible run folder of any size, the same for the same seed: what the report's tests read.

Each question has a hidden difficulty. Wrong answers, cluster numbers and measures follow it with noise, so that all
AUROCs lie between .5 and 1 and better methods are better. Some questions are skipped, some measures are undefined.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from sdlg.evaluation.results import stored_name

METHODS = ("sdlg", "multinomial:temperature=0.5", "diverse_beam:diversity_penalty=0.5")
MEASURES = {
    "sdlg": ("SE*_SDLG", "CoCoA_SDLG", "DSE", "NumSets", "coverage", "MTE"),
    "multinomial": ("LN-PE", "PE", "SAR", "SE_MS", "SE*_MS", "DSE", "Hybrid DSE", "NumSets"),
    "diverse_beam": ("SE*_DBS", "NumSets"),
}  # fmt: skip
NOISE = {"SE*_SDLG": 0.15, "CoCoA_SDLG": 0.13, "SE*_MS": 0.22, "SE_MS": 0.35, "SE*_DBS": 0.3,
         "SAR": 0.28, "PE": 0.32, "LN-PE": 0.4, "coverage": 0.3}  # fmt: skip
SPREAD = {"sdlg": 1.0, "multinomial": 0.55, "diverse_beam": 0.75}
MEANINGS = ("Paris", "Lyon", "Marseille", "Nice", "Bordeaux", "Lille", "Nantes", "Toulouse", "Dijon", "Rennes")


@dataclass(frozen=True)
class Plan:
    """What the folder shall hold."""

    data: str = "truthfulqa"
    model: str = "smollm2"
    questions: int = 60
    skipped: int = 3
    samples: int = 10
    seed: int = 0
    methods: tuple[str, ...] = METHODS
    metrics: tuple[str, ...] = ("rouge_l", "rouge_1", "exact_match")
    stock: bool = False  # references that any refusal matches
    correctness: float | None = None  # the same score for all: only one class
    undefined: int = 2  # questions without a value of SAR
    texts: dict[int, str] = field(default_factory=dict)  # question number → what the model says
    options: dict[str, object] = field(default_factory=dict)
    sizes_known: bool = True  # how many parameters the models have
    costed: bool = False  # scores of the answer alone, and the seconds of each method


def write_run(folder: Path, **changes: object) -> Path:
    """All four files."""
    plan = Plan(**changes)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.json").write_text(json.dumps(_config(plan), indent=2))
    rows = [_question_rows(plan, number) for number in range(plan.questions)]
    for file in ("generate", "measure", "judge"):
        lines = [json.dumps(row[file]) for row in rows if file in row]
        (folder / f"{file}.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return folder


def _config(plan: Plan) -> dict:
    ids = [_id(number) for number in range(plan.questions)]
    return {
        "format": "sdlg.run/1",
        "data": {"name": plan.data, "sha256": "0" * 64, "rows": 817, "evaluated": plan.questions},
        "order": ids,
        "sessions": [{"began": "2026-11-16T04:00:00+00:00", "sdlg": "0.1.0", "python": "3.11.7", "torch": "2.13.0"}],
        "plan": {
            "data": plan.data,
            "model": plan.model,
            "nli": "nli-minilm",
            "preset": "default",
            "methods": list(plan.methods),
            "options": {"samples": plan.samples, "seed": plan.seed, "max_tokens": 64, **plan.options},
            "measures": sorted({stored_name(name) for names in MEASURES.values() for name in names}),
            "metrics": list(plan.metrics),
            "bleurt": "some/checkpoint" if "bleurt" in plan.metrics else None,
            "limit": plan.questions,
        },
    }


def _id(number: int) -> str:
    return f"q{number:04d}"


def _question_rows(plan: Plan, number: int) -> dict[str, dict]:
    name, question = _id(number), f"Which is town number {number} of the country?"
    if number < plan.skipped:
        reason = "the question is longer than the model's context" if number % 2 else "the answer is empty"
        return {"generate": {"id": name, "question": question, "skipped": reason}}
    random = np.random.default_rng([plan.seed, number])
    difficulty = float(random.random())
    drawn = {method: _draw(plan, method, difficulty, random) for method in plan.methods}
    answer = _generation(plan.texts.get(number, "The town is Paris."), random)
    generated = {method: _generated(method, answer, picks, random) for method, picks in drawn.items()}
    sizes = {"model": 134_515_008, "nli": 22_713_216} if plan.sizes_known else {}
    asked = {"id": name, "question": question, "parameters": sizes}
    pairs = {method: _pairs(picks) for method, picks in drawn.items()}
    return {
        "generate": {
            **asked,
            "answer": answer,
            "cost": _cost(40, 5),
            "methods": generated,
            "pairs": pairs,
            "nli_pairs": 20,
            "seconds": _seconds(plan),
        },
        "measure": {"id": name, **_measured(plan, number, difficulty, drawn, random)},
        "judge": {"id": name, **_judged(plan, difficulty, random)},
    }


def _seconds(plan: Plan) -> dict:
    return {"clusters": 0.4, **({"answer": 0.5, **dict.fromkeys(plan.methods, 2.0)} if plan.costed else {})}


def _draw(plan: Plan, method: str, difficulty: float, random: np.random.Generator) -> list[int]:
    """The meaning of each sample; SDLG finds new ones sooner."""
    fresh = SPREAD[method.split(":")[0]] * (0.2 + 0.7 * difficulty)
    picks = [0]
    for _ in range(plan.samples - 1):
        known = max(picks) + 1
        new = known < len(MEANINGS) and random.random() < fresh
        picks.append(known if new else int(random.integers(known)))
    return picks


def _generation(text: str, random: np.random.Generator) -> dict:
    tokens = [f" {word}" if at else word for at, word in enumerate(text.split(" "))]
    logprobs = [-float(value) for value in random.exponential(0.3, len(tokens))]
    generation = {"text": text, "token_ids": [len(token) for token in tokens], "logprobs": logprobs,
                  "stop_reason": "eos", "ending_logprobs": [-0.05], "entropies": [0.4] * (len(tokens) + 1)}  # fmt: skip
    return {"generation": generation, "tokens": tokens}


def _generated(method: str, answer: dict, picks: list[int], random: np.random.Generator) -> dict:
    branching = method.startswith("sdlg")
    samples = []
    for index, pick in enumerate(picks):
        if branching and index == 0:
            samples.append({**answer, "cluster": pick, "substitution": None})
            continue
        sample = _generation(f"The town is {MEANINGS[pick]}.", random)
        change = _substitution(3, pick, index) if branching else None
        samples.append({**sample, "cluster": pick, "substitution": change})
    run = sum(len(sample["tokens"]) - 3 * (sample["substitution"] is not None) for sample in samples)
    return {"samples": samples, "words": [], "cost": _cost(40, run, gradients=int(branching)), "notes": []}


def _substitution(position: int, pick: int, rank: int) -> dict:
    scores = {"attribution": 0.5, "substitution": 0.4, "importance": 0.2}
    words = {"original": "Paris.", "replacement": MEANINGS[pick], "token_id": pick, "logprob": -1.5}
    return {"position": position, **words, **scores, "ends_answer": False, "rank": rank}


def _cost(prompt: int, run: int, gradients: int = 0) -> dict:
    return {
        "prompt_tokens": prompt,
        "generated_tokens": run + 1,
        "forward_tokens": prompt + run,
        "nli_gradients": gradients,
    }


def _pairs(picks: list[int]) -> dict:
    size = max(picks) + 1
    return {"distinct": picks, "entailment": np.eye(size).tolist(), "contradiction": (1 - np.eye(size)).tolist()}


def _measured(plan: Plan, number: int, difficulty: float, drawn: dict, random: np.random.Generator) -> dict:
    values: dict[str, dict] = {}
    reasons: dict[str, dict] = {}
    for method, picks in drawn.items():
        values[method] = {}
        for name in MEASURES[method.split(":")[0]]:
            stored = stored_name(name)
            values[method][stored] = _values(name, picks, difficulty, random)
            if name == "SAR" and number < plan.skipped + plan.undefined:
                values[method][stored] = [None] * len(picks)
                reasons.setdefault(method, {})[stored] = "needs the relevance of each token"
        if plan.costed:
            own = np.random.default_rng([plan.seed, number, 1])
            for name in ("PPL", "G-NLL"):
                value = difficulty + float(own.normal(0.0, 0.35))
                values[method][stored_name(name)] = [value] * len(picks)
    return {"values": values, "reasons": reasons}


def _values(name: str, picks: list[int], difficulty: float, random: np.random.Generator) -> list:
    if name == "NumSets":
        return [float(len(set(picks[: n + 1]))) for n in range(len(picks))]
    noise, sign = NOISE.get(name, 0.25), -1.0 if name == "coverage" else 1.0
    steps = random.normal(0.0, noise, len(picks))
    values = [sign * (difficulty + float(np.mean(steps[: n + 1])) + 0.05 * float(steps[0])) for n in range(len(picks))]
    first = [None] if name == "DSE" else [round(values[0], 4)]
    return first + [round(value, 4) for value in values[1:]]


def _judged(plan: Plan, difficulty: float, random: np.random.Generator) -> dict:
    right = random.random() > difficulty
    close = round(float(random.uniform(0.5, 1.0) if right else random.uniform(-0.3, 0.6)), 2)
    exact = 1.0 if right and random.random() < 0.6 else close
    scores = {"rouge_l": exact, "rouge_1": min(1.0, round(exact + 0.02, 2)), "exact_match": float(exact == 1.0),
              "bleurt": round(0.9 * exact, 2)}  # fmt: skip
    kept = {name: scores[name] if plan.correctness is None else plan.correctness for name in plan.metrics}
    if not plan.stock:
        return {"scores": kept}
    stock = random.random() < 0.15
    return {"scores": dict.fromkeys(kept, 1.0) if stock else kept, "scores_without_stock": kept}
