"""How torch's threads fare on idle and on busy cores: time of a prefill and of tree steps, per wait policy and count.

Each setting runs in a process of its own, in turns, so that drifting hardware hits all alike:
`python bench/threads.py [rounds]`.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time

# (what waiting threads do, its environment, threads). GOMP_SPINCOUNT bounds the spinning before a thread sleeps.
SETTINGS: tuple[tuple[str, dict[str, str], int], ...] = (
    ("one thread", {"OMP_WAIT_POLICY": "PASSIVE"}, 1),
    ("two, spin", {"OMP_WAIT_POLICY": "ACTIVE"}, 2),
    ("two, torch's default", {}, 2),
    ("two, sleep", {"OMP_WAIT_POLICY": "PASSIVE"}, 2),
    ("two, spin 1k", {"GOMP_SPINCOUNT": "1000"}, 2),
    ("two, spin 10k", {"GOMP_SPINCOUNT": "10000"}, 2),
    ("two, spin 100k", {"GOMP_SPINCOUNT": "100000"}, 2),
)


def measure(threads: int) -> dict[str, float]:
    import torch
    from transformers import AutoModelForCausalLM

    from sdlg.models.transformers.gguf import smollm2_folder
    from sdlg.models.transformers.masked_tree import MaskedTree
    from sdlg.models.transformers.network import Network
    from sdlg.models.transformers.prefix_cache import PrefixKV

    torch.set_num_threads(threads)
    network = Network(AutoModelForCausalLM.from_pretrained(smollm2_folder(), dtype=torch.float32).eval())
    found: dict[str, list[float]] = {"prefill of 300": [], "step of 1": [], "step of 9": []}
    for _ in range(3):
        prefix_kv = PrefixKV(network, native=False)
        found["prefill of 300"].append(_timed(lambda prefix_kv=prefix_kv: prefix_kv.extend(range(1000, 1300))))
        tree = MaskedTree(prefix_kv)
        for _ in range(6):
            found["step of 1"].append(_timed(lambda tree=tree: tree.grow([299], [5])))
            found["step of 9"].append(_timed(lambda tree=tree: tree.grow([299] * 9, [5] * 9)))
    return {name: statistics.median(times) for name, times in found.items()}


def _timed(run: object) -> float:
    started = time.perf_counter()
    run()  # type: ignore[operator]
    return (time.perf_counter() - started) * 1000


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    for busy in (0, 1, 2):
        others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(busy)]
        rows: dict[str, list[dict[str, float]]] = {name: [] for name, _, _ in SETTINGS}
        try:
            for _ in range(rounds):
                for name, environment, threads in SETTINGS:
                    run = subprocess.run(
                        [sys.executable, __file__, "--measure", str(threads)],
                        capture_output=True, text=True, check=True, env={**os.environ, **environment},
                    )  # fmt: skip
                    rows[name].append(json.loads(run.stdout.splitlines()[-1]))
        finally:
            for other in others:
                other.kill()
        print(f"{busy} busy processes beside it (milliseconds, mean of {rounds} medians)")
        for name, found in rows.items():
            shown = "  ".join(f"{what} {statistics.mean(row[what] for row in found):6.0f}" for what in found[0])
            print(f"  {name:22}  {shown}", flush=True)


if __name__ == "__main__":
    if "--measure" in sys.argv:
        print(json.dumps(measure(int(sys.argv[2]))))
    else:
        main()
