"""The layers' product: a row gives the same bits in any company, and the kernel agrees with float64."""

from __future__ import annotations

import ctypes
import platform
import subprocess
from pathlib import Path

import pytest
import torch

from ninefold.model.ops import native
from ninefold.model.ops.product import KernelProduct, Panels, multiply, product, scratch_size

kernels = pytest.mark.skipif(not native.status().available, reason="no C compiler on this machine")


@pytest.mark.parametrize(("inputs", "outputs"), [(32, 104), (64, 274), (16, 64), (64, 8), (128, 64), (192, 48), (576, 100)])
def test_a_row_does_not_see_how_many_come_with_it(inputs: int, outputs: int) -> None:
    x, weight = torch.randn(70, inputs), torch.randn(outputs, inputs)
    together = product(x, weight)
    torch.testing.assert_close(together.double(), x.double() @ weight.double().T, atol=1e-4, rtol=1e-4)
    for rows in (*range(1, 17), 31):
        assert torch.equal(product(x[:rows], weight), together[:rows])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(7,), (2, 3, 7), (2, 1, 7), (1, 1, 7), (0, 3, 7), (5, 2, 1, 7), (2, 3, 0)])
def test_any_number_of_dimensions(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x, weight = torch.randn(shape, dtype=dtype), torch.randn(4, shape[-1], dtype=dtype)
    torch.testing.assert_close(product(x, weight), x @ weight.T)


def test_gradients_of_few_rows() -> None:
    x, weight = torch.randn(2, 8, dtype=torch.float64, requires_grad=True), torch.randn(5, 8, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda x: product(x, weight), (x,))


@kernels
@pytest.mark.parametrize("rows", [0, 1, 5, 6, 13, 64])
@pytest.mark.parametrize(("inputs", "outputs"), [(1, 1), (7, 16), (48, 33), (129, 63), (300, 200), (0, 5), (16, 0)])
def test_the_kernel_takes_any_shape_and_strides(rows: int, inputs: int, outputs: int) -> None:
    a, b = torch.randn(rows, inputs), torch.randn(inputs, outputs)
    expected = (a.double() @ b.double()).float()
    wide = torch.randn(rows, inputs + 9)
    wide[:, 4 : 4 + inputs] = a
    for left in (a, a.T.contiguous().T, wide[:, 4 : 4 + inputs]):
        for right in (b, b.T.contiguous().T, b.repeat(1, 2)[:, :outputs]):
            torch.testing.assert_close(multiply(left, right), expected, atol=2e-4, rtol=1e-4)


@kernels
def test_the_kernel_adds_every_row_up_alike() -> None:
    a, b = torch.randn(50, 700), torch.randn(700, 90)
    together = multiply(a, b)
    for rows in (1, 2, 3, 7, 49):
        assert torch.equal(multiply(a[:rows], b), together[:rows])
        assert torch.equal(multiply(a[-rows:], b), together[-rows:])


@kernels
def test_the_kernel_passes_infinities_on() -> None:
    a, b = torch.ones(3, 20), torch.ones(20, 17)
    a[1, 3], b[5, 16] = float("inf"), float("nan")
    c = multiply(a, b)
    assert c[1, :16].isinf().all()
    assert c[:, 16].isnan().all()
    assert (c[[0, 2], :16] == 20).all()


@kernels
def test_the_kernels_gradients_are_those_of_linear() -> None:
    x, weight = torch.randn(37, 50, requires_grad=True), torch.randn(29, 50, requires_grad=True)
    d_y = torch.randn(29, 37).T
    ours = torch.autograd.grad(KernelProduct.apply(x, weight), (x, weight), d_y)
    theirs = torch.autograd.grad(torch.nn.functional.linear(x.double(), weight.double()), (x, weight), d_y.double())
    for own, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(own, other, atol=1e-4, rtol=1e-4)


def as_bfloat16(x: torch.Tensor) -> torch.Tensor:
    return x.to(torch.bfloat16).double()


SHAPES = [(1, 1), (7, 16), (48, 33), (129, 63), (300, 200), (576, 64)]


@kernels
@pytest.mark.parametrize("rows", [0, 1, 5, 6, 13, 16, 33])
@pytest.mark.parametrize(("inputs", "outputs"), SHAPES)
def test_panels_in_float32(rows: int, inputs: int, outputs: int) -> None:
    x, weight = torch.randn(rows, inputs), torch.randn(outputs, inputs)
    panels = Panels.of(weight)
    assert panels is not None
    torch.testing.assert_close(panels.product(x).double(), x.double() @ weight.double().T, atol=2e-4, rtol=1e-4)


@kernels
@pytest.mark.parametrize("rows", [0, 1, 5, 6, 13, 16, 33])
@pytest.mark.parametrize(("inputs", "outputs"), SHAPES)
def test_panels_in_bfloat16(rows: int, inputs: int, outputs: int) -> None:
    """Factors and the product are rounded, the sums are not: at most one bit of bfloat16 from the exact product's rounding."""
    x, weight = torch.randn(rows, inputs), torch.randn(outputs, inputs).to(torch.bfloat16)
    panels = Panels.of(weight)
    assert panels is not None
    ours, exact = panels.product(x), as_bfloat16(x) @ weight.double().T
    assert torch.equal(ours, ours.to(torch.bfloat16).float())
    torch.testing.assert_close(ours.double(), exact, rtol=2**-8, atol=1e-5)
    for some in (1, 4, rows):
        assert torch.equal(panels.product(x[:some]), ours[:some])


@kernels
@pytest.mark.parametrize("without", [(), ("amx-bf16",), ("amx-bf16", "avx512bf16"), ("amx-bf16", "avx512bf16", "avx512f")])
def test_every_processors_form_of_bfloat16(without: tuple[str, ...], tmp_path: Path) -> None:
    """Tile registers, pairs and plain vectors compute the same; rounding passes infinities and NaN on."""
    if platform.machine() != "x86_64":
        pytest.skip("these are forms of x86-64")
    built = tmp_path / "product.so"
    flags = [*native.FLAGS, *(f"-mno-{name}" for name in without)]
    subprocess.run(["cc", *flags, "-o", str(built), str(native.SOURCES / "product.c")], check=True)
    x, weight = torch.randn(20, 75), torch.randn(70, 75).to(torch.bfloat16)
    x[3, 4], x[5, 70], x[6, 0] = float("inf"), float("nan"), 3e37
    panels = Panels.of(weight)
    assert panels is not None
    y, scratch = torch.empty(20, 70), torch.empty(scratch_size(20, 75))
    pointers = [ctypes.c_void_p(t.data_ptr()) for t in (x, panels.data, y, scratch)]
    ctypes.CDLL(str(built)).panels(*pointers, *map(ctypes.c_long, (20, 75, 70, 1)))
    finite = [row for row in range(20) if row not in (3, 5, 6)]
    torch.testing.assert_close(y[finite].double(), as_bfloat16(x[finite]) @ weight.double().T, rtol=2**-8, atol=1e-5)
    assert torch.equal(y[3], torch.where(weight[:, 4] > 0, float("inf"), -float("inf")))
    assert y[5].isnan().all()
    assert y[6].isfinite().all()
