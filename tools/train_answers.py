"""Train the embedded NLI model towards answers: do two answers to one question say the same?

    python train_answers.py DATA OUT SECONDS [--start EXPORT] [--more-nli FOLDER] [--branches FILE]

It begins at the base wheel, or at an export (`encoder.safetensors`) laid over it; OUT gets an export every five minutes.
What the pairs are: answer_pairs.py, asked_pairs.py. Word embeddings stay frozen, so the export holds the encoder and the
head alone. bfloat16 where the processor has it: twice the speed.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from answer_pairs import Pair, draw_pairs
from nli_files import load_export, save_export
from torch.nn.functional import cross_entropy
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

BATCH, WARMUP, LONGEST = 64, 0.04, 176
AVERAGED_STEPS = 400  # the export is a running mean of the weights over about so many steps


def batches(chosen: argparse.Namespace) -> Iterator[list[Pair]]:
    """Of pairs about as long, in random order within a chunk: little padding, little order."""
    for chunk in draw_pairs(chosen.data, chosen.more_nli, chosen.branches):
        chunk.sort(key=lambda pair: len(pair[0]) + len(pair[1]))
        found = [chunk[k : k + BATCH] for k in range(0, len(chunk), BATCH)]
        random.shuffle(found)
        yield from found


def share_of_rate(share: float) -> float:
    """Linear warm-up, linear decay."""
    return share / WARMUP if share < WARMUP else max(0.01, (1 - share) / (1 - WARMUP))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("seconds", type=float)
    parser.add_argument("--start", type=Path, help="an export to go on from; else the base")
    parser.add_argument(
        "--more-nli", type=Path, help="mnli_train.jsonl and conj_train.jsonl: docs/reference/nli-minilm.md"
    )
    parser.add_argument("--rate", type=float, default=2e-4)
    parser.add_argument(
        "--frozen-layers", type=int, default=0, help="the lowest ones; two: a quarter more pairs a second"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--branches", type=Path, help="groups of a model's own answers: tests/data/qwen_train_groups.jsonl"
    )
    chosen = parser.parse_args()
    random.seed(chosen.seed)
    torch.manual_seed(chosen.seed)
    model, tokenizer = load_export(chosen.start)
    (model.bert.embeddings if chosen.frozen_layers else model.bert.embeddings.word_embeddings).requires_grad_(False)
    for layer in model.bert.encoder.layer[: chosen.frozen_layers]:
        layer.requires_grad_(False)
    without_dropout(model)
    save_export(train(model.train(), tokenizer, chosen), chosen.out)


def without_dropout(model: torch.nn.Module) -> None:
    """Pairs are drawn anew for ever, so nothing is seen often; a quarter more pairs a second."""
    model.config.attention_probs_dropout_prob = model.config.hidden_dropout_prob = 0.0
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        if hasattr(module, "dropout_prob"):
            module.dropout_prob = 0.0


def train(model: torch.nn.Module, tokenizer, chosen: argparse.Namespace) -> torch.nn.Module:
    """The running mean of the weights."""
    averaged = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(1 - 1 / AVERAGED_STEPS))
    weights = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=chosen.rate, weight_decay=0.01)
    begun = saved = time.time()
    seen, losses = 0, []
    for batch in batches(chosen):
        passed = time.time() - begun
        if passed >= chosen.seconds:
            break
        for group in optimizer.param_groups:
            group["lr"] = chosen.rate * share_of_rate(passed / chosen.seconds)
        inputs = tokenizer(
            [p[0] for p in batch],
            [p[1] for p in batch],
            padding=True,
            truncation=True,
            max_length=LONGEST,
            return_tensors="pt",
        )
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(**inputs).logits.float()
        loss = cross_entropy(logits, torch.tensor([p[2] for p in batch]), label_smoothing=0.03)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        averaged.update_parameters(model)
        seen += len(batch)
        losses.append(loss.item())
        if (len(losses) == 50 and seen < 3000) or time.time() - saved > 300:
            print(f"{passed:.0f} s, {seen} pairs, loss {sum(losses) / len(losses):.3f}", flush=True)
            saved, losses = time.time(), []
            save_export(averaged.module, chosen.out)
    print(f"done: {seen} pairs, loss {sum(losses) / max(1, len(losses)):.3f}", flush=True)
    return averaged.module


if __name__ == "__main__":
    main()
