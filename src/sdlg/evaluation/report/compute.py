"""What n samples cost, counted from the recorded sequences: tokens through the language model and analytic FLOPs.

P and Q are the parameters of the language model and of the NLI model (SAR's similarity model is taken to be as large as
the latter); p the prompt's tokens, q those of the bare question, T_i the decisions of sequence i (its ending
included), t_i the place of its substitution, K the distinct texts among the n sequences.

Tokens through the language model (the last decision of a sequence is never run):

    from scratch, any sampler    Σ_i (p + T_i − 1)
    shared prefixes, multinomial p + Σ_i (T_i − 1)
    shared prefixes, SDLG        p + (T_1 − 1) + Σ_{i>1} (T_i − t_i − 1)

FLOPs: 2 P per token through the language model, 2 Q per token through the NLI model, and as much again for its gradient
with respect to the inputs. Every text that the NLI or the similarity model reads begins with the question.

    generation   2P · tokens, for all
    reading      SDLG: the scores, 4Q · 2(q + T_1); multinomial: nothing;
                 SAR: Σ_{distinct i} 2Q T_i (2(q + T_i) − 1) + Σ_{distinct i<j} 2Q (2q + T_i + T_j)
    clusters     SDLG and multinomial: Σ_{distinct i≠j} 2Q (2q + T_i + T_j); SAR: nothing

Attention over earlier positions is left out: at these lengths it is small beside 2P. Beams are left out as well: a
sequence counts once, however many were followed to find it. An ending of several tokens counts as one. The NLI model's
tokens are counted as the language model's; q is the question's characters times the run's tokens per character of an
answer.
"""

from __future__ import annotations

import pandas as pd


def count_tokens(samples: pd.DataFrame) -> pd.DataFrame:
    """Return what the first n samples of each question need, one row per sample n.

    In: one method's samples with `id`, `sample` (1 … N), `prompt` (p), `question` (q), `decisions` (T_i), `position`
    (t_i, −1 where nothing was changed) and `distinct` (the number of the text).
    """
    rows = samples.sort_values(["id", "sample"], kind="stable").reset_index(drop=True)
    run = (rows["decisions"] - 1).clip(lower=0)
    branched = (rows["decisions"] - 1 - rows["position"].clip(lower=0)).clip(lower=0)
    is_new = ~rows.duplicated(["id", "distinct"])
    length, q = rows["decisions"] * is_new, rows["question"]
    texts, read = _so_far(rows, is_new.astype(int)), _so_far(rows, length)
    return pd.DataFrame(
        {
            "id": rows["id"],
            "sample": rows["sample"],
            "from_scratch": _so_far(rows, rows["prompt"] + run),
            "shared": rows["prompt"] + _so_far(rows, branched),
            "scored": 2 * (q + rows.groupby("id")["decisions"].transform("first")),
            "relevance": _so_far(rows, length * (2 * (q + length) - 1)),
            "pairs": 2 * (texts - 1) * (texts * q + read),  # Σ_{i≠j} (2q + T_i + T_j) over K distinct texts
        }
    )


def _so_far(rows: pd.DataFrame, values: pd.Series) -> pd.Series:
    return values.groupby(rows["id"]).cumsum()


def count_flops(tokens: pd.DataFrame, way: str, model: float, nli: float, sharing: str) -> pd.DataFrame:
    """Return the FLOPs of `SDLG`, `multinomial` or `SAR`, with prefixes `shared` or sequences `from_scratch`."""
    reading = {"SDLG": 2 * tokens["scored"], "multinomial": 0.0, "SAR": tokens["relevance"] + tokens["pairs"] / 2}
    parts = {
        "generation": 2 * model * tokens[sharing],
        "reading": 2 * nli * reading[way],
        "clusters": 2 * nli * tokens["pairs"] * (way != "SAR"),
    }
    return pd.DataFrame({"sample": tokens["sample"], **parts, "all": sum(parts.values())})
