"""A GGUF file of a few kilobytes: a random Llama with a sentencepiece vocabulary, and whatever else it shall say."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np

WORDS = ["the", "cat", "sat", "who", "Q", "A", ":", "?"]
TOKENS = [
    "<unk>",
    "<s>",
    "</s>",
    "▁",
    *sorted({letter for word in WORDS for letter in word}),
    "▁the",
    "▁cat",
    "th",
    "▁th",
]
WIDTH, HEADS, INNER, LAYERS, CONTEXT = 32, 4, 48, 2, 128


def write_tiny_gguf(
    path: Path, *, bos: bool | None = None, space: bool | None = None, template: str = "", byte_tokens: bool = False
) -> Path:
    """`bos` and `space` are what the file says of its tokenizer; None: it says nothing.

    `byte_tokens`: with a token for every byte, as llama.cpp expects of such a vocabulary.
    """
    tokens = [*TOKENS, *(f"<0x{byte:02X}>" for byte in range(256) if byte_tokens)]
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([-float(len(tokens) - k) for k in range(len(tokens))])
    writer.add_token_types(
        [
            gguf.TokenType.UNKNOWN,
            *[gguf.TokenType.CONTROL] * 2,
            *[gguf.TokenType.NORMAL] * (len(TOKENS) - 3),
            *[gguf.TokenType.BYTE] * (len(tokens) - len(TOKENS)),
        ]
    )
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    if bos is not None:
        writer.add_add_bos_token(bos)
    if space is not None:
        writer.add_add_space_prefix(space)
    if template:
        writer.add_chat_template(template)
    for name, shape in _shapes(len(tokens)).items():
        numbers = np.random.default_rng(len(name)).normal(0, 0.3, shape)
        writer.add_tensor(name, (numbers if len(shape) > 1 else np.ones(shape)).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _shapes(vocabulary: int) -> dict[str, tuple[int, ...]]:
    square = {f"attn_{name}": (WIDTH, WIDTH) for name in ("q", "k", "v", "output")}
    inner = {"ffn_gate": (INNER, WIDTH), "ffn_up": (INNER, WIDTH), "ffn_down": (WIDTH, INNER)}
    block = {**square, **inner, "attn_norm": (WIDTH,), "ffn_norm": (WIDTH,)}
    layers = {f"blk.{k}.{name}.weight": shape for k in range(LAYERS) for name, shape in block.items()}
    ends = dict.fromkeys(("token_embd.weight", "output.weight"), (vocabulary, WIDTH))
    return {**ends, **layers, "output_norm.weight": (WIDTH,)}
