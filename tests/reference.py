"""Decoding from scratch: the whole sequence through the network for every token. Slow and obviously right."""

from __future__ import annotations

import torch

from sdlg.models.stopping import find_stop


@torch.inference_mode()
def next_logprobs(model, ids):
    """log p(· | ids), (V,)."""
    return torch.log_softmax(model(torch.tensor([list(ids)]), use_cache=False).logits[0, -1].float(), dim=-1)


def decode_from_scratch(lm, prompt, prefix, max_tokens):
    """Greedy: (ids chosen, their log-probabilities), the ending included."""
    ids, logprobs = [], []
    while len(prefix) + len(ids) < max_tokens:
        step = next_logprobs(lm.model, (*prompt.token_ids, *prefix, *ids))
        token = int(step.argmax())
        ids.append(token)
        logprobs.append(float(step[token]))
        if find_stop(prompt.stop, (*prefix, *ids), lm.text):
            break
    return ids, logprobs


def sequence_logprob(lm, prompt, ids):
    """log p(ids | prompt) in one forward pass."""
    every = (*prompt.token_ids, *ids)
    with torch.inference_mode():
        steps = torch.log_softmax(lm.model(torch.tensor([every]), use_cache=False).logits[0].float(), dim=-1)
    start = len(prompt.token_ids) - 1
    return [float(steps[start + k, token]) for k, token in enumerate(ids)]
