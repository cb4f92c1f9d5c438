"""What it saves to learn a prompt once for all attempts at it: a policy step's forward and backward, shared against apart.

    python bench/shared.py                                         # nano
    python bench/shared.py --folder runs/smollm2                   # a Llama or Qwen2 of our own code
    python bench/shared.py --folder runs/smollm2 --transformers    # any model, through transformers

Sixteen attempts at each prompt (eight of a folder's model), so many prompts that a step apart has about 12,000 tokens (2,000).
Both forms by turns on one thread; the figure is the smaller of their CPU-seconds over `--repeats`. The last line is JSON; ok
where losses and gradients agree and sharing takes less time for every pair of lengths.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch

from ninefold.core.types import Batch, Sample
from ninefold.learn.batch import micro_batches
from ninefold.learn.loss.policy import PolicyConfig, policy_loss
from ninefold.model.hf import HfModel, load_hf
from ninefold.model.k3 import K3
from ninefold.model.llama import Llama, load_llama
from ninefold.model.presets import nano

LENGTHS = ((36, 27), (53, 126), (48, 80), (500, 100), (1000, 50))
"""Of prompt and attempt: the demo's sums, look-ups and expressions, and two that tools make long."""
VOCABULARY = 640


Model = K3 | Llama | HfModel


def loaded(folder: Path, transformers: bool) -> Model:
    return load_hf(folder) if transformers else load_llama(folder)


def attempts(prompt: int, new: int, samples: int, tokens: int) -> list[Sample]:
    rng = np.random.default_rng(prompt)
    found: list[Sample] = []
    for task in range(max(1, tokens // (samples * (prompt + new)))):
        begun = rng.integers(0, VOCABULARY, prompt)
        for _ in range(samples):
            ids = np.concatenate([begun, rng.integers(0, VOCABULARY, new)]).astype(np.int32)
            streams = {name: rng.normal(-6, 0.1, len(ids)).astype(np.float32) for name in ("advantage", "old_logprob")}
            found.append(Sample(ids=ids, mask=np.arange(len(ids)) >= prompt, streams=streams, task=str(task)))
    return found


def step(model: Model, batches: Sequence[Batch]) -> tuple[float, float, torch.Tensor]:
    """CPU-seconds, loss and all gradients of one step."""
    model.zero_grad(set_to_none=True)
    loss = partial(policy_loss, config=PolicyConfig(low=-50, high=50, tau=0.01))
    began, total = time.process_time(), 0.0
    for batch in batches:
        part = loss(model, batch)
        part.total.backward()
        total += float(part.total.detach())
    spent = time.process_time() - began
    return spent, total, torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="of a causal language model in the form of Hugging Face")
    parser.add_argument("--transformers", action="store_true", help="compute the folder's model through transformers")
    parser.add_argument("--repeats", type=int, default=4)
    given = parser.parse_args()
    torch.set_num_threads(1)
    model = loaded(given.folder, given.transformers) if given.folder else K3(nano(VOCABULARY))
    samples, tokens, micro = (8, 2000, 1536) if given.folder else (16, 12_000, 8192)
    figures: dict[str, dict[str, float]] = {}
    ok = True
    print(f"{'prompt + attempt':<20}{'tokens apart':>14}{'shared':>9}{'CPU-s apart':>14}{'shared':>9}{'ratio':>8}")
    for prompt, new in LENGTHS:
        made = attempts(prompt, new, samples, tokens)
        forms = [micro_batches(made, micro, share=share) for share in (0, micro)]
        runs = [[step(model, form) for form in forms] for _ in range(given.repeats)]
        apart, shared = (min(run[n][0] for run in runs) for n in range(2))
        (_, loss, gradient), (_, same_loss, same) = runs[0]
        off = float((same - gradient).norm() / gradient.norm())
        counts = [sum(batch.layout.tokens for batch in form) for form in forms]
        figures[f"{prompt}+{new}"] = {"apart": apart, "shared": shared, "ratio": shared / apart, "gradient_off": off}
        ok &= shared < apart and off < 1e-3 and abs(same_loss - loss) <= 1e-4 * abs(loss)
        print(
            f"{prompt} + {new:<14}{counts[0]:>14,}{counts[1]:>9,}{apart:>14.2f}{shared:>9.2f}{shared / apart:>8.2f}", flush=True
        )
    print(json.dumps({"bench": "shared", "figures": figures, "against": {"form": "apart", "ratio": 1.0}, "ok": ok}))


if __name__ == "__main__":
    main()
