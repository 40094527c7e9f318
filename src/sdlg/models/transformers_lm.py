"""Any Hugging Face causal language model behind the `LanguageModel` protocol.

In: a hub name, a folder, a GGUF file or a loaded (model, tokenizer). Out: continuations of prompt + prefix, decoded
together over one set of keys and values. The initial answer's keys and values stay, so its branches only pay for
their own tokens: P + (T−1) + Σ(T_n − t_n − 1) tokens in all (method.md §4).
"""

from __future__ import annotations

import re
from collections.abc import Sequence as Many
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer

from ..errors import BadOption, ModelNotFound, NotSupported, PromptTooLong
from ..options import STRATEGIES, Decoding
from ..records import Cost, Prompt, Question, Sequence, StopRule
from .base import Capabilities, Continuation, Decoded, Watcher
from .beam_search import beam_search
from .decoding import Start, decode_paths, score_paths
from .network import Network
from .prefix_store import PrefixStore, common_length
from .prompts import PLAIN_STOPS, chat_messages, plain_text
from .trunk import LAYOUTS, Chain, Growth, Trunk, choose_layout

DEFAULT_PREFIX_BYTES = 256 * 2**20
_BEAMS = ("beam", "diverse_beam")
_PREFILL_CHUNK = 1024  # tokens per forward pass of a long prompt: bounds the memory of attention
_TURN_ENDS = (
    "<|im_end|>",
    "<|eot_id|>",
    "<|end_of_turn|>",
    "<end_of_turn>",
    "<turn|>",
    "<|end|>",
    "<|endoftext|>",
    "</s>",
)
_CONTROL = re.compile(r"<\|[^|]*\|>|<(pad|unk|s|/s|mask|bos|eos)>|<[a-z]+_[a-z_]+>")


def load_transformers(
    source: str | Path, *, name: str, device: str | None, dtype: str | None, **more: Any
) -> TransformersModel:
    """Load from a folder or the hub. On a CPU in float32, which is faster and steadier there than bfloat16."""
    where = device or ("cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu")
    try:
        tokenizer = AutoTokenizer.from_pretrained(source)
        model = AutoModelForCausalLM.from_pretrained(source, dtype=_dtype(dtype, where))
    except (OSError, ValueError) as error:
        raise ModelNotFound(
            f"cannot load the language model {name!r}: {_first_line(error)} "
            "Give a hub name, a folder, a .gguf file or 'smollm2'."
        ) from error
    return TransformersModel(model.to(where), tokenizer, name=name, **more)


def _dtype(name: str | None, device: str) -> torch.dtype | str:
    if name is not None:
        found = getattr(torch, name, None)
        if not isinstance(found, torch.dtype):
            raise BadOption(f"unknown dtype {name!r}; for example float32, bfloat16, float16")
        return found
    return torch.float32 if device == "cpu" else "auto"


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


@dataclass(frozen=True, slots=True)
class _Feed:
    """A prefix whose last tokens are not in the trunk yet: run `tokens` under `parent`."""

    parent: int
    tokens: tuple[int, ...]


class TransformersModel:
    """A loaded model. Not thread-safe: one call at a time."""

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        name: str = "",
        layout: str | None = None,
        prefix_bytes: int = DEFAULT_PREFIX_BYTES,
    ) -> None:
        self.model, self.tokenizer = model.eval(), tokenizer
        self._name = name or getattr(model.config, "_name_or_path", "") or type(model).__name__
        self._network = Network(model)
        self.layout = layout or choose_layout(self._network)
        self._store = PrefixStore(lambda: Trunk(self._network, native=self.layout == "separate"), prefix_bytes)
        self._special = {int(i) for i in tokenizer.all_special_ids} | {
            int(i)
            for i, token in tokenizer.added_tokens_decoder.items()
            if token.special or _CONTROL.fullmatch(token.content)
        }

    @property
    def name(self) -> str:
        """What users call it."""
        return self._name

    @property
    def capabilities(self) -> Capabilities:
        """Everything, locally."""
        config = self.model.config.get_text_config()
        context = getattr(config, "max_position_embeddings", None)
        return Capabilities(
            frozenset(STRATEGIES), True, None, embeddings=True, scores_texts=True, context_tokens=context
        )

    # -- prompts ------------------------------------------------------------------------------------------------

    def prompt(self, question: Question, style: str, *, sentence_end: bool = False) -> Prompt:
        """Chat if the tokenizer has a template and nothing else was asked for."""
        has_template = bool(getattr(self.tokenizer, "chat_template", None))
        if style == "chat" and not has_template:
            raise NotSupported(f"{self.name} has no chat template; use the prompt style 'plain'")
        if style == "plain" or not has_template:
            ids = self.tokenizer(plain_text(question)).input_ids
            return self._checked(ids, StopRule(self._end_ids(), PLAIN_STOPS, sentence_end))
        text = self.tokenizer.apply_chat_template(chat_messages(question), add_generation_prompt=True, tokenize=False)
        return self._checked(
            self.tokenizer(text, add_special_tokens=False).input_ids, StopRule(self._end_ids(), (), sentence_end)
        )

    def _checked(self, ids: list[int], stop: StopRule) -> Prompt:
        limit = self.capabilities.context_tokens
        if limit is not None and len(ids) >= limit:
            raise PromptTooLong(
                f"the prompt has {len(ids)} tokens, but {self.name} reads at most {limit} with its answer; "
                "shorten the question or its context"
            )
        return Prompt(tuple(ids), stop)

    def _end_ids(self) -> frozenset[int]:
        named = [self.tokenizer.eos_token_id, getattr(self.model.generation_config, "eos_token_id", None)]
        found = {
            int(i) for value in named if value is not None for i in (value if isinstance(value, list) else [value])
        }
        for token in _TURN_ENDS:
            index = self.tokenizer.convert_tokens_to_ids(token)
            if index is not None and self.tokenizer.convert_ids_to_tokens(index) == token:
                found.add(int(index))
        return frozenset(found)

    # -- decoding -----------------------------------------------------------------------------------------------

    def decode(
        self,
        prompt: Prompt,
        prefixes: Many[tuple[int, ...]],
        decoding: Decoding,
        *,
        seed: int = 0,
        alternatives_above: float | None = None,
        watch: Watcher | None = None,
    ) -> Decoded:
        """Continue prompt + each prefix, all together."""
        decoding = self._within_context(prompt, decoding)
        tokens_before, steps_before = self._network.forward_tokens, self._network.steps
        trunk = self._store.take(prompt.token_ids)
        reused = min(len(trunk.ids), len(prompt.token_ids))
        tip = self._prefill(trunk, prompt.token_ids[reused:])
        is_chain = list(prefixes) == [()] and decoding.strategy not in _BEAMS
        if is_chain and tip is None:  # asked again: go back to the last prompt token and run it once more
            trunk = trunk.fork(len(prompt.token_ids) - 1)
            tip = trunk.extend(prompt.token_ids[-1:])
        growth: Growth = Chain(trunk) if is_chain else LAYOUTS[self.layout](trunk)
        starts = self._starts(growth, trunk, prompt.token_ids, prefixes, tip)
        if decoding.strategy in _BEAMS:
            continuations = self._search(growth, starts, prompt, prefixes, decoding, alternatives_above)
        else:
            continuations = decode_paths(
                growth, starts, decoding, prompt.stop, self.text,
                seed=seed, min_probability=alternatives_above, watch=watch,
            )  # fmt: skip
        growth.close()
        self._store.keep(trunk)
        cost = Cost(
            prompt_tokens=len(prompt.token_ids),
            generated_tokens=sum(continuation.decisions for continuation in continuations),
            forward_tokens=self._network.forward_tokens - tokens_before,
            reused_tokens=reused,
            decode_steps=self._network.steps - steps_before,
        )
        return Decoded(tuple(continuations), cost)

    def _search(
        self,
        growth: Growth,
        starts: Many[Start],
        prompt: Prompt,
        prefixes: Many[tuple[int, ...]],
        decoding: Decoding,
        min_probability: float | None,
    ) -> list[Continuation]:
        """One search per different prefix; as many of its hypotheses as the prefix was given times."""
        first = {start.prefix: start for start in starts}
        counts = [list(prefixes).count(prefix) for prefix in first]
        found = beam_search(
            growth, list(first.values()), counts, decoding, prompt.stop, self.text, min_probability=min_probability
        )
        if list(prefixes) == [()]:
            growth.adopt(found[0][0].node)
        left = {prefix: iter(results) for prefix, results in zip(first, found, strict=True)}
        results = [next(left[prefix], None) for prefix in prefixes]
        return [result.continuation for result in results if result is not None]

    def score(self, prompt: Prompt, texts: Many[str]) -> list[Sequence]:
        """The likelihood of given answers, the likeliest end token included. They are tokenised here, once."""
        answers = [self._answer_ids(prompt, text) for text in texts]
        trunk = self._store.take(prompt.token_ids)
        tip = self._prefill(trunk, prompt.token_ids[min(len(trunk.ids), len(prompt.token_ids)) :])
        growth = LAYOUTS[self.layout](trunk)
        starts = self._starts(growth, trunk, prompt.token_ids, [()] * len(answers), tip)
        found = score_paths(growth, starts, answers, sorted(prompt.stop.token_ids))
        growth.close()
        self._store.keep(trunk)
        return [
            Sequence(text, tuple(ids), tuple(logprobs[:-1]), "eos", logprobs[-1])
            for text, ids, logprobs in zip(texts, answers, found, strict=True)
        ]

    def _answer_ids(self, prompt: Prompt, text: str) -> list[int]:
        """As the answer would follow the prompt: after "A:" comes a space, after a chat turn's beginning none."""
        follows_text = bool(prompt.stop.strings)
        ids: list[int] = self.tokenizer(f" {text}" if follows_text else text, add_special_tokens=False).input_ids
        return ids

    def _within_context(self, prompt: Prompt, decoding: Decoding) -> Decoding:
        limit = self.capabilities.context_tokens
        room = decoding.max_tokens if limit is None else max(limit - len(prompt.token_ids), 1)
        return replace(decoding, max_tokens=min(decoding.max_tokens, room))

    @staticmethod
    def _prefill(trunk: Trunk, ids: Many[int]) -> Tensor | None:
        tip = None
        for first in range(0, len(ids), _PREFILL_CHUNK):
            tip = trunk.extend(ids[first : first + _PREFILL_CHUNK])
        return tip

    def _starts(
        self, growth: Growth, trunk: Trunk, prompt: Many[int], prefixes: Many[tuple[int, ...]], tip: Tensor | None
    ) -> list[Start]:
        """Run what is missing of each different prefix, so that all are ready to go on."""
        ready: dict[tuple[int, ...], tuple[int, Tensor]] = {}
        if tip is not None:
            ready[()] = (len(prompt) - 1, tip[0])
        missing = [prefix for prefix in dict.fromkeys(prefixes) if prefix not in ready]
        feeds = [self._feed(trunk, prompt, prefix) for prefix in missing]
        ready.update(zip(missing, _run(growth, feeds), strict=True))
        return [Start(prefix, *ready[prefix]) for prefix in prefixes]

    @staticmethod
    def _feed(trunk: Trunk, prompt: Many[int], prefix: tuple[int, ...]) -> _Feed:
        wanted = (*prompt[-1:], *prefix)  # the last prompt token is there to be run again if nothing else is
        held = common_length(trunk.ids[len(prompt) - 1 :], wanted)
        held = min(held, len(wanted) - 1)
        return _Feed(len(prompt) - 2 + held, wanted[held:])

    # -- text and embeddings ------------------------------------------------------------------------------------

    def text(self, token_ids: Many[int]) -> str:
        """Exactly as decoded."""
        decoded: str = self.tokenizer.decode(
            list(token_ids), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return decoded

    def is_special(self, token_id: int) -> bool:
        """Control tokens, also those a converted tokenizer forgot to mark."""
        return token_id in self._special

    def token_embeddings(self, token_ids: Many[int]) -> NDArray[np.float32]:
        """Rows of the input embedding."""
        table: Tensor = self.model.get_input_embeddings().weight
        rows = table.detach()[torch.tensor(list(token_ids), device=table.device)]
        return np.asarray(rows.float().cpu().numpy(), dtype=np.float32)

    def vocabulary(self) -> list[tuple[int, str]]:
        """Ids and surfaces; a marked word beginning becomes a leading space."""
        tokens = self.tokenizer.convert_ids_to_tokens(list(range(len(self.tokenizer))))
        return [(i, token.replace("Ġ", " ").replace("▁", " ")) for i, token in enumerate(tokens) if token is not None]


def _run(growth: Growth, feeds: Many[_Feed]) -> list[tuple[int, Tensor]]:
    """Run feeds level by level, aligned at their ends: the node and logits of each one's last token."""
    longest = max((len(feed.tokens) for feed in feeds), default=0)
    nodes = [feed.parent for feed in feeds]
    logits = torch.empty(0)
    for left in range(longest, 0, -1):
        now = [k for k, feed in enumerate(feeds) if len(feed.tokens) >= left]
        grown, logits = growth.grow([nodes[k] for k in now], [feeds[k].tokens[-left] for k in now])
        for k, node in zip(now, grown, strict=True):
            nodes[k] = node
    return [(nodes[k], logits[k]) for k in range(len(feeds))]


__all__ = ["Continuation", "TransformersModel", "load_transformers"]
