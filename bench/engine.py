"""The native engine against transformers' generate: same weights, prompts and sampled ids, tokens per CPU-second, one thread.

    make referees                    # once: transformers, in runs/referees
    python bench/engine.py

A Qwen2-like model of 0.83M parameters (hidden 128, 4 layers, vocabulary 512) generates greedily for a batch of prompts; both
sides must sample the same ids. Sides take turns, with new prompts each time; the best of several counts. The last line is one
JSON object.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ninefold.core.protocols import Request
from ninefold.core.types import IntArray
from ninefold.engine.native import NativeConfig, NativeEngine
from ninefold.model.llama import Llama, load_llama

REFEREES = Path("runs/referees")
BATCH, PROMPT, NEW = 16, 32, 128
Work = Callable[[IntArray], IntArray]
LEAST = 2.5
"""Times the tokens per CPU-second of transformers."""


def qwen(transformers: Any) -> Any:
    """The model, away from its beginning so that what it says varies."""
    torch.manual_seed(0)
    config = transformers.Qwen2Config(
        vocab_size=512,
        hidden_size=128,
        intermediate_size=352,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        bos_token_id=None,
        eos_token_id=None,
        initializer_range=0.2,
    )
    return transformers.Qwen2ForCausalLM(config).eval()


def engine_side(model: Llama) -> Work:
    engine = NativeEngine(model, stop_ids=[], config=NativeConfig(rows=BATCH, capacity=PROMPT + NEW + 1, prompts=BATCH))
    names = (str(n) for n in count())

    def work(prompts: IntArray) -> IntArray:
        requests = [
            Request(id=name, session=name, ids=ids, max_new=NEW, seed=0, temperature=0.0) for ids, name in zip(prompts, names)
        ]
        engine.submit(requests)
        done: dict[str, IntArray] = {}
        while engine.in_flight:
            done |= {completion.request: completion.ids for completion in engine.poll()}
        for request in requests:
            engine.release(request.session)
        return np.stack([done[request.id] for request in requests])

    return work


def generate_side(model: Any) -> Work:
    def work(prompts: IntArray) -> IntArray:
        ids = torch.from_numpy(prompts.astype(np.int64))
        with torch.no_grad():
            made = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=NEW, do_sample=False)
        return made[:, PROMPT:].numpy().astype(np.int32)

    return work


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=4)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    sys.path.append(str(REFEREES))
    try:
        import transformers  # pyright: ignore[reportMissingImports]
    except ModuleNotFoundError:
        sys.exit("transformers is not in runs/referees: `make referees` installs it")
    theirs = qwen(transformers)
    with tempfile.TemporaryDirectory() as folder:
        theirs.save_pretrained(folder)
        ours = load_llama(Path(folder))
    sides = {"engine": engine_side(ours), "transformers": generate_side(theirs)}
    best = dict.fromkeys(sides, float("inf"))
    same = True
    for turn in range(arguments.repeats + 1):
        prompts = np.random.default_rng(turn).integers(0, 512, (BATCH, PROMPT)).astype(np.int32)
        sampled: list[IntArray] = []
        for name, work in sides.items():
            began = time.process_time()
            sampled.append(work(prompts))
            if turn:
                best[name] = min(best[name], time.process_time() - began)
        same &= np.array_equal(*sampled)
    rates = {name: BATCH * NEW / spent for name, spent in best.items()}
    ratio = rates["engine"] / rates["transformers"]
    parameters = sum(p.numel() for p in ours.parameters())
    print(f"{parameters:,} parameters, batch {BATCH}, {PROMPT} + {NEW} tokens; same ids: {same}")
    print(f"engine {rates['engine']:,.0f}, transformers {rates['transformers']:,.0f} tokens per CPU-second: {ratio:.2f}×")
    figures = {**{f"{name}_tokens_per_cpu_s": round(rate) for name, rate in rates.items()}, "ratio": round(ratio, 3)}
    ok = same and ratio >= LEAST
    print(json.dumps({"bench": "engine", "figures": figures | {"same": same}, "against": {"ratio": LEAST}, "ok": ok}))
    sys.exit(not ok)


if __name__ == "__main__":
    main()
