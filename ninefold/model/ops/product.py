"""The matrix product of the layers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from ninefold.model.ops import native

ROWS = 16
"""Below so many rows BLAS sums in another order, on some processors and for deep products (MKL on Sapphire Rapids)."""
PANEL = 64
"""Outputs that lie together in `kernels/product.h`."""


def product(x_NI: Tensor, weight_OI: Tensor) -> Tensor:
    """[…, O] x Wᵀ of […, I], where a row's result does not depend on how few rows come with it.

    A quantised model rounds its experts' inputs: a token must round alike in a batch, alone, and in the trainer.
    """
    if x_NI.dim() != 2:
        rows = product(x_NI.reshape(math.prod(x_NI.shape[:-1]), x_NI.shape[-1]), weight_OI)
        return rows.reshape(*x_NI.shape[:-1], len(weight_OI))
    if _blas_is_narrow() and native.usable(x_NI, weight_OI):
        return KernelProduct.apply(x_NI, weight_OI)
    if len(x_NI) >= ROWS:
        return F.linear(x_NI, weight_OI)
    return F.linear(F.pad(x_NI, (0, 0, 0, ROWS - len(x_NI))), weight_OI)[: len(x_NI)]


class KernelProduct(torch.autograd.Function):
    """`product` by our kernel, forward and backward."""

    @staticmethod
    def forward(ctx: Any, x_NI: Tensor, weight_OI: Tensor) -> Tensor:
        ctx.save_for_backward(x_NI, weight_OI)
        return multiply(x_NI, weight_OI.T)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        (d_y_NO,), (x_NI, weight_OI) = grads, ctx.saved_tensors
        d_x_NI = multiply(d_y_NO, weight_OI) if ctx.needs_input_grad[0] else None
        return d_x_NI, multiply(d_y_NO.T, x_NI) if ctx.needs_input_grad[1] else None


def multiply(a_MK: Tensor, b_KN: Tensor) -> Tensor:
    """[M, N] by the kernel; both factors may be transposed or parts of others."""
    (M, K), N = a_MK.shape, b_KN.shape[1]
    assert len(b_KN) == K, f"{M} × {K} times {len(b_KN)} × {N}"
    assert native.usable(a_MK, b_KN) and not a_MK.is_neg() and not b_KN.is_neg()  # noqa: PT018
    c_MN = a_MK.new_empty(M, N)
    # Plain addresses: the kernel goes by the strides.
    native.call("product", a_MK.data_ptr(), b_KN.data_ptr(), c_MN, M, N, K, *a_MK.stride(), *b_KN.stride())
    return c_MN


@dataclass(frozen=True, slots=True, kw_only=True)
class Panels:
    """Wᵀ as kernels read a weight that many steps use."""

    data: Tensor
    """[⌈O / PANEL⌉, lanes of I, PANEL] in float32's width, zeros behind the last output; a lane of bfloat16 holds two."""
    inputs: int
    outputs: int
    paired: bool
    """In bfloat16."""

    @staticmethod
    def of(weight_OI: Tensor) -> Panels | None:
        """None where the kernels do not take it: they do float32 and bfloat16 on the CPU."""
        if not native.usable(weight_OI, dtypes=(torch.float32, torch.bfloat16)):
            return None
        (outputs, inputs), paired = weight_OI.shape, weight_OI.dtype == torch.bfloat16
        lanes_OI = F.pad(weight_OI, (0, -inputs % 32)).contiguous().view(torch.float32) if paired else weight_OI
        padded_OI = F.pad(lanes_OI.view(torch.int32), (0, 0, 0, -outputs % PANEL))
        data = padded_OI.unflatten(0, (-1, PANEL)).transpose(1, 2).contiguous().view(torch.float32)
        return Panels(data=data, inputs=inputs, outputs=outputs, paired=paired)

    def product(self, x_NI: Tensor) -> Tensor:
        """[N, O] without gradients, from and to float32; in bfloat16, factors and products are rounded to it, sums are not."""
        assert native.usable(x_NI) and x_NI.shape[1] == self.inputs  # noqa: PT018
        y_NO, shape = x_NI.new_empty(len(x_NI), self.outputs), (len(x_NI), self.inputs, self.outputs)
        scratch = x_NI.new_empty(scratch_size(*shape[:2]) if self.paired else 0)
        native.call("panels", x_NI.contiguous(), self.data, y_NO, scratch, *shape, int(self.paired))
        return y_NO


def scratch_size(rows: int, depth: int) -> int:
    """Floats that kernels want for rows in bfloat16."""
    return (rows + 15) // 16 * 16 * ((depth + 31) // 32 * 16)


@cache
def _blas_is_narrow() -> bool:
    """Whether this is an AMD processor whose vectors are wider than those that MKL uses on it."""
    if not torch.backends.mkl.is_available() or torch.backends.cpu.get_cpu_capability() != "AVX512":
        return False
    try:
        return "AuthenticAMD" in Path("/proc/cpuinfo").read_text()
    except OSError:
        return False
