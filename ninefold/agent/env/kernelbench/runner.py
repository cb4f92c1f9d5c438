"""Runs in the sandbox: calls a torch module on tensors in shared memory whenever it is told to.

It speaks as `kernels/runner.c` does, in one of three roles: the reference, which leaves its weights for the candidate; the
maker, which draws inputs; the candidate, which is trusted by nobody. The first two are closed to the third.
`python -c … LAYOUT MEMORY_FD BYTES ASK_FD TELL_FD`
"""

from __future__ import annotations

import ast
import ctypes
import json
import mmap
import os
import struct
import sys
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

_WORDS = 512
PACKAGES = "/opt/packages"
WEIGHTS = "weights.pt"
_NOT_DUMPABLE = (4, 0, 0, 0, 0)

Work = Callable[[list[Any], int], Any]
"""(inputs, a number) → outputs."""


def main() -> None:
    layout = json.loads(sys.argv[1])
    memory, size, ask, tell = map(int, sys.argv[2:])
    if layout["role"] != "candidate":
        ctypes.CDLL(None).prctl(*_NOT_DUMPABLE)
    os.environ["OMP_NUM_THREADS"] = "1"
    sys.path += [PACKAGES]
    torch = __import__("torch")
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    work = {"reference": _reference, "maker": _maker, "candidate": _candidate}[layout["role"]](torch, layout)
    shared = mmap.mmap(memory, size)
    while os.write(tell, b"r") and (message := os.read(ask, 8 * _WORDS)):
        calls, arrays, dims, scalars = struct.unpack_from("4q", message)
        number = struct.unpack_from("q", message, 32)[0] if dims else 0
        for call in range(calls):
            offsets = struct.unpack_from(f"{arrays}q", message, 8 * (4 + dims + scalars + call * arrays))
            _call(torch, shared, layout, offsets, work, number + call)


def _call(torch: Any, shared: mmap.mmap, layout: dict[str, Any], offsets: Sequence[int], work: Work, number: int) -> None:
    """Outputs are copied here and now: what is computed only when somebody looks is computed within the call."""
    places = iter(offsets)
    given = [_argument(torch, shared, kind, shape, places) for kind, shape in layout["inputs"]]
    wanted = [_argument(torch, shared, kind, shape, places) for kind, shape in layout["outputs"]]
    found = work(given, number)
    if layout["role"] == "maker":
        wanted = [view for view in given if isinstance(view, torch.Tensor)]
        found = [x for x in found if isinstance(x, torch.Tensor)]
    for view, result in zip(wanted, found if isinstance(found, tuple | list) else (found,), strict=True):
        if result.shape != view.shape or result.dtype != view.dtype:
            raise ValueError(f"an output is {result.dtype} of {tuple(result.shape)}, not {view.dtype} of {tuple(view.shape)}")
        view.copy_(result)


def _argument(torch: Any, shared: mmap.mmap, kind: str, shape: Any, places: Any) -> Any:
    """A view of the shared memory, or the value itself where it is no tensor."""
    if kind == "literal":
        return ast.literal_eval(shape)
    return torch.frombuffer(shared, dtype=getattr(torch, kind), count=prod(shape), offset=next(places)).view(shape)


def _reference(torch: Any, layout: dict[str, Any]) -> Work:
    torch.manual_seed(layout["seed"])
    model = _names("reference.py")["Model"](*ast.literal_eval(layout["init"]))
    torch.save(model.state_dict(), WEIGHTS)
    return lambda given, _: model(*given)


def _candidate(torch: Any, layout: dict[str, Any]) -> Work:
    """Made under the reference's seed, and given its weights wherever one of that name and shape is there."""
    torch.manual_seed(layout["seed"])
    model = _names("model_new.py")["ModelNew"](*ast.literal_eval(layout["init"]))
    own = model.state_dict()
    kept = {name: x for name, x in torch.load(WEIGHTS).items() if name in own and own[name].shape == x.shape}
    model.load_state_dict(kept, strict=False)
    return lambda given, _: model(*given)


def _maker(torch: Any, layout: dict[str, Any]) -> Work:
    """As the problem draws them, and every other time beyond."""
    names, wild = _names("reference.py"), _names("values.py")["wild"]

    def draw(_: list[Any], number: int) -> Any:
        torch.manual_seed(number)
        return wild(torch, [*names["get_inputs"]()], layout["wild"] * (number % 2))

    return draw


def _names(path: str) -> dict[str, Any]:
    """What a file defines. The working directory is in no search path: whoever writes there is not imported by others."""
    util = __import__("importlib.util").util
    spec = util.spec_from_file_location(path.removesuffix(".py"), os.path.abspath(path))  # noqa: PTH100
    module = util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return vars(module)


if __name__ == "__main__":
    main()
