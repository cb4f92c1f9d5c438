"""Tokens per CPU-second of a nano model on one thread: C kernels against their PyTorch forms, in one run.

    python bench/speed.py            # both, alternating; the last line is JSON

Each side runs in processes of its own, because a process chooses its kernels once. Figures are the best of several: on a
shared machine only their ratios mean much.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

SIDES = {"native": "1", "pytorch": "0"}
ROUNDS = 2
"""Processes of each side; the best figure of all counts."""
MALLOC = {
    f"MALLOC_{name}_": str(size) for name, size in (("MMAP_THRESHOLD", 2**33), ("TRIM_THRESHOLD", 2**33), ("TOP_PAD", 2**28))
}


def rate(work: Callable[[], object], tokens: int, repeats: int = 4) -> float:
    """Tokens per CPU-second, the best of `repeats` after one to warm up."""
    work()
    spent = []
    for _ in range(repeats):
        began = time.process_time()
        work()
        spent.append(time.process_time() - began)
    return tokens / min(spent)


def measure() -> dict[str, float]:
    """All figures under this process's kernels."""
    import numpy as np
    import torch

    from ninefold.core.layout import DocLayout
    from ninefold.core.protocols import Request
    from ninefold.core.types import Batch
    from ninefold.engine.native import NativeEngine
    from ninefold.learn.loss.policy import PolicyConfig, policy_loss
    from ninefold.learn.loss.sft import sft_loss
    from ninefold.learn.trainer import Trainer, TrainerConfig
    from ninefold.model.decode import Decoder
    from ninefold.model.k3 import K3
    from ninefold.model.presets import nano

    torch.set_num_threads(1)
    rng, vocabulary = np.random.default_rng(0), 640
    model = K3(nano(vocabulary))
    model.quantize()

    def batch(lengths: list[int]) -> Batch:
        tokens = sum(lengths)
        return Batch(
            ids=rng.integers(0, vocabulary, tokens).astype(np.int32),
            layout=DocLayout.of(lengths),
            mask=rng.random(tokens) < 0.6,
            streams={"advantage": rng.normal(size=tokens).astype(np.float32), "old_logprob": np.full(tokens, -6.4, np.float32)},
        )

    def decode(rows: int, steps: int = 10) -> float:
        decoder = Decoder(model)
        cache = decoder.new_cache(rows, 256)
        ids = torch.from_numpy(rng.integers(0, vocabulary, rows))

        def work() -> None:
            cache.lengths[:] = rng.integers(100, 200, rows)
            for _ in range(steps):
                decoder.step(ids, cache)

        return rate(work, rows * steps)

    def generate(rows: int, new: int = 30) -> float:
        engine, prompt = NativeEngine(model, stop_ids=()), rng.integers(0, vocabulary, 120).astype(np.int32)

        def work() -> None:
            names = [str(n) for n in range(rows)]
            engine.submit([Request(id=n, session=n, ids=prompt, max_new=new, seed=int(n)) for n in names])
            while engine.in_flight:
                engine.poll()
            for name in names:
                engine.release(name)

        return rate(work, rows * new, repeats=3)

    def prefill() -> float:
        decoder, layout = Decoder(model), DocLayout.of(rng.integers(60, 200, 32).tolist())
        cache, ids = decoder.new_cache(32, 256), torch.from_numpy(rng.integers(0, vocabulary, layout.tokens))

        def work() -> None:
            cache.clear(np.arange(32))
            decoder.extend(ids, layout, cache, np.arange(32))

        return rate(work, layout.tokens)

    trainer = Trainer(model, TrainerConfig(steps=1000))
    small, large = batch(rng.integers(40, 250, 28).tolist()), batch([150] * 93)
    return {
        "decode_256": decode(256),
        "decode_512": decode(512),
        "engine_256": generate(256),
        "prefill_32x130": prefill(),
        "train_sft_4k": rate(lambda: trainer.step([small], sft_loss), small.layout.tokens),
        "train_policy_14k": rate(
            lambda: trainer.step([large], lambda m, b: policy_loss(m, b, PolicyConfig())), large.layout.tokens, repeats=2
        ),
    }


def main() -> None:
    if sys.argv[1:] == ["--measure"]:
        print(json.dumps(measure()))
        return
    best: dict[str, dict[str, float]] = {side: {} for side in SIDES}
    for _ in range(ROUNDS):
        for side, switch in SIDES.items():
            environment = {**os.environ, **MALLOC, "NINEFOLD_NATIVE": switch, "OMP_NUM_THREADS": "1"}
            command = (sys.executable, str(Path(__file__)), "--measure")
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
            for name, figure in json.loads(done.stdout.splitlines()[-1]).items():
                best[side][name] = max(figure, best[side].get(name, 0.0))
    ratios = {name: figure / best["pytorch"][name] for name, figure in best["native"].items()}
    print(f"{'tokens per CPU-second':<24}{'native':>10}{'PyTorch':>10}{'ratio':>8}")
    for name, figure in best["native"].items():
        print(f"{name:<24}{figure:>10.0f}{best['pytorch'][name]:>10.0f}{ratios[name]:>8.2f}")
    print(json.dumps({"bench": "speed", "unit": "tokens per CPU-second", **best, "ratio": ratios}))


if __name__ == "__main__":
    main()
