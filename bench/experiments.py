"""The runs behind docs/results/experiments.md: one `sdlg eval` after the other, each resumed where it stopped.

    python bench/experiments.py --data-dir DATA                      # all cells: make experiments DATA=…
    python bench/experiments.py --data-dir DATA --only coqa-qwen open-smollm2 --limit 50
    python bench/experiments.py --list

A cell is a data set and a model, with the paper's few-shot form where there is one; its run is RUNS/DATA-MODEL. Two
more compare options on CoQA. Hours on two cores: stop it at any moment, and start it again to go on.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

STOPPED = 130  # by Ctrl-C
MODELS = ("qwen2.5-coder-1.5b", "smollm2", "gemma3-270m")
METHODS = "sdlg,multinomial:temperature=0.5,multinomial:temperature=1,diverse_beam"
TUNED = ",".join(
    ["sdlg", *(f"multinomial:temperature={t}" for t in (0.25, 0.5, 1.0, 1.5, 2.0)),
     *(f"diverse_beam:diversity_penalty={p}" for p in (0.2, 0.5, 1.0))]
)  # fmt: skip
WEIGHTS = ",".join(["sdlg", *(f"sdlg:{score}_weight=0" for score in ("attribution", "substitution", "importance"))])
# Without those that compare every two answers with each other.
CHEAP = (
    "PE,LN-PE,G-NLL,perplexity,mean_token_entropy,number_of_clusters,disagreement,SE_MS,SE*_MS,SE*_SDLG,DSE,coverage,"
    "CoCoA_SDLG,branch_disagreement,mass_beyond_answer,share_beyond_answer,share_entropy"
)
SHORT = ("--set", "prompt=plain", "--set", "stop_at=sentence")
ASKED = ("--data", "open_questions", "--methods", "sdlg", "--samples", "1", "--set", "draws=0",
         "--measures", "perplexity,G-NLL,mean_token_entropy")  # fmt: skip
DATA: Mapping[str, tuple[str, ...]] = {
    "triviaqa": ("--data", "triviaqa", *SHORT, "--max-tokens", "16"),
    "coqa": ("--data", "coqa", *SHORT, "--max-tokens", "20"),
    "open": ("--data", "open_questions", "--set", "stop_at=sentence", "--max-tokens", "40"),
    "truthfulqa": ("--data", "truthfulqa", *SHORT, "--max-tokens", "40"),
}
_COQA = ("--data", "coqa", *SHORT, "--max-tokens", "20", "--measures", CHEAP, "--model", MODELS[0])
CELLS: Mapping[str, tuple[str, ...]] = {
    **{f"{data}-{model}": (*flags, "--methods", METHODS, "--model", model) for model in MODELS
       for data, flags in DATA.items()},
    **{f"asked-{model}": (*ASKED, "--model", model) for model in MODELS},  # as `sdlg ask` asks: the answer alone
    "tuned-coqa": (*_COQA, "--methods", TUNED),  # baselines tuned as the paper tunes them
    "scores-coqa": (*_COQA, "--methods", WEIGHTS),  # without each of the three scores
    "paper-coqa": ("--data", "coqa", "--max-tokens", "20", "--preset", "paper", "--measures", CHEAP,
                   "--model", MODELS[0], "--methods", "sdlg"),  # beams for the answer and for every branch
}  # fmt: skip


def command(cell: str, runs: Path, rest: Sequence[str]) -> list[str]:
    """What begins or resumes a cell's run."""
    return [sys.executable, "-m", "sdlg.cli", "eval", *CELLS[cell], "--out", str(runs / cell), *rest]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", metavar="DIR", help="where the data sets are (default: SDLG_DATA, the hub)")
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--limit", type=int, default=300)
    parser.add_argument("--in-flight", type=int, default=1, help="more helps on transformers and servers")
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME", help="cells whose name begins so")
    parser.add_argument("--list", action="store_true", help="show the commands, and run nothing")
    chosen = parser.parse_args()
    cells = [cell for cell in CELLS if not chosen.only or cell.startswith(tuple(chosen.only))]
    if not cells:
        parser.error(f"there is no cell {', '.join(chosen.only)}; choose from: {', '.join(CELLS)}")
    rest = ["--limit", str(chosen.limit), "--set", "unexplored=0", "--set", f"in_flight={chosen.in_flight}"]
    rest += ["--data-dir", chosen.data_dir] if chosen.data_dir else []
    failed = []
    for cell in cells:
        arguments = command(cell, chosen.runs, rest)
        print(shlex.join(arguments[1:]), flush=True)
        code = 0 if chosen.list else subprocess.run(arguments).returncode
        if code == STOPPED:
            return code
        if code:
            failed.append(cell)
    if failed:
        print(f"not finished: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
