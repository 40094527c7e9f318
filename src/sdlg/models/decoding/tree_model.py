"""A language model that decodes on trees of tokens: what the engines in this process share.

In: prompts and prefixes of answers. Out: their continuations, decoded together over one set of keys and values. The
initial answer's keys and values stay, so its branches only pay for their own tokens: P + (T−1) + Σ(T_n − t_n − 1)
tokens in all.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Generic, TypeVar

import torch
from torch import Tensor

from ...concurrency.limits import check_limit
from ...options import BEAMS, STRATEGIES, Decoding
from ...records import Cost, Generation, Prompt, Question, StopRule
from ..base import (
    COMPLETE,
    NO_STOPS,
    Capabilities,
    Continuation,
    Decoded,
    DecodeRequest,
    Done,
    Scored,
    nobody,
    one_by_one,
)
from ..prompts import PromptTokenizer, check_fits, common_length
from .beam_search import beam_search
from .paths import Start, WantedPath, decode_paths, read_answer, score_paths, wanted_paths
from .prefixes import PromptStore
from .trees import Chain, KVTree, PathTree, Prefix

P = TypeVar("P", bound=Prefix)

_PREFILL_CHUNK = 1024  # tokens per forward pass of a long prompt: bounds the memory of attention
_MOST_PATHS = 96
_READ_ROWS = 32


@dataclass(frozen=True, slots=True)
class _Feed:
    """A prefix whose last tokens are not in the prefix yet: run `tokens` under `parent`."""

    parent: int
    tokens: tuple[int, ...]


class _Counts(threading.local):
    """Of the thread that asks: threads share a network, also in the middle of their work."""

    forward_tokens = 0
    steps = 0


class TreeNetwork(ABC):
    """What runs tokens, and counts them for the thread that asks."""

    def __init__(self) -> None:
        self._counts = _Counts()

    @abstractmethod
    def decoding(self) -> AbstractContextManager[None]:
        """For a thread that will want one pass after the other."""

    def aside(self) -> AbstractContextManager[None]:
        """For what such a thread does in between."""
        return nullcontext()

    def count_pass(self, tokens: int) -> None:
        """Count a pass that this thread wants."""
        self._counts.forward_tokens += tokens
        self._counts.steps += 1

    @property
    def forward_tokens(self) -> int:
        """Tokens that this thread has run."""
        return self._counts.forward_tokens

    @property
    def steps(self) -> int:
        """How many passes this thread has wanted."""
        return self._counts.steps


class TreeModel(Generic[P]):
    """A loaded model. Threads that decode at once share the passes of its network; each has a prefix of its own."""

    def __init__(
        self,
        network: TreeNetwork,
        words: PromptTokenizer,
        store: PromptStore[P],
        *,
        name: str,
        new_tree: Callable[[P], PathTree],
        context_tokens: int | None,
        parameters: int,
    ) -> None:
        self._network, self._words, self._store, self._name = network, words, store, name
        self._new_tree, self._context_tokens, self._parameters = new_tree, context_tokens, parameters

    @property
    def name(self) -> str:
        """What users call it."""
        return self._name

    @property
    def capabilities(self) -> Capabilities:
        """Everything that a local model can do."""
        return Capabilities(
            frozenset(STRATEGIES), True, None, scores_texts=True, context_tokens=self._context_tokens,
            parameters=self._parameters,
        )  # fmt: skip

    def prompt(self, question: Question, style: str, stop: StopRule = NO_STOPS) -> Prompt:
        """Chat if the tokenizer has a template and nothing else was asked for."""
        prompt = self._words.prompt(question, style, stop)
        check_fits(self.name, len(prompt.token_ids), self._context_tokens)
        return prompt

    # -- decoding -----------------------------------------------------------------------------------------------

    def decode(self, request: DecodeRequest) -> Decoded:
        """Continue prompt + each prefix, all together. A prefix as long as an answer may be stays as it is."""
        return self.decode_all([request])[0]

    def decode_all(self, requests: Sequence[DecodeRequest], done: Done = nobody) -> list[Decoded]:
        """Decode all paths of all requests on one tree; beams take turns. The first request carries the shared cost."""
        with self._network.decoding():
            if any(request.decoding.strategy in BEAMS for request in requests):
                return one_by_one(lambda request: self._decode([request])[0], requests, done)

            def tell(place: int, decoded: Decoded) -> None:
                with self._network.aside():
                    done(place, decoded)

            return self._decode([_gathering(request, partial(tell, k)) for k, request in enumerate(requests)])

    def _decode(self, requests: Sequence[DecodeRequest]) -> list[Decoded]:
        requests = [replace(one, decoding=self._within_context(one.prompt, one.decoding)) for one in requests]
        prompt, started = requests[0].prompt, (self._network.forward_tokens, self._network.steps)
        wanted = [path for request in requests for path in wanted_paths(request)]
        is_search = requests[0].decoding.strategy in BEAMS
        most = max(len(wanted), 1) if is_search else self._most_paths(requests)
        grown: dict[tuple[int, int], Continuation] = {}  # by request and place
        reused = len(prompt.token_ids)
        for first in range(0, len(wanted), most):
            some = wanted[first : first + most]
            continuations, held = self._grow(prompt, some)
            grown.update(zip(((id(path.request), path.place) for path in some), continuations, strict=False))
            reused = held if first == 0 else reused  # what the first round has run is there for the others
        shared = self._cost(prompt, 0, reused, started)
        return [_decoded(request, grown, shared if k == 0 else Cost()) for k, request in enumerate(requests)]

    def _most_paths(self, requests: Sequence[DecodeRequest]) -> int:
        """How many paths are decoded together; more take turns, since every path's tokens take memory."""
        return _MOST_PATHS

    def _cost(self, prompt: Prompt, decisions: int, reused: int, started: tuple[int, int]) -> Cost:
        return Cost(
            prompt_tokens=len(prompt.token_ids),
            generated_tokens=decisions,
            forward_tokens=self._network.forward_tokens - started[0],
            reused_tokens=reused,
            decode_steps=self._network.steps - started[1],
        )

    def _grow(self, prompt: Prompt, wanted: Sequence[WantedPath]) -> tuple[list[Continuation], int]:
        """Return the continuations, and how many prompt tokens did not have to be run."""
        request = wanted[0].request
        is_search = request.decoding.strategy in BEAMS
        prefixes = [(*path.request.prompt.said, *path.prefix) for path in wanted]
        is_chain = prefixes == [()] and not is_search
        kept, tip, reused = self._kept_prefix(prompt, at_tip=is_chain)
        tree: KVTree = Chain(kept) if is_chain else self._new_tree(kept)
        starts = self._starts(tree, kept, prompt.token_ids, prefixes, tip)
        if is_search:
            own = [replace(start, prefix=path.prefix) for start, path in zip(starts, wanted, strict=True)]
            continuations = self._search(tree, own, request)
            if request.ended is not None:
                for path, continuation in zip(wanted, continuations, strict=False):
                    request.ended(path.place, continuation)
        else:
            continuations = decode_paths(tree, starts, wanted, self.text)
        tree.close()
        self._store.keep(kept)
        return continuations, reused

    def _kept_prefix(self, prompt: Prompt, *, at_tip: bool) -> tuple[P, Tensor, int]:
        """Return a prefix that holds the prompt, the logits after it, and how much was there already.

        `at_tip`: the prefix ends with the prompt.
        """
        kept, size = self._store.take(prompt), len(prompt.token_ids)
        reused = min(len(kept.ids), size)
        if at_tip and len(kept.ids) > size:
            kept = self._at_tip(kept, size)
            reused = len(kept.ids)
        if kept.tip is None:
            kept.tip, kept.prompt = self._prefill(kept, prompt), prompt
        return kept, kept.tip, reused

    def _at_tip(self, kept: P, size: int) -> P:
        """Return the same prompt without the answer."""
        if not kept.can_be_cut(size):
            return kept.fork(0)
        cut = kept.fork(size)
        cut.tip, cut.prompt = kept.tip, kept.prompt
        return cut

    def _search(self, tree: KVTree, starts: Sequence[Start], request: DecodeRequest) -> list[Continuation]:
        """Search once per different prefix; return as many hypotheses of it as the prefix was given times."""
        prefixes = [start.prefix for start in starts]
        first = {start.prefix: start for start in starts}
        counts = [prefixes.count(prefix) for prefix in first]
        hypotheses = beam_search(
            tree, list(first.values()), counts, request.decoding, request.prompt.stop, self.text,
            min_probability=request.alternatives_above,
        )  # fmt: skip
        if prefixes == [()]:
            tree.keep_path(hypotheses[0][0].node)
        left = {prefix: iter(results) for prefix, results in zip(first, hypotheses, strict=True)}
        results = [next(left[prefix], None) for prefix in prefixes]
        return [result.continuation for result in results if result is not None]

    def score(self, prompt: Prompt, texts: Sequence[str], *, ended: Sequence[bool] | None = None) -> Scored:
        """Return the likelihood of given answers, tokenised here. Their ending is the likeliest token that ends one."""
        answers = [self._words.answer_ids(prompt, text) for text in texts]
        tokens = len(prompt.token_ids) + max(map(len, answers), default=0)
        check_fits(self.name, tokens, self.capabilities.context_tokens, "with the answer that is scored")
        endings = self._words.ending_ids(prompt.stop)
        has_ending = [bool(endings) and (ended is None or ended[k] or not answers[k]) for k in range(len(texts))]
        started = self._network.forward_tokens, self._network.steps
        kept, tip, reused = self._kept_prefix(prompt, at_tip=False)
        tree = self._new_tree(kept)
        starts = self._starts(tree, kept, prompt.token_ids, [()] * len(answers), tip)
        paths = score_paths(tree, starts, answers, [endings if has else [] for has in has_ending])
        tree.close()
        self._store.keep(kept)
        generations = tuple(
            Generation(text, ids, tuple(steps[: len(ids)]), "eos" if has else "length", (steps[-1],) if has else ())
            for text, ids, steps, has in zip(texts, answers, paths, has_ending, strict=True)
        )
        return Scored(generations, self._cost(prompt, 0, reused, started))

    def read(self, prompt: Prompt, text: str, *, alternatives_above: float) -> Scored:
        """Return a given answer as if the model had said it, with what else it could have said at every step.

        Its text is what the tokens say, which a tokenizer may have changed. Its keys and values stay, as those of an
        answer that was decoded.
        """
        ids = self._words.answer_ids(prompt, text)
        tokens = len(prompt.token_ids) + len(ids)
        check_fits(self.name, tokens, self.capabilities.context_tokens, "with the answer that is read")
        endings = self._words.ending_ids(prompt.stop)
        with self._network.decoding():
            started = self._network.forward_tokens, self._network.steps
            kept, tip, reused = self._kept_prefix(prompt, at_tip=True)
            rows = self._rows_after(kept, tip, ids)
            generation = read_answer(self.text(ids).strip(), ids, endings, rows, alternatives_above)
            self._store.keep(kept)
            return Scored((generation,), self._cost(prompt, len(ids), reused, started))

    @staticmethod
    def _rows_after(kept: P, tip: Tensor, ids: tuple[int, ...]) -> Iterator[Tensor]:
        """Yield the logits before each token and after the last, some rows at a time: a row is a vocabulary long."""
        yield tip
        for first in range(0, len(ids), _READ_ROWS):
            check_limit()
            some = ids[first : first + _READ_ROWS]
            yield kept.extend(some, keep=len(some))

    def _within_context(self, prompt: Prompt, decoding: Decoding) -> Decoding:
        limit = self.capabilities.context_tokens
        room = decoding.max_tokens if limit is None else max(limit - len(prompt.token_ids) - len(prompt.said), 1)
        return replace(decoding, max_tokens=min(decoding.max_tokens, room))

    @staticmethod
    def _prefill(kept: P, prompt: Prompt) -> Tensor:
        """Run the rest of a prompt, piece by piece."""
        ids, first = prompt.token_ids, len(kept.ids)
        for end in (*prompt.boundaries, len(ids)):
            while first < end:
                check_limit()
                some = ids[first : min(first + _PREFILL_CHUNK, end)]
                tip = kept.extend(some)
                first += len(some)
        return tip

    def _starts(
        self, tree: KVTree, kept: P, prompt: Sequence[int], prefixes: Sequence[tuple[int, ...]], tip: Tensor
    ) -> list[Start]:
        """Run what is missing of each different prefix, so that all are ready to go on."""
        ready: dict[tuple[int, ...], tuple[int, Tensor]] = {(): (len(prompt) - 1, tip[0])}
        missing = [prefix for prefix in dict.fromkeys(prefixes) if prefix not in ready]
        feeds = [self._feed(kept, prompt, prefix) for prefix in missing]
        ready.update(zip(missing, _run(tree, feeds), strict=True))
        return [Start(prefix, *ready[prefix]) for prefix in prefixes]

    @staticmethod
    def _feed(kept: P, prompt: Sequence[int], prefix: tuple[int, ...]) -> _Feed:
        held = common_length(kept.ids[len(prompt) :], prefix)
        held = min(held, len(prefix) - 1)  # the last token is run for its logits
        return _Feed(len(prompt) - 1 + held, prefix[held:])

    def text(self, token_ids: Sequence[int]) -> str:
        """Return the text exactly as decoded."""
        return self._words.text(token_ids)

    def is_special(self, token_id: int) -> bool:
        """Whether it is a control token, also one that a converted tokenizer forgot to mark."""
        return self._words.is_special(token_id)


def _gathering(request: DecodeRequest, done: Callable[[Decoded], None]) -> DecodeRequest:
    """Return the request, which tells once all of its paths have ended."""
    found: dict[int, Continuation] = {}

    def ended(place: int, grown: Continuation) -> None:
        if request.ended is not None:
            request.ended(place, grown)
        found[place] = grown
        if len(found) == len(request.prefixes):
            done(Decoded(tuple(found[path] for path in range(len(found))), Cost()))

    return replace(request, ended=ended)


def _decoded(request: DecodeRequest, grown: Mapping[tuple[int, int], Continuation], cost: Cost) -> Decoded:
    """Return a request's continuations in the order of its prefixes; beams may have found fewer."""
    sizes = enumerate(map(len, request.prefixes))
    complete = {place for place, size in sizes if size >= request.decoding.max_tokens}
    whole = [
        COMPLETE if place in complete else grown.get((id(request), place)) for place in range(len(request.prefixes))
    ]
    found = tuple(one for one in whole if one is not None)
    decisions = sum(one.decisions for one in found)
    return Decoded(found, cost + Cost(generated_tokens=decisions))


def _run(tree: KVTree, feeds: Sequence[_Feed]) -> list[tuple[int, Tensor]]:
    """Run feeds level by level, aligned at their ends; return the node and logits of each one's last token."""
    longest = max((len(feed.tokens) for feed in feeds), default=0)
    nodes = [feed.parent for feed in feeds]
    logits = torch.empty(0)
    for left in range(longest, 0, -1):
        check_limit()
        now = [k for k, feed in enumerate(feeds) if len(feed.tokens) >= left]
        grown, logits = tree.grow([nodes[k] for k in now], [feeds[k].tokens[-left] for k in now])
        for k, node in zip(now, grown, strict=True):
            nodes[k] = node
    return [(nodes[k], logits[k]) for k in range(len(feeds))]
