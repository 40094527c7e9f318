"""`make bench`: what SDLG costs, as ratios within one run. Nothing here is a unit test.

    python bench/speed.py [--engine transformers|llama.cpp] [--model NAME] [--questions 6] [--only abcde] [--json]

Ten sequences per question, few-shot prompts of about 300 tokens, clustering and scoring included on both sides:

  (a) ten separate generate() calls            (b) one generate() call with num_return_sequences=10
  (c) the authors' shape: 5-beam generate() from scratch for each sequence, a second forward pass for likelihoods,
      all ordered NLI pairs one at a time      (d) ours, with the few-shot prefix warm and cold
  (e) lm-polygraph's SemanticEntropy with ten samples, where it is installed (docs/results/speed.md says how)

Ours runs on the engine that is named; the others always on transformers, with the same weights widened to float32. All
have ten sequences, so ours has no draws beside them here and does not stop when little probability is left; what five
draws add, warm, is a line of its own.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from sdlg.loading.pretrained import calm_threads

calm_threads()

import torch  # noqa: E402

import sdlg  # noqa: E402
from baselines import Baselines  # noqa: E402
from sdlg.models.decoding.tree_model import TreeModel  # noqa: E402
from sdlg.models.transformers.model import TransformersModel  # noqa: E402
from sdlg.nli.classifier import SequenceClassifier  # noqa: E402
from sdlg.options import SMOLLM2, Loading  # noqa: E402
from sdlg.records import Question  # noqa: E402
from startup import ENGINES, Startup, measure_apart, model_name  # noqa: E402

SHOTS = (
    ("What is the largest planet in our solar system?", "The largest planet in our solar system is Jupiter."),
    (
        "Who painted the ceiling of the Sistine Chapel?",
        "The ceiling of the Sistine Chapel was painted by Michelangelo.",
    ),
    ("Which river flows through the city of Vienna?", "The river that flows through Vienna is the Danube."),
    ("What is the chemical symbol for the element gold?", "The chemical symbol for gold is Au."),
    ("In which year did the first human walk on the Moon?", "The first human walked on the Moon in 1969."),
    ("Who wrote the novel Pride and Prejudice?", "The novel Pride and Prejudice was written by Jane Austen."),
    ("What is the longest bone in the human body?", "The longest bone in the human body is the femur."),
    ("Which country is the largest producer of coffee?", "The largest producer of coffee in the world is Brazil."),
    ("What gas do plants take in from the air for photosynthesis?", "Plants take in carbon dioxide from the air."),
    ("How many strings does a standard violin have?", "A standard violin has four strings."),
)
QUESTIONS = (
    "Who was the first president of the United States?",
    "What is the capital city of Australia?",
    "Which scientist proposed the theory of relativity?",
    "What is the tallest mountain in Africa?",
    "When did the Second World War end?",
    "Which language is spoken in Brazil?",
)
WARM_UP = "What is the freezing point of water?"
SAMPLES, MAX_TOKENS, DRAWS = 10, 32, 5
WARM, COLD, WITH_DRAWS = "warm", "cold", "draws"


@dataclass
class Clock:
    """Wall and CPU seconds of every question."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    @contextmanager
    def running(self) -> Iterator[None]:
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        self.wall.append(time.perf_counter() - wall)
        self.cpu.append(time.process_time() - cpu)

    def times(self, other: Clock) -> dict[str, float]:
        """Return how many times as long as the other it took."""
        return {"wall": sum(self.wall) / sum(other.wall), "cpu": sum(self.cpu) / sum(other.cpu)}


class Ours:
    """Our pipeline, with its prompts forgotten or kept."""

    def __init__(self, model: str, engine: str) -> None:
        named: Any = {"engine": engine, "prompt": "plain", "max_tokens": MAX_TOKENS, "samples": SAMPLES}
        self.pipeline = sdlg.Pipeline(model_name(model, engine), **named, draws=0, unexplored=0.0)
        self.drawing = self.pipeline.changed(draws=DRAWS)
        self.results: list[sdlg.Result] = []

    @property
    def language_model(self) -> TreeModel[Any]:
        lm = self.pipeline.models.language_model
        assert isinstance(lm, TreeModel), f"{lm.name} is not run in this process"
        return lm

    @property
    def nli(self) -> SequenceClassifier:
        nli = self.pipeline.models.nli
        assert isinstance(nli, SequenceClassifier)
        return nli

    def ask(self, question: str) -> None:
        self.results.append(self.pipeline.ask(asked(question)))

    def with_draws(self, question: str) -> None:
        self.drawing.ask(asked(question))

    def forget(self) -> None:
        self.language_model._store.drop_all()

    def warm_up(self) -> None:
        self.forget()
        self.pipeline.ask(asked(WARM_UP))


def asked(question: str) -> Question:
    return Question(question, shots=SHOTS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=ENGINES, default=ENGINES[0], help="of ours")
    parser.add_argument("--model", default=SMOLLM2, help="a name of `sdlg models`, or a .gguf file")
    parser.add_argument("--questions", type=int, default=len(QUESTIONS))
    parser.add_argument("--only", default="abce", help="which of a, b, c, e to run beside ours")
    parser.add_argument("--rounds", type=int, default=3, help="of the first token from the shell; 0: not measured")
    parser.add_argument("--json", action="store_true", help="one line of JSON at the end")
    chosen = parser.parse_args()
    startup = measure_apart(chosen.model, chosen.engine, chosen.rounds) if chosen.rounds else None
    ours = Ours(chosen.model, chosen.engine)
    baselines = baselines_of(ours, chosen.model)
    names = [name for name in baselines.ways if name in chosen.only]
    clocks = measure(ours, baselines, names, QUESTIONS[: chosen.questions])
    report(ours.results, {name: baselines.ways[name][0] for name in names}, clocks, startup, chosen)


def baselines_of(ours: Ours, model: str) -> Baselines:
    """Return the other ways, on the same network where ours is on transformers, too."""
    lm: object = ours.language_model
    if not isinstance(lm, TransformersModel):
        lm = sdlg.load_model(model, Loading(engine="transformers", dtype="float32"))
    assert isinstance(lm, TransformersModel)
    return Baselines(lm, ours.nli, SAMPLES, MAX_TOKENS, ours.pipeline.options.clustering)


def measure(ours: Ours, baselines: Baselines, names: Sequence[str], questions: Sequence[str]) -> dict[str, Clock]:
    """Ask each question in every way, one way after the other."""
    clocks = {name: Clock() for name in (WARM, WITH_DRAWS, COLD, *names)}
    for question in questions:
        if question == questions[0] and "e" in names:  # its first call sets up what later ones use
            ours.warm_up()
            baselines.by_polygraph(asked(WARM_UP), ours.pipeline.ask(asked(WARM_UP)))
        for name, way in ((WARM, ours.ask), (WITH_DRAWS, ours.with_draws)):
            ours.warm_up()
            with clocks[name].running():
                way(question)
        ours.forget()
        with clocks[COLD].running():
            ours.ask(question)
        for name in names:
            with clocks[name].running():
                baselines.ways[name][1](asked(question), ours.results[-1])
        print(f"  {question}  " + "  ".join(f"{n} {c.wall[-1]:.2f}s" for n, c in clocks.items()), flush=True)
    return clocks


# -- the report ---------------------------------------------------------------------------------------------------


def report(
    results: Sequence[sdlg.Result], titles: dict[str, str], clocks: dict[str, Clock], startup: Startup | None,
    chosen: argparse.Namespace,
) -> None:  # fmt: skip
    questions, (warm, cold) = len(clocks[WARM].wall), (clocks[WARM], clocks[COLD])
    prompts = [result.cost.prompt_tokens for result in results]
    lengths = [len(result.answer.token_ids) for result in results]
    print(f"\n{chosen.model} on {chosen.engine}, {questions} questions", end=", ")
    print(f"prompts of {min(prompts)}–{max(prompts)} tokens", end=", ")
    print(f"answers of {min(lengths)}–{max(lengths)} tokens, {SAMPLES} sequences, {torch.get_num_threads()} threads")
    print(f"ours: warm {sum(warm.wall) / questions:.2f} s, cold {sum(cold.wall) / questions:.2f} s a question\n")
    print(f"{'':32}{'wall: warm':>12}{'cold':>8}{'CPU: warm':>13}{'cold':>8}")
    ratios = {name: {WARM: clocks[name].times(warm), COLD: clocks[name].times(cold)} for name in titles}
    for name, title in titles.items():
        wall, cpu = ([ratios[name][side][kind] for side in (WARM, COLD)] for kind in ("wall", "cpu"))
        print(f"{title:32}{wall[0]:11.1f}×{wall[1]:7.1f}×{cpu[0]:12.1f}×{cpu[1]:7.1f}×")
    facts = {
        "draws": clocks[WITH_DRAWS].times(warm)["wall"],
        "bound_met": all(result.cost.forward_tokens == bound(result) for result in results),
        "stages": stage_shares(results),
        "startup": asdict(startup) if startup else None,
    }
    print(f"\n{DRAWS} draws beside the branches, warm: {facts['draws']:.2f}× the time without")
    print(f"forward tokens equal P + (T − 1) + Σ (T_n − t_n − 1), less what was kept: {facts['bound_met']}")
    print("time by stage: " + ", ".join(f"{name} {share:.0%}" for name, share in stage_shares(results).items()))
    print(*(startup.lines if startup else ()), sep="\n")
    if chosen.json:
        told = {"engine": chosen.engine, "model": chosen.model, "questions": questions, "ratios": ratios, **facts}
        print(json.dumps(told))


def bound(result: sdlg.Result) -> int:
    """P + (T − 1) + Σ (T_n − t_n − 1), T counting every decision, less what the prefix store held."""
    return result.cost.prompt_tokens - result.cost.reused_tokens + result.cost.generated_tokens - 1


def stage_shares(results: Sequence[sdlg.Result]) -> dict[str, float]:
    """Return how the time of ours is shared out, warm and cold together."""
    seconds: dict[str, float] = {}
    for result in results:
        for name, taken in result.cost.seconds.items():
            seconds[name] = seconds.get(name, 0.0) + taken
    return {name: taken / sum(seconds.values()) for name, taken in seconds.items()}


if __name__ == "__main__":
    main()
