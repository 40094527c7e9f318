"""Tokens through one llama.cpp context: prefixes and the branches that grow from them are sequences that share cells.

In: tokens, each with its place in a sequence. Out: whole rows of logits, as torch tensors. A branch that leaves a
prefix at some token shares all cells before it (nothing is copied) and costs only its own.

One sequence, one probability. Weights are quantised and so are activations, so that a difference in the last bit of a
sum becomes one of up to .4 nats a few layers on. Two things would make such a difference, and are avoided:

- another kernel: from four rows on llama.cpp multiplies repacked weights in another way, so at most three rows of
  branches are run in one call (a prompt's pieces are always the same, whoever asks), unless `batch_rows` says more;
- another order of a sequence's cells: attention adds them up in the order in which they lie in memory. Cells are given
  out upwards, so nothing is freed while a tree grows, one call decodes at a time, and only the last prompt is kept.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from ...concurrency.limits import check_limit, holding
from ...errors import ModelNotFound, RunError, UsageError
from ...records import Prompt, StopRule
from ..decoding.prefixes import usable_length
from ..decoding.tree_model import TreeNetwork
from ..decoding.trees import PathLogits, passes, path_batches
from .library import Library

_SEQUENCES = 128  # that may be live at once; llama.cpp aborts where there are more than outputs
_BATCH = 512  # tokens in one call
_OUTPUTS = 128  # rows of logits that llama.cpp prepares for; it aborts where it prepares for as few as are used
_EXACT_ROWS = 3  # whose logits are wanted in one call: with more, another kernel multiplies
_NO_ROOM = 1  # what llama_decode returns when no cells are free
_READ_INTO_MEMORY = 0  # llama_load_mode: neither mapped nor locked; weights that are repacked would be there twice


@dataclass(frozen=True, slots=True)
class Token:
    """A token to run: its sequence, its position there, and whether the logits after it are wanted."""

    id: int
    sequence: int
    position: int
    wanted: bool


class LlamaContext(TreeNetwork):
    """A loaded GGUF file and one context of it. Threads may share it."""

    def __init__(self, library: Library, file: Path, *, cells: int, rows: int = 0, threads: int, gpu: bool) -> None:
        super().__init__()
        self._library, self._c, self._rows = library, library.c, rows or _EXACT_ROWS
        params = self._c.llama_model_default_params()
        params.load_mode = _READ_INTO_MEMORY
        if not gpu:
            params.n_gpu_layers = 0
        self.model = self._c.llama_model_load_from_file(str(file).encode(), params)
        if self.model == library.ffi.NULL:
            raise ModelNotFound(f"llama.cpp cannot load {file}: it is damaged, cut short, or of an unknown kind")
        self.trained_context = int(self._c.llama_model_n_ctx_train(self.model))
        self.cells = cells
        self._context = self._c.llama_init_from_model(self.model, self._context_params(threads))
        if self._context == library.ffi.NULL:
            self._c.llama_model_free(self.model)
            raise RunError(
                f"there is too little memory for a context of {cells} tokens of {file}; lower context_tokens"
            )
        self._memory = self._c.llama_get_memory(self._context)
        self._vocabulary = int(self._c.llama_vocab_n_tokens(self._c.llama_model_get_vocab(self.model)))
        self._batch = self._c.llama_batch_init(_BATCH, 0, 1)
        self._free = list(range(_SEQUENCES))
        self._dead: deque[int] = deque()  # sequences that are freed when nothing grows, or when there is no room
        self._turn = threading.RLock()
        self._free_memory = weakref.finalize(self, _free, self._c, self._batch, self._context, self.model)
        self._free_memory.atexit = False  # the system frees it, too, and a thread may still be decoding

    def _context_params(self, threads: int) -> Any:
        params = self._c.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = self.cells, _BATCH, _BATCH
        params.n_seq_max, params.kv_unified = _SEQUENCES, True
        params.n_outputs_max, params.n_outputs_max_per_seq = _OUTPUTS, 0
        params.n_threads = params.n_threads_batch = threads
        return params

    @property
    def parameters(self) -> int:
        """How many weights the model has."""
        return int(self._c.llama_model_n_params(self.model))

    # -- passes -------------------------------------------------------------------------------------------------

    @contextmanager
    def decoding(self) -> Iterator[None]:
        """For a thread that wants one pass after the other: it has the context alone, within the caller's limit."""
        with holding(self._turn):
            yield

    def run(self, tokens: Sequence[Token]) -> Tensor:
        """Run tokens; return the logits after those that want them, (wanted, V), in their order."""
        self.count_pass(len(tokens))
        size = self._rows if sum(token.wanted for token in tokens) > 1 else len(tokens)
        with self._turn:
            return torch.cat([self._decode(tokens[k : k + size]) for k in range(0, len(tokens), size)])

    def check_open(self) -> None:
        """Raise if it was closed."""
        if not self._free_memory.alive:
            raise UsageError("this model was closed; load it again")

    def _decode(self, tokens: Sequence[Token]) -> Tensor:
        self.check_open()
        batch, null = self._batch, self._library.ffi.NULL
        batch.n_tokens = len(tokens)
        for k, token in enumerate(tokens):
            batch.token[k], batch.pos[k], batch.logits[k] = token.id, token.position, token.wanted
            batch.n_seq_id[k], batch.seq_id[k][0] = 1, token.sequence
        code = self._c.llama_decode(self._context, batch)
        if code == _NO_ROOM and self.free_dead():
            code = self._c.llama_decode(self._context, batch)
        if code == _NO_ROOM:
            raise RunError(f"no room for {len(tokens)} more tokens in {self.cells} cells; raise context_tokens")
        if code:
            raise RunError(f"llama.cpp failed on {len(tokens)} tokens with code {code}")
        rows = [self._c.llama_get_logits_ith(self._context, k) for k, token in enumerate(tokens) if token.wanted]
        if null in rows:
            raise RunError("llama.cpp gave no logits")
        found = np.empty((len(rows), self._vocabulary), dtype=np.float32)
        for row, pointer in zip(found, rows, strict=True):
            row[:] = np.frombuffer(self._library.ffi.buffer(pointer, row.nbytes), dtype=np.float32)
        return torch.from_numpy(found)

    # -- sequences ----------------------------------------------------------------------------------------------

    def new_sequence(self, source: int | None = None, length: int = 0) -> int:
        """Return a free sequence number; with the first `length` tokens of another, if one is named."""
        with self._turn:
            self.check_open()
            if not self._free and not self.free_dead():
                raise RunError(f"more than {_SEQUENCES} sequences at once; ask for fewer samples")
            sequence = self._free.pop()
            if source is not None and length:
                self._c.llama_memory_seq_cp(self._memory, source, sequence, 0, length)
            return sequence

    def cut(self, sequence: int, length: int) -> None:
        """Free the cells of a sequence from a position on."""
        with self._turn:
            self.check_open()
            self._c.llama_memory_seq_rm(self._memory, sequence, length, -1)

    def drop(self, sequence: int) -> None:
        """Forget a sequence. Its cells are free again when nothing grows any more."""
        self._dead.append(sequence)

    def free_dead(self) -> bool:
        """Free the cells of forgotten sequences that no other one shares; whether there were any."""
        with self._turn:
            before = len(self._free)
            while self._dead:  # others may drop more meanwhile
                sequence = self._dead.popleft()
                if self._free_memory.alive:
                    self._c.llama_memory_seq_rm(self._memory, sequence, -1, -1)
                self._free.append(sequence)
            return len(self._free) > before

    def close(self) -> None:
        """Free the weights and the context. Without it they are freed when nobody holds the model any more."""
        with self._turn:
            self._free_memory()


def _free(c: Any, batch: Any, context: Any, model: Any) -> None:
    c.llama_batch_free(batch)
    c.llama_free(context)
    c.llama_model_free(model)


class LlamaPrefix:
    """Tokens that were run one after another: a prompt, perhaps an answer. Its sequence is freed with it."""

    def __init__(self, context: LlamaContext, sequence: int | None = None, ids: Sequence[int] = ()) -> None:
        self.context = context
        self.sequence = context.new_sequence() if sequence is None else sequence
        self.ids = list(ids)
        self.prompt = Prompt((), StopRule())
        self.tip: Tensor | None = None  # the logits after the prompt, (1, V)

    def extend(self, tokens: Sequence[int], keep: int = 1) -> Tensor:
        """Run more tokens; return the logits after the last `keep` of them, (keep, V)."""
        tail: list[Tensor] = []
        for first in range(0, len(tokens), _BATCH):
            check_limit()
            part = tokens[first : first + _BATCH]
            wanted = len(tokens) - keep - first
            start = len(self.ids)
            run = [Token(token, self.sequence, start + k, k >= wanted) for k, token in enumerate(part)]
            tail.append(self.context.run(run))
            self.ids.extend(part)
        return torch.cat(tail)

    def fork(self, length: int) -> LlamaPrefix:
        """Return a new prefix with the first `length` tokens of this one; their cells are shared."""
        return LlamaPrefix(self.context, self.context.new_sequence(self.sequence, length), self.ids[:length])

    def cut(self, length: int) -> None:
        """Forget all but its first `length` tokens. Their cells are free at once: what comes next lies there again."""
        self.context.cut(self.sequence, length)
        del self.ids[length:]

    def can_be_cut(self, length: int) -> bool:
        """Whether its first `length` tokens can be had without running them again: always."""
        return True

    def trim(self) -> None:
        """Nothing is held beyond its tokens."""

    @property
    def size(self) -> int:
        """Cells in use; shared ones count for each."""
        return len(self.ids)

    def __del__(self) -> None:
        if hasattr(self, "sequence"):  # there was one left
            self.context.drop(self.sequence)


class LlamaTree:
    """Branches of a prefix, each a sequence of its own."""

    def __init__(self, prefix: LlamaPrefix) -> None:
        self._prefix, self._context = prefix, prefix.context
        self._next_node = len(prefix.ids)
        self._tips: dict[int, tuple[int, int]] = {}  # node → its sequence, its position

    def grow(self, parents: Sequence[int], tokens: Sequence[int]) -> tuple[list[int], Tensor]:
        """Run a token under each parent, which is one of the prefix or of the call before. Others are dropped."""
        tips: list[tuple[int, int]] = []
        try:
            for k, parent in enumerate(parents):
                tips.append(self._fork(parent) if parent in parents[k + 1 :] else self._take(parent))
        except BaseException:  # no sequence was left: those that were taken are of no use, and go back
            for sequence, _ in tips:
                self._context.drop(sequence)
            raise
        self._release(list(self._tips))
        run = [Token(token, sequence, place + 1, True) for token, (sequence, place) in zip(tokens, tips, strict=True)]
        nodes = list(range(self._next_node, self._next_node + len(tips)))
        self._next_node += len(tips)
        self._tips = {node: (sequence, place + 1) for node, (sequence, place) in zip(nodes, tips, strict=True)}
        return nodes, self._context.run(run)

    def _fork(self, parent: int) -> tuple[int, int]:
        sequence, place = self._tips.get(parent, (self._prefix.sequence, parent))
        return self._context.new_sequence(sequence, place + 1), place

    def _take(self, parent: int) -> tuple[int, int]:
        """Whoever continues a path last may have its sequence; the prefix's own stays."""
        return self._tips.pop(parent, None) or self._fork(parent)

    def run_paths(self, parents: Sequence[int], paths: Sequence[Sequence[int]]) -> Iterator[PathLogits]:
        """Run given paths, as many as fit into a pass together."""
        for group in path_batches(paths, most=_SEQUENCES // 2):
            sequences: dict[int, int] = {}
            try:
                for number in group:
                    sequences[number] = self._context.new_sequence(self._prefix.sequence, parents[number] + 1)
                yield from self._run_group(group, sequences, parents, paths)
            finally:
                for sequence in sequences.values():
                    self._context.drop(sequence)

    def _run_group(
        self, group: list[int], sequences: dict[int, int], parents: Sequence[int], paths: Sequence[Sequence[int]]
    ) -> Iterator[PathLogits]:
        for now in passes(max(len(paths[number]) for number in group)):
            pieces = {number: paths[number][now] for number in group if paths[number][now]}
            tokens = [
                Token(token, sequences[number], parents[number] + 1 + now.start + k, True)
                for number, piece in pieces.items()
                for k, token in enumerate(piece)
            ]
            rows = torch.split(self._context.run(tokens), [len(piece) for piece in pieces.values()])
            for number, logits in zip(pieces, rows, strict=True):
                yield PathLogits(number, now.start, logits)

    def prune(self, nodes: Sequence[int]) -> None:
        """Drop all paths but those to these nodes."""
        self._release([node for node in self._tips if node not in nodes])

    def _release(self, nodes: Sequence[int]) -> None:
        for node in nodes:
            self._context.drop(self._tips.pop(node)[0])

    def close(self) -> None:
        """Drop all paths; the prefix is as it was."""
        self._release(list(self._tips))
        self._context.free_dead()

    def keep_path(self, node: int) -> bool:
        """Not supported: the ids of a path are not kept here."""
        return False

    def __del__(self) -> None:
        """Drop paths whose work was broken off by a deadline or an error."""
        self._release(list(self._tips))


class LastPrompt:
    """The prefix of the last prompt: what the next one shares with it is not run again. All else is dropped first."""

    def __init__(self, context: LlamaContext) -> None:
        self._context, self._kept = context, cast("LlamaPrefix | None", None)

    def take(self, prompt: Prompt) -> LlamaPrefix:
        """Return a prefix that holds as much of the prompt as the last one did."""
        kept, self._kept = self._kept, None
        shared = usable_length(kept.prompt, prompt) if kept else 0
        if kept is not None and shared < len(prompt.token_ids):
            kept = kept.fork(shared) if shared else None
        self._context.free_dead()
        return kept or LlamaPrefix(self._context)

    def keep(self, prefix: LlamaPrefix) -> None:
        """Keep a prefix for the next question."""
        self._kept = prefix

    def drop_all(self) -> None:
        """Forget it."""
        self._kept = None
        self._context.free_dead()

    @property
    def size(self) -> int:
        """Cells in use."""
        return self._kept.size if self._kept else 0
