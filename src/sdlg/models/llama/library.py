"""llama.cpp's C interface in this process: the library inside the `xllamacpp` wheel, called through cffi.

In: nothing. Out: `Library`, or `LibraryUnusable` with the reason. That wheel does not promise these exports, so what we
declare is compared with what the library says of its own defaults before anything is loaded with it; a build whose
records are laid out in another way is refused here, and the private server is used instead. `SDLG_LLAMA_LIBRARY` names
another build of the same version: the wheel's is for any x86-64 with AVX2, one made for this processor is faster.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ...errors import BadOption, RunError

_NAMED = "SDLG_LLAMA_LIBRARY"  # a file
# Names, order and types of the build that constraints.txt pins (llama.cpp b11549). Enums are ints.
_DECLARATIONS = """
typedef int32_t llama_token;
typedef bool (*abort_function)(void *);
typedef void (*log_function)(int, const char *, void *);
struct llama_model_params {
    void * devices; void * tensor_buft_overrides; int32_t n_gpu_layers; int split_mode; int load_mode; int lazy_mode;
    int32_t main_gpu; float * tensor_split; void * progress_callback; void * progress_callback_user_data;
    void * kv_overrides; bool vocab_only; bool check_tensors; bool use_extra_bufts; bool no_host; bool no_alloc;
    bool load_mtp;
};
struct llama_context_params {
    uint32_t n_ctx; uint32_t n_batch; uint32_t n_ubatch; uint32_t n_seq_max; uint32_t n_rs_seq; uint32_t n_outputs_max;
    uint32_t n_outputs_max_per_seq; int32_t n_threads; int32_t n_threads_batch; int ctx_type; int rope_scaling_type;
    int pooling_type; int attention_type; int flash_attn_type; float rope_freq_base; float rope_freq_scale;
    float yarn_ext_factor; float yarn_attn_factor; float yarn_beta_fast; float yarn_beta_slow; uint32_t yarn_orig_ctx;
    float defrag_thold; void * cb_eval; void * cb_eval_user_data; int type_k; int type_v; size_t moe_cache_size;
    abort_function abort_callback; void * abort_callback_data; bool embeddings; bool offload_kqv; bool no_perf;
    bool op_offload; bool swa_full; bool kv_unified; void * samplers; size_t n_samplers; void * ctx_other;
};
struct llama_batch {
    int32_t n_tokens; llama_token * token; float * embd; int32_t * pos; int32_t * n_seq_id; int32_t ** seq_id;
    int8_t * logits;
};
void llama_backend_init(void);
void llama_log_set(log_function, void *);
struct llama_model_params llama_model_default_params(void);
struct llama_context_params llama_context_default_params(void);
void * llama_model_load_from_file(const char *, struct llama_model_params);
void llama_model_free(void *);
void * llama_init_from_model(void *, struct llama_context_params);
void llama_free(void *);
void * llama_model_get_vocab(void *);
int32_t llama_vocab_n_tokens(void *);
int32_t llama_model_n_ctx_train(void *);
int32_t llama_model_n_swa(void *);
bool llama_model_is_recurrent(void *);
bool llama_model_is_hybrid(void *);
bool llama_model_has_encoder(void *);
uint64_t llama_model_n_params(void *);
const char * llama_model_chat_template(void *, const char *);
struct llama_batch llama_batch_init(int32_t, int32_t, int32_t);
void llama_batch_free(struct llama_batch);
int32_t llama_decode(void *, struct llama_batch);
float * llama_get_logits_ith(void *, int32_t);
void * llama_get_memory(void *);
bool llama_memory_seq_rm(void *, int32_t, int32_t, int32_t);
void llama_memory_seq_cp(void *, int32_t, int32_t, int32_t, int32_t);
int32_t llama_tokenize(void *, const char *, int32_t, llama_token *, int32_t, bool, bool);
int32_t llama_token_to_piece(void *, llama_token, char *, int32_t, int32_t, bool);
bool llama_vocab_is_eog(void *, llama_token);
bool llama_vocab_is_control(void *, llama_token);
llama_token llama_vocab_bos(void *);
llama_token llama_vocab_eos(void *);
"""
# Defaults that hold in every build we know. Where a field has moved, some of these read nonsense.
_MODEL_DEFAULTS = {
    "main_gpu": 0, "vocab_only": False, "check_tensors": False, "use_extra_bufts": True, "no_host": False,
    "no_alloc": False,
}  # fmt: skip
_CONTEXT_DEFAULTS = {
    "n_ctx": 512, "n_batch": 2048, "n_ubatch": 512, "n_seq_max": 1, "rope_scaling_type": -1, "pooling_type": -1,
    "attention_type": -1, "flash_attn_type": -1, "rope_freq_base": 0.0, "yarn_ext_factor": -1.0, "type_k": 1,
    "type_v": 1, "embeddings": False, "offload_kqv": True, "kv_unified": False, "n_samplers": 0,
}  # fmt: skip


class LibraryUnusable(RunError):
    """llama.cpp cannot be called in this process."""


@dataclass(frozen=True, slots=True)
class Library:
    """The library and what makes C values for it."""

    ffi: Any
    c: Any


@cache
def open_library() -> Library:
    """Open the library, once, and check that it is as declared."""
    try:
        from cffi import FFI
    except ImportError as error:
        raise LibraryUnusable("cffi is not installed") from error
    named = os.environ.get(_NAMED)
    file = Path(named) if named else _file_of_the_wheel()
    ffi = FFI()
    ffi.cdef(_DECLARATIONS)
    try:
        library = Library(ffi, ffi.dlopen(str(file)))
        _check(library)
    except (OSError, AttributeError, LibraryUnusable) as error:
        if named:  # no other one instead of the one that was asked for
            raise BadOption(f"{_NAMED} is {named}, which cannot be used: {error}") from error
        raise LibraryUnusable(f"the library of xllamacpp is not as expected: {error}") from error
    _silence(library)
    library.c.llama_backend_init()
    return library


def _file_of_the_wheel() -> Path:
    spec = find_spec("xllamacpp")
    if spec is None or spec.origin is None:
        raise LibraryUnusable("xllamacpp is not installed")
    folder = Path(spec.origin).parent
    files = sorted(file for suffix in ("so", "dylib", "pyd") for file in folder.glob(f"*.{suffix}"))
    if not files:
        raise LibraryUnusable("the library of xllamacpp is not as expected: there is none")
    return files[0]


def _check(library: Library) -> None:
    made: dict[str, tuple[Any, dict[str, Any]]] = {
        "model": (library.c.llama_model_default_params(), _MODEL_DEFAULTS),
        "context": (library.c.llama_context_default_params(), _CONTEXT_DEFAULTS),
    }
    for kind, (params, wanted) in made.items():
        for name, value in wanted.items():
            if (found := getattr(params, name)) != value:
                raise LibraryUnusable(
                    f"it has other defaults than expected ({kind} parameter {name} is {found}, not {value}): it is "
                    "another version of llama.cpp than sdlg was written for"
                )


_KEPT: list[Any] = []  # callbacks that the library holds


def _silence(library: Library) -> None:
    """Drop the library's log: what goes wrong is an error of ours."""
    quiet = library.ffi.callback("void(int, const char *, void *)", lambda level, text, data: None)
    _KEPT.append(quiet)
    library.c.llama_log_set(quiet, library.ffi.NULL)
