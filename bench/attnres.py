"""What attention residuals cost: training and decoding with them and with a plain residual stream, in turn.

    python bench/attnres.py              # presets mini and small, one thread

Training is forward and backward of one packed batch with the head; decoding is a step of one token for each row. Both sides run
in turn in one process, CPU-seconds; a pair's share is (with − without) / with. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from ninefold.core.layout import DocLayout
from ninefold.model.decode import Decoder
from ninefold.model.k3 import K3
from ninefold.model.presets import preset

MOST = {"training": 0.04, "decoding": 0.02}
"""Largest share of the time that the report claims."""
Work = Callable[[], object]


def training(model: K3, tokens: int) -> Work:
    """Forward and backward of documents of up to 512 tokens."""
    ids = torch.randint(0, model.config.vocab_size, (tokens,), generator=torch.Generator().manual_seed(0))
    layout = DocLayout.of([min(512, tokens - i) for i in range(0, tokens, 512)])

    def work() -> None:
        model.zero_grad(set_to_none=True)
        model.logits(model(ids, layout).final_TD).logsumexp(-1).mean().backward()

    return work


def decoding(model: K3, rows: int, steps: int) -> Work:
    """Steps behind a prompt of 32 tokens a row; every call begins there again."""
    decoder, prompt = Decoder(model), 32
    cache = decoder.new_cache(rows, prompt + steps)
    ids = torch.randint(0, model.config.vocab_size, (rows,), generator=torch.Generator().manual_seed(0))
    decoder.extend(ids.repeat_interleave(prompt), DocLayout.of([prompt] * rows), cache, np.arange(rows))

    def work() -> None:
        cache.lengths[:] = prompt
        for _ in range(steps):
            decoder.logits(decoder.step(ids, cache).final_TD)

    return work


def shares(with_: Work, without: Work, pairs: int) -> tuple[list[float], list[float]]:
    """Share of each pair, and CPU-seconds with AttnRes; the order changes from pair to pair, the first pair warms up."""
    spent: list[dict[bool, float]] = []
    for n in range(pairs + 1):
        pair: dict[bool, float] = {}
        for on in (True, False) if n % 2 else (False, True):
            began = time.process_time()
            (with_ if on else without)()
            pair[on] = time.process_time() - began
        spent.append(pair)
    return [1 - pair[False] / pair[True] for pair in spent[1:]], [pair[True] for pair in spent[1:]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--presets", nargs="+", default=["mini", "small"])
    parser.add_argument("--tokens", type=int, default=1024, help="of a training batch")
    parser.add_argument("--rows", type=int, default=16, help="decoded at once")
    parser.add_argument("--pairs", type=int, default=10)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    table = Table("preset", "work", "with AttnRes [ms]", "its share, median", "quartiles", "report")
    figures: dict[str, float] = {}
    held: dict[str, bool] = {}
    for name in arguments.presets:
        models = [K3(preset(name)), K3(preset(name).model_copy(update={"attn_res_block_size": None}))]
        jobs = {
            "training": [training(m, arguments.tokens) for m in models],
            "decoding": [decoding(m, arguments.rows, 8 if name == "small" else 32) for m in models],
        }
        for work, (with_, without) in jobs.items():
            print(f"{name}, {work}", file=sys.stderr, flush=True)
            parts, seconds = shares(with_, without, arguments.pairs * (3 if work == "decoding" else 1))
            low, middle, high = statistics.quantiles(parts, n=4)
            figures[f"{name}_{work}"] = round(middle, 4)
            held[f"{name} {work} < {MOST[work]:.0%}"] = middle < MOST[work]
            ms = f"{1e3 * statistics.median(seconds):,.1f}"
            table.add_row(name, work, ms, f"{middle:.1%}", f"{low:.1%} to {high:.1%}", f"< {MOST[work]:.0%}")
    Console(width=100).print(table)
    print(json.dumps({"bench": "attnres", "figures": figures, "against": held, "ok": all(held.values())}))
    sys.exit(not all(held.values()))


if __name__ == "__main__":
    main()
