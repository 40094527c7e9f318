"""Train all-mpnet-base-v2 as a judge: do two answers to one question say the same?

    python train_answers.py DATA OUT SECONDS [--branches FILE] [--resume] [--trained-layers 8]

OUT/whole.safetensors holds the running mean of the weights every five minutes, OUT/last.pt what `--resume` goes on from, OUT/curve.jsonl
the figures on dev. What the pairs are: answer_pairs.py, asked_pairs.py. `export_judge.py` makes the small file that is shipped.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from answer_pairs import Pair, draw_pairs, read_nli, read_rows
from safetensors.torch import save_file
from torch.nn.functional import cross_entropy
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from sdlg.models.fetching import fetched

BATCH, RATE, WARMUP, LONGEST = 32, 6e-5, 0.06, 160
AVERAGED_STEPS = 150  # what is kept is a running mean of the weights over about so many steps
LABELS = {0: "contradiction", 1: "neutral", 2: "entailment"}


def batches(data: Path, branches: Path | None) -> Iterator[list[Pair]]:
    """Of pairs about as long, in random order within a chunk: little padding, little order."""
    for chunk in draw_pairs(data, branches):
        chunk.sort(key=lambda pair: len(pair[0]) + len(pair[1]))
        found = [chunk[k : k + BATCH] for k in range(0, len(chunk), BATCH)]
        random.shuffle(found)
        yield from found


def rate_at(share: float) -> float:
    """Linear warm-up, linear decay."""
    return RATE * (share / WARMUP if share < WARMUP else max(0.01, (1 - share) / (1 - WARMUP)))


def load_base(trained_layers: int):
    """The base with a new head; only the upper layers learn. Nothing is seen often, so there is no dropout."""
    base = fetched("all-mpnet-base-v2")
    model = AutoModelForSequenceClassification.from_pretrained(
        base,
        num_labels=3,
        id2label=LABELS,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        dtype=torch.float32,
    )
    model.mpnet.requires_grad_(False)
    for layer in model.mpnet.encoder.layer[-trained_layers:]:
        layer.requires_grad_(True)
    return model, AutoTokenizer.from_pretrained(base)


def logits_of(model: torch.nn.Module, tokenizer, pairs: list[Pair]) -> torch.Tensor:
    inputs = tokenizer(
        [p[0] for p in pairs],
        [p[1] for p in pairs],
        padding=True,
        truncation=True,
        max_length=LONGEST,
        return_tensors="pt",
    )
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return model(**inputs).logits.float()


def dev_pairs(data: Path, size: int) -> dict[str, list[Pair]]:
    """Judged dev (two right answers, a right and a wrong one) and the odd rows of the NLI dev sets."""
    found: dict[str, list[Pair]] = {"nq": [], "tq": []}
    for row in read_rows(data / "judged_answers" / "dev.jsonl"):
        answers = [(a["text"], a["right"]) for a in row["answers"]]
        for k, (one, right) in enumerate(answers):
            for other, also in answers[:k]:
                if (right or also) and one.casefold() != other.casefold():
                    found[row["id"][:2]].append(
                        (f"{row['question']} {one}", f"{row['question']} {other}", 2 if right and also else 0)
                    )
    found["snli"] = read_nli(data / "nli/snli_dev.jsonl")[1::2]
    found["mnli"] = read_nli(data / "nli/mnli_dev_matched.jsonl")[1::2]
    return {name: random.Random(1).sample(pairs, min(size, len(pairs))) for name, pairs in found.items()}


def accuracy(model: torch.nn.Module, tokenizer, dev: dict[str, list[Pair]]) -> dict[str, float]:
    """Balanced for answers (the same or not), plain for NLI."""
    found = {}
    with torch.inference_mode():
        for name, pairs in dev.items():
            ordered = sorted(pairs, key=lambda pair: len(pair[0]) + len(pair[1]))
            said = [
                x
                for k in range(0, len(ordered), 32)
                for x in logits_of(model, tokenizer, ordered[k : k + 32]).argmax(-1).tolist()
            ]
            labels = [pair[2] for pair in ordered]
            if name in ("snli", "mnli"):
                found[name] = sum(a == b for a, b in zip(said, labels, strict=True)) / len(labels)
            else:
                of = {y: [(a == 2) == (b == 2) for a, b in zip(said, labels, strict=True) if b == y] for y in (0, 2)}
                found[name] = sum(sum(v) / len(v) for v in of.values()) / 2
    return {name: round(value, 3) for name, value in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("seconds", type=float)
    parser.add_argument("--branches", type=Path)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--trained-layers", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    random.seed(chosen.seed)
    torch.manual_seed(chosen.seed)
    model, tokenizer = load_base(chosen.trained_layers)
    train(model, tokenizer, chosen)


def train(model: torch.nn.Module, tokenizer, chosen: argparse.Namespace) -> None:
    averaged = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(1 - 1 / AVERAGED_STEPS))
    weights = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=RATE, weight_decay=0.01)
    seen, before = 0, 0.0
    if chosen.resume:
        kept = torch.load(chosen.out / "last.pt", weights_only=True)
        model.load_state_dict(kept["model"])
        averaged.load_state_dict(kept["averaged"])
        optimizer.load_state_dict(kept["optimizer"])
        seen, before = kept["seen"], kept["passed"]
    dev = dev_pairs(chosen.data, 300)
    begun = saved = time.time()
    losses: list[float] = []

    def save(passed: float) -> None:
        figures = {"seconds": round(passed), "pairs": seen, "loss": round(sum(losses) / max(1, len(losses)), 3)}
        figures |= accuracy(averaged.module, tokenizer, dev)
        with (chosen.out / "curve.jsonl").open("a") as file:
            file.write(json.dumps(figures) + "\n")
        print(figures, flush=True)
        torch.save(
            {
                "model": model.state_dict(),
                "averaged": averaged.state_dict(),
                "optimizer": optimizer.state_dict(),
                "seen": seen,
                "passed": passed,
            },
            chosen.out / "last.pt",
        )
        save_file(
            {n: t.contiguous() for n, t in averaged.module.state_dict().items()}, chosen.out / "whole.safetensors"
        )

    passed = before
    for batch in batches(chosen.data, chosen.branches):
        passed = before + time.time() - begun
        if passed >= chosen.seconds:
            break
        for group in optimizer.param_groups:
            group["lr"] = rate_at(passed / chosen.seconds)
        loss = cross_entropy(
            logits_of(model, tokenizer, batch), torch.tensor([p[2] for p in batch]), label_smoothing=0.03
        )
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        averaged.update_parameters(model)
        seen += len(batch)
        losses.append(loss.item())
        if time.time() - saved > 900:
            save(passed)
            saved, losses = time.time(), []
    save(passed)


if __name__ == "__main__":
    main()
