"""Goes into the sandbox: values beside those that a problem draws itself, which are often of one sign and below 1."""

from __future__ import annotations

from typing import Any


def wild(torch: Any, inputs: list[Any], largest: float) -> list[Any]:
    """Floats of both signs and up to `largest` times as large; 0 leaves all as it is.

    What is zero, equal to something or its mirror stays so, since problems may count on it.
    """
    if not largest:
        return inputs
    return [_bent(torch, x, largest) if isinstance(x, torch.Tensor) and x.is_floating_point() else x for x in inputs]


def _bent(torch: Any, x: Any, largest: float) -> Any:
    size = x.abs()
    bound = size.flatten()[int(torch.randint(x.numel(), ()))]
    return torch.where(size < bound, -x, x) * largest ** float(torch.rand(()))
