"""A GGUF file as a language model, run by llama.cpp in this process, with the weights that the file has.

In: a file and how much of the machine it may have. Out: a `LlamaModel`; or, where the library inside this process is
not as expected, the same file on a private llama-server, which says so in every result's notes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ...errors import BadOption, ModelNotFound
from ...options import Loading
from ...records import Prompt
from ..base import DecodeRequest, LanguageModel, Scored
from ..decoding.tree_model import TreeModel
from ..prompts import PromptTokenizer
from .header import MOST_CONTEXT, own_cores, read_header
from .library import Library, LibraryUnusable, open_library
from .sequences import LastPrompt, LlamaContext, LlamaPrefix, LlamaTree
from .tokenizer import GgufTokenizer

_BRANCH_CELLS = 4096  # beside them, for branches
_MOST_PATHS = 64


class LlamaModel(TreeModel[LlamaPrefix]):
    """A GGUF file in this process."""

    engine = "llama.cpp"

    def __init__(
        self, library: Library, file: Path, *, name: str, context_tokens: int, batch_rows: int, threads: int, gpu: bool
    ) -> None:
        self._context = context = LlamaContext(
            library, file, cells=context_tokens + _BRANCH_CELLS, rows=batch_rows, threads=threads, gpu=gpu
        )
        tokenizer = GgufTokenizer(library, context.model, context.check_open)
        self._last = last = LastPrompt(context)
        super().__init__(
            context,
            PromptTokenizer(tokenizer, tokenizer.end_ids, name=name),
            last,
            name=name,
            new_tree=LlamaTree,
            context_tokens=min(context_tokens, context.trained_context or context_tokens),
            parameters=context.parameters,
        )

    def _most_paths(self, requests: Sequence[DecodeRequest]) -> int:
        """As many as have room for the longest answer beside the prompt."""
        longest = max(request.decoding.max_tokens for request in requests)
        taken = max(len(request.prompt.token_ids) + len(request.prompt.said) for request in requests)
        return max(1, min(_MOST_PATHS, (self._context.cells - taken - longest) // max(longest, 1)))

    def _at_tip(self, kept: LlamaPrefix, size: int) -> LlamaPrefix:
        """Return the same prompt without the answer, in place: another answer lies in the same cells."""
        kept.cut(size)
        return kept

    def score(self, prompt: Prompt, texts: Sequence[str], *, ended: Sequence[bool] | None = None) -> Scored:
        """Return the likelihood of given answers; nobody else uses the context meanwhile."""
        with self._context.decoding():
            return super().score(prompt, texts, ended=ended)

    def close(self) -> None:
        """Free the weights and the context."""
        self._last.drop_all()
        self._context.close()


def load_llama(file: Path, loading: Loading, *, name: str) -> LanguageModel:
    """Load a GGUF file into this process; on a private llama-server where that cannot be."""
    if loading.dtype is not None:
        raise BadOption(f"dtype is for engine=transformers: {name} is run with the weights that the file has")
    header = read_header(file)
    try:
        library = open_library()
    except LibraryUnusable as reason:
        from .served import serve_llama

        return serve_llama(file, loading, name=name, reason=str(reason))
    try:
        return LlamaModel(
            library, file, name=name, threads=loading.threads or own_cores(), gpu=loading.device != "cpu",
            batch_rows=loading.batch_rows,
            context_tokens=min(loading.context_tokens or MOST_CONTEXT, header.context_tokens or MOST_CONTEXT),
        )  # fmt: skip
    except MemoryError as error:
        raise ModelNotFound(f"there is too little memory to load {file}") from error
