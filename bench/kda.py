"""KDA against softmax attention and against transformers' KDA, forward and backward, one thread.

    make referees                    # once: transformers, in runs/referees
    python bench/kda.py              # without transformers that row is left out and the bench is not ok

H 4, width 64, float32, causal. Figures are CPU-seconds, the best of several, both sides in turn in one process. The last line
is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.table import Table
from torch import Tensor

from ninefold.core.layout import DocLayout
from ninefold.model.ops.kda import kda

HEADS, WIDTH = 4, 64
MOST = {1536: 1.0, 4096: 0.5, 16384: 0.15}
"""Tokens → largest share of SDPA's time that we allow ourselves."""
REFEREE_TOKENS = 2048
REFEREE_LEAST = 20.0
"""Times faster than transformers' own form on a CPU."""
REFEREES = Path("runs/referees")
Work = Callable[[], Tensor]


def alternating(works: dict[str, Work], repeats: int) -> dict[str, float]:
    """Least CPU-seconds of each side's forward and backward, after one of each to warm up."""
    best = dict.fromkeys(works, float("inf"))
    for repeat in range(repeats + 1):
        for name, work in works.items():
            began = time.process_time()
            work().sum().backward()
            if repeat:
                best[name] = min(best[name], time.process_time() - began)
    return best


def inputs(tokens: int) -> tuple[Tensor, ...]:
    """q, k, v, g [T, H, D] and beta [T, H], with gradients."""
    generator = torch.Generator().manual_seed(tokens)
    q, k, v = (torch.randn(tokens, HEADS, WIDTH, generator=generator) for _ in range(3))
    q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
    g = -5 * torch.rand(tokens, HEADS, WIDTH, generator=generator)
    return tuple(x.requires_grad_() for x in (q, k, v, g, torch.rand(tokens, HEADS, generator=generator)))


def ours(tokens: int) -> Work:
    q, k, v, g, beta = inputs(tokens)
    layout = DocLayout.of([tokens])
    return lambda: kda(q, k, v, g, beta, layout)[0]


def softmax(tokens: int) -> Work:
    q, k, v = (x.detach().transpose(0, 1)[None].contiguous().requires_grad_() for x in inputs(tokens)[:3])
    return lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True)


def transformers_form() -> Callable[..., Any] | None:
    """transformers' chunked KDA as it runs without kernels; None where it is not installed."""
    sys.path.append(str(REFEREES))
    try:
        from transformers.models.kimi_linear import (  # pyright: ignore[reportMissingImports]
            modeling_kimi_linear,
        )
    except ModuleNotFoundError:
        return None
    return modeling_kimi_linear.chunk_kimi_delta_attention


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=4)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    table = Table("tokens", "against", "KDA [ms]", "other [ms]", "ratio", "wanted")
    figures: dict[str, float] = {}
    held: dict[str, bool] = {}
    for tokens, most in MOST.items():
        spent = alternating({"kda": ours(tokens), "sdpa": softmax(tokens)}, arguments.repeats if tokens < 10_000 else 1)
        ratio = spent["kda"] / spent["sdpa"]
        figures[f"sdpa_{tokens}"], held[f"≤ {most}× SDPA at {tokens}"] = ratio, ratio <= most
        times = [f"{1e3 * spent[name]:.1f}" for name in ("kda", "sdpa")]
        table.add_row(f"{tokens:,}", "SDPA", *times, f"{ratio:.3f}", f"≤ {most}")
    form = transformers_form()
    if form is None:
        print("transformers is not in runs/referees: `make referees` installs it", file=sys.stderr)
        held["transformers measured"] = False
    else:
        batched = tuple(x.detach()[None].requires_grad_() for x in inputs(REFEREE_TOKENS))
        spent = alternating({"kda": ours(REFEREE_TOKENS), "hf": lambda: form(*batched)[0]}, arguments.repeats)
        q, k, v, g, beta = inputs(REFEREE_TOKENS)
        scaled = kda(q * WIDTH**-0.5, k, v, g, beta, DocLayout.of([REFEREE_TOKENS]))[0]
        torch.testing.assert_close(scaled, form(*batched)[0][0], rtol=1e-3, atol=1e-4)
        times_faster = spent["hf"] / spent["kda"]
        figures[f"transformers_{REFEREE_TOKENS}"] = times_faster
        held[f"≥ {REFEREE_LEAST}× faster than transformers at {REFEREE_TOKENS}"] = times_faster >= REFEREE_LEAST
        times = [f"{1e3 * spent[name]:.1f}" for name in ("kda", "hf")]
        table.add_row(f"{REFEREE_TOKENS:,}", "transformers", *times, f"{1 / times_faster:.4f}", f"≤ {1 / REFEREE_LEAST}")
    Console(width=110).print(table)
    rounded = {name: round(value, 4) for name, value in figures.items()}
    print(json.dumps({"bench": "kda", "figures": rounded, "against": held, "ok": all(held.values())}))
    sys.exit(not all(held.values()))


if __name__ == "__main__":
    main()
