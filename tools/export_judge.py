"""Make the small file that is shipped of a trained judge: what training changed, in low rank.

    python export_judge.py OUT/whole.safetensors nli_mpnet.safetensors [--rank 96]

A weight matrix W that became W + D is stored as two factors of D (its largest singular values), NAME.up and NAME.down, in
fp16; vectors and the new head as they are. The loader adds up @ down to the base's W.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from sdlg.models.fetching import fetched


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("whole", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--rank", type=int, default=96)
    chosen = parser.parse_args()
    trained = load_file(chosen.whole)
    base = {f"mpnet.{n}": t.float() for n, t in load_file(fetched("all-mpnet-base-v2") / "model.safetensors").items()}
    kept: dict[str, torch.Tensor] = {}
    lost = total = 0.0
    for name, tensor in trained.items():
        difference = tensor.float() - base[name] if name in base else tensor.float()
        if name in base and not difference.any():
            continue
        if name not in base or tensor.ndim < 2:
            kept[name] = tensor.half()
            continue
        left, values, right = torch.linalg.svd(difference, full_matrices=False)
        root = values[: chosen.rank].sqrt()
        kept[f"{name}.up"] = (left[:, : chosen.rank] * root).half().contiguous()
        kept[f"{name}.down"] = (root[:, None] * right[: chosen.rank]).half().contiguous()
        lost += float((values[chosen.rank :] ** 2).sum())
        total += float((values**2).sum())
    save_file(kept, chosen.out)
    size = chosen.out.stat().st_size / 1e6
    print(f"{len(kept)} tensors, {size:.1f} MB, rank {chosen.rank} keeps {1 - lost / total:.1%} of the change's square")


if __name__ == "__main__":
    main()
