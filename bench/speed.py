"""`make bench`: what SDLG costs, as ratios within one run on the embedded models. Nothing here is a unit test.

Ten sequences per question, few-shot prompts of about 300 tokens, clustering and scoring included on both sides:

  (a) ten separate generate() calls            (b) one generate() call with num_return_sequences=10
  (c) the authors' shape: 5-beam generate() from scratch for each sequence, a second forward pass for likelihoods,
      all ordered NLI pairs one at a time      (d) ours, with the few-shot prefix warm and cold
  (e) lm-polygraph's SemanticEntropy with ten samples, where it is installed (docs/results/speed.md says how)

All have ten sequences, so ours has no draws beside them here; what five and ten draws add, warm, is a line of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import sdlg
from sdlg.loading.pretrained import calm_threads

calm_threads()

import torch  # noqa: E402

import polygraph  # noqa: E402
from sdlg.clustering import cluster_answers  # noqa: E402
from sdlg.models.transformers.model import TransformersModel  # noqa: E402
from sdlg.models.transformers.network import Network  # noqa: E402
from sdlg.models.transformers.prefix_cache import PrefixKV, PrefixStore  # noqa: E402
from sdlg.nli.classifier import SequenceClassifier  # noqa: E402
from sdlg.records import Prompt, Question  # noqa: E402

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
SAMPLES, MAX_TOKENS = 10, 32
DRAWS = (5, 10)


@dataclass
class Clock:
    """Wall and CPU seconds, summed."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    @contextmanager
    def running(self) -> Iterator[None]:
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        self.wall.append(time.perf_counter() - wall)
        self.cpu.append(time.process_time() - cpu)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=len(QUESTIONS))
    parser.add_argument("--only", default="abcde", help="which of a, b, c, d, e to run")
    parser.add_argument("--json", action="store_true", help="one line of JSON at the end")
    chosen = parser.parse_args()
    pipeline = sdlg.Pipeline(prompt="plain", max_tokens=MAX_TOKENS, samples=SAMPLES, draws=0)
    bench = Bench(pipeline)
    names = {"a": "(a) ten generate() calls", "b": "(b) num_return_sequences=10", "c": "(c) the authors' shape"}
    shapes: dict[str, Callable[[str], None]] = {"a": bench.separate, "b": bench.batched, "c": bench.authors}
    if polygraph.IS_INSTALLED:
        names["e"], shapes["e"] = "(e) lm-polygraph", bench.by_polygraph
    clocks = {name: Clock() for name in ("warm", "cold", *(name for name in names if name in chosen.only))}
    drawing = {draws: Clock() for draws in DRAWS}
    if "e" in clocks:
        bench.by_polygraph(WARM_UP)  # its first call sets up what later ones use
    for question in QUESTIONS[: chosen.questions]:
        bench.warm_up()
        with clocks["warm"].running():
            bench.ours(question)
        for draws, clock in drawing.items():
            bench.warm_up()
            with clock.running():
                bench.with_draws(question, draws)
        bench.forget()
        with clocks["cold"].running():
            bench.ours(question)
        for name in (name for name in names if name in clocks):
            with clocks[name].running():
                shapes[name](question)
        print(f"  {question}  " + "  ".join(f"{n} {c.wall[-1]:.2f}s" for n, c in clocks.items()), flush=True)
    for draws, clock in drawing.items():
        ratio = sum(clock.wall) / sum(clocks["warm"].wall)
        print(f"  with {draws} draws beside the branches: {ratio:.2f}× the time without, warm")
    report(bench, clocks, names, chosen.questions, chosen.json)


class Bench:
    """The four ways, on the same loaded models."""

    def __init__(self, pipeline: sdlg.Pipeline) -> None:
        assert isinstance(pipeline.model, TransformersModel)
        assert isinstance(pipeline.nli, SequenceClassifier)
        self.pipeline, self.lm, self.nli = pipeline, pipeline.model, pipeline.nli
        self.results: list[sdlg.Result] = []
        self.in_models, self.in_all = 0.0, 0.0

    def prompt(self, question: str) -> Prompt:
        return self.lm.prompt(Question(question, shots=SHOTS), "plain")

    # -- ours

    def ours(self, question: str) -> None:
        with timed_models(self):
            started = time.perf_counter()
            self.results.append(self.pipeline.ask(Question(question, shots=SHOTS)))
            self.in_all += time.perf_counter() - started

    def with_draws(self, question: str, draws: int) -> None:
        self.pipeline.changed(draws=draws).ask(Question(question, shots=SHOTS))

    def warm_up(self) -> None:
        self.forget()
        self.pipeline.ask(Question(WARM_UP, shots=SHOTS))

    def forget(self) -> None:
        network = self.lm._network
        self.lm._store = PrefixStore(lambda: PrefixKV(network, native=False), 2**28)

    # -- the others

    def generate(self, prompt: Prompt, prefix: tuple[int, ...] = (), **options: Any) -> torch.Tensor:
        ids = torch.tensor([[*prompt.token_ids, *prefix]])
        with torch.inference_mode():
            out: torch.Tensor = self.lm.model.generate(
                ids, attention_mask=torch.ones_like(ids), max_new_tokens=MAX_TOKENS - len(prefix), pad_token_id=2,
                eos_token_id=sorted(prompt.stop.token_ids), stop_strings=list(prompt.stop.strings),
                tokenizer=self.lm.tokenizer, **options,
            )  # fmt: skip
        return out[:, len(prompt.token_ids) :]

    def cluster(self, question: str, generations: list[torch.Tensor]) -> None:
        texts = [self.lm.text(ids.tolist()).split("\n")[0].split(" Q:")[0].strip() for ids in generations]
        cluster_answers(question, texts, self.nli.judge, self.pipeline.options.clustering)

    def separate(self, question: str) -> None:
        prompt = self.prompt(question)
        found = [self.generate(prompt, do_sample=k > 0)[0] for k in range(SAMPLES)]
        self.cluster(question, found)

    def batched(self, question: str) -> None:
        prompt = self.prompt(question)
        self.cluster(question, list(self.generate(prompt, do_sample=True, num_return_sequences=SAMPLES)))

    def by_polygraph(self, question: str) -> None:
        self._polygraph(self.prompt(question))

    @cached_property
    def _polygraph(self) -> Callable[[Prompt], None]:
        return polygraph.polygraph_entropy(self.lm, self.nli, MAX_TOKENS)

    def authors(self, question: str) -> None:
        prompt = self.prompt(question)
        result = self.results[-1]  # the same substitutions as ours, so that the same work is compared
        answer = self.generate(prompt, num_beams=5, do_sample=False)[0]
        self.nli.input_gradients(question, self.lm.text(answer.tolist()))
        found = [answer]
        for sample in result.samples[1:]:
            assert sample.substitution is not None
            prefix = (*result.answer.token_ids[: sample.substitution.position], sample.substitution.token_id)
            found.append(self.generate(prompt, prefix, num_beams=5, do_sample=False)[0])
        with torch.inference_mode():
            for ids in found:
                logits = self.lm.model(torch.tensor([[*prompt.token_ids, *ids.tolist()]])).logits
                torch.log_softmax(logits[0].float(), dim=-1)
        texts = [self.lm.text(ids.tolist()).strip() for ids in found]
        for one in texts:
            for other in texts:
                if one is not other:
                    self.nli._run([(f"{question} {one}", f"{question} {other}")])


@contextmanager
def timed_models(bench: Bench) -> Iterator[None]:
    """Add the time inside the language model's and the NLI model's passes to `bench.in_models`."""
    places = [(Network, "_call"), (SequenceClassifier, "_run"), (SequenceClassifier, "_embedding_gradient")]
    originals = [getattr(owner, name) for owner, name in places]

    def timing(function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            started = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                bench.in_models += time.perf_counter() - started

        return timed

    for (owner, name), original in zip(places, originals, strict=True):
        setattr(owner, name, timing(original))
    try:
        yield
    finally:
        for (owner, name), original in zip(places, originals, strict=True):
            setattr(owner, name, original)


def bound(result: sdlg.Result) -> int:
    """P + (T−1) + Σ(T_n − t_n − 1), T counting every decision, less what the prefix store held (method.md §4)."""
    return result.cost.prompt_tokens - result.cost.reused_tokens + result.cost.generated_tokens - 1


def peak_memory_gb() -> float:
    """Of a fresh `sdlg ask`."""
    subprocess.run(
        [sys.executable, "-m", "sdlg.cli", "ask", QUESTIONS[0], "--json"],
        check=True,
        stdout=subprocess.DEVNULL,
        env=os.environ,
    )
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20


def report(bench: Bench, clocks: dict[str, Clock], names: dict[str, str], questions: int, as_json: bool) -> None:
    warm, cold = clocks["warm"], clocks["cold"]
    prompt_tokens = [result.cost.prompt_tokens for result in bench.results]
    lengths = [len(result.answer.token_ids) for result in bench.results]
    numbers: dict[str, Any] = {"questions": questions, "threads": torch.get_num_threads()}
    print(f"\n{questions} questions, prompts of {min(prompt_tokens)}–{max(prompt_tokens)} tokens, answers of "
          f"{min(lengths)}–{max(lengths)} tokens, {SAMPLES} sequences, {torch.get_num_threads()} threads")  # fmt: skip
    print(f"ours: warm {sum(warm.wall) / questions:.2f} s, cold {sum(cold.wall) / questions:.2f} s a question\n")
    print(f"{'':32}{'wall: warm':>12}{'cold':>8}{'CPU: warm':>13}{'cold':>8}")
    for name, title in names.items():
        if name in clocks:
            other = clocks[name]
            row = [sum(other.wall) / sum(warm.wall), sum(other.wall) / sum(cold.wall),
                   sum(other.cpu) / sum(warm.cpu), sum(other.cpu) / sum(cold.cpu)]  # fmt: skip
            numbers[name] = dict(zip(("wall_warm", "wall_cold", "cpu_warm", "cpu_cold"), row, strict=True))
            print(f"{title:32}{row[0]:11.1f}×{row[1]:7.1f}×{row[2]:12.1f}×{row[3]:7.1f}×")
    exact = all(result.cost.forward_tokens == bound(result) for result in bench.results)
    outside = 1 - bench.in_models / bench.in_all
    memory = peak_memory_gb()
    numbers |= {"bound_met": exact, "outside_models": outside, "peak_memory_gb": memory}
    print(f"\nforward tokens equal the bound of method.md §4: {exact}")
    print(f"time outside model passes: {outside:.1%}")
    print(f"peak memory of `sdlg ask`: {memory:.2f} GB")
    if as_json:
        print(json.dumps(numbers))


if __name__ == "__main__":
    main()
