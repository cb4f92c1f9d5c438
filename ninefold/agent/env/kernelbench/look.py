"""Runs in the sandbox: takes the first of a problem's texts that is small enough, and says what can be judged of it.

It is sent there as text. Standard input is JSON {texts, flops, elements, tolerance}; the last line of the output is JSON:
`left_out`, a reason, or what `_judged` tells. Sizes are counted on tensors without values, so large ones cost nothing.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

PACKAGES = "/opt/packages"
KINDS = ("float32", "int64", "bool")
"""Kinds of elements that can be compared."""
EXACT = 0.25
"""Most that the reference may be off from its float64 twin, as a share of what is allowed."""
APART = 4.0
"""Least that outputs of two draws differ by, in what is allowed: else a constant might pass."""
WILD = (8.0, 1.0, 0.0)
"""How far values may go beyond those of `get_inputs` (`values.py`): the first of these at which the reference is exact."""
_FAILURES = (RuntimeError, ValueError, TypeError, AttributeError, LookupError, ArithmeticError, AssertionError, ImportError)
"""What a problem's text may raise at sizes that do not go together."""


class LeftOut(Exception):
    """Why a problem cannot be judged here."""


def main() -> None:
    """Answer one question."""
    asked = json.load(sys.stdin)
    sys.path += [PACKAGES, os.getcwd()]  # noqa: PTH109
    torch = __import__("torch")
    torch.set_grad_enabled(False)
    try:
        number, elements = _first_fit(torch, asked)
        told = {"chosen": number, "elements": elements, **_judged(torch, asked["texts"][number], asked["tolerance"])}
    except LeftOut as reason:
        told = {"left_out": str(reason)}
    except _FAILURES as error:
        told = {"left_out": f"it cannot be run: {type(error).__name__}: {str(error)[:200]}"}
    print("\n" + json.dumps(told), flush=True)


def _first_fit(torch: Any, asked: dict[str, Any]) -> tuple[int, int]:
    """Number of the first text whose call takes few enough operations and elements, and how many of these."""
    why = "it has no sizes at the top of its text that could be halved"
    for number, text in enumerate(asked["texts"]):
        try:
            flops, elements = _work(torch, text)
        except _FAILURES as error:
            why = f"{type(error).__name__}: {str(error)[:200]}"
            continue
        if flops <= asked["flops"] and elements <= asked["elements"]:
            return number, elements
        why = f"{flops:.2g} operations and {elements:.2g} elements a call"
    raise LeftOut(f"too large for a CPU however its sizes are halved: {why}")


def _work(torch: Any, text: str) -> tuple[int, int]:
    """(floating-point operations of products and convolutions, elements that weights, inputs and every operation make)."""
    counting = __import__("torch.utils.flop_counter", fromlist=["FlopCounterMode"])
    dispatch = __import__("torch.utils._python_dispatch", fromlist=["TorchDispatchMode"])
    flat = torch.utils._pytree.tree_leaves

    class Elements(dispatch.TorchDispatchMode):
        count = 0

        def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            made = op(*args, **(kwargs or {}))
            self.count += sum(x.numel() for x in flat(made) if isinstance(x, torch.Tensor))
            return made

    with torch.device("meta"):
        model, inputs, _ = _made(text)
        with counting.FlopCounterMode(display=False) as flops, Elements() as elements:
            model(*inputs)
    state = [*model.state_dict().values(), *(x for x in inputs if isinstance(x, torch.Tensor))]
    return flops.get_total_flops(), elements.count + sum(x.numel() for x in state)


def _made(text: str) -> tuple[Any, list[Any], Any]:
    """(model, inputs, the text's names)."""
    names: dict[str, Any] = {"__name__": "reference"}
    exec(compile(text, "reference.py", "exec"), names)
    return names["Model"](*names["get_init_inputs"]()), [*names["get_inputs"]()], names


def _judged(torch: Any, text: str, tolerance: float) -> dict[str, Any]:
    """The constructor's arguments, the call's, and each output with the error that is allowed at zero. Raises LeftOut."""
    torch.manual_seed(0)
    model, first, names = _made(text)
    init = repr([*names["get_init_inputs"]()])
    __import__("ast").literal_eval(init)
    kept = [x.clone() if isinstance(x, torch.Tensor) else x for x in first]
    right, again = _outputs(torch, model, first), _outputs(torch, model, first)
    if any(not _equal(torch, x, y) for x, y in zip(kept, first)):
        raise LeftOut("the reference changes its inputs")
    if not _finite(right):
        raise LeftOut("its output is not finite")
    if any(not torch.equal(x, y) for x, y in zip(right, again)):
        raise LeftOut("its output is drawn at random")
    torch.manual_seed(1)
    other = _outputs(torch, model, [*names["get_inputs"]()])
    exact = _twin(torch, text, model, first)
    allowed = [tolerance * min(1.0, float(x.double().abs().mean())) for x in exact]
    if _error(torch, right, exact, allowed, tolerance) > EXACT:
        raise LeftOut("float32 does not know its output well enough")
    if _error(torch, right, other, allowed, tolerance) < APART:
        raise LeftOut("its output hardly depends on its inputs, so that a constant would pass")
    outputs = [[*_kind(x), absolute] for x, absolute in zip(right, allowed)]
    given = [_kind(x) if isinstance(x, torch.Tensor) else ["literal", repr(x)] for x in first]
    wild = next(largest for largest in WILD if _stands(torch, text, model, first, allowed, tolerance, largest))
    return {"init": init, "inputs": given, "outputs": outputs, "wild": wild}


def _stands(
    torch: Any, text: str, model: Any, inputs: list[Any], allowed: list[float], tolerance: float, largest: float
) -> bool:
    """Whether the reference is exact, and finite, on such wild values."""
    given = __import__("values").wild(torch, inputs, largest)
    found = _outputs(torch, model, given)
    exact = _error(torch, found, _twin(torch, text, model, given), allowed, tolerance) <= EXACT
    return exact and _finite(found)


def _finite(outputs: list[Any]) -> bool:
    return all(bool(x.isfinite().all()) for x in outputs)


def _outputs(torch: Any, model: Any, inputs: list[Any]) -> list[Any]:
    """What a call returns, as a list of tensors. Raises LeftOut where it is something else."""
    found = model(*inputs)
    outputs = list(found) if isinstance(found, tuple | list) else [found]
    if not all(isinstance(x, torch.Tensor) for x in outputs):
        raise LeftOut("it returns something else than tensors")
    return [x.clone() for x in outputs]


def _twin(torch: Any, text: str, model: Any, inputs: list[Any]) -> list[Any]:
    """The same outputs in float64."""
    torch.set_default_dtype(torch.float64)
    twin, _, _ = _made(text)
    twin.double().load_state_dict(model.state_dict())
    given = [x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x for x in inputs]
    outputs = _outputs(torch, twin, given)
    torch.set_default_dtype(torch.float32)
    return outputs


def _error(torch: Any, outputs: list[Any], wanted: list[Any], allowed: list[float], tolerance: float) -> float:
    """Largest difference, as a multiple of what is allowed; infinite where anything but numbers of one shape differs."""
    most = 0.0
    for got, want, absolute in zip(outputs, wanted, allowed):
        if got.shape != want.shape or not got.is_floating_point():
            most = max(most, 0.0 if torch.equal(got, want) else float("inf"))
        else:
            off = (got.double() - want.double()).abs() / (absolute + tolerance * want.double().abs() + 1e-300)
            most = max(most, float(off.nan_to_num(nan=float("inf")).max()))
    return most


def _kind(x: Any) -> list[Any]:
    """[kind of element, shape]. Raises LeftOut where it cannot be compared."""
    kind = str(x.dtype).removeprefix("torch.")
    if kind not in KINDS or not x.numel():
        raise LeftOut(f"it has an array of {x.numel()} elements of {kind}; {', '.join(KINDS)} can be judged")
    return [kind, list(x.shape)]


def _equal(torch: Any, x: Any, y: Any) -> bool:
    return torch.equal(x, y) if isinstance(x, torch.Tensor) else x == y


if __name__ == "__main__":
    main()
