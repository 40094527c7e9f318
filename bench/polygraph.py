"""lm-polygraph's SemanticEntropy on the models that ours runs on, for `bench/speed.py`; only where it is installed.

lm-polygraph 0.7 takes its NLI model by a hub name and a class of its own, and asks the network for its attentions,
which only eager attention gives. So our NLI model is put in its place, and the language model is an eager copy.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import torch

from sdlg.models.transformers.model import TransformersModel
from sdlg.nli.classifier import SequenceClassifier
from sdlg.records import Prompt

IS_INSTALLED = find_spec("lm_polygraph") is not None


def polygraph_entropy(lm: TransformersModel, nli: SequenceClassifier, most_tokens: int) -> Callable[[Prompt], None]:
    """What measures one prompt: a greedy answer, ten samples, all pairs, the entropy."""
    from lm_polygraph import WhiteboxModel, estimate_uncertainty  # type: ignore[import-not-found]
    from lm_polygraph.estimators import SemanticEntropy  # type: ignore[import-not-found]
    from lm_polygraph.utils.deberta import Deberta  # type: ignore[import-not-found]
    from lm_polygraph.utils.generation_parameters import GenerationParameters  # type: ignore[import-not-found]

    judge = copy.copy(nli.model)
    judge.config = copy.deepcopy(judge.config)
    judge.config.label2id = {label.upper(): place for place, label in judge.config.id2label.items()}

    def set_up(self: Any) -> None:
        self._deberta, self._deberta_tokenizer = judge, nli.tokenizer

    Deberta.setup = set_up
    network = copy.deepcopy(lm.model)
    network.set_attn_implementation("eager")
    estimator = SemanticEntropy()

    def measure(prompt: Prompt) -> None:
        wanted = GenerationParameters(max_new_tokens=most_tokens, stop_strings=list(prompt.stop.strings))
        model = WhiteboxModel(network, lm.tokenizer, "smollm2", generation_parameters=wanted)
        with torch.inference_mode():
            estimate_uncertainty(model, estimator, input_text=lm.text(prompt.token_ids))

    return measure
