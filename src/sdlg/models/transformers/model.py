"""Any Hugging Face causal language model behind the `LanguageModel` protocol."""

from __future__ import annotations

from typing import Any

from ..decoding.prefixes import PrefixStore
from ..decoding.tree_model import TreeModel
from ..prompts import PromptTokenizer
from .layouts import LAYOUTS, choose_layout
from .network import Network
from .prefix_cache import PrefixKV

DEFAULT_PREFIX_BYTES = 256 * 2**20


class TransformersModel(TreeModel[PrefixKV]):
    """A loaded (model, tokenizer)."""

    engine = "transformers"

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        name: str = "",
        layout: str | None = None,
        prefix_bytes: int = DEFAULT_PREFIX_BYTES,
    ) -> None:
        self.model, self.tokenizer, network = model.eval(), tokenizer, Network(model)
        self.layout = layout or choose_layout(network)
        name = name or getattr(model.config, "_name_or_path", "") or type(model).__name__
        end_ids = getattr(model.generation_config, "eos_token_id", None)
        super().__init__(
            network,
            PromptTokenizer(tokenizer, end_ids, name=name),
            PrefixStore(lambda: PrefixKV(network, native=self.layout == "separate"), prefix_bytes),
            name=name,
            new_tree=LAYOUTS[self.layout],
            context_tokens=getattr(model.config.get_text_config(), "max_position_embeddings", None),
            parameters=sum(weight.numel() for weight in model.parameters()),  # tied weights once
        )
